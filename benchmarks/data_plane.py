"""The switch's throughput: every protocol and packet size, on both targets, and end to end.

    sudo .venv/bin/python -m benchmarks.data_plane [--seconds 1] [--rounds 3] [--only PART …]

Prints the Markdown of p4/PERFORMANCE.md, with the aims at the end. Each figure is the median of the
rounds. The native switch and BMv2 take turns within a round, so that other load on the machine
affects both. A gradient bit is counted once for each worker that sends it.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.all_reduce import all_reduce
from benchmarks.one_switch import LARGEST_DATAGRAM, OneSwitch, Result
from benchmarks.programs import NoCompiler, ina, per_value
from testbed import wire
from testbed.protocols import TreeProtocol, on_trees
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.esa.protocol import PROTOCOL as ESA
from testbed.protocols.netreduce.protocol import PROTOCOL as NETREDUCE
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.switches import bmv2
from testbed.topology.framing import LARGEST_SUPERFRAME

WORKERS = 4
MESSAGE = 16
"""Packets in a message of NetReduce."""

IN_FLIGHT = {"native": 512, "bmv2": 128}
"""Packets in flight: enough to keep the switch busy, and few enough for its queues."""

SYSTEMS = {"ATP": "atp", "SwitchML": "switchml", "rack": "rina", "NetReduce": "netreduce"}
RACKS = {"rack": 2}
"""In a single rack, Rina sums like SwitchML."""
WINDOWS, FRAGMENTS = {"native": 128, "bmv2": 32}, {"native": 8000, "bmv2": 1000}
"""Packets in flight, and packets in total if they have 256 values; with other sizes, as many
bytes."""
LOSS = 0.01


class Case(NamedTuple):
    """What is measured. ``usual``: the layout with one register per value; ``superframe``: the
    number of packets that a native switch receives as one."""

    target: str
    program: Path
    style: TreeProtocol
    values: int
    workers: int = WORKERS
    usual: bool = False
    superframe: int = LARGEST_SUPERFRAME


Aims = dict[str, tuple[float, float, str]]
"""For each aim: found, wanted, unit."""


class Bench:
    """``rounds`` measurements of ``seconds`` each, on the targets that are installed."""

    def __init__(self, seconds: float, rounds: int) -> None:
        self.seconds, self.rounds = seconds, rounds
        self.targets = ["native", *(["bmv2"] if bmv2.installed() else [])]
        self.aims: Aims = {}

    def load(self, case: Case) -> Result:
        """Measure a case. Each measurement has a new switch, so that it starts with empty
        memory."""
        window, message = IN_FLIGHT[case.target] // case.workers, 1
        if case.style is NETREDUCE:
            window, message = max(2, window // MESSAGE), MESSAGE
        with OneSwitch(
            case.target,
            case.program,
            case.style,
            case.workers,
            case.usual,
            superframe=case.superframe,
        ) as switch:
            return switch.load(case.values, window, message, self.seconds)

    def medians(self, cases: Sequence[Case]) -> Iterator[tuple[Result, float]]:
        """The result of each case and its gradient Mbit/s; a round measures all cases."""
        found: list[list[Result]] = [[] for _ in cases]
        for _ in range(self.rounds):
            for results, case in zip(found, cases, strict=True):
                results.append(self.load(case))
        for results, case in zip(found, cases, strict=True):
            rate = median(each.rate for each in results)
            # If slots are shared, results also pass the switch, and they carry no gradients.
            share = case.workers / (case.workers + 1) if case.style.shares_slots else 1
            yield (
                Result(
                    rate,
                    median(each.switch_us for each in results),
                    median(each.load_us for each in results),
                    sum(each.given_up for each in results),
                ),
                rate * share * case.values * 32 / 1e6,
            )


def _played() -> list[TreeProtocol]:
    """The protocols that ``load.c`` can play: it does not know which blocks or values to skip."""
    return [style for style in on_trees().values() if not style.skips_zeros]


def styles(bench: Bench) -> None:
    """Packets into one switch, from four workers that wait for its sums; the native switch gets as
    many at once as fit."""
    print("| values | style | target | packets/s | gradients, Mbit/s | switch, µs/packet | lost |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    ratios, processor = [], []
    for values in (32, *wire.SIZES):
        try:
            program = ina(values)
        except NoCompiler as missing:
            print(f"| {values} | left out: {missing} | | | | | |")
            continue
        for style in _played():
            cases = [
                Case(each, program, style, values, superframe=LARGEST_DATAGRAM)
                for each in bench.targets
            ]
            rates, spent = {}, {}
            for case, (result, mbit_s) in zip(cases, bench.medians(cases), strict=True):
                rates[case.target], spent[case.target] = result.rate, result.switch_us
                print(
                    f"| {values} | {style.name} | {case.target} | {result.rate:,.0f} "
                    f"| {mbit_s:,.0f} | {result.switch_us:.2f} | {result.given_up or ''} |",
                    flush=True,
                )
            if values == 256 and "bmv2" in rates:
                ratios.append(rates["native"] / rates["bmv2"])
                processor.append(spent["bmv2"] / spent["native"])
    if ratios:
        what = "256 values, the worst style"
        bench.aims[f"native, in packets of BMv2's, {what}"] = min(ratios), 15, "x"
        bench.aims[f"the same, in processor time a packet, {what}"] = min(processor), 15, "x"


def layouts(bench: Bench) -> None:
    """BMv2 with SwitchML's pool: the usual register array for each value, and wide lanes."""
    if "bmv2" not in bench.targets:
        raise NoCompiler("simple_switch is not installed")
    names = ["one register a value", "one register a value", *4 * ["wide lanes"]]
    programs = [(per_value(32), 32), (per_value(64), 64)]
    programs += [(ina(values), values) for values in (32, *wire.SIZES)]
    cases = [
        Case("bmv2", program, SWITCHML, values, usual=place < 2)
        for place, (program, values) in enumerate(programs)
    ]
    print("| layout | values | packets/s | gradients, Mbit/s | of the first | switch, µs/packet |")
    print("| --- | --- | --- | --- | --- | --- |")
    first = 0.0
    for name, case, (result, mbit_s) in zip(names, cases, bench.medians(cases), strict=True):
        first = first or mbit_s
        if case.values >= wire.VALUES:
            aim = f"BMv2: {case.values} wide lanes to 32 registers, in gradients"
            bench.aims[aim] = mbit_s / first, 10, "x"
        print(
            f"| {name} | {case.values} | {result.rate:,.0f} | {mbit_s:,.0f} | {mbit_s / first:.1f} "
            f"| {result.switch_us:.1f} |"
        )


def saturation(bench: Bench) -> None:
    """The cost of sums that saturate at the limits of int32: SwitchML's pool, 256 values."""
    print("| target | sums | packets/s | switch, µs/packet |")
    print("| --- | --- | --- | --- |")
    for target in bench.targets:
        cases = [Case(target, ina(256, saturate), SWITCHML, 256) for saturate in (False, True)]
        for how, (result, _) in zip(("wrap", "saturate"), bench.medians(cases), strict=True):
            print(f"| {target} | {how} | {result.rate:,.0f} | {result.switch_us:.2f} |")


def most(bench: Bench) -> None:
    """The native switch and the generator on a core each, with SwitchML's pool of 256 values, by
    fan-in and by the number of packets that the link carries as one: 1, 6 as in experiments, or as
    many as fit."""
    print(
        "| superframe | workers | packets/s | Gbit/s in | switch, µs/packet | generator, the same |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    program = ina(256)
    rates = []
    for superframe in (1, LARGEST_SUPERFRAME, LARGEST_DATAGRAM):
        for workers in (4, 16, 64):
            case = Case("native", program, SWITCHML, 256, workers, superframe=superframe)
            ((result, mbit_s),) = bench.medians([case])
            rates.append(result.rate)
            print(
                f"| {superframe} | {workers} | {result.rate:,.0f} | {mbit_s / 1e3:.2f} "
                f"| {result.switch_us:.2f} | {result.load_us:.2f} |"
            )
    bench.aims["native, packets/s in"] = max(rates), 1e6, ""


def end_to_end(bench: Bench) -> None:
    """All-reduces by four workers with the real endpoints, in packets of 256 values and in jumbo
    frames of 1024; in one rack, or for Rina in two, each with a switch. Under loss, which affects
    every link in both directions, packets travel one by one; kept is the share of the throughput
    of packets that travel one by one without loss."""
    print(
        "| target | values | style | gradients, Mbit/s a worker | packets one by one | at 1 % loss "
        "| kept | switches, µs/packet | resent at 1 % |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for target, values in itertools.product(bench.targets, (wire.VALUES, max(wire.SIZES))):
        found = [_reduced(bench, target, values, style) for style in SYSTEMS]
        what = f"{values} values, the worst style"
        if target == "bmv2":
            one_switch = zip(SYSTEMS, found, strict=True)
            slowest = min(usual for style, (usual, _) in one_switch if style not in RACKS)
            bench.aims[f"BMv2, all-reduce by four on one switch, {what}"] = slowest, 60, "Mbit/s"
        bench.aims[f"{target}, kept at 1 % loss, {what}"] = min(kept for _, kept in found), 0.5, ""


def _reduced(bench: Bench, target: str, values: int, style: str) -> tuple[float, float]:
    """Gradient Mbit/s per worker, and the share of it that remains at 1 % loss."""
    system, fewer = SYSTEMS[style], values // wire.VALUES
    window = WINDOWS[target]
    rounds = [
        [
            all_reduce(
                system,
                target,
                WORKERS,
                FRAGMENTS[target] // fewer,
                window=window,
                message=window // wire.LIVE_MESSAGES if system == "netreduce" else 0,
                loss=loss,
                whole_frames=whole_frames,
                racks=RACKS.get(style, 1),
                values=values,
            )
            for loss, whole_frames in ((0.0, False), (0.0, True), (LOSS, True))
        ]
        for _ in range(bench.rounds)
    ]
    usual, whole, lossy = (
        median(each.mbit_s for each in kind) for kind in zip(*rounds, strict=True)
    )
    switch_us = median(first.switch_us for first, _, _ in rounds)
    resent = round(median(last.resent for _, _, last in rounds))
    print(
        f"| {target} | {values} | {style} | {usual:.0f} | {whole:.0f} | {lossy:.0f} "
        f"| {lossy / whole:.0%} | {switch_us:.1f} | {resent} |",
        flush=True,
    )
    return usual, lossy / whole


def priorities(bench: Bench) -> None:
    """What ESA's priorities cost, by the same packets with ATP: they take turns within a round."""
    print("| style | target | packets/s | switch, µs/packet |\n| --- | --- | --- | --- |")
    program = ina(256)
    cases = [
        Case(target, program, style, 256, superframe=LARGEST_DATAGRAM)
        for target in bench.targets
        for style in (ATP, ESA)
    ]
    spent: dict[tuple[TreeProtocol, str], float] = {}
    for case, (result, _) in zip(cases, bench.medians(cases), strict=True):
        spent[case.style, case.target] = result.switch_us
        rate, spent_us = f"{result.rate:,.0f}", f"{result.switch_us:.2f}"
        print(f"| {case.style.name} | {case.target} | {rate} | {spent_us} |")
    for target in bench.targets:
        aim = f"{target}, processor time a packet, ATP's to ESA's, 256 values"
        bench.aims[aim] = spent[ATP, target] / spent[ESA, target], 1 / 1.2, "x"


PARTS: dict[str, Callable[[Bench], None]] = {
    "styles": styles,
    "priorities": priorities,
    "layouts": layouts,
    "saturation": saturation,
    "most": most,
    "all-reduce": end_to_end,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    bench = Bench(arguments.seconds, arguments.rounds)
    began = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    print(f"{began}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before.\n")
    for name in arguments.only:
        part = PARTS[name]
        print(f"### {name}\n\n{' '.join((part.__doc__ or '').split())}\n")
        try:
            part(bench)
        except NoCompiler as missing:
            print(f"left out: {missing}")
        print()
    print("### aims\n\n| aim | wanted | found | |\n| --- | --- | --- | --- |")
    for aim, (found, wanted, unit) in bench.aims.items():
        met = "met" if found >= wanted else "missed"
        print(f"| {aim} | {wanted:,.10g} {unit} | {found:,.4g} {unit} | {met} |")


if __name__ == "__main__":
    main()

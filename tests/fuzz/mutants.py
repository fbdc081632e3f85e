"""Mutated experiments, results, traces and captures, given to the verbs that read them.

    python -m tests.fuzz.mutants 10000 [SEED]

is the long run, from SEED (0 by default) on, in as many processes as it may use. It prints each
mutant that a verb handled badly, as an example for ``test_mutants.py``, and exits with 1 if there
is one. After every 500 mutants, it prints the seed from which another call continues.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

from click.testing import CliRunner
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from testbed import wire
from testbed.cli import main
from testbed.shipped import folder
from testbed.switches.compile import PROGRAMS
from testbed.switches.layer import BTH, INA
from testbed.workload import formats

LONGEST_S = 2.0
"""Seconds of processor time that a verb may take for a mutant."""
_REPORT_S = 4.0
"""The same for a report, whose figures alone take two."""
_HANGS_S = 60.0
"""Seconds of real time without any processor time, after which a verb is assumed to hang. However
busy the machine is, a verb that has something to do gets processor time within it."""
_IDLE_S = 0.001

EXPERIMENT = """\
schema_version: 1
name: x
backend: packet
fabric:
  kind: leaf-spine
  spines: 2
  leaves: 2
  hosts_per_leaf: [3, 2]
  host_rate: 10Gbit
  queue: 256KB
  ina: [t0]
  slots: 64
jobs:
  - system: atp
    workload: synthetic/4x1MB/2ms
    workers: [h0, h1, h3]
    servers: [h4]
    iterations: 2
    start: 1ms
    options: {window: 8}
  - {system: ring, workload: w.trace, workers: 1, placement: packed, gradients: normal}
emulation: {scale: 1/64, repeats: 2, seed: 3, loss: {h0-t0: 0.01}, p4_program: p.json}
sweep:
  product: {fabric.ina: [none, 0.5, all], "jobs.0.iterations": [1, 2]}
  exclude: [{fabric.ina: none, jobs.0.iterations: 1}]
"""
GRAPH = """\
schema_version: 1
name: g
backend: simulate
fabric:
  kind: graph
  host_rate: 9Gbit
  switches: {S1: [W1, W2], S2: [W3, PS]}
  links: [{ends: [S1, S2], rate: 3Gbit}]
  capacity: 9Gbit
jobs: [{system: grid, workload: synthetic/1MB, workers: 3, options: {solver: milp}}]
"""
FAT_TREE = """\
schema_version: 1
name: f
fabric: {kind: fat-tree, k: 4, host_rate: 10Gbit, oversubscription: 2, ina: 0.5, ina_tier: any}
jobs:
  - {system: ps, workload: synthetic/1MB, workers: 5, servers: 2, compute: {h0: 2}}
  - {system: netreduce, workload: synthetic/2MB, workers: 4, options: {window: 2, message: 4}}
emulation: {dilation: auto, scale: 1/128, duplication: 0.01, faults: []}
sweep: {jobs.1.system: [netreduce, rina, osp, switchml]}
"""
LAYERS = "10\n200\n30\n"
VALUES = (
    "", "null", "-1", "0", "1", "2", "1e308", "1e-30", "99999999999999999999", "1000000", ".nan",
    ".inf", "{}", "[]", "[[", "true", "'", '"', "\x00", "é", "\u2028", "0x10", "../..",
    "/etc/passwd", "/dev/zero", "10Gbit", "1bit", "1.0", "*a", "&a ", "!!python/object:os.system",
    "%", "a" * 300, "-", "\t", "ring", "none", "h0", "t0", ",", "1,2,3", "\n", ": ", "- ", "<<: *a",
    "1h", "1TB", "[1, 2]", "{a: 1}", "{{x}}", "nan", "-inf", "1_000", "∞", "\x1b[31m",
)  # fmt: skip

Edit = tuple[str, float, int]
"""An operation, where in the text (0 to 1), and the number of a value."""


@dataclass(frozen=True)
class Mutant:
    """``base`` with ``edits``; the base says which verbs read it."""

    base: str
    edits: tuple[Edit, ...]


def _word(text: bytes, at: int) -> tuple[int, int]:
    """The word around a position, between two separators."""
    separators = b' \n\t,:[]{}"'
    start = end = min(at, len(text) - 1)
    while start > 0 and text[start - 1] not in separators:
        start -= 1
    while end < len(text) and text[end] not in separators:
        end += 1
    return start, end


def _edited(text: bytes, edit: Edit) -> bytes:
    operation, where, number = edit
    if not text:
        return VALUES[number % len(VALUES)].encode()
    at, value = int(where * len(text)), VALUES[number % len(VALUES)].encode()
    start, end = _word(text, at)
    line_start = text.rfind(b"\n", 0, at) + 1
    line_end = text.find(b"\n", at) + 1 or len(text)
    line = text[line_start:line_end]
    made: dict[str, Callable[[], bytes]] = {
        "word": lambda: text[:start] + value + text[end:],
        "insert": lambda: text[:at] + value + text[at:],
        "cut": lambda: text[:at],
        "without line": lambda: text[:line_start] + text[line_end:],
        "line twice": lambda: text[:line_end] + line + text[line_end:],
        "byte": lambda: text[:at] + bytes([number % 256]) + text[at + 1 :],
        "without bytes": lambda: text[:at] + text[at + 1 + number :],
        "deep": lambda: text[:at] + b"[" * 50 * (number + 1) + text[at:],
        "nothing": lambda: b"",
    }
    return made[operation]()


OPERATIONS = ("word", "word", "word", "insert", "cut", "without line", "line twice", "byte",
              "without bytes", "deep", "nothing")  # fmt: skip


@cache
def originals() -> Path:
    """A folder with an intact file, or run, for each base."""
    home = Path(tempfile.mkdtemp(prefix="originals-", dir=_home()))
    for name, text in (("leaf.yaml", EXPERIMENT), ("graph.yaml", GRAPH), ("tree.yaml", FAT_TREE)):
        (home / name).write_text(text.replace("workers: 1,", "workers: 2,"))
    formats.save(formats.load("synthetic/3x1MB/2ms"), home / "w.trace")
    formats.save(formats.load("synthetic/3x1MB/2ms"), home / "w.et")
    formats.save(formats.load("synthetic/3x1MB/2ms"), home / "w.csv")
    shutil.copy(PROGRAMS[wire.FEW], home / "p.json")
    shutil.copy(folder("experiments") / "ci-baseline.json", home / "base.json")
    ends = Ether() / IP(src="10.0.0.1", dst="10.0.255.254") / UDP(dport=wire.PORT)
    roce = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(dport=wire.ROCE_PORT)
    values = list(range(wire.FEW))
    wrpcap(str(home / "c.pcap"), [
        ends / INA(kind="data", bitmap=3, values=values), ends / INA(kind="ack"),
        roce / BTH(opcode="first") / INA(kind="data", values=values),
        roce / BTH(opcode="acknowledge"), ends,
    ])  # fmt: skip
    run = GRAPH.replace("grid", "ring").replace(", options: {solver: milp}", "")
    (home / "run.yaml").write_text(run + "emulation: {repeats: 3}\n")
    _invoked("run", home / "run.yaml", "-o", home / "runs")
    (made,) = (home / "runs" / "g").iterdir()
    made.rename(home / "run")
    shutil.rmtree(home / "run" / "figures", ignore_errors=True)
    (home / "s.csv").write_text("time_s,what,where,value\n0,queue,h0-t0,5\n0.1,queue,h0-t0,9\n")
    return home


_HOMES: list[tempfile.TemporaryDirectory[str]] = []


def _home() -> str:
    if not _HOMES:
        _HOMES.append(tempfile.TemporaryDirectory(prefix="mutants-"))
    return _HOMES[0].name


_TABLES = (
    "results.csv", "iterations.csv", "links.csv", "digests.csv", "cells.csv", "run.json",
    "experiment.yaml",
)  # fmt: skip
_WEIGHTS = {
    "leaf.yaml": 20, "graph.yaml": 10, "tree.yaml": 10, "w.trace": 8, "w.et": 6, "w.csv": 6,
    "c.pcap": 10, "p.json": 1, "base.json": 2, "s.csv": 1,
    **{f"run/{name}": 1 for name in _TABLES},
}  # fmt: skip
BASES = tuple(base for base, weight in _WEIGHTS.items() for _ in range(weight))


def _calls(base: str, at: Path) -> Iterator[tuple[object, ...]]:
    """The verbs that read a mutant at ``at``."""
    home = at.parent
    if base in ("leaf.yaml", "graph.yaml", "tree.yaml"):
        yield "validate", at
        yield "run", at, "--dry-run"
    elif base == "w.trace":
        yield "trace", "show", at
        yield "validate", home / "leaf.yaml"
        yield "trace", "export", at, home / "out.et"
    elif base in ("w.et", "w.csv"):
        yield "trace", "import", at, home / "out.trace"
    elif base == "c.pcap":
        yield "decode", at
    elif base == "p.json":
        yield "validate", home / "leaf.yaml"
    elif base == "base.json":
        yield "compare", at, home / "run"
    elif base == "s.csv":
        yield "series", at
    else:
        yield "run", "--resume", at.parent, "--dry-run"
        yield "baseline", at.parent, "-o", at.parent.parent / "kept.json"
        yield "compare", originals() / "run", at.parent
        yield "watch", at.parent, "--once"
        yield "explain", at.parent, "-o", at.parent.parent / "told"
        yield "report", at.parent


class _Slow(BaseException):
    """Not an Exception, so that no handler catches it."""


@contextmanager
def _limited(longest_s: float) -> Iterator[None]:
    used = time.process_time()

    def over(number: int, frame: FrameType | None) -> None:
        nonlocal used
        before, used = used, time.process_time()
        if number == signal.SIGALRM and used - before > _IDLE_S:
            return
        what = "processor time" if number == signal.SIGPROF else "waiting"
        raise _Slow(f"{what}: {''.join(traceback.format_stack(frame)[-3:])}")

    before = [(each, signal.signal(each, over)) for each in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, longest_s)
    signal.setitimer(signal.ITIMER_REAL, _HANGS_S, _HANGS_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before:
            signal.signal(number, handler)


def _invoked(*arguments: object) -> tuple[int, str, BaseException | None]:
    result = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=True)
    return result.exit_code, result.output, result.exception


def complaint(mutant: Mutant) -> str:
    """What a verb did wrong with the mutant; empty if all handled it well."""
    originals()
    with tempfile.TemporaryDirectory(dir=_home()) as folder_:
        home = Path(folder_)
        for each in originals().iterdir():
            if each.suffix in (".yaml", ".trace", ".json"):
                (home / each.name).symlink_to(each)
        shutil.copytree(originals() / "run", home / "run")
        at = home / mutant.base
        text = (originals() / mutant.base).read_bytes()
        for edit in mutant.edits:
            text = _edited(text, edit)
        at.unlink(missing_ok=True)
        at.write_bytes(text)
        for call in _calls(mutant.base, at):
            verb = " ".join(str(each).replace(f"{home}/", "") for each in call)
            longest_s = _REPORT_S if call[0] == "report" else LONGEST_S
            began = time.process_time()
            try:
                with _limited(longest_s):
                    status, said, raised = _invoked(*call)
            except _Slow as slow:
                return f"{verb}: {slow}"
            took = time.process_time() - began
            if isinstance(raised, _Slow) or took > longest_s:
                return f"{verb}: {took:.1f} s: {raised}"
            if raised is not None and not isinstance(raised, SystemExit):
                places = "".join(traceback.format_tb(raised.__traceback__)[-2:])
                return f"{verb}: {raised!r}\n{places}"
            if status not in (0, 1, 2) or "Traceback (most recent" in said:
                return f"{verb}: exit code {status}: {said[-300:]}"
            if status and not said.strip():
                return f"{verb}: exit code {status} without a word"
    return ""


def drawn(seed: int) -> Mutant:
    """The mutant of a seed."""
    draw = random.Random(seed)
    edits = [
        (draw.choice(OPERATIONS), round(draw.random(), 4), draw.randrange(len(VALUES)))
        for _ in range(draw.choice((1, 1, 1, 2, 3)))
    ]
    return Mutant(draw.choice(BASES), tuple(edits))


def _tried(seed: int) -> tuple[int, str]:
    return seed, complaint(drawn(seed))


def main_(count: int, first: int) -> int:
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as home:
        # The pool kills its processes at the end, and they do not remove their folders.
        os.environ["TMPDIR"] = home
        # Threads of this process could hold a lock when a process is forked.
        with get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
            for seed, told in pool.imap(_tried, range(first, first + count), chunksize=25):
                if told:
                    key = told.partition(":")[0] + told.strip().splitlines()[-1]
                    found[key] += 1
                    if found[key] == 1:
                        print(f"seed {seed}: {drawn(seed)}\n{told}\n", flush=True)
                if (seed + 1 - first) % 500 == 0:
                    print(f"{seed + 1 - first} mutants; the next seed is {seed + 1}", flush=True)
    print(f"{count} mutants, {found.total()} not taken well, in {len(found)} ways")
    return 1 if found else 0


if __name__ == "__main__":
    # Without this, a killed run would leave its folder in /tmp.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main_(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))

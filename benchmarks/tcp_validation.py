"""TCP in the packet back end compared with ns-3's, and by how much it differs.

    pip install ns3        # a wheel, made for the system's own Python
    python -m benchmarks.tcp_validation [--size 16MB] [--repeats 3] [--only ring]
                                        [--control TcpCubic]

The cases are an incast of 4, 8 and 16 senders into one host, a ring of 8, and two rings of 4 over a
spine with too little bandwidth for both, each with and without 0.1 % loss on hosts' links. Both
sides have the same frames, rates, delays, queues (drop-tail, in bytes), SACK, initial and receive
window, minimum timeout and delay of acknowledgements. Each repeat has its own random losses and
starts of flows. The table shows medians over the repeats: the time until all data has arrived, and
the numbers of recoveries and timeouts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks import ns3_model
from benchmarks.tcp_traffic import Outcome, Traffic, ours, theirs
from testbed.topology.builders import leaf_spine
from testbed.units import format_size, parse_size

RATE, QUEUE = 1e10, 256_000
LOSSES = (0.0, 0.001)


def cases(size: int) -> Iterator[Traffic]:
    for senders in (4, 8, 16):
        rack = leaf_spine(1, 1, senders + 1, RATE, RATE, QUEUE)
        flows = [(host, rack.hosts[-1]) for host in rack.hosts[:-1]]
        yield Traffic(f"incast of {senders}", rack, size, flows=flows)
    wide = leaf_spine(1, 2, 4, RATE, 4 * RATE, QUEUE)
    yield Traffic("ring of 8", wide, size, rings=[wide.hosts])
    narrow = leaf_spine(1, 2, 4, RATE, RATE, QUEUE)
    rings = [tuple(f"h{i}" for i in own) for own in ((0, 4, 1, 5), (2, 6, 3, 7))]
    yield Traffic("two rings of 4 over a spine", narrow, size, rings=rings)


def row(name: str, own: Sequence[Outcome], other: Sequence[Outcome]) -> str:
    def both(what: str) -> tuple[float, ...]:
        return tuple(median(getattr(each, what) for each in every) for every in (own, other))

    mine, reference = both("seconds")
    counts = " ".join("{:8.0f}/{:<6.0f}".format(*both(what)) for what in ("recoveries", "timeouts"))
    return f"{name:40} {mine:9.5f} {reference:9.5f} {mine / reference - 1:+7.1%} {counts}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=parse_size, default=16_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument(
        "--control", default="TcpLinuxReno", help="ns-3's congestion control; ours is Reno"
    )
    asked = parser.parse_args()
    ns3_model.load()
    seeds = range(1, asked.repeats + 1)
    print(f"{format_size(asked.size)} a flow or a worker; ours/ns-3")
    print(f"{'case':40} {'ours':>9} {'ns-3':>9} {'error':>7} {'recoveries':>15} {'timeouts':>15}")
    for traffic in (each for each in cases(asked.size) if asked.only in each.name):
        for loss in LOSSES:
            own = [ours(traffic, loss, seed) for seed in seeds]
            other = [theirs(traffic, asked.control, loss, seed) for seed in seeds]
            print(row(f"{traffic.name}, {loss:.1%} loss", own, other), flush=True)


if __name__ == "__main__":
    main()

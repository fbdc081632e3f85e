"""The simulator compared with ns-3, an independent packet-level simulator.

    pip install ns3        # a wheel, made for the system's own Python
    python -m benchmarks.ns3_crosscheck [--size 16MB] [--only ring]

Both run the same plans on the same links, ns-3 with TCP New Reno, DropTail queues of 256 KB and a
minimum timeout of 10 ms: workers that push to a parameter server at the same time and get the sum
back, a ring on a fat-tree with the paths that the simulator's ECMP drew, and two rings over a spine
with too little bandwidth for both. Frames in ns-3 have 2 bytes of PPP instead of 14 of Ethernet;
link rates compensate for this.

Its output is in testbed/backends/flow/README.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks import ns3_model
from benchmarks.one_process import one_process
from testbed.backends.flow.routes import Links, Ways
from testbed.backends.flow.scenario import Assumptions, Job
from testbed.backends.flow.simulate import simulate
from testbed.plan.program import Pipelining, Plan
from testbed.plan.stages import Stages, stretches
from testbed.plan.units import Unit
from testbed.systems import Assignment, registry
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.fabric import Fabric
from testbed.topology.framing import Framing
from testbed.units import format_size, parse_size

QUEUE = 256_000
HOP_S = 1e-6
ETHERNET, PPP = Framing().full_frame, Framing().mtu + ns3_model.PPP

RENO = {
    "TcpL4Protocol::SocketType": "ns3::TcpNewReno",
    "TcpSocket::SegmentSize": "1448",
    "TcpSocket::InitialCwnd": "10",
    "TcpSocket::SndBufSize": "256000",
    "TcpSocket::RcvBufSize": "256000",
    # With SACK, some flows stall for ever after losing much of a window.
    "TcpSocketBase::Sack": "false",
    "TcpSocketBase::MinRto": "10ms",
    "RttEstimator::InitialEstimation": "10ms",
}


@dataclass(frozen=True)
class Case:
    name: str
    fabric: Fabric
    plans: Sequence[Plan]


def cases() -> Iterator[Case]:
    rate = 1e10
    for workers in (4, 8, 16):
        rack = leaf_spine(1, 1, workers + 1, rate, rate, QUEUE)
        job = Assignment(rack.hosts[:-1], rack.hosts[-1:])
        push = replace(registry["ps"].plan(job, rack), pipelining=Pipelining(credit=4))
        yield Case(f"incast of {workers} workers to a PS", rack, [push])
    tree = fat_tree(4, 2, rate, rate, QUEUE)
    for order in ("rack", "naive"):
        job = Assignment(tree.hosts, options={"order": order})
        yield Case(f"ring of 16, {order} order, fat-tree", tree, [registry["ring"].plan(job, tree)])
    narrow = leaf_spine(1, 2, 4, rate, rate, QUEUE)
    rings = [
        registry["ring"].plan(Assignment(tuple(f"h{i}" for i in own)), narrow)
        for own in ((0, 1, 4, 5), (2, 3, 6, 7))
    ]
    yield Case("two rings of 4 over one spine", narrow, rings)
    yield Case("one ring of 4 over one spine", narrow, rings[:1])


def ours(case: Case, size: int) -> list[float]:
    jobs = [
        Job(plan, (Unit(0, size // 4, 0.0),), 0.0, ((1.0,),) * plan.workers) for plan in case.plans
    ]
    timeline = simulate(case.fabric, jobs, Assumptions(hop_s=HOP_S))
    return [timeline.jct_s(number) for number in range(len(jobs))]


def theirs(case: Case, size: int) -> list[float]:
    """The same times in ns-3, where routes follow the paths of the simulator's flows."""
    number = {node: index for index, node in enumerate(case.fabric.nodes)}
    network = ns3_model.network(len(number), RENO)
    for link in case.fabric.links:
        rate = link.rate * PPP / ETHERNET
        from_host = link.a in case.fabric.hosts
        network.Link(number[link.a], number[link.b], rate, HOP_S, link.queue, from_host, 0.0)
    for node, host, hop in routes(case):
        network.Route(number[node], number[host], number[hop])
    for plan in case.plans:
        hosts = [number[host] for host in plan.hosts]
        if isinstance(plan.programs, Stages):
            around = [hosts[source] for source, _ in hops_around(plan)]
            network.Ring(around, size // 4 // len(hosts) * 4, [0.0] * len(around))
        else:
            network.Server(hosts[: plan.workers], hosts[-1], size)
    return list(network.Run())


def routes(case: Case) -> list[tuple[str, str, str]]:
    """(node, destination, next hop) of every flow, data before acknowledgements."""
    links = Links(case.fabric)
    table: dict[tuple[str, str], str] = {}
    for acknowledging in (False, True):
        for number, plan in enumerate(case.plans):
            job = Job(plan, (), 0.0, ((1.0,),) * plan.workers)
            ways = Ways(case.fabric, links, Assumptions(), job, f"job {number}")
            for source, to in pairs(plan):
                ends = (to, source) if acknowledging else (source, to)
                for link, _ in ways.way(*ends):
                    node, hop = links.ends[link]
                    table.setdefault((node, ends[1]), hop)
    return [(node, host, hop) for (node, host), hop in table.items()]


def hops_around(plan: Plan) -> list[tuple[int, int]]:
    """The hops of the only ring of a plan."""
    ((ring,),) = stretches(plan)
    return [hop for hop in ring.hops if isinstance(hop, tuple)]


def pairs(plan: Plan) -> list[tuple[str, str]]:
    """The sending and the receiving host of each flow."""
    if isinstance(plan.programs, Stages):
        hops = hops_around(plan)
    else:
        hops = [(rank, plan.workers) for rank in range(plan.workers)]
        hops += [(to, source) for source, to in hops]
    return [(plan.hosts[source], plan.hosts[to]) for source, to in hops]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=parse_size, default=16_000_000)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    asked = parser.parse_args()
    size = asked.size
    print(f"gradients of {format_size(size)}")
    print(f"{'case':36} {'simulator':>10} {'ns-3':>10} {'error':>7}")
    for case in (each for each in cases() if asked.only in each.name):
        # An ns-3 process has only one network.
        with one_process() as process:
            packets = process.submit(theirs, case, size).result()
        for flows, each in zip(ours(case, size), packets, strict=True):
            print(f"{case.name:36} {flows:10.5f} {each:10.5f} {flows / each - 1:+7.1%}", flush=True)


if __name__ == "__main__":
    main()

"""The same TCP traffic in the packet back end's core and in ns-3: flows, and rings."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import process_time

from benchmarks import ns3_model
from benchmarks.one_process import in_a_process
from testbed.backends.packet.simulation import (
    HOST,
    NEVER,
    ROUTER,
    SECOND,
    Link,
    Simulation,
    TcpSettings,
)  # fmt: skip
from testbed.topology.fabric import Fabric
from testbed.topology.fabric import Kind as NodeKind

HOP_S = 1e-6
MSS, HEADERS = 1448, 52 + ns3_model.PPP
WINDOW = 3 << 20
LEAST_TIMEOUT_S = 0.01
ACKNOWLEDGE_S = 0.001
"""Seconds until an acknowledgement. This is less than the minimum timeout, because ns-3 has no
quick acknowledgements: with Linux's 40 ms, a window of one segment would always end in a timeout,
and never grow."""

STARTS_S = 100e-6
"""Flows start at random within this time. If all started at once, drop-tail queues would favour
some flows over others by phase (Floyd and Jacobson, 1991)."""

_NS3 = {
    "TcpSocket::SegmentSize": str(MSS),
    "TcpSocket::InitialCwnd": "10",
    "TcpSocket::SndBufSize": str(WINDOW),
    "TcpSocket::RcvBufSize": str(WINDOW),
    "TcpSocket::DelAckTimeout": f"{ACKNOWLEDGE_S}s",
    "TcpSocketBase::MinRto": f"{LEAST_TIMEOUT_S}s",
    "TcpCubic::HyStartDelayMax": "16ms",
}


@dataclass(frozen=True)
class Traffic:
    """``flows`` are (source, destination), each of ``size`` bytes. In a ring, each host sends a
    chunk of ``size`` over the number of hosts, and another chunk for each that arrives, as in an
    all-reduce.
    """

    name: str
    fabric: Fabric
    size: int
    flows: Sequence[tuple[str, str]] = ()
    rings: Sequence[Sequence[str]] = ()

    def data_hops(self, payload: int = MSS) -> int:
        """The number of data packets times the links on their paths, without retransmissions."""
        hops = sum(len(self._path(*ends)) for ends in self.flows) * -(-self.size // payload)
        for ring in self.rings:
            chunk = -(-(self.size // len(ring)) // payload)
            around = sum(len(self._path(*ends)) for ends in _around(ring))
            hops += around * 2 * (len(ring) - 1) * chunk
        return hops

    def _path(self, source: str, to: str) -> list[str]:
        path = [self.fabric.tor_of(source)]
        while path[-1] != to:
            path.append(self.fabric.next_hops(path[-1], to)[0])
        return path


@dataclass(frozen=True)
class Outcome:
    """``seconds``: until all data has arrived. ``cpu_s``: the processor time for it."""

    seconds: float
    recoveries: int
    timeouts: int
    hops: int
    cpu_s: float


def _around(ring: Sequence[str]) -> list[tuple[str, str]]:
    return [(source, ring[(place + 1) % len(ring)]) for place, source in enumerate(ring)]


def _starts(seed: int) -> Iterator[float]:
    draw = random.Random(seed)
    while True:
        yield draw.uniform(0, STARTS_S)


def ours(traffic: Traffic, loss: float = 0.0, seed: int = 1) -> Outcome:
    """Run the traffic in our core. ``loss``: the share of packets lost on every host's link, in
    either direction."""
    number = {name: index for index, name in enumerate(traffic.fabric.nodes)}
    settings = TcpSettings(
        mss=MSS,
        overhead=HEADERS,
        initial_window=10,
        receive_window=WINDOW,
        queued_time=SECOND // 1000,
        most_queued=4 << 20,
        least_timeout=round(LEAST_TIMEOUT_S * SECOND),
        longest_timeout=120 * SECOND,
        first_timeout=round(LEAST_TIMEOUT_S * SECOND),  # the handshake measures the round trip
        timer_slack=SECOND // 500,
        acknowledge_delay=round(ACKNOWLEDGE_S * SECOND),
    )
    with Simulation(len(number), 0, settings) as simulation:
        _wire_up(simulation, traffic.fabric, loss, seed)
        connections: list[int] = []
        steps: list[int] = []
        chunks: list[int] = []
        following: dict[int, int] = {}

        def connect(source: str, to: str, chunk: int, count: int) -> None:
            port = 1000 + len(connections)
            connections.append(simulation.connect(number[source], number[to], port, port))
            chunks.append(chunk)
            steps.append(count)

        for ring in traffic.rings:
            first = len(connections)
            for place, (source, to) in enumerate(_around(ring)):
                following[first + place] = first + (place + 1) % len(ring)
                connect(source, to, traffic.size // len(ring), 2 * (len(ring) - 1))
        for source, to in traffic.flows:
            connect(source, to, traffic.size, 1)
        draws = _starts(seed)
        starts = [round(next(draws) * SECOND) for _ in connections]
        before = process_time()
        _drive(simulation, connections, chunks, steps, following, starts)
        cpu_s = process_time() - before
        counted = [simulation.tcp(each) for each in connections]
        return Outcome(
            simulation.now / SECOND,
            sum(each.recoveries for each in counted),
            sum(each.timeouts for each in counted),
            simulation.hops,
            cpu_s,
        )


def _drive(
    simulation: Simulation,
    connections: Sequence[int],
    chunks: Sequence[int],
    steps: Sequence[int],
    following: dict[int, int],
    starts: Sequence[int],
) -> None:
    """Run until every connection has carried its steps of one chunk each. The first chunk is
    written when the connection starts, and each further one when a chunk has arrived on the
    previous connection of its ring."""
    index_of = {connection: index for index, connection in enumerate(connections)}
    written, arrived = [1] * len(connections), [0] * len(connections)
    waiting = sorted((at, index) for index, at in enumerate(starts))
    while waiting or sum(arrived) < sum(steps):
        found = simulation.run(waiting[0][0] if waiting else NEVER)
        if found is None:
            if not waiting:
                raise SystemExit("nothing is left to happen, and data is missing")
            _, index = waiting.pop(0)
            simulation.write(connections[index], chunks[index])
            continue
        _, connection, count = found
        index = index_of[connection]
        arrived[index] += count
        following_index = following.get(index)
        for _ in range(count):
            if following_index is not None and written[following_index] < steps[following_index]:
                written[following_index] += 1
                simulation.write(connections[following_index], chunks[following_index])


def _wire_up(simulation: Simulation, fabric: Fabric, loss: float, seed: int) -> None:
    number = {name: index for index, name in enumerate(fabric.nodes)}
    for name, node in fabric.nodes.items():
        kind = HOST if node.kind is NodeKind.HOST else ROUTER
        simulation.node(number[name], kind, 0x0A000001 + number[name], number[name])
    ports: dict[str, list[str]] = {name: [] for name in fabric.nodes}
    for index, link in enumerate(fabric.links):
        ports[link.a].append(link.b)
        ports[link.b].append(link.a)
        is_host = fabric.nodes[link.a].kind is NodeKind.HOST
        simulation.link(
            Link(
                a=number[link.a],
                b=number[link.b],
                rate=round(link.rate),
                delay_a=round(HOP_S * SECOND),
                delay_b=round(HOP_S * SECOND),
                limit_a=1 << 40 if is_host else link.queue,
                limit_b=link.queue,
                loss=round(loss * 2**64) if is_host else 0,
                seed=seed << 16 | index,
            )
        )
    for name in fabric.switches:
        for to in fabric.hosts:
            hops = [ports[name].index(hop) for hop in fabric.next_hops(name, to)]
            simulation.next_hops(number[name], number[to], hops)


def theirs(traffic: Traffic, control: str, loss: float = 0.0, seed: int = 1) -> Outcome:
    """The same in ns-3, in a process of its own; ``control`` is one of its classes of congestion
    control.

    A process can have one ns-3 network, and loading takes half a minute. So the caller loads ns-3
    (`ns3_model.load`), and every run is a fork. Of several paths, the first is taken.
    """
    return in_a_process(_theirs, traffic, control, loss, seed, start="fork")


def _theirs(traffic: Traffic, control: str, loss: float, seed: int) -> Outcome:
    fabric = traffic.fabric
    number = {name: index for index, name in enumerate(fabric.nodes)}
    attributes = _NS3 | {"TcpL4Protocol::SocketType": f"ns3::{control}"}
    network = ns3_model.network(len(number), attributes, run=seed)
    for link in fabric.links:
        is_host = fabric.nodes[link.a].kind is NodeKind.HOST
        own = loss if is_host else 0.0
        network.Link(number[link.a], number[link.b], link.rate, HOP_S, link.queue, is_host, own)
    for name in fabric.nodes:
        for to in fabric.hosts:
            if name != to:
                network.Route(number[name], number[to], number[fabric.next_hops(name, to)[0]])
    starts = _starts(seed)
    for ring in traffic.rings:
        hosts = [number[host] for host in ring]
        network.Ring(hosts, traffic.size // len(ring), [next(starts) for _ in ring])
    if traffic.flows:
        ends = [(number[source], number[to]) for source, to in traffic.flows]
        sources, destinations = map(list, zip(*ends, strict=True))
        network.Flows(sources, destinations, traffic.size, [next(starts) for _ in ends])
    before = process_time()
    seconds = list(network.Run())
    if min(seconds) < 0:
        raise SystemExit(f"{traffic.name}: ns-3 did not end within 100 simulated seconds")
    cpu_s = process_time() - before
    return Outcome(max(seconds), network.Recoveries(), network.Timeouts(), 0, cpu_s)

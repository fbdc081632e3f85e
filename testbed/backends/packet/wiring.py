"""Builds a fabric in the C core: nodes, links and next hops."""

from __future__ import annotations

from hashlib import blake2b

from testbed.backends.links import Shares
from testbed.backends.packet.simulation import HOST, ROUTER, SECOND, Link, Simulation
from testbed.backends.shaping import burst_bytes
from testbed.topology import fabric as topology
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric, Kind
from testbed.topology.framing import framing
from testbed.topology.paths import Routes, diverted

HOST_QUEUE = 1 << 40
"""Bytes of a host's own queue: a host does not drop its own packets."""

_ALL = 1 << 64


def numbered(fabric: Fabric) -> dict[str, int]:
    """The number of each node."""
    return {name: number for number, name in enumerate(fabric.nodes)}


def port_numbers(fabric: Fabric) -> dict[str, dict[str, int]]:
    """The number of each node's port to each of its neighbours."""
    ports: dict[str, dict[str, int]] = {name: {} for name in fabric.nodes}
    for link in fabric.links:
        for here, there in ((link.a, link.b), (link.b, link.a)):
            ports[here][there] = len(ports[here])
    return ports


def wire_up(
    simulation: Simulation,
    fabric: Fabric,
    seed: int,
    scale: float,
    loss: Shares,
    duplication: Shares,
    dilation: float | None,
    routes: Routes,
) -> None:
    """Build ``fabric`` in ``simulation``.

    Args:
        seed: for the routers' hashes and the losses.
        scale: the factor of all times.
        loss, duplication: the share of packets that a link loses or delivers twice, in each
            direction.
        dilation: links send bursts as an emulator's shapers do at this dilation; None for no
            bursts.
        routes: flows with a path of their own.
    """
    number, addressing = numbered(fabric), Addressing(fabric)
    for name, node in fabric.nodes.items():
        kind = HOST if node.kind is Kind.HOST else ROUTER
        address = addressing.ip_number(name)
        simulation.node(number[name], kind, address, _draw(seed, name))
        packet_cost = fabric.packet_costs.get(name, fabric.packet_cost)
        if kind == HOST and (packet_cost or fabric.message_cost):
            # A scaled job has fewer packets in proportion, but as many messages.
            costs = packet_cost * SECOND, fabric.message_cost * scale * SECOND
            simulation.charge(number[name], *map(round, costs))
    ports = port_numbers(fabric)
    for link in fabric.links:
        hosts = [fabric.nodes[end].kind is Kind.HOST for end in (link.a, link.b)]
        # The time of a full frame. Without it, hosts that run in step make one another lose whole
        # windows (Floyd and Jacobson, 1991).
        jitter = round(framing(fabric).full_frame * 8 * SECOND / link.rate)
        limits = [HOST_QUEUE if is_host else link.queue for is_host in hosts]
        simulation.link(
            Link(
                a=number[link.a],
                b=number[link.b],
                rate=round(link.rate),
                delay_a=_delay(fabric, link.a, scale),
                delay_b=_delay(fabric, link.b, scale),
                burst=_burst(fabric, link.rate, dilation),
                limit_a=limits[0],
                limit_b=limits[1],
                jitter_a=jitter * hosts[0],
                jitter_b=jitter * hosts[1],
                loss=_chance(loss, link),
                duplication=_chance(duplication, link),
                seed=_draw(seed, f"{link.a}-{link.b}"),
            )
        )
    for name in fabric.switches:
        for to in fabric.nodes:
            if to != name and (hops := fabric.next_hops(name, to)):
                simulation.next_hops(number[name], number[to], [ports[name][hop] for hop in hops])
        for (source, to), hop in diverted(fabric, routes, name).items():
            ends = addressing.ip_number(source), addressing.ip_number(to)
            simulation.route(number[name], *ends, ports[name][hop])


def share(ratio: float) -> int:
    """A ratio as a part of 2^64."""
    return min(_ALL - 1, round(ratio * _ALL))


def _chance(shares: Shares, link: topology.Link) -> int:
    return share(shares.get((link.a, link.b), 0.0))


def _delay(fabric: Fabric, sender: str, scale: float) -> int:
    """Picoseconds between a frame's last bit at ``sender`` and its arrival."""
    own = 0.0 if fabric.nodes[sender].kind is Kind.HOST else fabric.pipeline_latency
    return round((fabric.link_delay + own) * scale * SECOND)


def _burst(fabric: Fabric, rate: float, dilation: float | None) -> int:
    """The time of a shaper's burst, picoseconds."""
    if dilation is None:
        return 0
    return round(burst_bytes(fabric, rate / dilation) * 8 * SECOND / rate)


def _draw(seed: int, what: str) -> int:
    return int.from_bytes(blake2b(f"{seed}/{what}".encode(), digest_size=8).digest(), "big")

"""A fabric as the C core has it: nodes, links, and the ways of packets."""

from __future__ import annotations

import ipaddress
from hashlib import blake2b

from testbed.backends.packet.simulation import HOST, ROUTER, Link, Simulation
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric, Kind

HOST_QUEUE = 1 << 40
"""A host holds back what its own link cannot take, and drops none of it."""

_ALL = 1 << 64


def numbered(fabric: Fabric) -> dict[str, int]:
    """The number of each node."""
    return {name: number for number, name in enumerate(fabric.nodes)}


def wire_up(simulation: Simulation, fabric: Fabric, seed: int, loss: float, jitter: int) -> None:
    """Tell ``simulation`` of the whole of ``fabric``.

    Args:
        seed: of every router's hash and of loss.
        loss: the share of packets lost on every link of a host, either way.
        jitter: picoseconds by which a host that was idle begins later, at most.
    """
    number, addressing = numbered(fabric), Addressing(fabric)
    for name, node in fabric.nodes.items():
        kind = HOST if node.kind is Kind.HOST else ROUTER
        address = int(ipaddress.IPv4Address(addressing.ip(name)))
        simulation.node(number[name], kind, address, _draw(seed, name))
    ports: dict[str, dict[str, int]] = {name: {} for name in fabric.nodes}
    for link in fabric.links:
        for here, there in ((link.a, link.b), (link.b, link.a)):
            ports[here][there] = len(ports[here])
        hosts = [fabric.nodes[end].kind is Kind.HOST for end in (link.a, link.b)]
        limits = [HOST_QUEUE if is_host else link.queue for is_host in hosts]
        simulation.link(
            Link(
                a=number[link.a],
                b=number[link.b],
                rate=round(link.rate),
                limit_a=limits[0],
                limit_b=limits[1],
                jitter_a=jitter * hosts[0],
                jitter_b=jitter * hosts[1],
                loss=min(_ALL - 1, round(loss * _ALL)) if any(hosts) else 0,
                seed=_draw(seed, f"{link.a}-{link.b}"),
            )
        )
    for name in fabric.switches:
        for to in fabric.nodes:
            if to != name and (hops := fabric.next_hops(name, to)):
                simulation.way(number[name], number[to], [ports[name][hop] for hop in hops])


def _draw(seed: int, what: str) -> int:
    return int.from_bytes(blake2b(f"{seed}/{what}".encode(), digest_size=8).digest(), "big")

"""Builders of fabrics."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.topology.fabric import Fabric, Kind, Link, Node


def leaf_spine(
    spines: int,
    leaves: int,
    hosts_per_leaf: int | Sequence[int],
    host_rate: float,
    fabric_rate: float,
    queue: int,
    slots: int = 4096,
) -> Fabric:
    """Every leaf (ToR) is linked to every spine; racks need not be evenly filled.

    ``host_rate`` and ``fabric_rate`` are bit/s each way, ``queue`` is bytes a port.
    Hosts are h0, h1, … rack by rack, ToRs t0, t1, …, spines s0, s1, ….
    """
    sizes = [hosts_per_leaf] * leaves if isinstance(hosts_per_leaf, int) else list(hosts_per_leaf)
    if len(sizes) != leaves:
        raise ValueError(f"{len(sizes)} rack sizes for {leaves} leaves")
    nodes: list[Node] = []
    links: list[Link] = []
    for rack, size in enumerate(sizes):
        tor = f"t{rack}"
        for _ in range(size):
            host = f"h{len(links)}"
            nodes.append(Node(host, Kind.HOST, rack))
            links.append(Link(host, tor, host_rate, queue))
    nodes += [Node(f"t{rack}", Kind.TOR, rack) for rack in range(leaves)]
    nodes += [Node(f"s{spine}", Kind.SPINE) for spine in range(spines)]
    links += [
        Link(f"t{rack}", f"s{spine}", fabric_rate, queue)
        for rack in range(leaves)
        for spine in range(spines)
    ]
    shape = "+".join(map(str, sizes)) if len(set(sizes)) > 1 else f"{leaves}x{sizes[0]}"
    return Fabric(
        f"leaf-spine {shape}, {spines} spines",
        {n.name: n for n in nodes},
        tuple(links),
        slots=slots,
    )

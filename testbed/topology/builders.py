"""Builders of fabrics. Rates are bit/s in each direction, ``queue`` is bytes per port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from testbed.topology.fabric import Fabric, Kind, Link, Node

INSIDE = 4
"""A host's link to its own forwarding node is this many times as fast as all its circuits
together."""


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

    Hosts are h0, h1, … rack by rack, ToRs t0, t1, …, spines s0, s1, ….
    """
    sizes = _sizes(hosts_per_leaf, leaves, "leaves")
    nodes, links = _filled(sizes, host_rate, queue)
    nodes += [Node(f"s{spine}", Kind.SPINE) for spine in range(spines)]
    links += [
        Link(f"t{rack}", f"s{spine}", fabric_rate, queue)
        for rack in range(leaves)
        for spine in range(spines)
    ]
    name = f"leaf-spine {_shape(sizes)}, {spines} spines"
    return Fabric(name, {node.name: node for node in nodes}, tuple(links), slots=slots)


def fat_tree(
    k: int,
    hosts_per_edge: int | Sequence[int],
    host_rate: float,
    fabric_rate: float,
    queue: int,
) -> Fabric:
    """A three-tier fat-tree of k pods (Al-Fares et al., SIGCOMM 2008), k even.

    A pod has k/2 edge switches (ToRs), each linked to all k/2 aggregation switches of the pod;
    the j-th of these is linked to the cores j·k/2 … (j+1)·k/2 - 1. An edge switch may have more
    or fewer hosts than the k/2 of the paper. Hosts are h0, h1, … rack by rack, ToRs t0, t1, …
    and aggregation switches a0, a1, … pod by pod, cores c0, c1, ….
    """
    if k < 2 or k % 2:
        raise ValueError(f"found a fat-tree of {k} pods, wanted an even number of at least 2")
    half = k // 2
    sizes = _sizes(hosts_per_edge, k * half, "edge switches")
    nodes, links = _filled(sizes, host_rate, queue)
    nodes += [Node(f"a{index}", Kind.AGGREGATION) for index in range(k * half)]
    nodes += [Node(f"c{index}", Kind.CORE) for index in range(half * half)]
    for pod in range(k):
        first = pod * half
        links += [
            Link(f"t{first + edge}", f"a{first + above}", fabric_rate, queue)
            for edge in range(half)
            for above in range(half)
        ]
        links += [
            Link(f"a{first + above}", f"c{above * half + core}", fabric_rate, queue)
            for above in range(half)
            for core in range(half)
        ]
    name = f"fat-tree k={k}, {_shape(sizes)}"
    return Fabric(name, {node.name: node for node in nodes}, tuple(links))


def graph(
    switches: Mapping[str, Sequence[str]],
    links: Iterable[tuple[str, str, float]],
    host_rate: float,
    queue: int,
) -> Fabric:
    """Any fabric: ``switches`` with the hosts on each, ``links`` as (end, end, rate).

    A switch with hosts is a ToR, a switch without hosts is a spine. A host's link has ``host_rate``
    unless ``links`` names it. Raises ValueError if a link's end does not exist, or if the fabric is
    not connected.
    """
    filled = [switch for switch, hosts in switches.items() if hosts]
    tor_of = {host: tor for tor in filled for host in switches[tor]}
    nodes = [Node(host, Kind.HOST, filled.index(tor)) for host, tor in tor_of.items()]
    nodes += [Node(tor, Kind.TOR, rack) for rack, tor in enumerate(filled)]
    nodes += [Node(switch, Kind.SPINE) for switch in switches if not switches[switch]]
    made = {frozenset(ends): Link(*ends, host_rate, queue) for ends in tor_of.items()}
    for a, b, rate in links:
        made[frozenset((a, b))] = Link(a, b, rate, queue)
    fabric = Fabric(
        f"graph of {len(switches)} switches, {len(tor_of)} hosts",
        {node.name: node for node in nodes},
        tuple(made.values()),
    )
    if unknown := fabric.adjacent.keys() - fabric.nodes:
        raise ValueError(f"links to {', '.join(sorted(unknown))}, which the fabric does not have")
    if any(len(fabric.adjacent[host]) != 1 for host in fabric.hosts):
        raise ValueError("a host has more links than the one to its switch")
    if not _is_connected(fabric):
        raise ValueError("the fabric is not connected")
    return fabric


def circuits(hosts: int, jumps: Sequence[int], circuit_rate: float, queue: int) -> Fabric:
    """Hosts that are linked by circuits and forward for one another.

    Host i has circuits to i + jump and i - jump for each of ``jumps``; two circuits between the
    same hosts are one link of twice the rate. The part of a host that forwards is a node of its
    own: t0, t1, …. The link between the two is so much faster than all circuits together that a
    burst to one circuit does not delay the others, as in a host with a port for each circuit.
    """
    nodes, links = _filled([1] * hosts, INSIDE * 2 * len(jumps) * circuit_rate, queue)
    counts: dict[tuple[int, int], int] = {}
    for host in range(hosts):
        for jump in jumps:
            ends = sorted((host, (host + jump) % hosts))
            counts[ends[0], ends[1]] = counts.get((ends[0], ends[1]), 0) + 1
    links += [Link(f"t{a}", f"t{b}", many * circuit_rate, queue) for (a, b), many in counts.items()]
    name = f"circuits of {hosts} hosts, jumps {', '.join(map(str, jumps))}"
    return Fabric(name, {node.name: node for node in nodes}, tuple(links), jumps=tuple(jumps))


def _is_connected(fabric: Fabric) -> bool:
    ahead = [*fabric.nodes][:1]
    reached = set(ahead)
    for node in ahead:
        new = fabric.adjacent[node].keys() - reached
        reached |= new
        ahead += new
    return len(reached) == len(fabric.nodes)


def _sizes(hosts: int | Sequence[int], racks: int, what: str) -> list[int]:
    sizes = [hosts] * racks if isinstance(hosts, int) else list(hosts)
    if len(sizes) != racks:
        raise ValueError(f"{len(sizes)} rack sizes for {racks} {what}")
    return sizes


def _filled(sizes: Sequence[int], rate: float, queue: int) -> tuple[list[Node], list[Link]]:
    """Racks of hosts h0, h1, … under ToRs t0, t1, …, with the hosts' links."""
    rack_of = [rack for rack, size in enumerate(sizes) for _ in range(size)]
    nodes = [Node(f"h{host}", Kind.HOST, rack) for host, rack in enumerate(rack_of)]
    nodes += [Node(f"t{rack}", Kind.TOR, rack) for rack in range(len(sizes))]
    return nodes, [Link(f"h{host}", f"t{rack}", rate, queue) for host, rack in enumerate(rack_of)]


def _shape(sizes: Sequence[int]) -> str:
    return "+".join(map(str, sizes)) if len(set(sizes)) > 1 else f"{len(sizes)}x{sizes[0]}"

"""Checks across the fields of a fabric: counts that must agree, names that must exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd

from testbed import wire
from testbed.experiment.fabrics import (
    MOST_ADDRESSED,
    MOST_NODES,
    Circuits,
    Fabric,
    FatTree,
    Graph,
    LeafSpine,
)
from testbed.experiment.findings import Finding, counted, listed, no_such
from testbed.located import Place

PACKET_HEADERS = 20 + 8 + 12 + 24  # bytes of IPv4, UDP, RoCE and INA: NetReduce's first packet
INTERFACE_LIMIT = 15  # characters, Linux's IFNAMSIZ less the final zero


def sums(fabric: Fabric) -> bool:
    """Whether any switch has INA."""
    return fabric.ina not in ("none", 0, ())


def shape(fabric: Fabric, addressed: bool) -> Iterator[Finding]:
    """Errors in the fabric's shape; with any of them, its nodes cannot be named, or, if they are to
    be ``addressed``, have no addresses."""
    if fabric.size > MOST_NODES:
        yield Finding(
            ("fabric",),
            f"found a fabric of {fabric.size} hosts and switches, wanted at most {MOST_NODES};"
            " make it smaller",
        )
        return
    racks = len(fabric.racks)
    if isinstance(fabric, Circuits):
        yield from _circuits(fabric)
    if isinstance(fabric, LeafSpine) and racks != fabric.leaves:
        yield _rack_sizes("hosts_per_leaf", racks, fabric.leaves, "leaves")
    elif isinstance(fabric, FatTree) and racks != fabric.edges:
        yield _rack_sizes("hosts_per_edge", racks, fabric.edges, "edge switches")
    elif addressed:
        for found, what in [
            (racks, "racks"),
            (max(fabric.racks), "hosts in a rack"),
            (len(fabric.names_above), "switches above the ToRs"),
        ]:
            if found > MOST_ADDRESSED:
                yield Finding(
                    ("fabric",),
                    f"found {found} {what}, wanted at most {MOST_ADDRESSED} with backend: packet or"
                    " emulate; make the fabric smaller, or write backend: simulate",
                )


def _circuits(fabric: Circuits) -> Iterator[Finding]:
    """Errors in the circuits: too many for a host's links, or jumps that do not form a ring of all
    hosts."""
    most = fabric.host_links // 2
    if len(fabric.circuits) > most:
        yield Finding(
            ("fabric", "circuits", most),
            f"found {len(fabric.circuits)} jumps, which take {2 * len(fabric.circuits)} links of a"
            f" host, wanted at most {fabric.host_links}, its host_links; leave out the last, or"
            " raise host_links",
        )
    for position, jump in enumerate(fabric.circuits):
        if not 0 < jump < fabric.hosts or gcd(jump, fabric.hosts) > 1:
            yield Finding(
                ("fabric", "circuits", position),
                f"found a jump of {jump}, wanted one from 1 to {fabric.hosts - 1} that is prime to"
                f" the {fabric.hosts} hosts, so that its circuits form one ring of all; write for"
                " example 1",
            )
    if sums(fabric):
        yield Finding(
            ("fabric", "ina"),
            f"found {fabric.ina}, wanted none: circuits have no switches, and hosts that forward do"
            " not aggregate; remove it",
        )


def _rack_sizes(field: str, found: int, wanted: int, what: str) -> Finding:
    return Finding(
        ("fabric", field),
        f"found {counted(found, 'number')}, wanted one for each of the {wanted} {what};"
        f" write {wanted} of them, or a single one for all",
    )


def packets(fabric: Fabric) -> Iterator[Finding]:
    """Links and switches must have room for packets: an MTU, a queue, and the program's slots."""
    if fabric.queue < fabric.mtu:
        yield Finding(
            ("fabric", "queue"),
            f"found {counted(fabric.queue, 'byte')}, wanted at least a packet, {fabric.mtu} bytes;"
            " write for example 256KB",
        )
    if fabric.slots > wire.SLOTS:
        yield Finding(
            ("fabric", "slots"),
            f"found {fabric.slots}, wanted at most {wire.SLOTS}, the compiled program's memory;"
            " lower it, or compile p4/ with a larger SLOTS",
        )
    needed = PACKET_HEADERS + 4 * fabric.values
    if fabric.mtu < needed:
        yield Finding(
            ("fabric", "mtu"),
            f"found an mtu of {fabric.mtu}, wanted at least {needed} for packets of {fabric.values}"
            f" values; write {'9000' if needed > 1500 else '1500'}, or lower fabric.values",
        )


def rates(fabric: Fabric) -> Iterator[Finding]:
    """A fabric must not give two rates if one follows from the other."""
    if isinstance(fabric, (Graph, Circuits)):
        return
    if fabric.fabric_rate is not None and fabric.oversubscription is not None:
        yield Finding(
            ("fabric", "oversubscription"),
            "found fabric_rate and oversubscription, wanted one of them, as each follows from"
            " the other; remove one",
            at_key=True,
        )


def names(fabric: Fabric) -> Iterator[Finding]:
    """Named nodes must exist and be connected. The fabric's shape must be valid."""
    switches = fabric.switch_names
    if isinstance(fabric.ina, tuple):
        for position, name in enumerate(fabric.ina):
            if name not in switches:
                yield Finding(("fabric", "ina", position), no_such(name, "switch", switches))
    elif isinstance(fabric.ina, int):
        candidates = fabric.tor_names if fabric.ina_tier == "tor" else switches
        if fabric.ina > len(candidates):
            what = "ToRs" if fabric.ina_tier == "tor" else "switches"
            yield Finding(
                ("fabric", "ina"),
                f"found {fabric.ina}, wanted at most {len(candidates)}, the number of {what};"
                " write fewer, or a fraction with a point (1.0)",
            )
    if isinstance(fabric.capacity, Mapping):
        for name in fabric.capacity:
            if name not in switches:
                place: Place = ("fabric", "capacity", name)
                yield Finding(place, no_such(name, "switch", switches), at_key=True)
    if isinstance(fabric, Graph):
        yield from _graph(fabric)


def _graph(fabric: Graph) -> Iterator[Finding]:
    """Errors in a graph's links: between unknown nodes, duplicate, or too few."""
    tor_of = fabric.tor_of
    for host, switch in tor_of.items():
        yield from _interface(("fabric", "switches", switch), host, switch)
    first: dict[frozenset[str], int] = {}
    neighbours: dict[str, list[str]] = {switch: [] for switch in fabric.switches}
    known = (*fabric.switches, *tor_of)
    for index, link in enumerate(fabric.links):
        place: Place = ("fabric", "links", index, "ends")
        one, other = link.ends
        hosts = [end for end in link.ends if end in tor_of]
        if unknown := [position for position in (0, 1) if link.ends[position] not in known]:
            for position in unknown:
                yield Finding((*place, position), no_such(link.ends[position], "node", known))
        elif first.setdefault(frozenset(link.ends), index) != index:
            yield Finding(
                place,
                f"found a second link between {one} and {other}, wanted one; remove it, or add its"
                " rate to the first one's",
            )
        elif hosts and tor_of[hosts[0]] not in link.ends:
            yield Finding(
                place,
                f'found a link of the host "{hosts[0]}", wanted only the one to its switch'
                f' "{tor_of[hosts[0]]}"; remove it',
            )
        elif not hosts:
            neighbours[one].append(other)
            neighbours[other].append(one)
            yield from _interface(place, one, other)
    reached = [next(iter(neighbours))]
    for switch in reached:
        reached += [other for other in dict.fromkeys(neighbours[switch]) if other not in reached]
    if apart := [switch for switch in neighbours if switch not in reached]:
        yield Finding(
            ("fabric", "links"),
            f"found no path from {reached[0]} to {listed(apart, most=8)}, wanted all switches"
            " connected; add a link",
        )


def _interface(place: Place, one: str, other: str) -> Iterator[Finding]:
    name = f"{one}-{other}"
    if len(name) > INTERFACE_LIMIT:
        yield Finding(
            place,
            f"found the interface name {name!r} between the two, wanted at most {INTERFACE_LIMIT}"
            " characters (Linux's limit); shorten a name",
        )

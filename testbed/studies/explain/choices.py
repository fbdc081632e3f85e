"""Where ECMP has a choice: switches with several equal next hops."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.topology.fabric import Fabric


def choices(fabric: Fabric) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each switch, with each set of equal next hops that it has."""
    for switch in fabric.switches:
        for hops in sorted({fabric.next_hops(switch, host) for host in fabric.hosts}):
            if len(hops) > 1:
                yield switch, hops

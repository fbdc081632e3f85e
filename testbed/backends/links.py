"""Links by the names that users give them: a single one such as h0-t0, all, or those of hosts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from testbed.topology.fabric import Fabric, Kind, Link

Shares: TypeAlias = Mapping[tuple[str, str], float]
"""A share of packets for some links; the keys are the ends of a link as in ``Fabric.links``."""


def ends(link: str, fabric: Fabric) -> tuple[str, str]:
    """The two nodes of the link with this name. Raises ValueError if there is no such link."""
    for each in fabric.links:
        if link in _names(each):
            return each.a, each.b
    example = fabric.links[0]
    raise ValueError(
        f"found no link {link!r} in {fabric.name}, wanted two neighbours such as "
        f"{example.a}-{example.b}"
    )


def shares(asked: float | Mapping[str, float], fabric: Fabric) -> Shares:
    """The links with a share above 0; ``asked`` is as in `testbed.experiment.fields.LinkShares`."""
    by_name = asked if isinstance(asked, Mapping) else {"hosts": asked}
    found = {}
    for link in fabric.links:
        is_hosts = Kind.HOST in (fabric.nodes[link.a].kind, fabric.nodes[link.b].kind)
        for name in (*_names(link), *(("hosts",) if is_hosts else ()), "all"):
            if name in by_name:
                found[link.a, link.b] = by_name[name]
                break
    return {link: share for link, share in found.items() if share}


def any_of(shares: Iterable[float | None]) -> float:
    """The share of packets that at least one of independent losses hits; likewise of copies."""
    some = [each for each in shares if each]
    return some[0] if len(some) == 1 else 1 - math.prod(1 - each for each in some)


def _names(link: Link) -> tuple[str, str]:
    return f"{link.a}-{link.b}", f"{link.b}-{link.a}"

"""The load of links, as rows of links.csv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from testbed.results import LinkLoad, Row
from testbed.topology.fabric import Fabric

MOST_LINKS = 5000
"""Larger fabrics get no rows: the table would be far larger than all others."""


def loads(
    row: Row, fabric: Fabric, carried: Mapping[tuple[str, str], float], seconds: float
) -> list[LinkLoad]:
    """A row for each direction of each link of ``fabric``, for the cell and repeat of ``row``.

    There are no rows if the fabric has more than ``MOST_LINKS``.

    ``carried`` has the bytes by (from, to), headers included; links that are not in it carried
    none. ``seconds`` is the time from the first start to the last end. Both are scaled; the time is
    not dilated.
    """
    if len(fabric.links) > MOST_LINKS:
        return []
    return [
        LinkLoad(
            cell=row.cell,
            repeat=row.repeat,
            source=source,
            target=target,
            source_kind=fabric.nodes[source].kind.value,
            target_kind=fabric.nodes[target].kind.value,
            rate_gbit_s=link.rate / 1e9,
            bytes=carried.get((source, target), 0.0) / row.scale,
            busy=8 * carried.get((source, target), 0.0) / (link.rate * seconds) if seconds else 0.0,
        )
        for link in fabric.links
        for source, target in ((link.a, link.b), (link.b, link.a))
    ]


def busiest_s(links: Sequence[LinkLoad]) -> float:
    """The longest time that any of ``links`` needs for its bytes (s); 0 if there are none."""
    return max((8 * link.bytes / (link.rate_gbit_s * 1e9) for link in links), default=0.0)

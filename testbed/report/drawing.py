"""The fabric of an experiment, in words and as a small drawing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WIDTH, _SPINE_Y, _TOR_Y, _HOST_Y = 640, 24, 84, 138
_MOST_HOSTS = 64


def words(fabric: Mapping[str, Any]) -> str:
    """One sentence; empty for a fabric of an unknown kind."""
    if fabric.get("kind") != "leaf-spine":
        return ""
    racks = _racks(fabric)
    hosts = f"{racks[0]} hosts each" if len(set(racks)) == 1 else f"{racks} hosts"
    uplink = fabric.get("fabric_rate")
    if uplink is None and fabric.get("oversubscription") is not None:
        uplink = f"oversubscribed {fabric['oversubscription']} to 1"
    return (
        f"Leaf-spine: {fabric['spines']} spines, {fabric['leaves']} ToRs with {hosts}; "
        f"host links {fabric['host_rate']}, links to the spines {uplink or fabric['host_rate']}, "
        f"queues of {fabric['queue']} a port; INA at: {_ina_words(fabric.get('ina'))}, "
        f"{fabric.get('slots')} aggregators a ToR."
    )


def svg(fabric: Mapping[str, Any]) -> str:
    """An SVG element, INA ToRs filled; empty where it would not be readable."""
    if fabric.get("kind") != "leaf-spine" or sum(_racks(fabric)) > _MOST_HOSTS:
        return ""
    racks, spines = _racks(fabric), int(fabric["spines"])
    ina = _ina(fabric, racks)
    spine_x = [_WIDTH * (i + 0.5) / spines for i in range(spines)]
    tor_x = [_WIDTH * (i + 0.5) / len(racks) for i in range(len(racks))]
    parts = [_line(x, _SPINE_Y, at, _TOR_Y) for x in spine_x for at in tor_x]
    boxes = [_box(x, _SPINE_Y, f"s{i}", "") for i, x in enumerate(spine_x)]
    host = 0
    for rack, (x, size) in enumerate(zip(tor_x, racks, strict=True)):
        step = min(26.0, _WIDTH / len(racks) / (size + 0.5))
        for i in range(size):
            at = x + (i - (size - 1) / 2) * step
            parts.append(_line(x, _TOR_Y, at, _HOST_Y))
            boxes.append(
                f'<circle cx="{at:.1f}" cy="{_HOST_Y}" r="4" class="host"/>'
                f'<text x="{at:.1f}" y="{_HOST_Y + 15}" class="small">h{host}</text>'
            )
            host += 1
        boxes.append(_box(x, _TOR_Y, f"t{rack}", "ina" if rack in ina else ""))
    body = "".join(parts + boxes)
    return (
        f'<svg class="fabric" viewBox="0 0 {_WIDTH} 162" role="img"'
        f' aria-label="fabric; filled ToRs aggregate">{body}</svg>'
    )


def _racks(fabric: Mapping[str, Any]) -> list[int]:
    hosts = fabric["hosts_per_leaf"]
    return [hosts] * int(fabric["leaves"]) if isinstance(hosts, int) else list(hosts)


def _ina(fabric: Mapping[str, Any], racks: list[int]) -> set[int]:
    wanted = fabric.get("ina", "all")
    if isinstance(wanted, list):
        return {int(name[1:]) for name in wanted}
    share = {"all": 1.0, "none": 0.0}.get(str(wanted))
    share = float(wanted) if share is None else share
    fullest = sorted(range(len(racks)), key=lambda rack: -racks[rack])
    return set(fullest[: int(share * len(racks) + 0.5)])


def _ina_words(wanted: Any) -> str:
    if isinstance(wanted, list):
        return ", ".join(wanted)
    if isinstance(wanted, float):
        return f"{wanted:.0%} of the ToRs"
    return f"{wanted} ToRs"


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1}" x2="{x2:.1f}" y2="{y2}"/>'


def _box(x: float, y: float, name: str, kind: str) -> str:
    return (
        f'<rect x="{x - 18:.1f}" y="{y - 11}" width="36" height="22" rx="4" class="{kind}"/>'
        f'<text x="{x:.1f}" y="{y + 4}" class="{kind}">{name}</text>'
    )

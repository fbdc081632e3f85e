"""The fabric of an experiment, as text and as a drawing with its INA switches and loads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from testbed.experiment.findings import counted
from testbed.report import canvas, names

Place = tuple[float, float]

INA_COLOUR = "#b8322a"
_LOADS = ((0.95, "#d0252b"), (0.6, "#f08a3c"), (0.3, "#c9a227"), (0.0, "#9aa5b1"))
"""The lowest busy share of a link for each colour."""
_TIERS = {"host": 0.0, "tor": 1.0, "aggregation": 2.0, "spine": 2.0, "core": 3.0}
_MOST_HOSTS, _MOST_NAMES = 64, 40


@dataclass(frozen=True)
class Picture:
    """A fabric to draw: nodes with their kinds in order, links, and the switches that aggregate."""

    name: str
    kinds: Mapping[str, str]
    links: tuple[tuple[str, str], ...]
    ina: frozenset[str]


@dataclass(frozen=True)
class Load:
    """How busy links were with a system: the busy share of each, in its busier direction."""

    title: str
    system: str
    links: Mapping[frozenset[str], float]


def words(fabric: Mapping[str, Any], swept: bool = False) -> str:
    """An experiment's fabric in one sentence; empty if its kind is unknown.

    ``swept``: whether its field ``ina`` is.
    """
    kind = fabric.get("kind")
    if kind == "leaf-spine":
        shape = (
            f"Leaf-spine: {counted(fabric.get('spines', 0), 'spine')}, "
            f"{counted(fabric.get('leaves', 0), 'ToR')} with "
            f"{_hosts(fabric.get('hosts_per_leaf'))}"
        )
    elif kind == "fat-tree":
        k = int(fabric.get("k", 0))
        shape = (
            f"Fat-tree of {k} pods: {k * k // 2} ToRs with "
            f"{_hosts(fabric.get('hosts_per_edge') or k // 2)}, {k * k // 2} aggregation and "
            f"{k * k // 4} core switches"
        )
    elif kind == "graph":
        switches = fabric.get("switches", {})
        shape = f"A graph of {len(switches)} switches and {sum(map(len, switches.values()))} hosts"
    elif kind == "circuits":
        shape = f"Circuits: {fabric.get('hosts')} hosts with {fabric.get('host_links')} links each"
    else:
        return ""
    parts = [shape, f"host links {fabric.get('host_rate')}"]
    if kind == "graph":
        links = (f"{'–'.join(each['ends'])} {each['rate']}" for each in fabric.get("links", ()))
        parts.append(", ".join(links) or "no other links")
    elif kind == "circuits":
        chosen = ", ".join(map(str, fabric.get("circuits", ())))
        parts.append(f"jumps of {chosen}" if chosen else "jumps chosen for all-reduce")
    elif fabric.get("oversubscription") is not None:
        parts.append(f"uplinks oversubscribed {fabric['oversubscription']} to 1")
    else:
        rate = fabric.get("fabric_rate") or fabric.get("host_rate")
        parts.append(f"links between switches {rate}")
    parts.append(f"queues of {fabric.get('queue')} a port")
    place = "where the sweep says" if swept else f"at {_ina(fabric)}"
    parts.append(f"INA {place}, {fabric.get('slots')} aggregators a switch")
    if fabric.get("capacity"):
        parts.append(f"a switch aggregates at most {fabric['capacity']}")
    if fabric.get("step_latency") not in (None, "0s"):
        parts.append(f"each dependent step costs a host {fabric['step_latency']}")
    return "; ".join(parts) + "."


def _hosts(racks: Any) -> str:
    if isinstance(racks, list):
        return f"{', '.join(map(str, racks))} hosts"
    return f"{racks} hosts each"


def _ina(fabric: Mapping[str, Any]) -> str:
    wanted = fabric.get("ina")
    if isinstance(wanted, list):
        return ", ".join(wanted)
    if wanted == "none":
        return "no switch"
    nodes = "ToRs" if fabric.get("ina_tier", "tor") == "tor" else "switches"
    share = f"{wanted:.0%} of the" if isinstance(wanted, float) else f"{wanted}"
    policy = "" if isinstance(wanted, str) else f" ({fabric.get('ina_policy', 'fullest')})"
    return f"{share} {nodes}{policy}"


def _number_of_hosts() -> Line2D:
    with plt.rc_context({"text.parse_math": True}):  # a letter as a marker is a formula
        return Line2D([], [], marker="$n$", linestyle="", color="black", label="number of hosts")


def drawn(picture: Picture, loads: Sequence[Load], facets: Mapping[str, str]) -> Figure:
    """A panel for each of ``loads``, or one panel if there are none. INA switches are filled.

    ``facets`` are common to all panels (`canvas.facets`).
    """
    places, hosts = _places(picture)
    known = [each for each in loads if each.links][: canvas.MOST_PANELS if len(places) < 150 else 4]
    layers = len({place[1] for place in places.values()})
    height = 0.5 + 0.4 * layers if not _is_flat(picture) else 2.2
    legend: list[Line2D] = [
        Line2D([], [], marker="s", linestyle="", color=INA_COLOUR, label="switch with INA"),
        Line2D([], [], marker="s", linestyle="", color="black", mfc="white", label="switch"),
        _number_of_hosts()
        if hosts
        else Line2D([], [], marker="o", linestyle="", color="#808080", markersize=3, label="host"),
    ]
    if known:
        legend += [
            Line2D(
                [], [], color=colour, linewidth=_width(least), label=f"at least {least:.0%} busy"
            )
            for least, colour in reversed(_LOADS)
        ]
    titles = [load.title for load in known] or [names.fabric(picture.name)]
    titles = [canvas.in_lines(title) for title in titles]
    figure, all_axes = canvas.panels(
        titles, height=height, below=0.2 if hosts else 0.05, left=0.1, legend=legend,
        wide=len(places) > 60 or len(hosts) > 16, facets=[facets] * len(titles),
    )  # fmt: skip
    for axes, load in zip(all_axes, known or [Load("", "", {})], strict=True):
        _fabric(axes, picture, places, hosts, load)
    return figure


def _colour(share: float) -> str:
    return next((colour for least, colour in _LOADS if share >= least), _LOADS[-1][1])


def _width(share: float) -> float:
    return 0.8 + 2.4 * min(share, 1)


def _fabric(
    axes: Axes,
    picture: Picture,
    places: Mapping[str, Place],
    hosts: Mapping[str, int],
    load: Load,
) -> None:
    ends = [link for link in picture.links if link[0] in places and link[1] in places]
    by_colour: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for link in ends:
        by_colour[_colour(load.links.get(frozenset(link), 0.0))].append(link)
    for colour, links in by_colour.items():
        shares = [load.links.get(frozenset(link), 0.0) for link in links]
        lines = LineCollection(
            [[places[a], places[b]] for a, b in links],
            colors=colour,
            linewidths=[_width(share) for share in shares] if load.links else 0.7,
            zorder=1,
        )
        axes.add_collection(lines)
        if load.links:
            busiest = max(range(len(links)), key=shares.__getitem__)
            text = f"{counted(len(links), 'link')}, the busiest {'–'.join(links[busiest])}"
            canvas.note(
                lines,
                "mark",
                words=f"{load.title.splitlines()[0]}: {text} {shares[busiest]:.0%} busy",
            )
    many = len(places) > _MOST_NAMES * 2
    for kind in _TIERS:
        own = [name for name, its in picture.kinds.items() if its == kind and name in places]
        if not own:
            continue
        aggregate = [name in picture.ina for name in own]
        axes.scatter(
            [places[name][0] for name in own],
            [places[name][1] for name in own],
            s=8 if kind == "host" else 14 if many else 90,
            marker="o" if kind == "host" else "s",
            c=[
                INA_COLOUR if ina else "#808080" if kind == "host" else "white" for ina in aggregate
            ],
            edgecolors=[
                INA_COLOUR if ina else "#808080" if kind == "host" else "black" for ina in aggregate
            ],
            linewidths=0.7,
            zorder=2,
        )
        if kind == "host" or many:
            continue
        for name, ina in zip(own, aggregate, strict=True):
            axes.annotate(
                name, places[name], ha="center", va="center", fontsize=5,
                color="white" if ina else "black", zorder=3,
            )  # fmt: skip
            if name in hosts:
                # The names of a rack's neighbours leave no space for more than the number.
                axes.annotate(
                    str(hosts[name]), places[name], (0, -9), textcoords="offset points",
                    ha="center", va="top", fontsize=5,
                )  # fmt: skip
    axes.margins(0.04, 0.12)
    axes.autoscale_view()
    axes.set_axis_off()


def _places(picture: Picture) -> tuple[dict[str, Place], dict[str, int]]:
    """The place of each node, and the number of hosts of each ToR that has too many to draw."""
    racks: dict[str, list[str]] = defaultdict(list)
    for a, b in picture.links:
        for host, switch in ((a, b), (b, a)):
            if picture.kinds[host] == "host":
                racks[switch].append(host)
    total = sum(map(len, racks.values()))
    if _is_flat(picture):
        return _around(picture, racks), {}
    places: dict[str, Place] = {}
    tiers: dict[float, list[str]] = defaultdict(list)
    for name, kind in picture.kinds.items():
        tiers[_TIERS[kind]].append(name)
    hosts = {}
    if total > _MOST_HOSTS:
        hosts = {tor: len(own) for tor, own in racks.items()}
        del tiers[0.0]
    else:
        at = 0.0
        for tor in tiers[1.0]:
            for host in racks[tor]:
                places[host] = (at, 0.3)
                at += 1
            at += 1
        width = max(at - 2, 1.0)
        places = {name: (x / width, y) for name, (x, y) in places.items()}
    for tier, own in tiers.items():
        for index, name in enumerate(own):
            if tier == 0:
                continue
            below = [places[host][0] for host in racks[name] if host in places]
            x = sum(below) / len(below) if below else (index + 0.5) / len(own)
            places[name] = (x, tier)
    return places, hosts


def _is_flat(picture: Picture) -> bool:
    """Whether switches of one tier are linked, so that tiers would hide links."""
    return any(
        picture.kinds[a] == picture.kinds[b] != "host" for a, b in picture.links
    )  # fmt: skip


def _around(picture: Picture, racks: Mapping[str, list[str]]) -> dict[str, Place]:
    """Switches on a circle, and the hosts of each outside it."""
    switches = [name for name, kind in picture.kinds.items() if kind != "host"]
    places: dict[str, Place] = {}
    for index, switch in enumerate(switches):
        angle = pi / 2 - 2 * pi * index / len(switches)
        places[switch] = (cos(angle), 0.8 * sin(angle))
        own = racks.get(switch, [])
        step = min(0.35, 2 * pi / len(switches) / max(len(own), 1))
        for place, host in enumerate(own):
            turned = angle + (place - (len(own) - 1) / 2) * step
            places[host] = (1.5 * cos(turned), 1.2 * sin(turned))
    return places

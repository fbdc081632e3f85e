"""What changes the answer: the fastest systems at each value of one factor.

It needs the run of an experiment whose sweep varies one field besides systems and the place of INA.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from testbed import run_tables
from testbed.report import again, canvas, data, names, runs, template
from testbed.report.differences import Record
from testbed.report.ranking import Ranking, fastest, ranked
from testbed.report.system_style import Styles, ordered, series_styles, style_of
from testbed.report.tables import Table, number

_USUAL = re.compile(
    r"jobs\.\d+\.(system|options|servers|workload)|fabric\.ina|backend|emulation\.target"
)
_MOST = 3.0
"""Times are drawn up to this multiple of the fastest system's time."""


def varied(experiment: Mapping[str, Any]) -> list[str]:
    """The paths that a sweep varies, except systems, their options, workloads and INA."""
    return [path for path in runs.swept(experiment) if not _USUAL.fullmatch(path)]


@dataclass(frozen=True)
class Study:
    """A factor, and the ranking at each of its values and places of INA, in that order.

    Attributes:
        factor: its name, such as ``loss``.
        scale: that of all cells as text; empty if it is the factor, or 1.
        rankings: ``place`` has ``value`` and ``ina`` as text.
        missing: the systems without a valid row, by value and place.
    """

    name: str
    description: str
    factor: str
    scale: str
    rankings: Sequence[Ranking]
    missing: Mapping[tuple[str, str], Sequence[str]]

    @property
    def places(self) -> list[str]:
        return list(dict.fromkeys(ranking.place["ina"] for ranking in self.rankings))

    def at(self, ina: str) -> list[Ranking]:
        """The rankings at a place of INA, by value."""
        return [ranking for ranking in self.rankings if ranking.place["ina"] == ina]


def study(run: Path, styles: Styles) -> Study:
    """Read the run of an experiment that varies one path.

    A cell's time is that of its last job. Systems that do not aggregate in the network count at
    every place of INA. Those whose workers do not wait for one another are left out. Raises
    ValueError if the experiment varies no path, or several, and Unreadable if a system has several
    cells at a value.
    """
    about = runs.read(run)
    (path,) = varied(about.experiment)
    texts = {json.dumps(value): text(value) for value in runs.swept(about.experiment)[path]}
    rows = run_tables.read([run]).results
    rows = rows[rows["system"].map(lambda name: style_of(name, styles).waits).astype(bool)]
    given = [json.loads(each) for each in rows["settings"]]
    if not all(path in each for each in given):
        raise run_tables.Unreadable(f"{run}: found rows without a value of {path}, which it varies")
    rows = rows.assign(
        value=[texts[json.dumps(each[path])] for each in given],
        ina=rows["ina_tors"].astype(int).astype(str) + "/" + rows["tors"].astype(str) + " ToRs",
        valid=data.is_valid(rows),
    )
    keys = ["value", "ina", "system", "repeat"]
    rows = again.once(rows, keys)
    if len(rows) and rows.groupby(keys)["cell"].nunique().max() > 1:
        raise run_tables.Unreadable(
            f"{run}: found several workloads or options of a system, wanted only one where"
            f" {path} varies"
        )
    cells = rows.groupby(keys).agg(
        jct_s=("jct_s", "max"), valid=("valid", "all"), plan=("plan", lambda own: tuple(own)),
        backend=("backend", "first"),
    ).reset_index()  # fmt: skip
    places = rows.sort_values("ina_tors")["ina"].drop_duplicates()
    found, missing = [], {}
    for value in texts.values():
        for ina in places:
            own = data.at_place(cells[cells["valid"] & (cells["value"] == value)], ina, styles)
            known: list[Record] = [
                {
                    "system": system, "variant": "", "jct_s": part["jct_s"].mean(),
                    "times": part["jct_s"].to_numpy(float),
                    "plans": tuple(sorted(own for own in {*part["plan"]} if all(own))),
                    "backend": part["backend"].iloc[0],
                }
                for system, part in own.groupby("system")
            ]  # fmt: skip
            present = {row["system"] for row in known}
            lacking = [name for name in rows["system"].unique() if name not in present]
            missing[value, ina] = ordered(lacking, styles)
            found.append(({"value": value, "ina": ina}, known))
    factor = names.settings(path.rpartition(".")[2])
    scales = {*rows["scale"]}
    return Study(
        name=str(about.experiment["name"]),
        description=about.description,
        factor=factor,
        scale=template.fraction(scales.pop()) if len(scales) == 1 and scales != {1} else "",
        rankings=ranked(found, styles),
        missing=missing,
    )


def text(value: Any) -> str:
    """A swept value as text."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def leaders(ranking: Ranking) -> list[str]:
    """The fastest system, and those that tie with it."""
    return [str(row["system"]) for row in ranking.leaders]


def flips(study: Study, styles: Styles) -> list[str]:
    """A sentence for each place of INA: between which values no leader remains one.

    Where one system alone leads at every value, it also says so of the others. Values without a
    valid row are named.
    """
    of_all = {ina: _flips(study.at(ina), styles) for ina in study.places}
    rest = {
        ina: [
            (ranking.place, [row for row in _all(ranking) if row["system"] not in always])
            for ranking in study.at(ina)
        ]
        for ina, (_, always) in of_all.items()
        if len(always) == 1
    }
    compared = [ina for ina, groups in rest.items() if all(len(rows) > 1 for _, rows in groups)]
    others = ranked([group for ina in compared for group in rest[ina]], styles)
    found = []
    for ina, (said, always) in of_all.items():
        if ina in compared:
            own = [ranking for ranking in others if ranking.place["ina"] == ina]
            said += f"; without {style_of(always[0], styles).title}, {_flips(own, styles)[0]}"
        known = {ranking.place["value"] for ranking in study.at(ina)}
        lacking = [value for value, at in study.missing if at == ina and value not in known]
        said += f"; no system has a valid row at {', '.join(lacking)}" * bool(lacking)
        found.append(f"INA at {ina}: {said}.")
    return found


def _flips(own: Sequence[Ranking], styles: Styles) -> tuple[str, list[str]]:
    """Where the answer changes as text, and the systems that lead at every value. A system that is
    only perhaps the fastest at some value shows no change, but does not rule one out."""

    def title(row: Record) -> str:
        return style_of(str(row["system"]), styles).title

    changes = [
        f"between {before.place['value']} and {after.place['value']}, from"
        f" {fastest(before, title)}{',' * bool(before.unclear)} to {fastest(after, title)}"
        for before, after in pairwise(own)
        if not {*leaders(before)} & {*leaders(after)}
    ]
    always = [row for row in own[0].leaders if all(row["system"] in leaders(each) for each in own)]
    names = [str(row["system"]) for row in always]
    if changes:
        return f"it changes {'; '.join(changes)}", names
    if not always:
        return "it changes gradually, through ties; no system leads at every value", names
    first = [{row["system"] for row in each.first} for each in own]
    if certain := [row for row in always if all(row["system"] in each for each in first)]:
        verb = "are" if len(certain) > 1 else "is"
        said = f"it does not change: {', '.join(map(title, certain))} {verb} among the fastest"
    else:
        verb = "are, or may be," if len(always) > 1 else "is, or may be,"
        said = f"no test shows a change: {', '.join(map(title, always))} {verb} among the fastest"
    return f"{said} at every value", names


def table(study: Study, styles: Styles) -> Table:
    """The fastest system at each value and place, and its lead."""
    columns = [study.factor, "INA", "fastest", "JCT (s)", "next", "times as fast", "how sure"]
    rows = []
    for ranking in study.rankings:
        lead = ranking.next
        place = ranking.place["value"], ranking.place["ina"]
        rows.append([
            *place, fastest(ranking, lambda row: style_of(row["system"], styles).title),
            number(ranking.best["jct_s"]),
            style_of(lead.slower["system"], styles).title if lead else "",
            number(lead.ratio) if lead else "", lead.sure if lead else "",
            ", ".join(style_of(name, styles).title for name in study.missing[place]),
        ])  # fmt: skip
    if any(row[-1] for row in rows):
        return [*columns, "without a valid row"], rows
    return columns, [row[:-1] for row in rows]


def drawn(study: Study, styles: Styles) -> Figure:
    """JCT relative to the fastest system at each value: a line for each system, a panel for each
    place of INA. Lines are cut at the limit."""
    systems = ordered(
        [str(row["system"]) for ranking in study.rankings for row in _all(ranking)], styles
    )
    titles = [f"INA at {ina}" for ina in study.places]
    known = series_styles([(name, "") for name in systems], styles)
    series = {name: style for (name, _), style in known.items()}
    legend = [canvas.line(series[name]) for name in systems]
    times = [
        row["jct_s"] / ranking.best["jct_s"] for ranking in study.rankings for row in _all(ranking)
    ]
    most = min(_MOST, 1.05 * max(times, default=1.0))
    figure, all_axes = canvas.panels(titles, legend=legend, height=1.9, left=0.5)
    for axes, ina in zip(all_axes, study.places, strict=True):
        own, beyond = study.at(ina), []
        for order, name in enumerate(systems):
            style = series[name]
            shift = 0.05 * (order - (len(systems) - 1) / 2)  # no marker hides another
            points = [
                (at + shift, row["jct_s"] / ranking.best["jct_s"])
                for at, ranking in enumerate(own)
                for row in _all(ranking)
                if row["system"] == name
            ]
            if points:
                (line,) = axes.plot(
                    *zip(*points, strict=True), color=style.colour, marker=style.marker,
                    linestyle=style.line,
                )  # fmt: skip
                canvas.note(line, "mark", system=name, words=style.title)
                if (least := min(height for _, height in points)) > most:
                    beyond.append(f"{style.title} from {least:.1f}")
        axes.set_xticks(range(len(own)), [ranking.place["value"] for ranking in own])
        axes.set_ylim(0.95, most)
        if beyond:
            text = f"above: {', '.join(beyond)}"
            axes.text(0.98, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=6)
        axes.set_xlabel(study.factor, labelpad=1)
        axes.set_ylabel("JCT, in multiples of the fastest's")
    return figure


def _all(ranking: Ranking) -> list[Record]:
    return [ranking.best, *(each.slower for each in ranking.behind)]

"""A summary of the evaluation: which system is best where, what changes the answer, and its
limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from testbed.replaced import replacing
from testbed.report import (
    canvas,
    data,
    factors,
    figures,
    mininet,
    runs,
    sensitivity,
    template,
)
from testbed.report.backends import FLOOR
from testbed.report.brief import brief, setting
from testbed.report.differences import agree
from testbed.report.evaluated import evaluated
from testbed.report.names import fabric, settings
from testbed.report.ranking import Ranking, fastest, rankings
from testbed.report.settings import PLACE, SERIES, SETTING
from testbed.report.system_style import Series, Styles
from testbed.report.tables import Table, interval, md, number
from testbed.workload.catalogue import title

WINNERS = "winners.md"
BRIEF = "brief.md"
FIGURE = "jct-ina"
_FAR = 0.1
"""A mean needs an explanation if it is above the closed form by more than this share."""


@dataclass(frozen=True)
class Parts:
    """The directories of runs, by their purpose.

    Attributes:
        matrix: fabrics, workloads and places of INA vary; all runs if there are no such runs.
        factors: a single field varies (`factors.varied`).
        emulated: runs in Mininet that also ran in packets in virtual time.
        targets: the target of P4 switches varies.
        sensitivity: dilations and scales vary.
    """

    matrix: Sequence[Path]
    factors: Sequence[Path]
    emulated: Sequence[Path]
    targets: Sequence[Path]
    sensitivity: Sequence[Path]


def parted(run_dirs: Sequence[Path]) -> Parts:
    """Sort ``run_dirs`` by their experiments."""
    found: dict[str, list[Path]] = {part.name: [] for part in fields(Parts)}
    for run in run_dirs:
        experiment = runs.read(run).experiment
        varied = factors.varied(experiment)
        product = (experiment.get("sweep") or {}).get("product", {})
        backends = product.get("backend", [])
        if "emulation.target" in product:
            found["targets"].append(run)
        elif "emulation.dilation" in varied:
            found["sensitivity"].append(run)
        elif len(varied) == 1:
            found["factors"].append(run)
        elif "emulate" in [*backends, experiment.get("backend")]:
            found["emulated"].append(run)
        else:
            found["matrix"].append(run)
    if not found["matrix"]:
        return Parts([*run_dirs], [], [], [], [])
    return Parts(**found)


def write(run_dirs: Sequence[Path], out: Path, styles: Styles, claims: bool) -> Path:
    """Write ``README.md`` next to a report in ``out``, its first table alone as ``brief.md``, and
    the table with a row for each place of INA as ``winners.md``.

    ``claims`` says whether the folder also has a page on claims. Raises FileNotFoundError if a
    directory holds no results.
    """
    parts = parted(run_dirs)
    found = evaluated(parts.matrix, styles)
    rows = found.rows
    table = winners(found.rankings, found.titles)
    short = brief(found.rankings, found.titles)
    first = often_first(found.rankings)
    others = rankings(found.means[found.means["system"] != first], styles) if first else []
    beside = {run: runs.read(run) for run in run_dirs if run not in parts.matrix}
    about = [*found.about.values(), *beside.values()]
    several = found.means[found.means["used_rows"] > 1]
    context: dict[str, Any] = {
        "brief": short,
        "titles": {*found.titles.values()},
        "above": above(found.means, found.rows, found.titles),
        "table": table,
        "first": styles[first].title if first else "",
        "others": winners(others, found.titles),
        "others_brief": brief(others, found.titles),
        "runs": about,
        "machines": len({run.machine for run in about}),
        "figure": (out / "figures" / f"{FIGURE}.svg").exists(),
        "figure_name": FIGURE,
        "claims": claims,
        "valid": int(data.is_valid(rows).sum()),
        "total": len(rows),
        "most_workers": int(rows["workers"].max()),
        "repeats": sorted(set(found.means["used_rows"].astype(int))),
        "same": int(several["times"].map(agree).sum()),
        "several": len(several),
        "dilations": sorted({f"{value:g}" for value in rows["dilation"]}),
        "scales": [template.fraction(value) for value in sorted({*rows["scale"]}, reverse=True)],
        "workloads": [title(each) for each in sorted(set(rows["workload"]))],
        "floors": {each: FLOOR[each] for each in sorted(set(rows["backend"]))},
        "factors": [_factor(run, out, styles) for run in parts.factors],
        "emulated": mininet.against_packets(parts.emulated, styles) if parts.emulated else None,
        "targets": mininet.bmv2_against_native(parts.targets, styles) if parts.targets else None,
        "sensitivity": sensitivity.table(parts.sensitivity, styles) if parts.sensitivity else None,
        "sensitivity_runs": [beside[run] for run in parts.sensitivity],
        "markdown": markdown,
    }
    environment = template.environment()
    page = out / "README.md"
    text = environment.get_template("answer.md.j2").render(context)
    for path, content in (
        (page, text),
        (out / WINNERS, markdown(table)),
        (out / BRIEF, markdown(short)),
    ):
        with replacing(path) as made:
            made.write_text(content)
    return page


def above(means: pd.DataFrame, rows: pd.DataFrame, titles: Mapping[Series, str]) -> Table:
    """The means in packets that are far above the closed form over the same paths, and what the
    notes of their rows say."""
    columns = ["fabric", "workload", "INA", "system", "JCT (s)", "closed form (s)", "times as long"]
    columns += ["retransmitted", "seen"]
    far = means[(means["backend"] == "packet") & (means["routed_error"] > _FAR)]
    found = []
    for row in far.to_dict("records"):
        where = fabric(row["fabric"]), settings(row["conditions"])
        own = rows[[*SETTING, *PLACE, *SERIES]].eq(pd.Series(row)[[*SETTING, *PLACE, *SERIES]])
        notes = rows.loc[own.all(axis=1), "notes"].dropna()
        found.append(
            [
                ", ".join(filter(None, where)),
                title(row["workload"]),
                row["ina"],
                titles[row["system"], row["variant"]],
                number(row["jct_s"]),
                number(row["routed_jct_s"]),
                number(1 + row["routed_error"]),
                f"{row['retransmitted']:.0f}",
                next(iter(notes), ""),
            ]
        )
    return columns, found


def often_first(found: Sequence[Ranking]) -> str:
    """The system that alone is fastest in most settings, if that is a third of them; else empty."""
    alone = Counter(str(each.best["system"]) for each in found if each.next and not each.tied)
    for name, count in alone.most_common(1):
        if 3 * count >= len(found):
            return name
    return ""


def _factor(run: Path, out: Path, styles: Styles) -> dict[str, Any]:
    """The study of a factor, for the page; its figure is written into ``out``."""
    study = factors.study(run, styles)
    with canvas.paper():
        figure = {study.name: factors.drawn(study, styles)}
        figures.publish(figure, out / "figures", {study.name: study.description})
    return {"study": study, "table": factors.table(study, styles)} | {
        "flips": factors.flips(study, styles)
    }


def winners(rankings: Sequence[Ranking], titles: Mapping[Series, str]) -> Table:
    """The fastest systems in each setting and place of INA, and their lead."""
    columns = ["fabric", "workload", "INA", "fastest", "JCT (s)", "95 % interval", "next"]
    columns += ["times as fast", "95 % interval", "how sure"]
    found = []
    for ranking in rankings:
        best, place = ranking.best, ranking.place
        named = fastest(ranking, lambda row: titles[row["system"], row["variant"]])
        row = [*setting(ranking), place["ina"], named]
        row += [number(best["jct_s"]), interval(best["jct_low"], best["jct_high"])]
        if lead := ranking.next:
            row += [titles[lead.slower["system"], lead.slower["variant"]], number(lead.ratio)]
            row += [interval(*lead.interval), lead.sure]
        found.append([*row, *[""] * (len(columns) - len(row))])
    return columns, found


def markdown(table: Table) -> str:
    """A table in Markdown."""
    columns, rows = table
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(map(md, line)) + " |\n" for line in lines)

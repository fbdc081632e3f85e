"""The report: one self-contained HTML file, and a short version in Markdown."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from testbed import results, run_tables
from testbed.experiment.findings import counted
from testbed.replaced import replacing
from testbed.report import (
    buckets,
    canvas,
    data,
    figures,
    gradients,
    links,
    matrix,
    names,
    parts,
    ranking,
    tables,
    template,
    training,
    vector,
)
from testbed.report.backends import FLOOR, SIMULATED
from testbed.report.evaluated import Evaluated, Pictured, evaluated
from testbed.report.system_style import Styles, ordered, style_of
from testbed.workload.catalogue import title

_CAPTIONS = {
    "training": (
        "What jobs learned",
        "Over the real cluster's time, and over iterations: the mean of all repeats, with a band "
        "from the lowest to the highest. Grey: the target.",
    ),
    "jct": (
        "Job completion time",
        "Where the most ToRs aggregate. A broad line is the 95 % bootstrap interval of the mean; "
        "strokes are single repeats where there are five or fewer.",
    ),
    "speed-up": (
        "Speed-up over {reference}",
        "The ratio of mean JCTs in the same setting. A broad line is its 95 % bootstrap interval.",
    ),
    "throughput-ina": (
        "Throughput against the share of INA",
        "Training throughput of all workers together. Dotted: systems that do not aggregate in the "
        "network. Markers that would hide one another are drawn side by side.",
    ),
    "jct-ina": (
        "Job completion time against the share of INA",
        "The number of ToRs that aggregate, and their share. Dotted: systems that do not aggregate "
        "in the network. Whiskers are 95 % bootstrap intervals; markers that would hide one "
        "another are drawn side by side.",
    ),
    "swept": (
        "Job completion time against a swept field",
        "Whiskers are 95 % bootstrap intervals of the mean. Dotted: systems that do not aggregate "
        "in the network. Points of one value are side by side.",
    ),
    "exposed": (
        "Communication that compute does not hide",
        "A mean iteration, in multiples of its compute. Grey: compute, with the communication that "
        "it hides. ▸: the bar is cut; its value is the number.",
    ),
    "iterations": (
        "Lengths of iterations",
        "CDF over all workers' measured iterations: the share of iterations that took no longer. "
        "Dotted: systems that do not aggregate in the network. Pale: no row is valid.",
    ),
    "timeline": (
        "Workers in one iteration",
        "Every worker in one measured iteration. Communication after compute is exposed, unless "
        "forward passes wait only for the sums they need. Then the next iteration starts at once, "
        "overlaps with communication, and stalls where a sum is missing. Workers that do not wait "
        "for one another are cut off at the others' slowest iteration.",
    ),
    "closed-form": (
        "Measured against the closed form",
        "A dot for each setting: measured JCT over that of the closed form. The number is the "
        "median; the band is 10 % either way.",
    ),
    "links": (
        "Busy links",
        "Busy share of the links of each layer in percent, in each direction: mean of all links | "
        "the busiest link, which also sets the colour.",
    ),
    "jobs": (
        "Several jobs at once",
        "Jobs that run at the same time. A system that is fast beside others may slow these down.",
    ),
    "buckets": (
        "Buckets in one iteration",
        "One recorded cell: for each rank its compute, and below it a line for each "
        "bucket from when it was ready until its sum had arrived. At most four ranks are shown; "
        "the file for Perfetto has all ranks, links and switches.",
    ),
    "fabric": ("The fabric", "How busy its links are, where that was recorded."),
}
_SHORT = 40
"""The most rows in a table of the Markdown report."""
_WRITTEN = 100
"""The most rows of a table that is written as HTML. Larger tables are data for the page's
script."""
_FILES = (
    results.RESULTS, results.ITERATIONS, results.LINKS, results.TRAINING, results.METADATA,
    results.EXPERIMENT,
)  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """A figure on the page; ``files`` are links to it in other forms, as (title, address)."""

    name: str
    heading: str
    caption: str
    panels: Sequence[vector.Panel]
    legend: Sequence[tuple[str, str]]
    is_wide: bool
    files: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Source:
    """Where readers of the page find a run.

    Attributes:
        title: the title of its directory.
        address: the address of its directory, relative to the page.
        files: the tables and descriptions in the directory.
        command: the beginning of a command that runs cells again; empty if the experiment is
            missing.
        logs: the files in each cell's logs, for cells that have any.
    """

    title: str
    address: str
    files: Sequence[str]
    command: str
    logs: Mapping[str, Sequence[str]]


def build(
    run_dirs: Sequence[Path],
    out: Path,
    styles: Styles,
    pictured: Pictured | None = None,
    kept: Mapping[Path, Path] | None = None,
) -> Path:
    """Write ``report.html``, ``report.md``, ``summary.csv`` and ``figures/`` into ``out``.

    ``kept`` maps directories of runs that will not be kept to those to which the page links
    instead. Returns the path of the page. Raises FileNotFoundError if a directory holds no results.
    """
    found = evaluated(run_dirs, styles)
    rows, good, titles = found.rows, data.is_valid(found.rows), found.titles
    out.mkdir(parents=True, exist_ok=True)
    reference = [style_of(name, styles).title for name in found.references]
    recorded = buckets.recorded(rows)
    with canvas.paper():
        drawn = figures.draw(found, found.pictures(pictured) if pictured else [], recorded)
        words = {name: _words(name, reference) for name in drawn}
        wide = {name for name in drawn if canvas.is_wide(drawn[name])}
        alternatives = {name: f"{heading}. {caption}" for name, (heading, caption) in words.items()}
        vectors = figures.publish(drawn, out / "figures", alternatives)
    with replacing(out / "summary.csv") as made:
        found.means.drop(columns=["plans", "times", "order"]).to_csv(made, index=False)

    sources = {run: _source(Path(run), out, kept or {}) for run in found.about}
    more = {
        f"buckets-{number}": [("Perfetto", _address(each.path, out))]
        for number, each in enumerate(recorded, 1)
        if not kept
    }
    beside = data.beside(found.means)
    shares, lines = matrix.matrix(found.rankings, found.series)
    context = {
        "name": ", ".join(dict.fromkeys(rows["experiment"])),
        "headlines": ranking.headlines(found.rankings, titles, rows),
        "shares": shares,
        "lines": lines,
        "facets": _facets(found),
        "warnings": [*_replaced(found.replaced), *data.warnings(found.means)],
        "figures": [
            Shown(
                name,
                *words[name],
                vectors[name].panels,
                vectors[name].legend,
                name in wide,
                [(end.upper(), f"figures/{name}.{end}") for end in ("pdf", "svg")]
                + more.get(name, []),
            )
            for name in drawn
        ],
        "variables": vector.variables(
            {style.colour for style in found.series.values()}.union(
                *(each.colours for each in vectors.values())
            )
        ),
        "summary": tables.summary(found.means, titles),
        "speed_ups": tables.speed_ups(found.ratios, found.references, titles),
        "errors": tables.errors(data.errors(found.means), titles),
        "beside": tables.beside(beside, titles),
        "differences": beside.loc[beside["is_valid"], "difference"].abs(),
        "jobs": tables.jobs(found.jobs, titles),
        "layers": tables.layers(links.by_layer(found.loads), titles),
        "slowest": parts.slowest(rows, found.iterations, titles),
        "gradients": gradients.table(rows, titles),
        "training": training.table(found.training, titles),
        "verdicts": tables.verdicts(rows, good, titles),
        "problems": tables.problems(data.problems(rows), titles),
        "rows": tables.rows(rows, titles, {run: each.title for run, each in sources.items()}),
        "valid": int(good.sum()),
        "total": len(rows),
        "cut": run_tables.cut(run_dirs),
        "failed": int((rows["error"].fillna("") != "").sum()),
        "runs": list(zip(found.about.values(), sources.values(), strict=True)),
        "sources": {each.title: asdict(each) for each in sources.values()},
        "systems": [style_of(name, styles) for name in ordered(rows["system"].tolist(), styles)],
        "references": " or ".join(reference),
        "packets": rows[rows["backend"] == "packet"],
        "floors": {each: FLOOR[each] for each in sorted(set(rows["backend"]))},
        "emulated": rows[rows["backend"] == "emulate"],
        "simulated": rows[rows["backend"] == SIMULATED],
        "short": _SHORT,
        "written": _WRITTEN,
    }
    environment = template.environment()
    environment.filters |= {"shortly": "{:g}".format, "packed": _packed, "colour": _colour}
    page = out / "report.html"
    for name, path in (("report.html.j2", page), ("report.md.j2", out / "report.md")):
        with replacing(path) as made:
            made.write_text(environment.get_template(name).render(context))
    return page


def _words(name: str, references: Sequence[str]) -> tuple[str, str]:
    """A figure's heading and caption."""
    heading, caption = _CAPTIONS[name.rstrip("-0123456789")]
    return heading.format(reference=references[-1] if references else ""), caption


def _replaced(rows: int) -> list[str]:
    if not rows:
        return []
    return [
        f"{counted(rows, 'row')} left out: the same cells ran again later with other code or "
        "inputs, or an identical run in virtual time is already counted."
    ]


def _facets(found: Evaluated) -> list[tuple[str, list[tuple[str, str]]]]:
    """The facets by which a page can be filtered, with the (value, text) of each choice."""
    rows = found.rows
    systems = ordered(rows["system"].tolist(), found.styles)
    choices = {
        "workload": [(each, each) for each in sorted({*map(title, rows["workload"])})],
        "fabric": [(each, each) for each in sorted({*map(names.fabric, rows["fabric"])})],
        "system": [(name, style_of(name, found.styles).title) for name in systems],
    }
    return [(name, values) for name, values in choices.items() if len(values) > 1]


def _source(run: Path, out: Path, kept: Mapping[Path, Path]) -> Source:
    own = kept.get(run, run)
    logs: dict[str, list[str]] = {}
    if (own / results.LOGS).is_dir():
        for folder, _, files in os.walk(own / results.LOGS):
            if files and Path(folder).parent == own / results.LOGS:
                logs[Path(folder).name] = sorted(files)
    experiment = own / results.EXPERIMENT
    file = shlex.quote(os.path.relpath(experiment))
    return Source(
        f"{run.parent.name}/{run.name}",
        _address(own, out),
        [name for name in _FILES if (own / name).is_file()],
        f"ina-testbed run {file} --cell" if experiment.is_file() else "",
        logs,
    )


def _address(path: Path, out: Path) -> str:
    return quote(Path(os.path.relpath(path.resolve(), out.resolve())).as_posix())


def _packed(content: object) -> Markup:
    """JSON that may be part of a script. Columns of a table that have few values are coded."""
    if isinstance(content, tuple):
        columns, rows = content
        packed = []
        for values in zip(*rows, strict=True):
            known = {value: place for place, value in enumerate(dict.fromkeys(values))}
            if len(known) * 2 < len(values):
                packed.append({"known": [*known], "codes": [known[value] for value in values]})
            else:
                packed.append({"known": [*values]})
        content = {"titles": columns, "columns": packed}
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c"))


def _colour(colour: str) -> str:
    """The CSS variable of a colour."""
    return f"var(--c{colour[1:]})"

"""The report: one HTML file that needs nothing else, and the same in short in Markdown."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from testbed import results
from testbed.report import (
    canvas,
    data,
    drawing,
    figures,
    gradients,
    links,
    runs,
    sharing,
    tables,
    template,
)
from testbed.report import settings as labels
from testbed.report.look import Looks, of, ordered, series_looks

Pictured = Callable[[Path, str], drawing.Picture | None]
"""The fabric of a run's cell, told by its settings, if it can be drawn."""

_CAPTIONS = {
    "jct": "Job completion time, where INA is at most ToRs; whiskers are 95 % bootstrap intervals "
    "of the mean, dots single repeats where there are five or fewer.",
    "speed-up": "How many times as fast as ring each system is, in the same settings: the ratio of "
    "mean JCTs with its 95 % bootstrap interval.",
    "throughput-ina": "Training throughput of all workers together against the number of ToRs that "
    "aggregate, and their share. Dotted: systems that do not aggregate in the network.",
    "jct-ina": "Job completion time against the number of ToRs that aggregate, and their share. "
    "Dotted: systems that do not aggregate in the network.",
    "exposed": "A mean iteration: grey is compute with the communication that it hides, the "
    "system's colour communication that it does not hide.",
    "iterations": "How all workers' measured iterations are spread: share of iterations that took "
    "no longer. Dashed: no row is valid.",
    "timeline": "What every worker does in one measured iteration. Nothing hides communication "
    "after compute, unless forward passes wait for what they need only: then the next one begins "
    "at once, computes beside it, and stands still where a sum is missing.",
    "closed-form": "JCT against what the closed form says; the band is 10 % either way.",
    "links": "Busy share of the links of each layer in percent, in each direction: mean of all "
    "links | the busiest one, which also gives the colour.",
    "jobs": "Jobs that run side by side; the black line is the same job alone.",
    "fabric": "The fabric, and how busy its links are where this is known.",
}
_SHORT = 40
"""Rows that a table of the Markdown report has at most."""


def build(
    run_dirs: Sequence[Path],
    out: Path,
    looks: Looks,
    pictured: Pictured | None = None,
    include_invalid: bool = False,
) -> Path:
    """Write ``report.html``, ``report.md``, ``summary.csv`` and ``figures/`` into ``out``.

    ``include_invalid`` lets rows that are not valid count in every mean, which then says so.
    Returns the path of the page. FileNotFoundError if a directory holds no results.
    """
    found = results.read(run_dirs)
    about = {run: runs.read(Path(run)) for run in dict.fromkeys(found.results["run"])}
    rows = labels.label(found.results, {run: each.experiment for run, each in about.items()})
    good = data.is_valid(rows)
    series = series_looks(list(zip(rows["system"], rows["variant"], strict=True)), looks)
    titles = {key: look.title for key, look in series.items()}

    summary = data.summary(rows, looks, include_invalid)
    ratios = data.speed_ups(summary)
    jobs = sharing.together(rows, summary, include_invalid)
    loads = links.labelled(found.links, rows)
    layers = links.by_layer(loads)
    counted = data.counted(rows, include_invalid)
    with canvas.style():
        drawn = figures.draw(
            summary, ratios, jobs, counted, found.iterations, loads,
            _pictures(rows, pictured), looks, series,
        )  # fmt: skip
        figures.save(drawn, out / "figures")
    summary.drop(columns=["times", "order"]).to_csv(out / "summary.csv", index=False)

    headlines = data.headlines(summary, titles, looks)
    problems = data.problems(rows)
    context = {
        "name": ", ".join(dict.fromkeys(rows["experiment"])),
        "headlines": headlines,
        "warnings": data.warnings(summary),
        "include_invalid": include_invalid,
        "figures": [
            (
                name,
                _CAPTIONS[name.rstrip("-0123456789")],
                _embedded(out / f"figures/{name}.png"),
                "wide" if figure.get_size_inches()[0] > canvas.COLUMN else "narrow",
            )
            for name, figure in drawn.items()
        ],
        "summary": tables.summary(summary, titles),
        "speed_ups": tables.speed_ups(ratios, titles),
        "errors": tables.errors(data.errors(summary), titles),
        "jobs": tables.jobs(jobs, titles),
        "layers": tables.layers(layers, titles),
        "gradients": gradients.table(rows, titles),
        "verdicts": tables.verdicts(rows, good, titles),
        "problems": tables.problems(problems, titles),
        "rows": tables.rows(rows, titles),
        "valid": int(good.sum()),
        "total": len(rows),
        "failed": int((rows["error"].fillna("") != "").sum()),
        "runs": list(about.values()),
        "systems": [of(system, looks) for system in ordered(rows["system"].tolist(), looks)],
        "emulated": rows[rows["backend"] != data.SIMULATED],
        "simulated": rows[rows["backend"] == data.SIMULATED],
        "tests": int(ratios["p"].notna().sum()),
        "short": _SHORT,
    }
    environment = template.environment()
    environment.filters |= {"shortly": lambda value: f"{value:g}", "fraction": _fraction}
    page = out / "report.html"
    for name, path in (("report.html.j2", page), ("report.md.j2", out / "report.md")):
        path.write_text(environment.get_template(name).render(context))
    return page


def _pictures(
    rows: pd.DataFrame, pictured: Pictured | None
) -> list[tuple[str, str, drawing.Picture]]:
    """Each fabric, where most of its switches aggregate, with its labels."""
    if pictured is None:
        return []
    found = []
    for fabric, own in rows.groupby("fabric", sort=True):
        share = own["ina_count"] / own["ina_total"]
        row = own.loc[share.idxmax()]
        picture = pictured(Path(row["run"]), row["settings"])
        if picture is not None:
            found.append((str(fabric), str(row["ina"]), picture))
    return found


def _fraction(scale: float) -> str:
    return f"1/{1 / scale:g}" if 0 < scale < 1 else f"{scale:g}"


def _embedded(image: Path) -> str:
    return "data:image/png;base64," + b64encode(image.read_bytes()).decode()

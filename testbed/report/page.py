"""The report: one self-contained HTML file, and a short version in Markdown."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from testbed import results
from testbed.report import (
    canvas,
    data,
    figures,
    gradients,
    links,
    parts,
    ranking,
    tables,
    template,
    training,
)
from testbed.report.backends import FLOOR, SIMULATED
from testbed.report.evaluated import Pictured, evaluated
from testbed.report.system_style import Styles, ordered, style_of

_CAPTIONS = {
    "training": "What jobs have learnt, against the real cluster's time and iterations: the "
    "mean of all repeats, and a band from the lowest to the highest. Grey: the target.",
    "jct": "Job completion time where the most ToRs aggregate. Whiskers are 95 % bootstrap "
    "intervals of the mean, dots single repeats where there are five or fewer.",
    "speed-up": "How many times as fast as {reference} each system is, in the same settings: the "
    "ratio of mean JCTs with its 95 % bootstrap interval.",
    "throughput-ina": "Training throughput of all workers together against the number of ToRs that "
    "aggregate, and their share. Dotted: systems that do not aggregate in the network.",
    "jct-ina": "Job completion time against the number of ToRs that aggregate, and their share. "
    "Dotted: systems that do not aggregate in the network.",
    "exposed": "A mean iteration. Grey: compute, with the communication that it hides. In the "
    "system's colour: communication that compute does not hide.",
    "iterations": "CDF of all workers' measured iteration times: the share of iterations that took "
    "no longer. Dotted: systems that do not aggregate in the network. Pale: no row is valid.",
    "timeline": "Every worker in one measured iteration. Communication after compute is exposed, "
    "unless forward passes wait only for the sums they need: then the next iteration starts "
    "at once, computes meanwhile, and stalls where a sum is missing.",
    "closed-form": "Measured JCT against the closed form's; the band is 10 % either way.",
    "links": "Busy share of the links of each layer in percent, in each direction: mean of all "
    "links | the busiest link, which also sets the colour.",
    "jobs": "Jobs that run side by side; the black line is the same job alone.",
    "fabric": "The fabric, and how busy its links are where that was recorded.",
}
_SHORT = 40
"""The most rows in a table of the Markdown report."""


def build(
    run_dirs: Sequence[Path],
    out: Path,
    styles: Styles,
    pictured: Pictured | None = None,
    include_invalid: bool = False,
) -> Path:
    """Write ``report.html``, ``report.md``, ``summary.csv`` and ``figures/`` into ``out``.

    ``include_invalid`` lets rows that are not valid count in every mean, and the page says so.
    Returns the path of the page. FileNotFoundError if a directory holds no results.
    """
    found = evaluated(run_dirs, styles, include_invalid)
    rows, good, titles = found.rows, data.is_valid(found.rows), found.titles
    with canvas.paper():
        drawn = figures.draw(found, found.pictures(pictured) if pictured else [])
        figures.save(drawn, out / "figures")
    found.means.drop(columns=["plans", "times", "order"]).to_csv(out / "summary.csv", index=False)

    names = [style_of(name, styles).title for name in found.references]
    beside = data.beside(found.means)
    context = {
        "name": ", ".join(dict.fromkeys(rows["experiment"])),
        "headlines": ranking.headlines(found.means, titles, styles),
        "warnings": data.warnings(found.means),
        "include_invalid": include_invalid,
        "figures": [
            (
                name,
                _CAPTIONS[name.rstrip("-0123456789")].format(reference=names[-1] if names else ""),
                _embedded(out / f"figures/{name}.png"),
                "wide" if figure.get_size_inches()[0] > canvas.COLUMN else "narrow",
            )
            for name, figure in drawn.items()
        ],
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
        "rows": tables.rows(rows, titles),
        "valid": int(good.sum()),
        "total": len(rows),
        "cut": results.cut(run_dirs),
        "failed": int((rows["error"].fillna("") != "").sum()),
        "runs": list(found.about.values()),
        "systems": [style_of(name, styles) for name in ordered(rows["system"].tolist(), styles)],
        "references": " or ".join(names),
        "packets": rows[rows["backend"] == "packet"],
        "floors": {each: FLOOR[each] for each in sorted(set(rows["backend"]))},
        "emulated": rows[rows["backend"] == "emulate"],
        "simulated": rows[rows["backend"] == SIMULATED],
        "short": _SHORT,
    }
    environment = template.environment()
    environment.filters["shortly"] = "{:g}".format
    page = out / "report.html"
    for name, path in (("report.html.j2", page), ("report.md.j2", out / "report.md")):
        path.write_text(environment.get_template(name).render(context))
    return page


def _embedded(image: Path) -> str:
    return "data:image/png;base64," + b64encode(image.read_bytes()).decode()

"""All figures that can be drawn from results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from testbed.replaced import replacing
from testbed.report import (
    buckets,
    canvas,
    drawing,
    lines,
    links,
    panels,
    rows,
    sharing,
    swept,
    timeline,
    training,
)
from testbed.report.evaluated import Evaluated
from testbed.report.system_style import style_of
from testbed.report.vector import Vector, vector

_MOST_TIMELINES, _MOST_DRAWINGS = 2, 4


def draw(
    evaluated: Evaluated,
    pictures: Sequence[tuple[str, str, drawing.Picture]],
    recorded: Sequence[buckets.Recorded] = (),
) -> dict[str, Figure]:
    """The figures by name, in the report's order.

    ``pictures`` are fabrics with their labels, ``recorded`` the timelines of single cells.
    """
    means, series, loads = evaluated.means, evaluated.series, evaluated.loads
    found: dict[str, Figure | None] = {}
    found["training"] = training.drawn(evaluated.training, series)
    if len(means):
        settings, deployments = panels.settings(means), lines.deployments(means)
        found["jct"] = rows.times(settings, series)
        if evaluated.references:
            reference = evaluated.references[-1]
            over = style_of(reference, evaluated.styles).title
            found["speed-up"] = rows.speed_up(settings, evaluated.ratios, reference, over, series)
        if deployments:
            found["throughput-ina"] = lines.against_ina(
                deployments, series, "throughput", "samples/s"
            )
            found["jct-ina"] = lines.against_ina(deployments, series, "jct", "JCT (s)")
        for number, field in enumerate(swept.fields(evaluated), 1):
            found[f"swept-{number}"] = swept.drawn(field, series)
        found["exposed"] = rows.exposed(settings, series)
        behind = timeline.measured(settings, evaluated.counted, evaluated.iterations)
        if behind:
            found["iterations"] = lines.spread(behind, series)
        for number, panel in enumerate(behind[:_MOST_TIMELINES], 1):
            found[f"timeline-{number}"] = timeline.drawn(panel, series)
        found["closed-form"] = rows.against_closed_form(means, series)
        found["links"] = links.drawn(settings, links.by_layer(loads), series)
    if len(evaluated.jobs):
        found["jobs"] = sharing.drawn(evaluated.jobs, series)
    for number, timeline_ in enumerate(recorded, 1):
        found[f"buckets-{number}"] = buckets.drawn(timeline_, series)
    for number, (fabric, ina, picture) in enumerate(pictures[:_MOST_DRAWINGS], 1):
        known = links.of_fabric(loads, fabric, ina, series)
        workload = loads.loc[loads["fabric"] == fabric, "workload"]
        facets = canvas.facets(workload.mode().iloc[0] if len(workload) else "", fabric)
        found[f"fabric-{number}"] = drawing.drawn(picture, known, facets)
    return {name: figure for name, figure in found.items() if figure is not None}


def publish(
    figures: Mapping[str, Figure], directory: Path, alternatives: Mapping[str, str]
) -> dict[str, Vector]:
    """Write each figure as PDF and SVG into ``directory``, and return the SVGs for a page.

    ``alternatives`` are the figures' text alternatives. Raises OSError if one cannot be written.
    """
    found = {}
    for name, path, figure in _saved(figures, directory):
        found[name] = vector(figure, name, alternatives[name])
        with replacing(path.with_suffix(".svg")) as made:
            made.write_text(found[name].whole)
    return found


def save(figures: Mapping[str, Figure], directory: Path) -> None:
    """Write each figure as PDF and PNG into ``directory``. Raises OSError if one cannot be
    written."""
    for _, path, figure in _saved(figures, directory):
        with replacing(path.with_suffix(".png")) as made:
            figure.savefig(made, dpi=200)


def _saved(figures: Mapping[str, Figure], directory: Path) -> Iterator[tuple[str, Path, Figure]]:
    """Each figure's name, its path without suffix, and the figure. It is written as PDF first, and
    closed afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        path = directory / f"{name}.pdf"
        # Matplotlib's own writer of PDF files ends with an AttributeError if the disk is full.
        content = BytesIO()
        figure.savefig(content, format="pdf", metadata={"CreationDate": None})
        with replacing(path) as made:
            made.write_bytes(content.getvalue())
        yield name, path, figure
        plt.close(figure)

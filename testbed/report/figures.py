"""All figures that can be drawn from results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from testbed.report import bars, canvas, drawing, lines, links, sharing, timeline, training
from testbed.report.backends import RUN_BY
from testbed.report.bars import SeriesStyles
from testbed.report.data import INVALID
from testbed.report.evaluated import Evaluated
from testbed.report.system_style import style_of

_MOST_TIMELINES, _MOST_DRAWINGS = 2, 4


def draw(
    evaluated: Evaluated, pictures: Sequence[tuple[str, str, drawing.Picture]]
) -> dict[str, Figure]:
    """The figures by name, in the report's order.

    ``pictures`` are fabrics with their labels.
    """
    means, series, loads = evaluated.means, evaluated.series, evaluated.loads
    found: dict[str, Figure | None] = {}
    found["training"] = training.drawn(evaluated.training, series)
    if len(means):
        settings, deployments = bars.settings(means), lines.deployments(means)
        found["jct"] = bars.times(settings, series)
        if evaluated.references:
            reference = evaluated.references[-1]
            over = style_of(reference, evaluated.styles).title
            found["speed-up"] = bars.speed_up(settings, evaluated.ratios, reference, over, series)
        if deployments:
            found["throughput-ina"] = lines.against_ina(
                deployments, series, "throughput", "throughput (samples/s)"
            )
            found["jct-ina"] = lines.against_ina(deployments, series, "jct", "JCT (s)")
        found["exposed"] = bars.exposed(settings, series)
        behind = timeline.measured(settings, evaluated.counted, evaluated.iterations)
        if behind:
            found["iterations"] = lines.spread(behind, series)
        for number, panel in enumerate(behind[:_MOST_TIMELINES], 1):
            found[f"timeline-{number}"] = timeline.drawn(panel, series)
        found["closed-form"] = against_closed_form(means, series)
        found["links"] = links.drawn(settings, links.by_layer(loads), series)
    if len(evaluated.jobs):
        found["jobs"] = sharing.drawn(evaluated.jobs, evaluated.styles)
    for number, (fabric, ina, picture) in enumerate(pictures[:_MOST_DRAWINGS], 1):
        known = links.of_fabric(loads, fabric, ina, series)
        found[f"fabric-{number}"] = drawing.drawn(picture, known)
    return {name: figure for name, figure in found.items() if figure is not None}


def save(figures: Mapping[str, Figure], directory: Path) -> None:
    """Write each as PDF and PNG into ``directory``. OSError if one cannot be written."""
    directory.mkdir(parents=True, exist_ok=True)
    # The two formats take half of a large report's time.
    pdf = get_context("fork").Process(target=_write, args=(figures, directory, "pdf"))
    pdf.start()
    try:
        _write(figures, directory, "png")
    finally:
        pdf.join()
    if pdf.exitcode:
        raise OSError(f"{directory}: the PDF files could not be written")
    for figure in figures.values():
        plt.close(figure)


def _write(figures: Mapping[str, Figure], directory: Path, kind: str) -> None:
    how: dict[str, Any] = {"metadata": {"CreationDate": None}} if kind == "pdf" else {"dpi": 200}
    for name, figure in figures.items():
        figure.savefig(directory / f"{name}.{kind}", **how)


def against_closed_form(table: pd.DataFrame, styles: SeriesStyles) -> Figure | None:
    """Measured JCT against the closed form's, a panel for each back end."""
    table = table[(table["expected_jct_s"] > 0) & (table["jct_s"] > 0)]
    parts = [
        (f"measured by {RUN_BY.get(str(backend), backend)}", part)
        for backend, part in table.groupby("backend")
    ]
    if not parts:
        return None
    used = set(zip(table["system"], table["variant"], strict=True))
    hollow = (table["shown"] == INVALID).any()
    figure, all_axes = canvas.panels(
        [title for title, _ in parts],
        height=2.6,
        legend=[canvas.dot(style) for key, style in styles.items() if key in used]
        + ([canvas.hollow()] if hollow else []),
    )
    times = table[["expected_jct_s", "jct_s"]].to_numpy(float)
    limits = np.array([times.min() / 1.25, times.max() * 1.25])
    for axes, (_, part) in zip(all_axes, parts, strict=True):
        axes.plot(limits, limits, color="grey", linewidth=0.8)
        axes.fill_between(limits, limits * 0.9, limits * 1.1, color="grey", alpha=0.2, linewidth=0)
        for key, style in styles.items():
            own = part[(part["system"] == key[0]) & (part["variant"] == key[1])]
            bad = own["shown"] == INVALID
            for points, face in ((own[~bad], style.colour), (own[bad], "white")):
                axes.plot(
                    points["expected_jct_s"], points["jct_s"], style.marker, color=style.colour,
                    mfc=face, alpha=0.85,
                )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlim=limits, ylim=limits)
        axes.set_xlabel("closed form, JCT (s)", labelpad=1)
        axes.set_ylabel("JCT (s)")
        axes.grid(visible=True, axis="both")
    return figure

"""The workers' timeline: only computation is drawn as computation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from made_up import STYLES
from matplotlib.colors import to_hex

from testbed.report import timeline
from testbed.report.panels import Panel
from testbed.results import Iteration

COMPUTE, WAITS, AFTER = "compute", "forward pass waits for sums", "communication after compute"
OLDER = "compute, in older runs with stalls"
# Three iterations of one worker; the forward pass of the second one waits twice.
FIRST = Iteration("c0", 0, 0, "atp", "resnet50", 0, 0, 0.0, 2.0, 3.5)
SECOND = Iteration(
    "c0", 0, 0, "atp", "resnet50", 0, 1, 2.0, 5.5, 7.0, 1.5, "[[2.0, 3.0], [3.25, 3.75]]"
)
THIRD = Iteration("c0", 0, 0, "atp", "resnet50", 0, 2, 5.5, 7.5, 8.0)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def drawn(**changes: object) -> tuple[list[str], dict[str, list[tuple[float, float]]]]:
    """The legend, and the bars of each colour from left to right."""
    rows = pd.DataFrame(map(asdict, (FIRST, SECOND, THIRD))).assign(run="r", variant="")
    figure = timeline.drawn(
        Panel("title", rows.assign(fabric="a graph", **changes)), {("atp", ""): STYLES["atp"]}
    )
    (legend,), (axes,) = figure.legends, figure.axes
    bars: dict[str, list[tuple[float, float]]] = {}
    for collection in axes.collections:
        for path in collection.get_paths():
            box = path.get_extents()
            colour = to_hex(collection.get_facecolor()[0])
            bars.setdefault(colour, []).append((box.x0, box.x1))
    return [text.get_text() for text in legend.get_texts()], bars


def test_a_stall_is_no_compute():
    legend, bars = drawn()
    assert legend == [COMPUTE, WAITS, AFTER]
    compute, after, waits = bars.values()
    assert (compute, after) == ([(0.0, 3.5)], [(3.5, 5.0)])
    assert waits == [(0.0, 1.0), (1.25, 1.75)]  # drawn over the compute


def test_who_never_waits_has_no_stalls():
    legend, bars = drawn(stalled_s=0.0, stalls="[]")
    assert legend == [COMPUTE, AFTER]
    assert len(bars) == 2


def test_an_older_run_says_that_its_stalls_are_not_shown():
    legend, bars = drawn(stalls="")
    assert legend == [OLDER, AFTER]
    assert len(bars) == 2
    legend, _ = drawn(stalls="", stalled_s=float("nan"))  # a still older run
    assert legend == [COMPUTE, AFTER]

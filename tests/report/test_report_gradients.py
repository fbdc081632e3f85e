"""The table of real gradients: only rows with a measured error, with their sample's spread."""

from __future__ import annotations

import pandas as pd

from testbed.report.gradients import table


def test_rows_of_real_gradients_are_told_with_the_largest_error() -> None:
    rows = pd.DataFrame(
        {
            "workload": ["resnet18", "resnet18", "mine", "vgg16"],
            "system": ["atp"] * 4,
            "variant": [""] * 4,
            "quantisation": ["factor 1e+06", "factor 1e+06", "block exponent", ""],
            "quantisation_error": [1e-3, 2e-3, 1e-8, None],
            "overflows": [0, 3, 0, 0],
        }
    )
    columns, lines = table(rows, {("atp", ""): "ATP"})
    assert [line[0] for line in lines] == ["mine", "resnet18"]
    assert all(len(line) == len(columns) for line in lines)
    assert lines[0][1] == "–" and lines[1][1] == "resnet50"
    assert lines[1][columns.index("error of sums")] == "2.0e-03"
    assert lines[1][columns.index("overflows")] == "3"

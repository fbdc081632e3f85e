"""Where the time of a row went, from tables."""

from __future__ import annotations

from math import isnan, nan
from types import SimpleNamespace

import pandas as pd
import pytest

from testbed.report.parts import parts

ROW = {"run": "run", "cell": "c", "repeat": 0, "job": 0}
ITERATIONS = pd.DataFrame(
    [ROW | {"rank": 0, "start_s": 0.0, "compute_end_s": 0.4, "stalled_s": 0.1, "end_s": 1.5}]
)


@pytest.mark.parametrize(
    ("routed", "ecmp", "other"), [(1.2, 0.2, 0.3), (0.9, 0.0, 0.5), (nan, nan, 0.5)]
)
def test_imbalance_that_was_not_measured_is_not_known(routed, ecmp, other):
    row = SimpleNamespace(**ROW, jct_s=1.5, expected_jct_s=1.0, routed_jct_s=routed)
    found = parts(row, ITERATIONS)
    assert found.compute == pytest.approx(0.3) and found.plan == pytest.approx(0.7)
    assert found.ecmp == pytest.approx(ecmp, nan_ok=True)
    assert found.other == pytest.approx(other)
    assert sum(each for each in found if not isnan(each)) == pytest.approx(row.jct_s)

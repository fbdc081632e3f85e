"""Statistics of real gradients, and the error of quantising them."""

from __future__ import annotations

import pandas as pd

from testbed.report.system_style import Titles
from testbed.report.tables import Table, number, share
from testbed.workload.trace import TraceError
from testbed.workload.values import load

_FACTS = 6


def table(rows: pd.DataFrame, titles: Titles) -> Table:
    """A row for each workload, system and scheme: the sample's spread, and the error of sums.

    Errors are relative L2 distances of received sums from exact ones, the largest of all repeats.
    """
    columns = ["workload", "sample", "zero", "below rms/10^6", "rms", "median magnitude"]
    columns += ["largest / rms", "system", "integers", "error of sums", "overflows"]
    real = rows[rows["quantisation_error"].notna()]
    lines = []
    for (workload, system, variant, scheme), own in real.groupby(
        ["workload", "system", "variant", "quantisation"]
    ):
        lines.append(
            [
                str(workload),
                *_spread(str(workload)),
                titles[system, variant],
                str(scheme),
                f"{own['quantisation_error'].max():.1e}",
                number(own["overflows"].max()),
            ]
        )
    return columns, lines


def _spread(workload: str) -> list[str]:
    try:
        sample = load(workload)
    except TraceError:
        return ["–"] * _FACTS
    facts = sample.statistics()
    return [
        sample.name,
        share(facts.zeros),
        share(facts.tiny),
        f"{facts.rms:.1e}",
        f"{facts.magnitudes[0.5]:.1e}",
        number(facts.magnitudes[1.0] / facts.rms),
    ]

"""A summary of the evaluation: one figure, one table, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from testbed.report import data, template
from testbed.report.data import SIMULATED
from testbed.report.evaluated import evaluated
from testbed.report.statistics import LEVEL, least_p, rank_tests, ratio_interval
from testbed.report.system_style import Series, Styles
from testbed.report.tables import Table, interval, number

WINNERS = "winners.md"
FIGURE = "jct-ina"


def write(run_dirs: Sequence[Path], out: Path, styles: Styles, claims: bool) -> Path:
    """Write ``README.md``, and its table alone as ``winners.md``, beside a report in ``out``.

    ``claims`` says whether the folder also has a page on claims. FileNotFoundError if a directory
    holds no results.
    """
    found = evaluated(run_dirs, styles)
    rows = found.rows
    table = winners(found.means, found.titles)
    context: dict[str, Any] = {
        "table": table,
        "runs": list(found.about.values()),
        "figure": (out / "figures" / f"{FIGURE}.png").exists(),
        "figure_name": FIGURE,
        "claims": claims,
        "valid": int(data.is_valid(rows).sum()),
        "total": len(rows),
        "most_workers": int(rows["workers"].max()),
        "repeats": sorted(set(found.means["used_rows"].astype(int))),
        "dilations": sorted({f"{value:g}" for value in rows["dilation"]}),
        "scales": sorted({f"1/{1 / value:g}" for value in rows["scale"]}),
        "workloads": sorted(set(rows["workload"])),
    }
    environment = template.environment()
    page = out / "README.md"
    page.write_text(environment.get_template("answer.md.j2").render(context))
    (out / WINNERS).write_text(markdown(table))
    return page


def winners(summary: pd.DataFrame, titles: Mapping[Series, str]) -> Table:
    """The fastest system in each setting and place of INA, and its lead; see `data.summary`."""
    columns = ["fabric", "workload", "INA", "fastest", "JCT (s)", "95 % interval", "next"]
    columns += ["times as fast", "95 % interval", "told apart"]
    found = []
    for place, group in data.settings(summary):
        ranking = group.sort_values("jct_s").to_dict("records")
        best, *others = ranking
        name = titles[best["system"], best["variant"]]
        row = [place["fabric"], place["workload"], place["ina"], name, number(best["jct_s"])]
        row += [interval(best["jct_low"], best["jct_high"])]
        if others:
            second = others[0]
            row += [titles[second["system"], second["variant"]]]
            row += [number(second["jct_s"] / best["jct_s"])]
            row += [interval(*ratio_interval(second["times"], best["times"]))]
            row += [_told_apart(best, second)]
        found.append([*row, *[""] * (len(columns) - len(row))])
    return columns, found


def _told_apart(best: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """The rank test's result for a pair."""
    if best["backend"] == SIMULATED:
        return "simulated"
    samples = np.asarray(best["times"], float), np.asarray(second["times"], float)
    if least_p(*map(len, samples)) > LEVEL:
        return f"too few repeats ({len(samples[0])} and {len(samples[1])})"
    (p,) = rank_tests([samples])
    return f"{'yes' if p < LEVEL else 'no'}, p = {p:.2g}"


def markdown(table: Table) -> str:
    """A table in Markdown."""
    columns, rows = table
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )

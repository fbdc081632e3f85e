"""Several jobs at once: their slowdown, fairness and contention for slots."""

from __future__ import annotations

from math import nan

import pandas as pd
from matplotlib.figure import Figure

from testbed.report import canvas
from testbed.report.data import INVALID, VALID, everywhere, finished, is_shown, is_valid
from testbed.report.settings import SERIES, SETTING
from testbed.report.statistics import jain, mean_interval
from testbed.report.system_style import Styles, style_of

_CELL = ["backend", "fabric", "ina", "cell"]


def together(
    rows: pd.DataFrame, summary: pd.DataFrame, include_invalid: bool = False
) -> pd.DataFrame:
    """One row for each job of each cell with several jobs.

    ``slowdown`` is relative to the same job alone in the same setting, nan where that was not run.
    ``fairness`` is Jain's index over all jobs of the cell: of 1/slowdown where all are known, else
    of algorithm bandwidth (``fairness_of``). ``contention`` is the share of gradient packets at P4
    switches that found their slot taken.
    """
    shared = finished(rows[rows["beside"] != ""])
    shared = shared.assign(is_valid=is_valid(shared))
    alone = everywhere(summary[is_shown(summary)]) if len(summary) else summary
    alone = alone.drop_duplicates([*SETTING, "ina", *SERIES])
    alone_s = alone.set_index([*SETTING, "ina", *SERIES])["jct_s"]
    records = []
    for key, cell in shared.groupby(_CELL, sort=True):
        whole = cell.groupby(["run", "repeat"])["is_valid"].transform("all")
        used = cell if include_invalid or not whole.any() else cell[whole]
        jobs = []
        for number, own in used.groupby("job"):
            first = own.iloc[0]
            times = own["jct_s"].to_numpy(float)
            low, high = mean_interval(times)
            single = alone_s.get(tuple(first[[*SETTING, "ina", *SERIES]]), nan)
            packets = own["switch_packets"].sum()
            jobs.append(
                dict(zip(_CELL, key, strict=True))
                | {name: first[name] for name in ("workload", "workers", "conditions", *SERIES)}
                | {
                    "job": number,
                    "beside": first["beside"],
                    "shown": VALID if own["is_valid"].all() else INVALID,
                    "rows": int((cell["job"] == number).sum()),
                    "valid_rows": int(own["is_valid"].sum()),
                    "jct_s": times.mean(),
                    "jct_low": low,
                    "jct_high": high,
                    "alone_s": single,
                    "slowdown": times.mean() / single,
                    "algbw": own["algbw_gbit_s"].mean(),
                    "contention": own["switch_collisions"].sum() / packets if packets else nan,
                }
            )
        slowdowns = [job["slowdown"] for job in jobs]
        known = not pd.isna(slowdowns).any()
        shares = [1 / each for each in slowdowns] if known else [job["algbw"] for job in jobs]
        for job in jobs:
            job["fairness"] = jain(shares)
            job["fairness_of"] = "1/slowdown" if known else "algbw"
        records += jobs
    return pd.DataFrame.from_records(records)


def drawn(jobs: pd.DataFrame, styles: Styles) -> Figure:
    """JCT of each job of a cell beside its JCT alone, a panel for each cell."""
    cells = list(jobs.groupby(_CELL, sort=True))[: canvas.MOST_PANELS]
    titles = [
        f"{fabric}, INA at {ina}\nJain's index {part['fairness'].iloc[0]:.3f} "
        f"of {part['fairness_of'].iloc[0]}"
        for (_, fabric, ina, _), part in cells
    ]
    hatched = [canvas.not_valid()] if (jobs["shown"] != VALID).any() else []
    figure, all_axes = canvas.panels(titles, below=0.75, legend=hatched)
    for axes, (_, part) in zip(all_axes, cells, strict=True):
        for at, row in enumerate(part.to_dict("records")):
            style = style_of(row["system"], styles)
            axes.bar(
                at, row["jct_s"], 0.6, color=style.colour, edgecolor="white",
                hatch="" if row["shown"] == VALID else canvas.HATCH,
                alpha=0.5 if row["shown"] == INVALID else 1,
            )  # fmt: skip
            words = f"{row['jct_s']:.3g}"
            if not pd.isna(row["alone_s"]):
                axes.hlines(row["alone_s"], at - 0.36, at + 0.36, color="black", linewidth=1.2)
                words += f"\n{row['slowdown']:.2f}× alone"
            axes.annotate(
                words, (at, row["jct_s"]), (0, 1.5), textcoords="offset points", ha="center",
                va="bottom", fontsize=6,
            )  # fmt: skip
        names = [
            f"{style_of(row['system'], styles).title}\n{row['workload']}\n{row['workers']} workers"
            for row in part.to_dict("records")
        ]
        axes.set_xticks(range(len(part)), names)
        axes.set_xlim(-0.6, max(len(part), 2) - 0.4)
        axes.margins(y=0.2)
        axes.set_ylabel("JCT (s)")
    return figure

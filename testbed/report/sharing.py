"""Several jobs at once: their slowdown, fairness and contention for slots."""

from __future__ import annotations

from math import nan

import pandas as pd
from matplotlib.figure import Figure

from testbed.report import canvas, names, rows
from testbed.report.data import INVALID, VALID, everywhere, finished, is_shown, is_valid
from testbed.report.panels import Panel, SeriesStyles
from testbed.report.settings import SERIES, SETTING
from testbed.report.statistics import jain, mean_interval
from testbed.workload.catalogue import title

_CELL = ["backend", "fabric", "ina", "cell"]


def together(table: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """One row for each job of each cell with several jobs.

    ``slowdown`` is relative to the same job alone in the same setting; nan if that was not run.
    ``fairness`` is Jain's index over all jobs of the cell: of 1/slowdown if all are known,
    otherwise of algorithm bandwidth (``fairness_of`` says which). ``contention`` is the share of
    gradient packets at P4 switches that found their slot taken.
    """
    shared = finished(table[table["beside"] != ""])
    shared = shared.assign(is_valid=is_valid(shared))
    alone = everywhere(summary[is_shown(summary)]) if len(summary) else summary
    alone = alone.drop_duplicates([*SETTING, "ina", *SERIES])
    alone_s = alone.set_index([*SETTING, "ina", *SERIES])["jct_s"]
    records = []
    for key, cell in shared.groupby(_CELL, sort=True):
        whole = cell.groupby(["run", "repeat"])["is_valid"].transform("all")
        used = cell[whole] if whole.any() else cell
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
                    "others": first["others"],
                    "shown": VALID if own["is_valid"].all() else INVALID,
                    "rows": int((cell["job"] == number).sum()),
                    "valid_rows": int(own["is_valid"].sum()),
                    "used_rows": len(own),
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


def drawn(jobs: pd.DataFrame, styles: SeriesStyles) -> Figure:
    """JCT of each job of a cell next to its JCT alone, with a panel for each cell."""
    cells = canvas.some(list(jobs.groupby(_CELL, sort=True)))
    panels = [
        Panel(
            "\n".join(
                [
                    names.fabric(fabric),
                    *filter(None, [names.settings(part["others"].iloc[0])]),
                    f"INA at {ina}, Jain's index {part['fairness'].iloc[0]:.3f} "
                    f"of {part['fairness_of'].iloc[0]}",
                ]
            ),
            part,
        )
        for (_, fabric, ina, _), part in cells
    ]
    titles = [
        [
            f"{styles[row.system, row.variant].title}, {title(row.workload)}, {row.workers} workers"
            for row in part.itertuples()
        ]
        for _, part in panels
    ]
    return rows.jobs(panels, styles, titles)

"""The page's tables as text: titles of columns, and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pandas as pd

from testbed.report import names
from testbed.report.backends import RUN_BY, SHORTLY, SIMULATED
from testbed.report.data import INVALID
from testbed.report.system_style import Titles
from testbed.workload import catalogue

title = cache(catalogue.title)
Table = tuple[list[str], list[list[str]]]
_SETTING = ["workload", "workers", "fabric", "conditions", "INA", "by"]
_OTHERS = "swept in any job"


def number(value: Any, aligned: bool = False) -> str:
    """A number with three digits; ``aligned``, also with zeros at its end, for a column."""
    if pd.isna(value):
        return "–"
    if abs(value) >= 999.5:  # three digits would round it to 1e+03
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if aligned else f"{value:.3g}"


def md(text: Any) -> str:
    """Text for Markdown, where it would otherwise be taken for HTML or for the end of a cell."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")


def count(value: Any) -> str:
    return "–" if pd.isna(value) else str(int(value))


def percent(value: Any) -> str:
    return "–" if pd.isna(value) else f"{value:+.1%}"


def share(value: Any) -> str:
    return "–" if pd.isna(value) else f"{value:.1%}"


def interval(low: Any, high: Any) -> str:
    return "–" if pd.isna(low) else f"{number(low)} to {number(high)}"


def _setting(row: Any) -> list[str]:
    return [
        title(row.workload),
        str(row.workers),
        names.fabric(row.fabric),
        names.settings(row.conditions),
        row.ina,
        SHORTLY.get(row.backend, row.backend),
    ]


def _without_empty(table: Table) -> Table:
    """``table`` without its columns of settings that are empty in every row."""
    columns, rows = table
    kept = [
        at
        for at, title in enumerate(columns)
        if title not in ("conditions", _OTHERS) or any(row[at] for row in rows)
    ]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def summary(table: pd.DataFrame, titles: Titles) -> Table:
    """The means of every setting and system."""
    columns = ["system", "JCT (s)", "95 % interval", *_SETTING, "samples/s", "algbw (Gbit/s)"]
    columns += ["iteration (s)", "exposed comm. (s)", "closed form (s)", "error"]
    columns += ["closed form on links as used (s)", "its error", "valid rows"]
    rows = [
        [
            titles[row.system, row.variant] + (" (not valid)" if row.shown == INVALID else ""),
            number(row.jct_s),
            interval(row.jct_low, row.jct_high),
            *_setting(row),
            *map(number, (row.throughput, row.algbw, row.iteration_s, row.exposed_s)),
            number(row.expected_jct_s),
            percent(row.error),
            number(row.routed_jct_s),
            percent(row.routed_error),
            f"{row.valid_rows}/{row.rows}",
        ]
        for row in table.itertuples()
    ]
    return _without_empty((columns, rows))


def speed_ups(table: pd.DataFrame, references: Sequence[str], titles: Titles) -> Table:
    """The JCT of ``references`` over that of others, with the rank test's result."""
    bases = [name for name in references if table[name].notna().any()]
    columns = ["system"]
    for name in reversed(bases):
        columns += [f"over {titles.get((name, ''), name)}", "95 % interval"]
    last = titles.get((bases[-1], ""), bases[-1]) if bases else ""
    columns += ["p", f"against {last}", *_SETTING]
    rows = [
        [
            titles[row.system, row.variant],
            *(
                text
                for name in reversed(bases)
                for text in (
                    number(row[name]),
                    interval(row[f"{name}_low"], row[f"{name}_high"]),
                )
            ),
            number(row.p),
            str(row.claim),
            *_setting(row),
        ]
        for _, row in table.iterrows()  # itertuples would rename my-own
        if bases
    ]
    return _without_empty((columns, rows))


def errors(table: pd.DataFrame, titles: Titles) -> Table:
    """Measured JCT against the closed form, system by system."""
    columns = ["system", "by", "settings", "mean error", "lowest", "highest", "within 10 %"]
    columns += ["within 10 % on links as used"]
    return columns, [
        [
            titles[row.system, row.variant],
            RUN_BY.get(row.backend, row.backend),
            str(row.settings),
            *map(percent, (row.mean, row.lowest, row.highest)),
            f"{row.within:.0%}",
            "–" if pd.isna(row.routed_within) else f"{row.routed_within:.0%}",
        ]
        for row in table.itertuples()
    ]


def beside(table: pd.DataFrame, titles: Titles) -> Table:
    """The packets' times beside the emulator's."""
    columns = ["system", "emulator's JCT (s)", "packets' JCT (s)", "difference", *_SETTING[:-1]]
    rows = [
        [
            titles[row.system, row.variant] + ("" if row.is_valid else " (not valid)"),
            *map(number, (row.jct_s, row.packets_jct_s)),
            percent(row.difference),
            *_setting(row)[:-1],
        ]
        for row in table.itertuples()
    ]
    return _without_empty((columns, rows))


def jobs(table: pd.DataFrame, titles: Titles) -> Table:
    """Jobs that ran side by side."""
    columns = ["system", "JCT (s)", "95 % interval", "alone (s)", "slowdown", "cell", "job"]
    columns += [*_SETTING, "beside", _OTHERS, "algbw (Gbit/s)", "slots taken", "Jain's index"]
    columns += ["of"]
    columns += ["valid rows"]
    return _without_empty(
        (
            columns,
            [
                [
                    titles[row.system, row.variant]
                    + (" (not valid)" if row.shown == INVALID else ""),
                    number(row.jct_s),
                    interval(row.jct_low, row.jct_high),
                    number(row.alone_s),
                    number(row.slowdown),
                    row.cell,
                    str(row.job),
                    *_setting(row),
                    row.beside,
                    names.settings(row.others),
                    number(row.algbw),
                    share(row.contention),
                    number(row.fairness),
                    row.fairness_of,
                    f"{row.valid_rows}/{row.rows}",
                ]
                for row in table.itertuples()
            ],
        )
    )


def layers(table: pd.DataFrame, titles: Titles) -> Table:
    """How busy the links of each layer are."""
    columns = ["system", "layer", "mean busy", "busiest link", *_SETTING]
    rows = [
        [titles[row.system, row.variant], row.layer, share(row.mean), share(row.max),
         *_setting(row)]
        for row in table.itertuples()
    ]  # fmt: skip
    return _without_empty((columns, rows))


def problems(rows: pd.DataFrame, titles: Titles) -> Table:
    """Rows that do not count, with the reason."""
    columns = ["system", "reason", "experiment", "cell", "repeat", "workload", "fabric", "INA"]
    return columns, [
        [titles[row.system, row.variant], str(row.reason), row.experiment, row.cell,
         str(row.repeat + 1), title(row.workload), names.fabric(row.fabric), row.ina]
        for row in rows.itertuples()
    ]  # fmt: skip


def verdicts(rows: pd.DataFrame, good: pd.Series, titles: Titles) -> Table:
    """How many rows of each system are valid."""
    columns = ["system", "rows", "valid", "failed"]
    counted = rows.assign(good=good, failed=rows["error"].fillna("") != "")
    return columns, [
        [titles[system, variant], str(len(own)), str(own["good"].sum()), str(own["failed"].sum())]
        for (system, variant), own in counted.groupby(["system", "variant"])
    ]


RUN, CELL, REPEAT = "run", "cell", "repeat"
"""The columns of `rows` that show where a row's files are."""


def rows(table: pd.DataFrame, titles: Titles, runs: Mapping[str, str]) -> Table:
    """Every row of results.csv as text. ``runs`` has the titles of runs' directories."""
    columns = ["system", "JCT (s)", "verdict", *_SETTING, "beside", "target", CELL, REPEAT]
    columns += ["closed form (s)", "resent", "collisions", "overflows", "at switches", "sums"]
    columns += ["duplicates", "slots taken", "refused", "sums exact", "experiment", RUN]
    return columns, [
        [
            titles[row.system, row.variant],
            number(row.jct_s),
            row.error or row.verdict,
            *_setting(row),
            row.beside,
            row.switch_target,
            row.cell,
            str(row.repeat + 1),
            number(row.expected_jct_s),
            *map(count, (row.retransmitted, row.collisions, row.overflows, row.switch_packets)),
            *map(count, (row.switch_sums, row.switch_duplicates, row.switch_collisions)),
            count(row.switch_refused),
            "–" if row.backend == SIMULATED else "yes" if row.verified else "no",
            row.experiment,
            runs[row.run],
        ]
        for row in table.itertuples()
    ]

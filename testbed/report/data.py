"""Means, ratios and errors of rows. Only valid rows count.

Rows have the labels of ``settings.label`` here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from testbed.report import names
from testbed.report.backends import SIMULATED, mark
from testbed.report.differences import Difference, Record, differences
from testbed.report.settings import PLACE, SERIES, SETTING
from testbed.report.statistics import LEAST, mean_intervals, ratio_intervals
from testbed.report.system_style import Styles, ordered, references, style_of
from testbed.workload.catalogue import title

VALID, INVALID = "valid", "not valid"


def finished(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that have a JCT, valid or not."""
    return rows[rows["jct_s"].notna()]


def is_valid(rows: pd.DataFrame) -> pd.Series:
    """Whether each row counts. Simulated rows have no sums to verify."""
    exact = rows["verified"].astype(bool) | (rows["backend"] == SIMULATED)
    found: pd.Series = (rows["verdict"] == VALID) & exact & rows["jct_s"].notna()
    return found


def summary(rows: pd.DataFrame, styles: Styles) -> pd.DataFrame:
    """One row for each setting, place of INA, system and variant, of jobs that ran alone.

    ``shown`` says over which rows the means are: VALID, or INVALID if no row is valid, which is
    only displayed and never compared. ``times`` has the JCTs themselves.
    """
    keys = [*SETTING, *PLACE, *SERIES]
    alone = finished(rows[rows["beside"] == ""])
    if not len(alone):
        return pd.DataFrame(columns=[*keys, *_FIGURES])
    at_switches = (alone["switch_target"] != "") | (alone["switch_packets"].fillna(0) > 0)
    alone = alone.assign(is_valid=is_valid(alone), at_switches=at_switches)
    every = alone.groupby(keys, sort=False)
    used = counted(rows).groupby(keys, sort=False)
    table = used[list(_MEANS)].mean().rename(columns=_MEANS)
    table["tors"] = used["tors"].first()
    table["rows"], table["valid_rows"] = every.size(), every["is_valid"].sum()
    table["used_rows"] = used.size()
    table["shown"] = INVALID
    table.loc[table["valid_rows"] > 0, "shown"] = VALID
    table["aggregates"] = every["at_switches"].any()
    table["plans"] = [tuple(sorted({*own} - {""})) for _, own in used["plan"]]
    table["times"] = [own.to_numpy(float) for _, own in used["jct_s"]]
    speeds = [own.to_numpy(float) for _, own in used["throughput_samples_s"]]
    for name, samples in (("jct", table["times"]), ("throughput", speeds)):
        intervals = np.array(mean_intervals(list(samples)))
        table[f"{name}_low"], table[f"{name}_high"] = intervals.T
    table["error"] = table["jct_s"] / table["expected_jct_s"] - 1
    table["routed_error"] = table["jct_s"] / table["routed_jct_s"] - 1
    table = table.reset_index()
    table["aggregates"] |= table["system"].map(lambda name: style_of(name, styles).aggregates)
    place = {name: at for at, name in enumerate(ordered(table["system"].tolist(), styles))}
    return table.assign(order=table["system"].map(place)).sort_values(
        [*SETTING, "ina_unit", "ina_count", "ina_policy", "order", "variant"], ignore_index=True
    )


_MEANS = {
    "jct_s": "jct_s",
    "throughput_samples_s": "throughput",
    "iteration_s": "iteration_s",
    "algbw_gbit_s": "algbw",
    "exposed_comm_s": "exposed_s",
    "expected_jct_s": "expected_jct_s",
    "routed_jct_s": "routed_jct_s",
    "retransmitted": "retransmitted",
}
_FIGURES = [
    *_MEANS.values(), "tors", "rows", "valid_rows", "used_rows", "shown", "aggregates", "plans",
    "times", "jct_low", "jct_high", "throughput_low", "throughput_high", "error",
    "routed_error", "order",
]  # fmt: skip


def counted(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows over which a summary takes means."""
    alone = finished(rows[rows["beside"] == ""])
    good = is_valid(alone)
    some = good.groupby([alone[name] for name in (*SETTING, "ina", *SERIES)]).transform("any")
    return alone[good | ~some]


def is_shown(table: pd.DataFrame) -> pd.Series:
    """Which rows of a summary may be compared: all except means of only invalid rows."""
    found: pd.Series = table["shown"] != INVALID
    return found


def everywhere(table: pd.DataFrame) -> pd.DataFrame:
    """``table``, in which systems that ran at only one place of INA are copied to all places.

    That concerns only systems that do not aggregate in the network: the place makes no difference
    to them.
    """
    places = table[[*SETTING, *PLACE, "tors"]].drop_duplicates()
    own = table[~table["aggregates"].astype(bool)]
    own = own[~own.duplicated([*SETTING, *SERIES], keep=False)].rename(columns={"ina": "own"})
    moved = own.drop(columns=[*PLACE, "tors"], errors="ignore").merge(places, on=SETTING)
    moved = moved[moved["ina"] != moved["own"]].assign(moved=True)
    found = pd.concat([table.assign(moved=False), moved], ignore_index=True)
    return found[[*table.columns, "moved"]]


def at_place(
    rows: pd.DataFrame, ina: str, styles: Styles, keys: Sequence[str] = ("system",)
) -> pd.DataFrame:
    """The ``rows`` at a place of INA. A system that ran only elsewhere and does not aggregate has
    its rows at the first other place, by ``keys``; together, those of several places would be
    copies that count as repeats."""
    there = rows[rows["ina"] == ina]
    has = pd.MultiIndex.from_frame(rows[[*keys]]).isin(pd.MultiIndex.from_frame(there[[*keys]]))
    aggregates = rows["system"].map(lambda name: style_of(name, styles).aggregates).astype(bool)
    moved = rows[~has & ~aggregates]
    first = moved.groupby([*keys])["ina"].transform("first")
    return pd.concat([there, moved[moved["ina"] == first]])


def fullest(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of each setting in which the largest share of ToRs or switches aggregates."""
    table = everywhere(table)
    share = table["ina_count"] / table["ina_total"]
    share += 1e-6 * (table["ina_unit"] == "switches")  # all switches are more than all ToRs
    most = share.groupby([table[name] for name in SETTING]).transform("max")
    found: pd.DataFrame = table[share == most]
    return found


def settings(table: pd.DataFrame) -> Iterator[tuple[dict[str, Any], list[Record]]]:
    """Each setting and place of INA, with the rows that may be compared there."""
    keys = [*SETTING, *PLACE]
    rows = everywhere(table[is_shown(table)]).sort_values(
        [*SETTING, "ina_unit", "ina_count", *PLACE, "order", "variant"]
    )
    # All rows at once: making a table for each setting would take most of a large report's time.
    for key, group in groupby(rows.to_dict("records"), key=itemgetter(*keys)):
        yield dict(zip(keys, key, strict=True)), [*group]


def speed_ups(table: pd.DataFrame, styles: Styles) -> pd.DataFrame:
    """How many times as fast as each reference each system is at the same place.

    ``claim`` says whether the rank test finds a difference between the system and the last
    reference.
    """
    records: list[dict[str, Any]] = []
    pairs: list[tuple[Record, Record]] = []
    resampled: list[tuple[dict[str, Any], str, tuple[Any, Any]]] = []
    bases_of = references(styles)
    for place, rows in settings(table):
        first = {row["system"]: row for row in reversed(rows)}
        bases = [first[name] for name in bases_of if name in first]
        if len(rows) < 2 or not bases:
            continue
        for row in rows:
            record = {**place, "system": row["system"], "variant": row["variant"]}
            for base in bases:
                name = base["system"]
                record |= {name: base["jct_s"] / row["jct_s"]}
                resampled.append((record, name, (base["times"], row["times"])))
            records.append(record)
            pairs.append((row, bases[-1]))
    intervals = ratio_intervals([times for _, _, times in resampled])
    for (record, name, _), (low, high) in zip(resampled, intervals, strict=True):
        record |= {f"{name}_low": low, f"{name}_high": high}
    for record, (row, base), found in zip(records, pairs, differences(pairs), strict=True):
        record |= {"p": found.p, "claim": _claim(row, base, found)}
    columns = [f"{name}{end}" for name in bases_of for end in ("", "_low", "_high")]
    return pd.DataFrame.from_records(
        records, columns=[*SETTING, *PLACE, *SERIES, *columns, "p", "claim"]
    )


def _claim(row: Record, base: Record, found: Difference) -> str:
    if row is base:
        return "–"
    if found.tie:
        return f"tie: {found.tie}"
    if found.lacks_repeats:
        return "too few repeats"
    return "faster" if row["jct_s"] < base["jct_s"] else "slower"


def where(place: Mapping[str, Any]) -> str:
    """A setting and place of INA as text."""
    parts = [title(place["workload"]), f"{place['workers']} workers", names.fabric(place["fabric"])]
    parts += [names.settings(place["conditions"])] if place["conditions"] else []
    parts += [f"INA at {place['ina']}"] if "ina" in place else []
    return ", ".join(parts) + mark(place["backend"])


def warnings(table: pd.DataFrame) -> list[str]:
    """What a reader must know before relying on intervals and tests."""
    found = []
    emulated = table[(table["backend"] != SIMULATED) & is_shown(table)]
    fewest = int((emulated["used_rows"] < LEAST).sum())
    if fewest:
        found.append(
            f"{fewest} of {len(emulated)} means are of fewer than {LEAST} valid repeats. They have"
            " no interval, so it is unknown how much another run would differ."
        )
    few = int(((emulated["used_rows"] >= LEAST) & (emulated["used_rows"] < 5)).sum())
    if few:
        found.append(
            f"{few} of {len(emulated)} intervals are of 3 or 4 repeats. A bootstrap interval of so "
            "few is narrower than it should be."
        )
    short = int((emulated["used_rows"] < 4).sum())
    if short:
        found.append(
            f"{short} of {len(emulated)} means are of fewer than 4 repeats. A rank test needs "
            "about 4 of each system to find a difference at 5 %, and more for many pairs."
        )
    return found


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """How much each system's measured JCT differs from the closed form, by back end.

    Settings in which every row is invalid are left out.
    """
    table = table[is_shown(table) & table["error"].notna()]
    records = []
    for (backend, order, system, variant), group in table.groupby(
        ["backend", "order", "system", "variant"]
    ):
        del order
        off = group["error"]
        records.append(
            {
                "backend": backend,
                "system": system,
                "variant": variant,
                "settings": len(off),
                "mean": off.mean(),
                "lowest": off.min(),
                "highest": off.max(),
                "within": float((off.abs() <= 0.1).mean()),
                "routed_within": float((group["routed_error"].dropna().abs() <= 0.1).mean()),
            }
        )
    return pd.DataFrame.from_records(
        records,
        columns=[
            "backend",
            *SERIES,
            "settings",
            "mean",
            "lowest",
            "highest",
            "within",
            "routed_within",
        ],
    )


def beside(table: pd.DataFrame) -> pd.DataFrame:
    """The emulator's rows of a summary, with ``packets_jct_s`` of the same setting and system.

    Rows without both are left out. ``difference`` is relative to the emulator, as a ratio minus 1;
    ``is_valid`` says whether both have valid rows.
    """
    keys = [name for name in (*SETTING, *PLACE, *SERIES) if name != "backend"]
    packets = table[table["backend"] == "packet"].assign(packets_jct_s=lambda own: own["jct_s"])
    packets["packets_shown"] = packets["shown"]
    found = table[table["backend"] == "emulate"].merge(
        packets[[*keys, "packets_jct_s", "packets_shown"]], on=keys
    )
    found["difference"] = found["packets_jct_s"] / found["jct_s"] - 1
    found["is_valid"] = is_shown(found) & (found["packets_shown"] != INVALID)
    return found


def problems(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that failed or are not valid, with the reason."""
    bad = rows[~is_valid(rows)]
    error = bad["error"].fillna("")
    verdict = bad["verdict"].fillna("").replace("", "not verified")
    verdict = verdict.mask(verdict == VALID, "sums not verified")
    return bad.assign(reason=error.where(error != "", verdict))

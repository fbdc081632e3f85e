"""Means, ratios and errors of rows. Only valid rows count.

Rows carry the labels of ``settings.label`` here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from testbed.report.settings import PLACE, SERIES, SETTING
from testbed.report.statistics import LEAST, LEVEL, least_p, mean_interval, rank_tests
from testbed.report.statistics import ratio_interval as interval_of_ratio
from testbed.report.system_style import Series, Styles, ordered, references, style_of

Record = dict[str, Any]

VALID, INVALID, MIXED = "valid", "not valid", "some not valid"
SIMULATED = "simulate"


def finished(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that have a JCT, valid or not."""
    return rows[rows["jct_s"].notna()]


def is_valid(rows: pd.DataFrame) -> pd.Series:
    """Whether each row counts. Simulated rows have no sums to verify."""
    exact = rows["verified"].astype(bool) | (rows["backend"] == SIMULATED)
    found: pd.Series = (rows["verdict"] == VALID) & exact & rows["jct_s"].notna()
    return found


def summary(rows: pd.DataFrame, styles: Styles, include_invalid: bool = False) -> pd.DataFrame:
    """One row for each setting, place of INA, system and variant, of jobs that ran alone.

    ``shown`` says which rows the means are over: VALID; INVALID where no row is valid, for display
    only and never compared; MIXED if both were requested. ``times`` holds the JCTs themselves.
    """
    keys = [*SETTING, *PLACE, *SERIES]
    alone = finished(rows[rows["beside"] == ""])
    if not len(alone):
        return pd.DataFrame(columns=[*keys, *_FIGURES])
    at_switches = (alone["switch_target"] != "") | (alone["switch_packets"].fillna(0) > 0)
    alone = alone.assign(is_valid=is_valid(alone), at_switches=at_switches)
    every = alone.groupby(keys, sort=False)
    used = counted(rows, include_invalid).groupby(keys, sort=False)
    table = used[list(_MEANS)].mean().rename(columns=_MEANS)
    table["tors"] = used["tors"].first()
    table["rows"], table["valid_rows"] = every.size(), every["is_valid"].sum()
    table["used_rows"] = used.size()
    table["shown"] = INVALID
    table.loc[table["valid_rows"] > 0, "shown"] = MIXED
    table.loc[table["valid_rows"] >= table["used_rows"], "shown"] = VALID
    table["aggregates"] = every["at_switches"].any()
    table["times"] = [own.to_numpy(float) for _, own in used["jct_s"]]
    speeds = [own.to_numpy(float) for _, own in used["throughput_samples_s"]]
    for name, samples in (("jct", table["times"]), ("throughput", speeds)):
        intervals = np.array([mean_interval(sample) for sample in samples])
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
    *_MEANS.values(), "tors", "rows", "valid_rows", "used_rows", "shown", "aggregates", "times",
    "jct_low", "jct_high", "throughput_low", "throughput_high", "error",
    "routed_error", "order",
]  # fmt: skip


def counted(rows: pd.DataFrame, include_invalid: bool = False) -> pd.DataFrame:
    """The rows over which a summary takes means."""
    alone = finished(rows[rows["beside"] == ""])
    good = is_valid(alone)
    some = good.groupby([alone[name] for name in (*SETTING, "ina", *SERIES)]).transform("any")
    return alone if include_invalid else alone[good | ~some]


def is_shown(table: pd.DataFrame) -> pd.Series:
    """Rows of a summary that may be compared: all but means of invalid rows alone."""
    found: pd.Series = table["shown"] != INVALID
    return found


def everywhere(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` with systems that ran at one place of INA only copied to all places.

    Only systems that do not aggregate in the network, to which the place makes no difference.
    """
    parts = [table.assign(moved=False)]
    for _, group in table.groupby(SETTING):
        places = group[[*PLACE, "tors"]].drop_duplicates()
        if len(places) == 1:
            continue
        for _, own in group[~group["aggregates"].astype(bool)].groupby(SERIES):
            if len(own) == 1:
                others = places[places["ina"] != own["ina"].iloc[0]]
                moved = own.drop(columns=[*PLACE, "tors"]).merge(others, how="cross")
                parts.append(moved.assign(moved=True))
    return pd.concat(parts, ignore_index=True)[[*table.columns, "moved"]]


def fullest(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of each setting at which the largest share of ToRs or switches aggregates."""
    table = everywhere(table)
    share = table["ina_count"] / table["ina_total"]
    share += 1e-6 * (table["ina_unit"] == "switches")  # all switches are more than all ToRs
    most = share.groupby([table[name] for name in SETTING]).transform("max")
    found: pd.DataFrame = table[share == most]
    return found


def settings(table: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each setting and place of INA, with the rows that may be compared there."""
    keys = [*SETTING, *PLACE]
    for key, group in everywhere(table[is_shown(table)]).groupby(keys, sort=True):
        yield dict(zip(keys, key, strict=True)), group.sort_values(["order", "variant"])


def speed_ups(table: pd.DataFrame, styles: Styles) -> pd.DataFrame:
    """How many times as fast as each of the references each system is at the same place.

    ``claim`` says whether the rank test tells the system apart from the last reference.
    """
    records: list[dict[str, Any]] = []
    pairs = []
    names = references(styles)
    for place, group in settings(table):
        rows = group.to_dict("records")
        first = {row["system"]: row for row in reversed(rows)}
        bases = [first[name] for name in names if name in first]
        if len(rows) < 2 or not bases:
            continue
        for row in rows:
            record = {**place, "system": row["system"], "variant": row["variant"]}
            for base in bases:
                name = base["system"]
                low, high = interval_of_ratio(base["times"], row["times"])
                record |= {name: base["jct_s"] / row["jct_s"]}
                record |= {f"{name}_low": low, f"{name}_high": high}
            records.append(record)
            pairs.append((row, bases[-1]))
    for record, (row, base), p in zip(records, pairs, _tested(pairs), strict=True):
        record |= {"p": p, "claim": _claim(row, base, p)}
    columns = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    return pd.DataFrame.from_records(
        records, columns=[*SETTING, *PLACE, *SERIES, *columns, "p", "claim"]
    )


def _tested(pairs: Sequence[tuple[Record, Record]]) -> list[float]:
    """p of each pair; nan where a system is compared with itself, where repeats are too few, and
    where both are simulated, which needs no test.
    """
    places = [
        place
        for place, (row, base) in enumerate(pairs)
        if row is not base and row["backend"] != SIMULATED and not _too_few(row, base)
    ]
    found = [np.nan] * len(pairs)
    tested = rank_tests([(pairs[place][0]["times"], pairs[place][1]["times"]) for place in places])
    for place, p in zip(places, tested, strict=True):
        found[place] = p
    return found


def _too_few(row: Record, base: Record) -> bool:
    """Whether a rank test of so few repeats can never show a difference."""
    return least_p(len(row["times"]), len(base["times"])) > LEVEL


def _claim(row: Record, base: Record, p: float) -> str:
    if row is base:
        return "–"
    word = "faster" if row["jct_s"] < base["jct_s"] else "slower"
    if row["backend"] == SIMULATED:
        return word
    if _too_few(row, base):
        return "too few repeats"
    return word if p < LEVEL else "no difference shown"


def headlines(table: pd.DataFrame, titles: Mapping[Series, str], styles: Styles) -> list[str]:
    """The fastest system in each setting, its lead over the next, and whether it is significant.

    Systems whose workers do not wait for one another are left out: times do not show what their
    speed costs in accuracy.
    """
    ranked = []
    for place, group in settings(table):
        rows = [row for row in group.to_dict("records") if style_of(row["system"], styles).waits]
        if rows:
            ranked.append((place, sorted(rows, key=lambda row: float(row["jct_s"]))[:2]))
    pairs = [(rows[0], rows[-1]) for _, rows in ranked]
    sentences = []
    for (place, rows), (best, second), p in zip(ranked, pairs, _tested(pairs), strict=True):
        name, other = (titles[row["system"], row["variant"]] for row in (best, second))
        if len(rows) == 1:
            sentences.append(f"{where(place)}: only {name} has a valid row.")
            continue
        ratio = f"{second['jct_s'] / best['jct_s']:.2f} times as fast as {other}"
        said = f"{name} is fastest, {ratio}"
        if p >= LEVEL or f"{second['jct_s'] / best['jct_s']:.2f}" == "1.00":
            said = f"{name} and {other} are not told apart: {name} is {ratio}"
        sentences.append(f"{where(place)}: {said}{_sure(best, second, p)}.")
    if not len(table) or not is_shown(table).any():
        sentences.append(
            "No row is valid: this machine could not carry the run. There is no comparison."
        )
    return sentences


def _sure(best: Record, second: Record, p: float) -> str:
    """How certain it is that ``best`` is faster, as the end of a sentence."""
    if best["backend"] == SIMULATED:
        return " (simulated)"
    low, high = interval_of_ratio(second["times"], best["times"])
    interval = "" if np.isnan(low) else f"95 % interval {low:.2f} to {high:.2f}; "
    counts = f"{len(best['times'])} and {len(second['times'])} repeats"
    if _too_few(best, second):
        return f" ({interval}{counts} are too few for a rank test)"
    claim = ": no difference is claimed" if p >= LEVEL else ""
    return f" ({interval}rank test p = {p:.2g}{claim})"


def where(place: Mapping[str, Any]) -> str:
    """A setting and place of INA as text."""
    parts = [place["workload"], f"{place['workers']} workers", place["fabric"]]
    parts += [place["conditions"]] if place["conditions"] else []
    parts += [f"INA at {place['ina']}"] if "ina" in place else []
    return ", ".join(parts) + (" (simulated)" if place["backend"] == SIMULATED else "")


def warnings(table: pd.DataFrame) -> list[str]:
    """What a reader must know before believing intervals and tests."""
    found = []
    emulated = table[(table["backend"] != SIMULATED) & is_shown(table)]
    one = int((emulated["used_rows"] < LEAST).sum())
    if one:
        found.append(
            f"{one} of {len(emulated)} means are of fewer than {LEAST} valid repeats: they have no "
            "interval, and how far another run would differ is unknown."
        )
    few = int(((emulated["used_rows"] >= LEAST) & (emulated["used_rows"] < 5)).sum())
    if few:
        found.append(
            f"{few} of {len(emulated)} intervals are of 3 or 4 repeats: a bootstrap over so few "
            "is narrower than it should be."
        )
    short = int((emulated["used_rows"] < 4).sum())
    if short:
        found.append(
            "A rank test needs 4 repeats of each system to tell them apart at 5 %; no difference "
            f"is claimed where there are fewer ({short} of {len(emulated)} means)."
        )
    return found


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """How far each system's measured JCT is from the closed form, by back end.

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


def problems(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that failed or are not valid, with the reason."""
    bad = rows[~is_valid(rows)]
    error = bad["error"].fillna("")
    verdict = bad["verdict"].fillna("").replace("", "not verified")
    verdict = verdict.mask(verdict == VALID, "sums not verified")
    return bad.assign(reason=error.where(error != "", verdict))

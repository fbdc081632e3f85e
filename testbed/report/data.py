"""Statistics over result rows: only valid rows count, and every interval says what it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

VALID = "valid"
SETTING = ["workload", "topology", "workers", "ina_tors", "tors", "switch_target"]
"""Columns that tell one setting from another; systems are compared within one."""

_FIGURES = [
    "rows",
    "valid_rows",
    "shown",
    "jct_s",
    "jct_low",
    "jct_high",
    "throughput",
    "throughput_low",
    "throughput_high",
    "algbw",
    "exposed_s",
    "expected_jct_s",
]

ENOUGH_REPEATS = 3
_RESAMPLES = 2000


def setting(rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` with what a figure compares: systems without INA belong to every switch target."""
    return rows.assign(switch_target=rows["switch_target"].fillna("").replace("", "–"))


def finished(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that have a figure at all, valid or not."""
    return rows[rows["jct_s"].notna()]


def valid(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["verdict"] == VALID) & rows["verified"].astype(bool) & rows["jct_s"].notna()]


def interval(values: npt.ArrayLike) -> tuple[float, float]:
    """A 95 % bootstrap interval of the mean from three values on, else their range."""
    sample = np.asarray(values, float)
    if len(sample) < ENOUGH_REPEATS:
        return float(sample.min()), float(sample.max())
    random = np.random.default_rng(0)
    means = random.choice(sample, (_RESAMPLES, len(sample))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per setting and system.

    ``shown`` says whether its figures are means of valid rows ("valid") or, where there is none,
    of invalid ones ("not valid"), which are for looking at and never compared.
    """
    records = []
    keys = [*SETTING, "system"]
    for key, group in finished(setting(rows)).groupby(keys, sort=False, dropna=False):
        good = valid(group)
        used = good if len(good) else group
        low, high = interval(used["jct_s"])
        fast_low, fast_high = interval(used["throughput_samples_s"])
        records.append(
            dict(zip(keys, key, strict=True))
            | {
                "rows": len(group),
                "valid_rows": len(good),
                "shown": VALID if len(good) else "not valid",
                "jct_s": used["jct_s"].mean(),
                "jct_low": low,
                "jct_high": high,
                "throughput": used["throughput_samples_s"].mean(),
                "throughput_low": fast_low,
                "throughput_high": fast_high,
                "algbw": used["algbw_gbit_s"].mean(),
                "exposed_s": used["exposed_comm_s"].mean(),
                "expected_jct_s": used["expected_jct_s"].mean(),
            }
        )
    table = pd.DataFrame.from_records(records, columns=[*keys, *_FIGURES])
    table["error"] = table["jct_s"] / table["expected_jct_s"] - 1
    return table.sort_values(["workload", "topology", "ina_tors", "system"], ignore_index=True)


def everywhere(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` with systems that were run at one number of INA ToRs only, while others varied it,
    standing at every number: they do not aggregate in the network, so it is all one to them.
    """
    parts = [table]
    for _, group in table.groupby(["workload", "topology", "workers"]):
        numbers = group[["ina_tors", "tors"]].drop_duplicates()
        for _, own in group.groupby("system"):
            if len(numbers) > 1 and own["ina_tors"].nunique() == 1:
                missing = numbers[numbers["ina_tors"] != own["ina_tors"].iloc[0]]
                parts.append(own.drop(columns=["ina_tors", "tors"]).merge(missing, how="cross"))
    return pd.concat(parts, ignore_index=True)[list(table.columns)]


def same_place(rows: pd.DataFrame, row: pd.Series) -> pd.DataFrame:
    """Rows of ``rows`` that may be compared with ``row``: same workload, fabric and workers."""
    keys = ["workload", "topology", "workers", "ina_tors", "tors"]
    return rows[(rows[keys] == row[keys]).all(axis=1)]


def speed_ups(table: pd.DataFrame, baselines: Sequence[str] = ("ps", "ring")) -> pd.DataFrame:
    """How many times faster each valid system is than each baseline in the same setting."""
    good = everywhere(table[table["shown"] == VALID])
    records = []
    for _, row in good.iterrows():
        place = same_place(good, row).set_index("system")["jct_s"]
        ratios = {
            baseline: float(np.atleast_1d(place[baseline])[0]) / row["jct_s"]
            for baseline in baselines
            if baseline in place.index
        }
        records.append({**row[[*SETTING, "system"]].to_dict(), **ratios})
    return pd.DataFrame.from_records(records, columns=[*SETTING, "system", *baselines])


def headlines(table: pd.DataFrame, titles: dict[str, str]) -> list[str]:
    """Who was fastest in each setting, by how much over the next, and whether that can be said."""
    sentences = []
    good = everywhere(table[table["shown"] == VALID])
    for key, group in good.groupby(["workload", "workers", "ina_tors", "tors"], sort=True):
        workload, workers, ina_tors, tors = key
        ranked = group.sort_values("jct_s")
        place = f"{workload}, {workers} workers, INA at {ina_tors} of {tors} ToRs"
        best = ranked.iloc[0]
        name = titles.get(best["system"], best["system"])
        if len(ranked) == 1:
            sentences.append(f"{place}: only {name} has a valid row.")
            continue
        second = ranked.iloc[1]
        ratio = second["jct_s"] / best["jct_s"]
        other = titles.get(second["system"], second["system"])
        sentence = f"{place}: {name} is fastest, {ratio:.2f} times as fast as {other}"
        if min(best["valid_rows"], second["valid_rows"]) < ENOUGH_REPEATS:
            sentence += f" (fewer than {ENOUGH_REPEATS} valid repeats: no interval)"
        elif best["jct_high"] >= second["jct_low"]:
            sentence += " (their intervals overlap: no difference is claimed)"
        sentences.append(sentence + ".")
    if not sentences:
        sentences.append(
            "No row is valid: this machine could not carry the run. Nothing is compared."
        )
    return sentences


def problems(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that are failed or not valid, with the reason."""
    bad = rows[(rows["verdict"] != VALID) | ~rows["verified"].astype(bool)]
    reason = bad["error"].fillna("").where(bad["error"].fillna("") != "", bad["verdict"])
    return bad.assign(reason=reason)

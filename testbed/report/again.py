"""Which rows count if the same ran several times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pandas as pd

from testbed.report.runs import Run
from testbed.report.settings import PLACE, SEED, SERIES, SETTING

_LABELS = (*SETTING, *PLACE, *SERIES, "beside", "others")


def latest(rows: pd.DataFrame, about: Mapping[str, Run]) -> pd.DataFrame:
    """``rows`` without those that a later run replaces. ``about`` has all their runs.

    A run replaces an earlier one's rows of a cell if code or inputs have changed in between. In
    virtual time it also replaces the same repeat of the same code, since identical runs count once.
    Within a run all rows count, because `resume` looks after their versions. The rows of a run that
    was copied count once.
    """
    order = sorted(about, key=lambda run: (about[run].started, run))
    place = rows["run"].map({run: at for at, run in enumerate(order)})
    rows = _without_copies(rows, place)
    place = place[rows.index]
    newest = place.groupby(rows["cell"]).transform("max") == place
    versions = rows["version"].fillna("")
    made = pd.Series([*zip(rows["cell"], versions, strict=True)], index=rows.index)
    current = rows[made.isin(set(made[newest]))].assign(place=place)
    last = current.groupby(["cell", "repeat", "job"])["place"].transform("max")
    kept = current[(current["place"] == last) | (current["backend"] == "emulate")]
    return kept.drop(columns="place")


def _without_copies(rows: pd.DataFrame, place: pd.Series) -> pd.DataFrame:
    """``rows`` without those that a run at a later ``place`` has, too, with all their figures."""
    same = rows.loc[place.sort_values(kind="stable").index, rows.columns.drop("run")]
    copied = same.duplicated(keep="last")
    return rows[~copied.reindex(rows.index)]


def once(rows: pd.DataFrame, labels: Sequence[str] = _LABELS) -> pd.DataFrame:
    """``rows`` in which identical runs in virtual time, such as INA at 0.4 and at 0.5 of two ToRs,
    count once. Cells that differ in ``labels`` all count."""
    seed = rows["settings"].map(lambda settings: str(json.loads(settings).get(SEED)))
    same = rows.assign(seed=seed).duplicated([*labels, "run", "job", "repeat", "seed", "deployed"])
    exact = (rows["backend"] != "emulate") & (rows["deployed"].fillna("") != "")
    return rows[~(exact & same)]

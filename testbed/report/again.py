"""Which rows count if a cell ran in several directories."""

from __future__ import annotations

import pandas as pd

VIRTUAL = ("packet", "simulate")
"""Back ends on which a cell's repeat gives the same row each time."""


def latest(rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` without those that a later run replaces.

    A run replaces an earlier one's rows of a cell if code or inputs have changed in between. In
    virtual time it also replaces the same repeat of the same code, which is no other sample.
    Within a run all rows count, because `resume` looks after their versions.
    """
    started = rows["started_at"].fillna("").groupby(rows["run"]).transform("max") + rows["run"]
    newest = started.groupby(rows["cell"]).transform("max") == started
    versions = rows[newest].groupby("cell")["version"].agg(lambda own: frozenset(own.fillna("")))
    known = zip(rows["version"].fillna(""), rows["cell"].map(versions), strict=True)
    current = newest | pd.Series([version in own for version, own in known], index=rows.index)
    alike = [rows["cell"], rows["repeat"], rows["job"]]
    last = started.where(current, "").groupby(alike).transform("max") == started
    return rows[current & (last | ~rows["backend"].isin(VIRTUAL))]

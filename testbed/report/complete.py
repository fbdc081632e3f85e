"""Rows that lack a number, which a damaged table has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from testbed.run_tables import Unreadable


def check_numbers(table: pd.DataFrame, columns: Sequence[str], name: str) -> None:
    """Raise Unreadable if a row of the table in files ``name`` lacks one of the ``columns``."""
    absent = table[list(columns)].isna().any(axis="columns")
    if absent.any():
        path = Path(table.loc[absent.idxmax(), "run"]) / name
        *others, last = columns
        listed = f"{', '.join(others)} or {last}" if others else last
        raise Unreadable(f"{path}: found no number in {listed}, wanted what `run` wrote")

"""The cells that are explained: of an experiment, or of a run's directory."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from testbed import results
from testbed.deployment.experiments import read
from testbed.experiment.cells import Cell, expand
from testbed.experiment.schema import Experiment


class NoCell(ValueError):
    """There is nothing to explain; the message says what was found and wanted."""


def of_experiment(experiment: Experiment, asked: str | None, most: int) -> list[Cell]:
    """The first ``most`` cells in packets, or the cell whose id begins as ``asked``."""
    found = [cell for cell in expand(experiment) if not cell.repeat]
    if asked is not None:
        found = _asked(found, asked)
    able = [cell for cell in found if cell.experiment.backend == "packet"]
    if not able:
        raise NoCell(
            f"{experiment.name}: found backend: {found[0].experiment.backend}, wanted packet, whose"
            " runs can be repeated without a cause; run it and explain the directory of results,"
            " or write backend: packet"
        )
    return able[:most]


def of_run(run: Path, asked: str | None, most: int) -> tuple[list[Cell], pd.DataFrame]:
    """The slowest ``most`` cells in packets, measured by their closed form, or the one ``asked``
    for; and the rows of other back ends among these.

    Unreadable or FileNotFoundError if the directory has no results.
    """
    rows = results.read([run]).results
    rows = rows[rows["jct_s"].notna()]
    if asked is not None:
        rows = rows[rows["cell"].str.startswith(asked)]
    if not len(rows):
        raise NoCell(
            f"{run}: found no finished row{f' of a cell {asked}' if asked else ''}, wanted one;"
            " see the column cell of results.csv"
        )
    rows = rows.assign(over=rows["jct_s"] / rows["expected_jct_s"])
    rows = rows.sort_values("over", ascending=False, kind="stable").drop_duplicates("cell")
    in_packets = rows[rows["backend"] == "packet"]
    known = {(cell.id, cell.repeat): cell for cell in expand(read(run / results.EXPERIMENT))}
    wanted = [(row.cell, int(row.repeat)) for row in in_packets.head(most).itertuples()]
    cells = [known[key] for key in wanted if key in known]
    others = rows[rows["backend"] != "packet"].head(most)
    if not cells and not len(others):
        raise NoCell(f"{run}: found no cell of its {results.EXPERIMENT}, wanted one")
    return cells, others


def _asked(cells: list[Cell], asked: str) -> list[Cell]:
    found = [cell for cell in cells if cell.id.startswith(asked)]
    if not found:
        raise NoCell(
            f"--cell: found {asked!r}, wanted one of {', '.join(cell.id for cell in cells[:8])}"
            f"{', ...' if len(cells) > 8 else ''}; see run --dry-run"
        )
    return found

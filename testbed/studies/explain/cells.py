"""The cells to explain, of an experiment or of a run's directory."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from testbed import results, run_tables
from testbed.campaign.planning import NoCell, found_no, of_ids
from testbed.deployment.experiments import read
from testbed.experiment.cells import Cell, expand
from testbed.experiment.schema import Experiment


def of_experiment(experiment: Experiment, asked: str | None, most: int) -> list[Cell]:
    """The first ``most`` cells in packets; with ``asked``, only of those whose ids begin with
    it."""
    found = [cell for cell in expand(experiment) if not cell.repeat]
    if asked is not None:
        found = of_ids(found, [asked])
    able = [cell for cell in found if cell.experiment.backend == "packet"]
    if not able:
        raise NoCell(
            f"{experiment.name}: found backend: {found[0].experiment.backend}, wanted packet, whose"
            " runs can be repeated without a cause; run it and explain the directory of results,"
            " or write backend: packet"
        )
    return able[:most]


def of_run(
    run: Path, asked: str | None, most: int, job: int
) -> tuple[list[tuple[Cell, float]], pd.DataFrame]:
    """The ``most`` cells whose ``job`` is slowest relative to its closed form: those in packets,
    each with the JCT of its row, and that job's rows of the others. With ``asked``, only cells
    whose ids begin with it count.

    Raises Unreadable or FileNotFoundError if the directory has no results.
    """
    rows = run_tables.read([run]).results
    failed, rows = rows[rows["error"] != ""], rows[rows["jct_s"].notna()]
    if not len(rows):
        why = f"; its first cell failed: {failed['error'].iloc[0]}" if len(failed) else ""
        raise NoCell(f"{run}: found no finished row, wanted one{why}")
    if asked is not None:
        chosen = rows[rows["cell"].str.startswith(asked)] if asked else rows[:0]
        if not len(chosen):
            raise NoCell(found_no(asked, rows["cell"].unique()))
        rows = chosen
    last, rows = rows["job"].max(), rows[rows["job"] == job]
    if not len(rows):
        raise NoCell(f"--job: found {job}, wanted at most {last}, the last job")
    rows = rows.assign(over=rows["jct_s"] / rows["expected_jct_s"])
    rows = rows.sort_values("over", ascending=False, kind="stable").drop_duplicates("cell")
    rows = rows.head(most)
    in_packets = rows[rows["backend"] == "packet"]
    known = {(cell.id, cell.repeat): cell for cell in expand(read(run / results.EXPERIMENT))}
    wanted = [((row.cell, int(row.repeat)), row.jct_s) for row in in_packets.itertuples()]
    cells = [(known[key], jct_s) for key, jct_s in wanted if key in known]
    others = rows[rows["backend"] != "packet"]
    if not cells and not len(others):
        raise NoCell(f"{run}: found no cell of its {results.EXPERIMENT}, wanted one")
    return cells, others

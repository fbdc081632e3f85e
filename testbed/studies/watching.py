"""The state of a run, finished or not: what is done, which system leads, how long the rest
takes."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from testbed import results, run_tables
from testbed.campaign import journal
from testbed.campaign.resume import is_held
from testbed.campaign.standings import Standing, Standings, records
from testbed.experiment.findings import counted
from testbed.report.runs import duration
from testbed.systems import registry

_MOST_PROBLEMS = 5


@dataclass(frozen=True)
class Watched:
    """A run as it is now.

    Attributes:
        status: whether it is being written; "ended" if all its cells were.
        done: the cells and repeats that have a row for each job, over all sessions.
        journal: the journal of the last session.
    """

    run: Path
    status: Literal["runs", "ended", "interrupted"]
    done: frozenset[tuple[str, str]]
    journal: journal.Journal
    standings: Standings


def look(run: Path) -> Watched:
    """The state of a run's directory. Raises FileNotFoundError or Unreadable if it holds no run."""
    if not (run / results.RESULTS).is_file():
        raise FileNotFoundError(
            f"found no {results.RESULTS} in {run}, wanted the directory of a run"
        )
    # Before the tables: a run that ends meanwhile is seen as whole later.
    is_being_written = is_held(run)
    metadata = run_tables.read_metadata(run)
    standings = Standings({name: system.title for name, system in registry.items()})
    rows: Counter[tuple[str, str]] = Counter()
    for row in records(run):
        standings.add(row)
        rows[row["cell"], row["repeat"]] += 1
    jobs = max(rows.values(), default=0)  # cells of a run have the same number of jobs
    done = [key for key, count in rows.items() if count == jobs]
    ended = metadata.get("finished_at") is not None
    status: Literal["runs", "ended", "interrupted"] = (
        "runs" if is_being_written else "ended" if ended else "interrupted"
    )
    return Watched(run, status, frozenset(done), journal.read(run), standings)


def lines(watched: Watched, now: float) -> Iterator[str]:
    """The state as text; ``now`` is in seconds of the epoch."""
    own, standings = watched.journal, watched.standings
    cells = set(watched.done)
    if watched.status != "ended":
        cells |= {(cell, str(repeat)) for cell, repeat in own.titles}
    said = f"{len(watched.done)} of {counted(len(cells), 'cell')} done"
    if watched.status == "runs":
        said += f", {len(own.running)} running, about {duration(own.left_s(now))} left"
    elif watched.status == "interrupted":
        run = shlex.quote(str(watched.run))
        said += f"; it was interrupted, run --resume {run} runs the rest"
    yield f"{watched.run}: {said}"
    yield standings.counts
    yield from (f"  {each}" for each in standings.problems[-_MOST_PROBLEMS:])
    if watched.status == "runs":
        for key, since in own.running.items():
            yield f"running for {now - since:.0f} s: {own.titles[key]}"
    for setting, ranked in standings:
        yield f"\n{setting}"
        yield from _ranking(ranked)
    if watched.done:
        yield "\nJCT with its 95 % interval (3 repeats or more); only the report tests differences"


def _ranking(ranked: list[Standing]) -> Iterator[str]:
    width = max(len(each.name) for each in ranked)
    for each in ranked:
        figures = str(each).removeprefix(each.name).strip()
        slower = each.jct_s / ranked[0].jct_s
        yield (
            f"  {each.name:{width}}  {figures:34}  {slower:5.2f} times the fastest"
            f"  {counted(each.repeats, 'repeat')}"
        )

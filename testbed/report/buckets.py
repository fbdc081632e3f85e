"""When each bucket was in flight at each rank, from the timelines that `run --timeline` wrote."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from testbed import results
from testbed.report import canvas
from testbed.report.panels import SeriesStyles, headed
from testbed.report.tables import number
from testbed.report.timeline import COMPUTE, STALLED, bars

_RANK = re.compile(r"rank (\d+) \((\w+)\) (iterations|compute)")
_UNIT = re.compile(r"unit (\d+) of iteration (-?\d+)")
_MOST_RANKS, _MOST_FIGURES = 4, 2
Span = tuple[float, float]


@dataclass
class Rank:
    """What a rank did and when, in seconds of the real cluster: by name, or by (unit,
    iteration)."""

    host: str = ""
    spans: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    units: dict[tuple[int, int], Span] = field(default_factory=dict)


def read(path: Path) -> dict[int, dict[int, Rank]]:
    """The ranks of each job in a timeline, by number. Raises OSError, or ValueError if it is
    damaged."""
    try:
        content = json.loads(path.read_text())
        return _ranks(content["traceEvents"], 1e6 * float(content["otherData"]["scale"]))
    except (AttributeError, KeyError, RecursionError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"{path}: found no timeline, wanted what run --timeline wrote") from error


def _ranks(events: list[Mapping[str, Any]], per_second: float) -> dict[int, dict[int, Rank]]:
    jobs: dict[int, dict[int, Rank]] = defaultdict(lambda: defaultdict(Rank))
    numbers: dict[int, int] = {}
    threads: dict[tuple[int, int], int] = {}
    begun: dict[int, float] = {}
    for event in events:
        kind, process = event["ph"], event["pid"]
        named = str(event.get("args", {}).get("name", ""))
        if event["name"] == "process_name" and (found := re.match(r"job (\d+)", named)):
            numbers[process] = int(found[1])
        if process not in numbers:
            continue
        ranks = jobs[numbers[process]]
        if kind == "M" and (found := _RANK.match(named)):
            threads[process, event["tid"]] = int(found[1])
            ranks[int(found[1])].host = found[2]
        elif kind == "X" and (process, event["tid"]) in threads:
            start = event["ts"] / per_second
            rank = ranks[threads[process, event["tid"]]]
            rank.spans[event["name"]].append((start, start + event["dur"] / per_second))
        elif kind == "b":
            begun[event["id"]] = event["ts"] / per_second
        elif kind == "e" and (unit := _UNIT.match(event["name"])):
            rank = ranks[int(event["cat"].removeprefix("rank "))]
            span = begun[event["id"]], event["ts"] / per_second
            rank.units[int(unit[1]), int(unit[2])] = span
    return jobs


@dataclass(frozen=True)
class Recorded:
    """A cell's timeline: its file, and for each of its jobs the row of results and the ranks."""

    path: Path
    jobs: Mapping[int, tuple[Mapping[str, Any], Mapping[int, Rank]]]


def recorded(rows: pd.DataFrame) -> list[Recorded]:
    """The first timelines of ``rows``. Damaged files are left out."""
    made: list[Recorded] = []
    paths = (
        (run, path)
        for run in rows["run"].unique()
        for path in sorted((Path(run) / results.LOGS).glob(f"*/{results.TIMELINE}"))
    )
    for run, path in paths:
        if len(made) == _MOST_FIGURES:
            break
        cell, _, repeat = path.parent.name.rpartition("-")
        own = rows[(rows["run"] == run) & (rows["cell"] == cell)]
        own = own[own["repeat"].astype(str) == repeat]
        try:
            jobs = read(path)
        except (OSError, ValueError):
            continue
        found = {row["job"]: row for row in own.to_dict("records") if jobs.get(row["job"])}
        if found:
            made.append(Recorded(path, {job: (row, jobs[job]) for job, row in found.items()}))
    return made


def drawn(recorded: Recorded, styles: SeriesStyles) -> Figure:
    """A panel for each job: one iteration, a line for each rank and one for each of its buckets."""
    jobs = recorded.jobs
    titles, facets, most = [], [], 0
    for row, ranks in jobs.values():
        title = styles[row["system"], row["variant"]].title
        titles.append(f"job {row['job']}: {title}\n{headed({**row, 'conditions': ''})}")
        facets.append(canvas.facets(row["workload"], row["fabric"]))
        count = len({unit for rank in ranks.values() for unit, _ in rank.units})
        most = max(most, min(len(ranks), _MOST_RANKS) * (count + 3))
    legend = [
        Patch(color=COMPUTE, label="compute"),
        Patch(color=STALLED, label="forward pass waits for sums"),
        Patch(color="#555555", label="a bucket in flight"),
    ]
    figure, all_axes = canvas.panels(
        titles, height=0.055 * most, left=0.85, legend=legend, facets=facets
    )
    for axes, (row, ranks) in zip(all_axes, jobs.values(), strict=True):
        style = styles[row["system"], row["variant"]]
        units = sorted({unit for rank in ranks.values() for unit, _ in rank.units})
        iteration = max((each for rank in ranks.values() for _, each in rank.units), default=0) // 2
        shown = dict(sorted(ranks.items())[:_MOST_RANKS])
        spans = [
            span
            for rank in shown.values()
            for span in [
                *rank.spans.get(f"iteration {iteration}", ()),
                *(own for (_, its), own in rank.units.items() if its == iteration),
            ]
        ]
        first = min((span[0] for span in spans), default=0.0)
        last = max((span[1] for span in spans), default=1.0)
        ticks, line = {}, 0.0
        for number_, rank in shown.items():
            ticks[line + 0.5] = f"rank {number_} ({rank.host})"
            for name, colour in (("compute", COMPUTE), ("waits for sums", STALLED)):
                parts = [
                    (max(begun, first) - first, min(ended, last) - first, line + 0.4)
                    for begun, ended in rank.spans.get(name, ())
                    if ended > first and begun < last
                ]
                span = bars(axes, parts, colour, 1.8)
                canvas.note(span, "mark", system=row["system"], words=f"rank {number_}: {name}")
            line += 2
            for place, unit in enumerate(units):
                if (unit, iteration) in rank.units:
                    begun, ended = rank.units[unit, iteration]
                    bar = bars(axes, [(begun - first, ended - first, line)], style.colour)
                    bar.set_alpha(0.9 if place % 2 else 0.6)
                    text = f"rank {number_}, bucket {unit}: {number(1e3 * (begun - first))} ms to"
                    text += f" {number(1e3 * (ended - first))} ms"
                    canvas.note(bar, "mark", system=row["system"], words=text)
                line += 1
            line += 1
        canvas.set_scale(axes, "x", (0, (last - first) * 1.01, False))
        axes.set_ylim(line - 1, -1)
        axes.set_yticks([*ticks], [*ticks.values()])
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"time in iteration {iteration} (s)", labelpad=1)
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
    return figure

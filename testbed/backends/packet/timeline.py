"""When ranks, links and switches were busy, in the Chrome Trace Event Format.

https://ui.perfetto.dev and chrome://tracing open the file. The format:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

Each job is a process with two threads per worker. *iterations* has them end to end, from one last
sum to the next, as results count them, and marks in them what computation does not hide. *compute*
has the passes, which may begin before the last sum of the previous iteration, and their waits for
sums. Each unit (a bucket or a partition of one) is an asynchronous event, because units overlap.
Links, one thread for each direction, and switches are processes of their own. If the run also
recorded a time series, that becomes counters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from testbed.backends.packet.look import Spell
from testbed.deployment.deploy import DeployedJob
from testbed.hosts.task import RankOutcome

Event: TypeAlias = dict[str, Any]


class Timeline:
    """Collects events and writes them."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._processes = self._asynchronous = 0

    def job(self, job: DeployedJob, outcomes: Sequence[RankOutcome]) -> None:
        """Add a job's workers."""
        process = self._process(f"job {job.number}: {job.system.name}")
        for outcome in outcomes[: job.plan.workers]:
            rank = f"rank {outcome.rank} ({job.plan.hosts[outcome.rank]})"
            iterations = self._thread(process, 2 * outcome.rank, f"{rank} iterations")
            compute = self._thread(process, 2 * outcome.rank + 1, f"{rank} compute")
            for start, end, name in _iterations(outcome, job.job.warmup):
                self._span(iterations, name, start, end)
            for each in outcome.iterations:
                self._span(compute, "compute", each.start, each.compute_end)
                for stall in each.stalls:
                    self._span(compute, "waits for sums", stall.start_s, stall.end_s)
            for unit in outcome.units:
                gathers = " (parameters)" if job.units[unit.unit].gathers else ""
                name = f"unit {unit.unit} of iteration {unit.iteration - job.job.warmup}{gathers}"
                self._overlapping(process, f"rank {outcome.rank}", name, unit.begun_s, unit.ended_s)

    def links(self, spells: Mapping[str, Iterable[Spell]]) -> None:
        """Add the directions of links, by name."""
        process = self._process("links")
        for number, (name, found) in enumerate(spells.items()):
            self._spells(self._thread(process, number, name), "sends", found)

    def switches(self, spells: Mapping[str, Iterable[Spell]]) -> None:
        """Add the switches that sum, by name."""
        process = self._process("switches")
        for number, (name, found) in enumerate(spells.items()):
            self._spells(self._thread(process, number, name), "INA packets", found)

    def counters(self, lines: Iterable[tuple[float, str, str, float]]) -> None:
        """Add values over time: the time, quantity, place and value of each."""
        process = self._process("series")
        for time, quantity, place, value in lines:
            name = f"{quantity} {place}"
            event = {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": _us(time)}
            self._events.append(event | {"args": {"value": value}})

    def write(self, path: Path, scale: float) -> None:
        """Write the file, which states the ``scale`` of its times. Raises OSError."""
        content = {
            "displayTimeUnit": "ns",
            "otherData": {"clock": "simulated", "scale": scale},
            "traceEvents": self._events,
        }
        path.write_text(json.dumps(content, separators=(",", ":")) + "\n")

    def _process(self, name: str) -> int:
        self._processes += 1
        self._named("process_name", {"pid": self._processes}, name)
        return self._processes

    def _thread(self, process: int, number: int, name: str) -> Event:
        thread = {"pid": process, "tid": number}
        self._named("thread_name", thread, name)
        self._events.append(
            {"ph": "M", "name": "thread_sort_index", **thread, "args": {"sort_index": number}}
        )
        return thread

    def _named(self, what: str, where: Event, name: str) -> None:
        self._events.append({"ph": "M", "name": what, **where, "args": {"name": name}})

    def _span(
        self, thread: Event, name: str, start: float, end: float, args: Event | None = None
    ) -> None:
        event = {"ph": "X", "name": name, **thread, "ts": _us(start), "dur": _us(end - start)}
        self._events.append(event if args is None else event | {"args": args})

    def _overlapping(
        self, process: int, category: str, name: str, start: float, end: float
    ) -> None:
        self._asynchronous += 1
        event = {"cat": category, "name": name, "id": self._asynchronous, "pid": process, "tid": 0}
        self._events.append({"ph": "b", **event, "ts": _us(start)})
        self._events.append({"ph": "e", **event, "ts": _us(end)})

    def _spells(self, thread: Event, name: str, spells: Iterable[Spell]) -> None:
        for each in spells:
            args: Event = {"packets": each.packets, "bytes": each.bytes}
            if each.end_s > each.start_s and each.busy_s:
                args["busy"] = round(each.busy_s / (each.end_s - each.start_s), 4)
            if each.dropped:
                args["dropped"] = each.dropped
            shown = f"{name}, {each.dropped} dropped" if each.dropped else name
            self._span(thread, shown, each.start_s, each.end_s, args)


def _iterations(outcome: RankOutcome, warmup: int) -> Iterator[tuple[float, float, str]]:
    """Each iteration, and the part of it that computation does not hide."""
    before = outcome.iterations[0].start
    for number, each in enumerate(outcome.iterations):
        name = f"warm-up {number}" if number < warmup else f"iteration {number - warmup}"
        yield before, each.end, name
        if (exposed := max(before, each.compute_end)) < each.end:
            yield exposed, each.end, "exposed communication"
        before = each.end


def _us(seconds: float) -> float:
    """Microseconds, to the picosecond."""
    return round(seconds * 1e6, 6)

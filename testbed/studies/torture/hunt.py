"""Judges many seeds, and reports each failure as a short case that can be run again."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from testbed.backends.measurements import BrokenConnection, Stalled
from testbed.backends.packet.backend import assembled
from testbed.backends.packet.recorder import Recorder
from testbed.backends.packet.simulation import SECOND
from testbed.backends.recording import Recording
from testbed.located import write
from testbed.studies.torture.cases import case
from testbed.studies.torture.judges import Block, blocks, judged, one_by_one
from testbed.studies.torture.shrink import shrunk
from testbed.studies.torture.trial import NO_WORLD, Verdict, deployed

CASE = "case.yaml"
_RECORDED_S = 0.1
"""Seconds of simulated silence after which a capture has nothing new."""


@dataclass
class Count:
    """The results of one system's schedules."""

    exact: int = 0
    ended: int = 0
    failed: int = 0
    undeployed: int = 0
    hops: int = 0
    seconds: float = 0.0

    def add(self, verdict: Verdict) -> None:
        if verdict.failure:
            self.failed += 1
        elif verdict.error.startswith(NO_WORLD):
            self.undeployed += 1
        elif verdict.error:
            self.ended += 1
        else:
            self.exact += 1
        self.hops += verdict.hops
        self.seconds += verdict.seconds

    @property
    def ran(self) -> int:
        return self.exact + self.ended + self.failed

    def __str__(self) -> str:
        total = self.ran + self.undeployed
        text = f"{total} schedules: {self.exact} exact, {self.ended} ended with a named error"
        if self.undeployed:
            text += f", {self.undeployed} not deployable"
        packets = f"{self.hops} packets in {self.seconds:.3g} s of simulated time"
        return f"{text}, {self.failed} failed; {packets}"


class Hunt:
    """``seeds`` of each system from ``first`` on, or as many as there is time for.

    Attributes:
        counts: what became of the schedules that have been judged.
        failures: those that failed: their system, seed and verdict.
        refused: why a system's first schedule could not be deployed, by system.
    """

    def __init__(self, systems: Sequence[str], first: int, seeds: int | None) -> None:
        self.counts = {system: Count() for system in systems}
        self.failures: list[tuple[str, int, Verdict]] = []
        self.refused: dict[str, str] = {}
        self._first, self._seeds = first, seeds
        self._judged: dict[str, set[int]] = {system: set() for system in systems}

    def run(
        self, seconds: float | None, jobs: int, failed: Callable[[str, int, Verdict], None]
    ) -> None:
        """Judge in ``jobs`` processes; calls ``failed`` with each failure."""
        ends = time.monotonic() + seconds if seconds is not None else float("inf")
        asked: Iterator[Block] = takewhile(
            lambda _: time.monotonic() < ends, blocks([*self.counts], self._first, self._seeds)
        )
        for system, seed, verdict in judged(asked, jobs):
            self.counts[system].add(verdict)
            self._judged[system].add(seed)
            if verdict.error.startswith(NO_WORLD):
                self.refused.setdefault(system, verdict.error.removeprefix(f"{NO_WORLD}: "))
            if verdict.failure:
                self.failures.append((system, seed, verdict))
                failed(system, seed, verdict)

    @property
    def next(self) -> int | None:
        """The first seed that has not been judged for every system; None if no seed is left."""
        seed = self._first
        while all(seed in own for own in self._judged.values()):
            seed += 1
        return seed if self._seeds is None or seed < self._first + self._seeds else None


def shortest(data: dict[str, Any], verdict: Verdict) -> tuple[dict[str, Any], Verdict]:
    """The shortest case found that fails like ``data``, and its verdict."""
    of = one_by_one()
    short = shrunk(data, lambda each: of(each).kind == verdict.kind)
    return short, of(short)


def keep(data: dict[str, Any], folder: Path) -> Path:
    """Write a case as an experiment file, with a capture of each link next to it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CASE
    path.write_text(write(data))
    deployment = deployed(data)
    links = tuple(f"{link.a}-{link.b}" for link in deployment.fabric.links)
    recording = Recording(captures=links)
    with (
        assembled(deployment, recording) as made,
        Recorder(recording, deployment, made.simulation, made.switches, made.allocations, folder),
        suppress(Stalled, BrokenConnection),
    ):
        made.loop.run(round(_RECORDED_S * SECOND), SECOND)
    return path


def failing(system: str, seed: int, verdict: Verdict, output: Path) -> str:
    """Shrink the failure of a seed, write it into ``output``, and say how to run it again."""
    short, found = shortest(case(system, seed), verdict)
    folder = output / f"{system}-{seed}"
    path = folder / CASE
    said = (
        f"{system}, seed {seed}: {found.failure or verdict.failure}\n"
        f"the shortest schedule that still fails:\n{write(short['emulation'])}"
        f"run it again:  ina-testbed torture --case {shlex.quote(str(path))}\n"
        f"as generated:  ina-testbed torture --system {system} --first {seed} --seeds 1"
    )
    if found.kind in ("crashed", "hangs"):
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(write(short))
        return said
    keep(short, folder)
    return f"{said}\nits packets:   {folder}/*.pcap"

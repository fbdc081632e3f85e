"""Processes that judge cases. A case may crash the code under test or never return: then its
process is ended, and that is the verdict."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from testbed.campaign.isolation import may_be_interrupted, uninterrupted
from testbed.deployment.errors import DeploymentError
from testbed.lifetime import die_with_parent
from testbed.studies.torture.cases import PER_WORLD, NoWorld, deployed_seed
from testbed.studies.torture.trial import NO_WORLD, Bench, Verdict, deployed, judge

LONGEST_S = 120.0
"""Seconds of processor time after which a case is assumed to run for ever. A case takes some
milliseconds."""
SILENCE_S = 900.0
"""Seconds of real time after which a case is assumed to wait for ever. On a busy machine a process
may wait for minutes until it runs."""

Block = tuple[str, int, int]
"""A system, and the seeds of one world: the first, and one past the last."""


class Judge:
    """One process. ``seeds`` and ``case`` ask it, and ``answers`` yields what it has answered.

    It answers each schedule with a verdict, in order. ``left`` has those that it has not answered
    yet.
    """

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_work, args=(theirs, self.connection, os.getpid()), daemon=True
        )
        with uninterrupted():
            self._process.start()
        theirs.close()
        self.left: Block = ("", 0, 0)
        self._used = 0.0
        self._hears()

    @property
    def is_busy(self) -> bool:
        _, first, last = self.left
        return first < last

    def seeds(self, block: Block) -> None:
        self._ask(block, block)

    def case(self, data: Mapping[str, Any]) -> Verdict:
        """The verdict on a case."""
        self._ask(data, ("", 0, 1))
        found = Verdict("crashed", "", 0, 0.0)
        while self.is_busy and not self.is_gone:
            wait([self.connection], timeout=1.0)
            for _, _, verdict in self.answers():
                found = verdict
        return found

    def _ask(self, what: Block | Mapping[str, Any], left: Block) -> None:
        self.left = left
        self._hears()
        self.connection.send(what)

    def _hears(self) -> None:
        """Note when the process was last known to go on."""
        self._since, self._used = time.monotonic(), self._processor_s()

    def _processor_s(self) -> float:
        """Processor time of the process so far; if it is gone, what was last known."""
        try:
            stat = Path(f"/proc/{self._process.pid}/schedstat").read_text()
        except OSError:
            return self._used
        return int(stat.split()[0]) / 1e9

    def answers(self) -> Iterator[tuple[str, int, Verdict]]:
        """The system, the seed and the verdict of each schedule that is done. If the process is
        gone or hangs, the verdict says so, and `is_gone` is true afterwards."""
        try:
            while self.is_busy and self.connection.poll():
                verdict = self.connection.recv()
                self._hears()
                yield self._next(verdict)
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode or 0
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            self.close()
            yield self._next(Verdict(f"crashed: {name}", "", 0, 0.0))
            return
        if not self.is_busy:
            return
        if self._processor_s() - self._used > LONGEST_S:
            said = f"nothing in {LONGEST_S:g} s of processor time"
        elif time.monotonic() - self._since > SILENCE_S:
            said = f"nothing in {SILENCE_S:g} s"
        else:
            return
        self.close()
        yield self._next(Verdict(f"hangs: {said}", "", 0, 0.0))

    def _next(self, verdict: Verdict) -> tuple[str, int, Verdict]:
        """The verdict on the first schedule that is left."""
        system, seed, last = self.left
        self.left = system, seed + 1, last
        return system, seed, verdict

    @property
    def is_gone(self) -> bool:
        return self.connection.closed

    def close(self) -> None:
        """End the process."""
        if not self.connection.closed:
            self.connection.close()
            self._process.kill()
            self._process.join()


def judged(blocks: Iterator[Block], jobs: int) -> Generator[tuple[str, int, Verdict], None, None]:
    """The verdict on each seed of ``blocks``, by ``jobs`` processes, in the order in which they
    end."""
    first = list(islice(blocks, jobs))
    judges = [Judge() for _ in first]  # none that would have nothing to do
    blocks = chain(first, blocks)
    try:
        while True:
            for place, one in enumerate(judges):
                if one.is_gone:
                    judges[place] = one = Judge()
                if not one.is_busy and (block := next(blocks, None)) is not None:
                    one.seeds(block)
            busy = [one for one in judges if one.is_busy]
            if not busy:
                return
            wait([one.connection for one in busy], timeout=1.0)
            for one in busy:
                yield from one.answers()
                if one.is_gone:
                    blocks = _before(one.left, blocks)
    finally:
        for one in judges:
            one.close()


def _before(block: Block, blocks: Iterator[Block]) -> Iterator[Block]:
    if block[1] < block[2]:
        yield block
    yield from blocks


def one_by_one() -> Callable[[Mapping[str, Any]], Verdict]:
    """A function that judges cases in a process of its own, and in a new one after each crash."""
    found: list[Judge] = []

    def verdict(data: Mapping[str, Any]) -> Verdict:
        if not found or found[-1].is_gone:
            found.append(Judge())
        return found[-1].case(data)

    return verdict


def _work(connection: Connection, theirs: Connection, parent: int) -> None:
    die_with_parent(parent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    theirs.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    may_be_interrupted()
    bench = Bench()
    with suppress(EOFError, BrokenPipeError):
        while True:
            asked = connection.recv()
            if isinstance(asked, Mapping):
                connection.send(judged_case(asked, bench))
            else:
                system, first, last = asked
                for seed in range(first, last):
                    connection.send(judged_seed(system, seed, bench))


def judged_seed(system: str, seed: int, bench: Bench) -> Verdict:
    """The verdict on the case of a seed."""
    try:
        deployment = deployed_seed(system, seed)
    except NoWorld as error:
        return Verdict("", f"{NO_WORLD}: {error}", 0, 0.0)
    return _judged(lambda: judge(deployment, bench))


def judged_case(data: Mapping[str, Any], bench: Bench) -> Verdict:
    """The verdict on a case. A case that cannot be deployed does not fail."""
    return _judged(lambda: judge(deployed(data), bench))


def _judged(run: Callable[[], Verdict]) -> Verdict:
    try:
        return run()
    except DeploymentError as error:
        return Verdict("", f"DeploymentError: {error}", 0, 0.0)
    except Exception as error:  # whatever a case raises is what the hunt is for
        return Verdict(f"{type(error).__name__}: {error}", "", 0, 0.0)


def blocks(systems: Sequence[str], first: int, seeds: int | None) -> Iterator[Block]:
    """Blocks of seeds of all systems in turn; endless without ``seeds``."""
    start, end = first, first + seeds if seeds is not None else None
    while end is None or start < end:
        stop = (start // PER_WORLD + 1) * PER_WORLD
        stop = stop if end is None else min(stop, end)
        for system in systems:
            yield system, start, stop
        start = stop

"""All ranks of a run as processes: started, watched and ended together."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType

from testbed.hosts import rank_process
from testbed.hosts.rank_process import Failure, Lost
from testbed.hosts.task import RankOutcome, Task

START_DELAY = 0.05
PATIENCE = 30.0
DYING = 1.0  # seconds until it is known that a process which closed its sockets has ended


class RankFailed(Exception):
    """A rank died or failed; the message names it and gives the reason."""


class Launcher:
    """A context manager that runs the processes of ``tasks``.

    ``namespaces`` gives for each task the path of the network namespace that it runs in, or
    None. Processes are forked from this one, which has loaded everything they need.
    """

    def __init__(self, tasks: Sequence[Task], namespaces: Sequence[str | None]) -> None:
        self._tasks, self._namespaces = tasks, namespaces
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []

    def __enter__(self) -> Launcher:
        # Plain fork saves a hundred milliseconds a rank, and is safe: no thread runs here.
        context = multiprocessing.get_context("fork")
        for task, namespace in zip(self._tasks, self._namespaces, strict=True):
            ours, theirs = context.Pipe()
            each = context.Process(
                target=rank_process.main,
                args=(task, namespace, os.getpid(), theirs),
                name=f"job {task.job} rank {task.rank}",
                daemon=True,
            )
            each.start()
            theirs.close()
            self._processes.append(each)
            self._pipes.append(ours)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            for pipe in self._pipes:
                pipe.send("bye")
            for each in self._processes:
                each.join(2)
        for each in self._processes:
            each.kill()  # all at once; no effect on one that has ended
        for each in self._processes:
            each.join()
        for pipe in self._pipes:
            pipe.close()

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._processes if each.pid is not None]

    def run(
        self,
        watch: Callable[[], None] = lambda: None,
        timeout: float | None = None,
        started: Callable[[], None] = lambda: None,
    ) -> list[RankOutcome]:
        """Run every task to its end; outcomes in the order of the tasks.

        ``started`` is called when the first iteration begins. ``watch`` is called about every
        0.2 s and may raise to end the run. RankFailed if a rank fails or dies, or if the workers
        are not done after ``timeout`` seconds.
        """
        everyone = range(len(self._tasks))
        self._gather(everyone, lambda: None, time.monotonic() + PATIENCE)
        self._tell(everyone, "connect")
        self._gather(everyone, lambda: None, time.monotonic() + PATIENCE)
        start = time.monotonic() + START_DELAY
        workers = [i for i in everyone if self._tasks[i].is_worker]
        servers = [i for i in everyone if not self._tasks[i].is_worker]
        self._tell(everyone, start)
        started()
        limit = None if timeout is None else start + timeout
        outcomes = self._gather(workers, watch, limit)
        self._tell(servers, "stop")
        outcomes |= self._gather(servers, lambda: None, time.monotonic() + PATIENCE)
        return [
            outcome for _, outcome in sorted(outcomes.items()) if isinstance(outcome, RankOutcome)
        ]

    def _tell(self, indices: Iterable[int], message: object) -> None:
        for index in indices:
            self._pipes[index].send(message)

    def _gather(
        self, indices: Iterable[int], watch: Callable[[], None], limit: float | None
    ) -> dict[int, object]:
        waiting = {self._pipes[index]: index for index in indices}
        # Servers may fail while this waits for the workers.
        watched = {pipe: index for index, pipe in enumerate(self._pipes)}
        answers: dict[int, object] = {}
        while waiting:
            for pipe in wait(list(watched), timeout=0.2):
                assert isinstance(pipe, Connection)
                index = watched[pipe]
                answer = self._answer(pipe, index)
                answers[index] = answer
                waiting.pop(pipe, None)
            watch()
            if limit is not None and time.monotonic() > limit and waiting:
                late = ", ".join(self._name(index) for index in waiting.values())
                raise RankFailed(f"no answer in time from {late}")
        return answers

    def _answer(self, pipe: Connection, index: int) -> object:
        try:
            answer = pipe.recv()
        except (EOFError, ConnectionResetError):
            self._processes[index].join(PATIENCE)
            code = self._processes[index].exitcode
            raise RankFailed(f"{self._name(index)} died (exit code {code})") from None
        if isinstance(answer, Failure):
            # When a rank dies, its neighbours fail first: name the one that died.
            raise RankFailed(self._death() or self._first(index, answer))
        return answer

    def _first(self, index: int, failure: Failure) -> str:
        """The failure of a rank, or the one because of which it lost a peer."""
        if isinstance(failure, Lost):
            # A rank says why before it closes the connections that others lose.
            for other, pipe in enumerate(self._pipes):
                try:
                    found = pipe.recv() if other != index and pipe.poll() else None
                except (EOFError, ConnectionResetError):
                    continue
                if isinstance(found, Failure) and not isinstance(found, Lost):
                    return f"{self._name(other)}: {found}"
        return f"{self._name(index)}: {failure}"

    def _death(self) -> str | None:
        """Which rank died, if one does within ``DYING``."""
        end = time.monotonic() + DYING
        while True:
            left = []
            for index, each in enumerate(self._processes):
                if each.exitcode is None:
                    left.append(each.sentinel)
                elif each.exitcode != 0:
                    return f"{self._name(index)} died (exit code {each.exitcode})"
            if not wait(left, max(0.0, end - time.monotonic())):
                return None

    def _name(self, index: int) -> str:
        task = self._tasks[index]
        role = "worker" if task.is_worker else "server"
        return f"job {task.job} {role} rank {task.rank}"

"""All ranks of a run as processes: started, watched and ended together."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import TypeAlias

from testbed.hosts import rank_process
from testbed.hosts.rank_process import Failure, Lost
from testbed.hosts.task import RankOutcome, Task

START_DELAY = 0.05
PATIENCE = 30.0
DYING = 1.0  # seconds until it is known that a process which closed its sockets has ended


WATCHED = 0.2
"""Seconds between two checks of a run."""

Action: TypeAlias = tuple[float, Callable[[], None]]
"""Seconds after the first iteration begins, and what to do then."""


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
        self._actions: deque[Action] = deque()  # times as those of the monotonic clock
        self._paused: set[int] = set()

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
                with suppress(OSError):  # it died after its outcome, which counts
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

    def kill(self, index: int) -> None:
        """Kill the rank of task ``index``, which ends the run."""
        self._processes[index].kill()

    def pause(self, index: int, is_paused: bool) -> None:
        """Stop the rank of task ``index``, or let it go on."""
        (self._paused.add if is_paused else self._paused.discard)(index)
        pid = self._processes[index].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP if is_paused else signal.SIGCONT)

    def run(
        self,
        watch: Callable[[], None] = lambda: None,
        timeout: float | None = None,
        started: Callable[[], None] = lambda: None,
        actions: Iterable[Action] = (),
    ) -> list[RankOutcome]:
        """Run every task to its end; outcomes in the order of the tasks.

        ``started`` is called when the first iteration begins. ``watch`` is called about every 0.2 s
        and may raise to end the run. ``actions`` at time 0 are done before that; later ones only if
        their time comes before the last worker ends. Raises RankFailed if a rank fails or dies, or
        if the workers are not done after ``timeout`` seconds.
        """
        everyone = range(len(self._tasks))
        self._gather(everyone, lambda: None, time.monotonic() + PATIENCE)
        self._tell(everyone, "connect")
        self._gather(everyone, lambda: None, time.monotonic() + PATIENCE)
        todo = deque(sorted(actions, key=lambda each: each[0]))
        while todo and todo[0][0] <= 0:
            todo.popleft()[1]()
        start = time.monotonic() + START_DELAY
        workers = [i for i in everyone if self._tasks[i].is_worker]
        servers = [i for i in everyone if not self._tasks[i].is_worker]
        self._tell(everyone, start)
        started()
        limit = None if timeout is None else start + timeout
        self._actions.extend((start + at, do) for at, do in todo)
        outcomes = self._gather(workers, watch, limit)
        self._actions.clear()
        for index in list(self._paused):
            self.pause(index, False)
        self._tell(servers, "stop")
        outcomes |= self._gather(servers, lambda: None, time.monotonic() + PATIENCE)
        return [
            outcome for _, outcome in sorted(outcomes.items()) if isinstance(outcome, RankOutcome)
        ]

    def _tell(self, indices: Iterable[int], message: object) -> None:
        for index in indices:
            try:
                self._pipes[index].send(message)
            except OSError:  # it has ended, and may have said why
                self._answer(self._pipes[index], index)

    def _gather(
        self, indices: Iterable[int], watch: Callable[[], None], limit: float | None
    ) -> dict[int, object]:
        waiting = {self._pipes[index]: index for index in indices}
        # Servers may fail while this waits for the workers.
        watched = {pipe: index for index, pipe in enumerate(self._pipes)}
        answers: dict[int, object] = {}
        while waiting:
            for pipe in wait(list(watched), timeout=self._act()):
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

    def _act(self) -> float:
        """Do the actions that are due; return the seconds until the next action or check."""
        while self._actions and self._actions[0][0] <= time.monotonic():
            self._actions.popleft()[1]()
        due = self._actions[0][0] - time.monotonic() if self._actions else WATCHED
        return max(0.0, min(WATCHED, due))

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
        """The failure of a rank, or the failure of the peer that it lost."""
        if isinstance(failure, Lost):
            # A rank reports its reason first, and then closes the connections that others lose.
            for other, pipe in enumerate(self._pipes):
                try:
                    found = pipe.recv() if other != index and pipe.poll() else None
                except (EOFError, ConnectionResetError):
                    continue
                if isinstance(found, Failure) and not isinstance(found, Lost):
                    return f"{self._name(other)}: {found}"
        return f"{self._name(index)}: {failure}"

    def _death(self) -> str | None:
        """Which rank has died or dies within ``DYING`` seconds; None if no rank does."""
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

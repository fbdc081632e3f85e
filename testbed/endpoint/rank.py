"""The loop of one rank: a worker that trains, or a server that answers."""

from __future__ import annotations

import selectors
import time
from multiprocessing.connection import Connection

import numpy as np

from testbed.dataplane import wire
from testbed.endpoint.batch import BatchSocket
from testbed.endpoint.interpreter import Interpreter
from testbed.endpoint.root import Root
from testbed.endpoint.stream import PORT, Mesh
from testbed.endpoint.task import Iteration, Outcome, Task
from testbed.endpoint.window import Window
from testbed.plan.program import Receive, Send

_BLOCK = 1 << 15


class Worker:
    """Computes (sleeps), synchronises each unit once it is ready, and checks every sum."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._outcome = Outcome(task.rank)
        self._gradients = task.gradients
        self._values = np.empty(task.elements, np.int32)
        self._unfinished = 0
        self._iteration = 0
        self._selector = selectors.DefaultSelector()
        self._mesh: Mesh | None = None
        self._window: Window | None = None
        self._socket: BatchSocket | None = None
        self._aggregating: list[int] = []
        self._tick_s = self._quiet_until = 0.0
        if _streams(task):
            self._mesh = Mesh(task.rank, task.addresses, PORT + task.job)
            self._selector.register(self._mesh, selectors.EVENT_READ)
        if (tree := task.aggregation) is not None:
            self._socket = BatchSocket(task.addresses[task.rank], burst=tree.burst)
            self._selector.register(self._socket, selectors.EVENT_READ)
            self._window = Window(self._socket, tree.job, task.rank, tree.parent, tree.slots)
            self._tick_s = tree.tick_s
            shape = (task.elements // wire.VALUES, wire.VALUES)
            self._sent, self._sums = np.empty(shape, ">i4"), np.empty(shape, ">i4")
        self._interpreter = Interpreter(
            task.plan, task.rank, self._send, self._aggregate, self._finish
        )

    def connect(self) -> None:
        if self._mesh is not None:
            self._mesh.connect(_peers(self._task))

    def run(self, start: float) -> Outcome:
        """Run all iterations, the first from ``start`` on the monotonic clock."""
        for iteration in range(self._task.iterations):
            self._iteration = iteration
            self._begin()
            end = self._synchronise(start)
            compute_end = start + self._task.compute_s
            self._outcome.iterations.append(Iteration(start, compute_end, end))
            # Checking and filling run while the next iteration "computes".
            self._check()
            start = end
        if self._mesh is not None:
            self._mesh.flush()
        if self._window is not None:
            self._outcome.retransmitted = self._window.retransmitted
            self._outcome.collisions = self._window.collisions
        return self._outcome

    def close(self) -> None:
        for resource in (self._mesh, self._socket, self._selector):
            if resource is not None:
                resource.close()

    def _begin(self) -> None:
        self._gradients.fill(self._task.rank, self._iteration, self._values)
        self._unfinished = len(self._task.units)
        if self._window is not None:
            self._sent[:] = self._values.reshape(self._sent.shape)
            self._window.open(self._sent, self._sums)

    def _synchronise(self, start: float) -> float:
        units, released = self._task.units, 0
        while True:
            now = time.monotonic()
            while (
                released < len(units)
                and start + units[released].ready_s <= now
                and self._may_begin(released)
            ):
                unit = units[released]
                values = self._values[unit.offset : unit.offset + unit.elements]
                self._interpreter.begin(self._number(released), values)
                released += 1
            compute_end = start + self._task.compute_s
            if released == len(units) and not self._unfinished and now >= compute_end:
                return max(now, compute_end) if self._task.units else compute_end
            deadlines = [compute_end] if now < compute_end else []
            if released < len(units) and start + units[released].ready_s > now:
                deadlines.append(start + units[released].ready_s)
            if self._window is not None:
                self._window.pump(now)
                if (deadline := self._window.deadline) is not None:
                    deadlines.append(deadline)
            if self._quiet_until > now:
                time.sleep(max(0.0, min([self._quiet_until, *deadlines]) - now))
            timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
            events = self._selector.select(timeout)
            if not events and deadlines:
                late = time.monotonic() - min(deadlines)
                self._outcome.late_s = max(self._outcome.late_s, late)
            for key, _ in events:
                if key.fileobj is self._mesh:
                    self._read_mesh()
                else:
                    self._read_socket()
                    self._quiet_until = time.monotonic() + self._tick_s

    def _may_begin(self, released: int) -> bool:
        under_way = released - (len(self._task.units) - self._unfinished)
        return self._task.plan.credit is None or under_way < self._task.plan.credit

    def _number(self, index: int) -> int:
        return self._iteration * len(self._task.units) + index

    def _read_mesh(self) -> None:
        assert self._mesh is not None
        for source, unit, chunk, values in self._mesh.poll():
            self._interpreter.arrived(source, unit, chunk, values)

    def _read_socket(self) -> None:
        assert self._window is not None and self._socket is not None
        self._window.take(self._socket.receive(), time.monotonic())
        while self._aggregating:
            unit = self._task.units[self._aggregating[0]]
            if self._window.complete * wire.VALUES < unit.offset + unit.elements:
                break
            self._interpreter.aggregated(self._number(self._aggregating.pop(0)), 0)

    def _send(self, to: int, unit: int, chunk: int, values: np.ndarray) -> None:
        assert self._mesh is not None
        self._mesh.send(to, unit, chunk, values)

    def _aggregate(self, unit: int, chunk: int) -> None:
        assert self._window is not None
        index = unit % len(self._task.units)
        self._aggregating.append(index)
        last = self._task.units[index]
        self._window.release((last.offset + last.elements) // wire.VALUES)

    def _finish(self, unit: int) -> None:
        self._unfinished -= 1

    def _check(self) -> None:
        total = self._gradients.expected_total()
        received = self._values if self._window is None else self._sums.reshape(-1)
        # In blocks that stay in the cache: this runs while others communicate.
        for first in range(0, received.size, _BLOCK):
            block = slice(first, first + _BLOCK)
            self._outcome.wrong += self._gradients.mismatches(
                received[block].astype(np.int32, copy=False), total[block], self._iteration
            )
        self._outcome.checked += received.size


class Server:
    """Sums and answers until told to stop."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._outcome = Outcome(task.rank)
        self._selector = selectors.DefaultSelector()
        self._mesh: Mesh | None = None
        self._root: Root | None = None
        self._socket: BatchSocket | None = None
        self._tick_s = 0.0
        if _streams(task):
            self._mesh = Mesh(task.rank, task.addresses, PORT + task.job)
            self._selector.register(self._mesh, selectors.EVENT_READ)
            self._interpreter = Interpreter(
                task.plan, task.rank, self._mesh.send, _no_aggregation, lambda unit: None
            )
        if (tree := task.aggregation) is not None:
            self._socket = BatchSocket(task.addresses[task.rank], burst=tree.burst)
            self._selector.register(self._socket, selectors.EVENT_READ)
            self._tick_s = tree.tick_s
            workers = task.addresses[: task.plan.workers]
            self._root = Root(self._socket, tree.job, workers, tree.children, len(tree.slots))

    def connect(self) -> None:
        if self._mesh is not None:
            self._mesh.connect(_peers(self._task))

    def run(self, orders: Connection) -> Outcome:
        """Serve until anything arrives on ``orders``."""
        self._selector.register(orders, selectors.EVENT_READ)
        while True:
            # A result that found no room is tried again soon: no event tells when to.
            blocked = self._root is not None and self._root.blocked
            for key, _ in self._selector.select(0.001 if blocked else None):
                if key.fileobj is orders:
                    orders.recv()
                    return self._account()
                if key.fileobj is self._mesh:
                    self._read_mesh()
                else:
                    assert self._root is not None and self._socket is not None
                    self._root.take(self._socket.receive())
                    time.sleep(self._tick_s)
            if blocked and self._root is not None:
                self._root.flush()

    def close(self) -> None:
        for resource in (self._mesh, self._socket, self._selector):
            if resource is not None:
                resource.close()

    def _read_mesh(self) -> None:
        assert self._mesh is not None
        for source, unit, chunk, values in self._mesh.poll():
            if not self._interpreter.has_begun(unit):
                size = self._task.units[unit % len(self._task.units)].elements
                self._interpreter.begin(unit, np.zeros(size, np.int32))
            self._interpreter.arrived(source, unit, chunk, values)

    def _account(self) -> Outcome:
        if self._root is not None:
            self._outcome.collisions = self._root.collisions
            self._outcome.retransmitted = self._root.answered_again
        return self._outcome


def _peers(task: Task) -> list[int]:
    program = task.plan.programs[task.rank]
    return sorted({operation.to for operation in program if isinstance(operation, Send)})


def _streams(task: Task) -> bool:
    program = task.plan.programs[task.rank]
    return any(isinstance(operation, Send | Receive) for operation in program)


def _no_aggregation(unit: int, chunk: int) -> None:
    raise AssertionError("a server's program has no switch all-reduce of its own")

"""All that a rank is connected to: other ranks over TCP, aggregation trees over UDP."""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from testbed.hosts.aggregation import Endpoint, Operation, Wake
from testbed.hosts.interpreter import Values
from testbed.hosts.ring import RingEndpoint
from testbed.hosts.stream import Mesh
from testbed.hosts.task import Outcome, Task
from testbed.hosts.uses import Use, Uses
from testbed.plan.program import (
    Multicast,
    Receive,
    Send,
    SwitchAllReduce,
    SwitchReduce,
    TreeOperation,
)
from testbed.protocols.roles import Neighbours


class Readable(Protocol):
    """Anything that can be waited for."""

    def fileno(self) -> int: ...


_OPERATIONS = {
    SwitchAllReduce: Operation.ALL_REDUCE,
    SwitchReduce: Operation.REDUCE,
    Multicast: Operation.MULTICAST,
}


class _Flow:
    """One tree of an endpoint."""

    def __init__(self, endpoint: Endpoint, number: int) -> None:
        self._endpoint, self._number = endpoint, number

    def push(self, operation: TreeOperation, values: Values) -> int:
        fragments = len(values) // self._endpoint.values
        what = _OPERATIONS[type(operation)]
        self._endpoint.push(self._number, what, values.ctypes.data, fragments)
        return fragments

    def done(self) -> int:
        return self._endpoint.done(self._number)

    def floats(self) -> npt.NDArray[np.uint64]:
        return self._endpoint.float_sums(self._number)

    def account(self, outcome: Outcome) -> None:
        counters = self._endpoint.counters(self._number)
        outcome.retransmitted += counters.retransmitted + counters.answered_again
        outcome.collisions += counters.collisions
        outcome.overflows += counters.overflows


class _RingFlow:
    """The only tree of a rank on NetReduce's ring."""

    def __init__(self, endpoint: RingEndpoint) -> None:
        self._endpoint = endpoint

    def push(self, operation: TreeOperation, values: Values) -> int:
        assert isinstance(operation, SwitchAllReduce)
        fragments = len(values) // self._endpoint.values
        self._endpoint.push(values.ctypes.data, fragments)
        return fragments

    def done(self) -> int:
        return self._endpoint.done()

    def floats(self) -> npt.NDArray[np.uint64]:
        return np.zeros(0, np.uint64)

    def account(self, outcome: Outcome) -> None:
        outcome.retransmitted += self._endpoint.retransmitted


class Connections:
    """The sockets of ``task``'s rank, and what is under way on them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._selector = selectors.DefaultSelector()
        self._mesh: Mesh | None = None
        self._endpoint: Endpoint | RingEndpoint | None = None
        self._flows: list[_Flow | _RingFlow] = []
        self._uses: dict[int, Uses] = {}
        program = task.plan.programs[task.rank]
        if any(isinstance(operation, Send | Receive) for operation in program):
            self._mesh = Mesh(task.rank, task.addresses)
            self.watch(self._mesh)
        roles = {tree: role for tree, role in enumerate(task.trees) if role is not None}
        address = task.addresses[task.rank]
        for tree, role in roles.items():
            if isinstance(role, Neighbours):
                assert len(roles) == 1, "a rank has one ring, and then no other tree"
                self._endpoint = RingEndpoint(address, role, task.tick_s, task.values)
                flow: _Flow | _RingFlow = _RingFlow(self._endpoint)
            else:
                if not isinstance(self._endpoint, Endpoint):
                    self._endpoint = Endpoint(address, task.tick_s, task.burst, task.values)
                flow = _Flow(self._endpoint, self._endpoint.add(role))
            self._flows.append(flow)
            self._uses[tree] = Uses(task.plan, task.rank, tree, flow)

    def watch(self, readable: Readable) -> None:
        """Let :meth:`wait` return when there is something to read."""
        self._selector.register(readable, selectors.EVENT_READ)

    def connect(self) -> None:
        if self._mesh is not None:
            program = self._task.plan.programs[self._task.rank]
            self._mesh.connect(sorted({op.to for op in program if isinstance(op, Send)}))

    def send(self, to: int, unit: int, chunk: int, values: Values) -> None:
        """Queue a copy of ``values`` for rank ``to``."""
        assert self._mesh is not None
        self._mesh.send(to, unit, chunk, values)

    def aggregate(self, operation: TreeOperation, unit: int, values: Values) -> None:
        """Begin an operation on a tree, once those before it have begun."""
        self._uses[operation.tree].ready(operation, unit, values)

    def wait(self, deadline: float | None) -> bool:
        """Carry packets until there is something to collect (True), or ``deadline`` (False)."""
        if self._endpoint is not None:
            other = self._selector.fileno() if self._selector.get_map() else -1
            return self._endpoint.wait(deadline, other) != Wake.DEADLINE
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        return bool(self._selector.select(timeout))

    def arrived(self) -> Iterator[tuple[int, int, int, Values]]:
        """Whole chunks that came over TCP: source, unit, chunk, values."""
        if self._mesh is not None:
            yield from self._mesh.poll()

    def completed(self) -> Iterator[tuple[Use, npt.NDArray[np.int64]]]:
        """Operations on trees that have ended, and which of their fragments are floats."""
        for uses in self._uses.values():
            for use in uses.completed():
                yield use, uses.floats(use)

    def flush(self) -> None:
        """Send all that is queued, however long it takes: a peer may still wait for it."""
        if self._mesh is not None:
            self._mesh.flush()

    def account(self, outcome: Outcome) -> None:
        """Add what the trees' senders and roots counted."""
        for flow in self._flows:
            flow.account(outcome)

    def close(self) -> None:
        for resource in (self._mesh, self._endpoint, self._selector):
            if resource is not None:
                resource.close()

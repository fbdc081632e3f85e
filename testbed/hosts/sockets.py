"""A rank's kernel sockets: TCP streams to other ranks, and packets of aggregation trees."""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterable, Iterator
from typing import Protocol

from testbed.hosts.aggregation import Endpoint, Wake
from testbed.hosts.messages import Message
from testbed.hosts.stream import Mesh
from testbed.hosts.task import RankOutcome, Task
from testbed.hosts.transport import NEVER
from testbed.hosts.tree_flow import TreeFlow
from testbed.plan.program import (
    Receive,
    Send,
)


class Readable(Protocol):
    """Anything that a selector can wait for."""

    def fileno(self) -> int: ...


class Sockets:
    """The transport of ``task``'s rank on this machine."""

    def __init__(self, task: Task) -> None:
        self._selector = selectors.DefaultSelector()
        self._mesh: Mesh | None = None
        self._endpoint: Endpoint | None = None
        self.flows: dict[int, TreeFlow] = {}
        self._trees: list[int] = []  # of the endpoint's flows
        plan = task.plan
        if plan.consistency is not None or any(
            isinstance(operation, Send | Receive) for operation in plan.programs[task.rank]
        ):
            self._mesh = Mesh(task.rank, task.addresses)
            self.watch(self._mesh)
        address = task.addresses[task.rank]
        for tree, role in enumerate(task.trees):
            if role is None:
                continue
            if self._endpoint is None:
                self._endpoint = Endpoint(
                    address,
                    task.tick_s,
                    task.burst,
                    task.layout.carried,
                    role.protocol.port,
                    task.engine_pace,
                )
            self.flows[tree] = TreeFlow(self._endpoint, self._endpoint.add(role))
            self._trees.append(tree)

    def connect(self, peers: Iterable[int]) -> None:
        """Connect to ``peers``, which must all be listening."""
        if self._mesh is not None:
            self._mesh.connect(peers)

    def watch(self, readable: Readable) -> None:
        """Let :meth:`wait` return when there is something to read."""
        self._selector.register(readable, selectors.EVENT_READ)

    def wait(self, until: float = NEVER) -> bool:
        """Carry packets until there is something to collect (True) or ``until`` passes (False)."""
        if self._endpoint is not None:
            other = self._selector.fileno() if self._selector.get_map() else -1
            return self._endpoint.wait(until, other) != Wake.DEADLINE
        timeout = None if until == NEVER else max(0.0, until - time.monotonic())
        return bool(self._selector.select(timeout))

    def finished(self) -> Iterator[int]:
        if self._endpoint is not None:
            yield from map(self._trees.__getitem__, self._endpoint.finished())

    def send(self, to: int, message: Message) -> None:
        assert self._mesh is not None
        self._mesh.send(to, message)

    def arrived(self) -> Iterator[tuple[int, Message]]:
        if self._mesh is not None:
            yield from self._mesh.poll()

    def flush(self) -> None:
        if self._mesh is not None:
            self._mesh.flush()

    def account(self, outcome: RankOutcome) -> None:
        for flow in self.flows.values():
            flow.account(outcome)

    def close(self) -> None:
        for resource in (self._mesh, self._endpoint, self._selector):
            if resource is not None:
                resource.close()

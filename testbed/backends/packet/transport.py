"""Connects a rank with others in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from testbed.backends.packet.simulation import EngineCalls, Simulation
from testbed.backends.packet.streams import Streams
from testbed.hosts.aggregation import Engine
from testbed.hosts.messages import Message, Values
from testbed.hosts.task import RankOutcome, Task
from testbed.hosts.tree_flow import TreeFlow
from testbed.plan.program import TreeOperation


class VirtualFlow(TreeFlow):
    """A tree of an engine in the simulation. Its host takes time to handle what is pushed and
    done."""

    def __init__(
        self, engine: Engine, number: int, simulation: Simulation, driven: int, node: int
    ) -> None:
        super().__init__(engine, number)
        self._simulation, self._driven, self._node = simulation, driven, node
        self.handled: int | None = 0 if simulation.is_charged(node) else None
        """How many of the fragments done its host has handled; None if that takes no time."""

    def done(self) -> int:
        return super().done() if self.handled is None else self.handled

    def handle(self, until: int) -> None:
        """Note that the host has handled everything before fragment ``until``."""
        self.handled = until

    def completed(self) -> int:
        """The number of fragments done, handled or not."""
        return super().done()

    def push(self, operation: TreeOperation, values: Values, priority: int) -> int:
        self._simulation.handle_message(self._node)
        fragments = super().push(operation, values, priority)
        self._simulation.pump(self._driven)
        return fragments


class VirtualTransport:
    """A rank's transport; see `testbed.hosts.transport`.

    ``engine`` is its engine's number in the simulation; None for a rank that is in no tree.
    ``pace``: seconds of the engine in a simulated second. ``begins``: the number of each tree's
    first fragment.
    """

    def __init__(
        self,
        task: Task,
        node: int,
        simulation: Simulation,
        streams: Streams,
        pace: float,
        begins: int = 0,
    ) -> None:
        self._rank, self._streams = task.rank, streams
        self.flows: dict[int, VirtualFlow] = {}
        self.engine: int | None = None
        self._engine: Engine | None = None
        self._trees: list[int] = []  # of the engine's flows
        self._is_charged = simulation.is_charged(node)
        self._handled: set[int] = set()  # trees, if handling takes its host time
        for tree, role in enumerate(task.trees):
            if role is None:
                continue
            if self._engine is None or self.engine is None:
                self._engine = Engine(task.layout.carried, begins)
                calls = EngineCalls(*map(self._engine.function, EngineCalls.names))
                self.engine = simulation.engine(
                    node, self._engine.handle, calls, role.protocol.port, pace
                )
            number = self._engine.add(role)
            self.flows[tree] = VirtualFlow(self._engine, number, simulation, self.engine, node)
            self._trees.append(tree)

    def send(self, to: int, message: Message) -> None:
        self._streams.send(self._rank, to, message)

    def arrived(self) -> Iterator[tuple[int, Message]]:
        inbox = self._streams.inboxes[self._rank]
        while inbox:
            yield inbox.popleft()

    def flush(self) -> None:
        pass

    def finished(self) -> Iterable[int]:
        if not self._is_charged:
            return self._finished()
        handled = sorted(self._handled)
        self._handled.clear()
        return handled

    def _finished(self) -> Iterator[int]:
        if self._engine is not None:
            yield from map(self._trees.__getitem__, self._engine.finished())

    def completed(self) -> Callable[[], None]:
        """The function that the host calls when it has handled what its flows have done by now."""
        if not self._is_charged:
            return lambda: None
        done = {tree: self.flows[tree].completed() for tree in self._finished()}

        def handle() -> None:
            for tree, until in done.items():
                self.flows[tree].handle(until)
            self._handled.update(done)

        return handle

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def account(self, outcome: RankOutcome) -> None:
        outcome.retransmitted += self._streams.retransmitted(self._rank)
        for flow in self.flows.values():
            flow.account(outcome)

"""What connects a rank with others in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.backends.packet.simulation import EngineCalls, Simulation
from testbed.backends.packet.streams import Streams
from testbed.hosts.aggregation import Engine
from testbed.hosts.messages import Message, Values
from testbed.hosts.task import RankOutcome, Task
from testbed.hosts.tree_flow import TreeFlow
from testbed.plan.program import TreeOperation


class VirtualFlow(TreeFlow):
    """A tree of an engine that the simulation drives."""

    def __init__(self, engine: Engine, number: int, simulation: Simulation, driven: int) -> None:
        super().__init__(engine, number)
        self._simulation, self._driven = simulation, driven

    def push(self, operation: TreeOperation, values: Values) -> int:
        fragments = super().push(operation, values)
        self._simulation.pump(self._driven)
        return fragments


class VirtualTransport:
    """A rank's transport; see `testbed.hosts.transport`.

    ``engine`` is its number in the simulation; None for a rank that takes part in no tree.
    """

    def __init__(self, task: Task, node: int, simulation: Simulation, streams: Streams) -> None:
        self._rank, self._streams = task.rank, streams
        self.flows: dict[int, TreeFlow] = {}
        self.engine: int | None = None
        self._engine: Engine | None = None
        for tree, role in enumerate(task.trees):
            if role is None:
                continue
            if self._engine is None or self.engine is None:
                self._engine = Engine(task.values)
                calls = EngineCalls(*map(self._engine.function, EngineCalls.names))
                self.engine = simulation.engine(
                    node, self._engine.handle, calls, role.protocol.port
                )
            number = self._engine.add(role)
            self.flows[tree] = VirtualFlow(self._engine, number, simulation, self.engine)

    def send(self, to: int, message: Message) -> None:
        self._streams.send(self._rank, to, message)

    def arrived(self) -> Iterator[tuple[int, Message]]:
        inbox = self._streams.inboxes[self._rank]
        while inbox:
            yield inbox.popleft()

    def flush(self) -> None:
        pass

    def account(self, outcome: RankOutcome) -> None:
        outcome.retransmitted += self._streams.retransmitted(self._rank)
        for flow in self.flows.values():
            flow.account(outcome)

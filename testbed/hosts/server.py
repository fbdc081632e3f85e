"""A parameter server as steps: it sums and answers until it is stopped."""

from __future__ import annotations

import numpy as np

from testbed.hosts.interpreter import Interpreter
from testbed.hosts.messages import Chunk, Message
from testbed.hosts.task import RankOutcome, Task
from testbed.hosts.transport import AT_ONCE, NEVER, Steps, Transport


class Server:
    """Runs its program on chunks that arrive over streams, and is the root of trees."""

    takes = True

    def __init__(self, task: Task, transport: Transport) -> None:
        self._task, self._transport = task, transport
        self._layout = task.layout
        self._interpreter = Interpreter(
            task.plan,
            task.rank,
            self._layout.cuts,
            transport.send,
            # The engine answers packets that come up a tree, without the program.
            lambda operation, unit, values: None,
            lambda unit: None,
        )
        self.peers = self._interpreter.receivers

    def steps(self, start: float) -> Steps:
        while True:
            yield NEVER
            for source, message in self._transport.arrived():
                self.take(source, message, AT_ONCE)

    def take(self, source: int, message: Message, now: float) -> bool:
        """See `testbed.hosts.transport.Taker`."""
        assert isinstance(message, Chunk)
        if not self._interpreter.has_begun(message.unit):
            size = self._layout.cuts(message.unit)[-1]
            self._interpreter.begin(message.unit, np.zeros(size, np.int32))
        self._interpreter.arrived(source, message)
        return False

    def outcome(self) -> RankOutcome:
        outcome = RankOutcome(self._task.rank)
        self._transport.account(outcome)
        return outcome

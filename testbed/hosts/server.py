"""A parameter server as steps: it sums and answers until it is stopped."""

from __future__ import annotations

import numpy as np

from testbed.hosts.interpreter import Interpreter
from testbed.hosts.messages import Chunk
from testbed.hosts.task import RankOutcome, Task
from testbed.hosts.transport import NEVER, Steps, Transport


class Server:
    """Runs its program on chunks that arrive over streams, and is the root of trees."""

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
                assert isinstance(message, Chunk)
                self._begin(message.unit)
                self._interpreter.arrived(source, message)

    def outcome(self) -> RankOutcome:
        outcome = RankOutcome(self._task.rank)
        self._transport.account(outcome)
        return outcome

    def _begin(self, unit: int) -> None:
        if not self._interpreter.has_begun(unit):
            size = self._layout.cuts(unit)[-1]
            self._interpreter.begin(unit, np.zeros(size, np.int32))

"""The loop of a parameter server: it sums and answers until it is told to stop."""

from __future__ import annotations

from multiprocessing.connection import Connection

import numpy as np

from testbed.hosts.connections import Connections
from testbed.hosts.interpreter import Interpreter
from testbed.hosts.task import Outcome, Task
from testbed.plan.units import grain


class Server:
    """Runs its part of the program on chunks that come over TCP, and is the root of trees."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._outcome = Outcome(task.rank)
        self._connections = Connections(task)
        self._interpreter = Interpreter(
            task.plan,
            task.rank,
            grain(task.plan, task.values),
            self._connections.send,
            # What comes up a tree is answered as it comes, without the program.
            lambda operation, unit, values: None,
            lambda unit: None,
        )

    def connect(self) -> None:
        self._connections.connect()

    def run(self, orders: Connection) -> Outcome:
        """Serve until anything arrives on ``orders``."""
        self._connections.watch(orders)
        while not orders.poll():
            self._connections.wait(None)
            for source, unit, chunk, values in self._connections.arrived():
                self._begin(unit)
                self._interpreter.arrived(source, unit, chunk, values)
        orders.recv()
        self._connections.account(self._outcome)
        return self._outcome

    def close(self) -> None:
        self._connections.close()

    def _begin(self, unit: int) -> None:
        if not self._interpreter.has_begun(unit):
            size = self._task.units[unit % len(self._task.units)].elements
            self._interpreter.begin(unit, np.zeros(size, np.int32))

"""The P4 switch as a Mininet node. Importing this module needs Mininet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mininet.node import Node

from testbed.backends.emulation.switch_target import SwitchTarget
from testbed.switches.entries import SwitchEntries


class SwitchNode(Node):  # type: ignore[misc]
    """A namespace whose interfaces are the ports of ``target``, which ends with it."""

    def __init__(self, name: str, target: SwitchTarget, **parameters: Any) -> None:
        super().__init__(name, inNamespace=True, **parameters)
        self._target = target

    def run(self, ports: Mapping[int, str], superframe: int, entries: SwitchEntries) -> None:
        """Start the program on ``ports``, and install its ``entries`` once it answers.

        A frame on these ports may hold ``superframe`` packets. Raises ControlError if the program
        does not start, or refuses the entries.
        """
        self._target.start(ports, ["mnexec", "-a", str(self.pid)], superframe)
        entries.install(self._target)

    def terminate(self) -> None:
        self._target.close()
        super().terminate()

"""The switches of a group, and its servers, in a thread of rank 0.

The thread runs only C code: the compiled P4 program of every switch, and the hosts' engine of every
server.
"""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from threading import Thread

from testbed.hosts.aggregation import Engine
from testbed.switches import compile
from testbed.switches.native.build import build_library
from testbed.switches.native.embedded import EmbeddedSwitch
from testbed.switches.native.reader import read
from testbed.torch.links import EngineCalls, Memory, SwitchCalls, core
from testbed.torch.wiring import Wiring


class Fabric:
    """Switches that work until `close`. Raises ``BuildError`` and ``ControlError``."""

    def __init__(self, wiring: Wiring, memory: Memory) -> None:
        self._memory = memory  # its links must outlive the thread
        with ExitStack() as opened:
            self._open(wiring, opened)
            self._opened = opened.pop_all()

    def _open(self, wiring: Wiring, opened: ExitStack) -> None:
        library = core()
        fabric = library.fabric_open(self._memory.bell(next(iter(wiring.entries))))
        if fabric is None:
            raise MemoryError
        opened.callback(library.fabric_close, fabric)
        path = compile.PROGRAMS[wiring.values]
        program, built = read(path), build_library(path)
        self.switches = {name: EmbeddedSwitch(program, built) for name in wiring.entries}
        for name, switch in self.switches.items():
            wiring.entries[name].install(switch)
            calls = SwitchCalls.of(switch)
            if library.fabric_switch(fabric, self._node(name, opened), ctypes.byref(calls)):
                raise MemoryError
        for name in wiring.servers:
            server = Engine(wiring.values)
            opened.callback(server.close)
            server.add(wiring.roles[name])
            served = EngineCalls.of(server)
            if library.fabric_server(
                fabric, self._node(name, opened), server.handle, ctypes.byref(served)
            ):
                raise MemoryError
        thread = Thread(target=library.fabric_run, args=(fabric,), name="ina-switches", daemon=True)
        thread.start()
        opened.callback(thread.join)
        opened.callback(library.fabric_stop, fabric)

    def _node(self, name: str, opened: ExitStack) -> int:
        node = self._memory.node(name)
        opened.callback(core().node_close, node)
        return node

    def close(self) -> None:
        """End the switches once nothing is on its way to them. May be called twice."""
        self._opened.close()

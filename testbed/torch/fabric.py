"""The switches of a group, and its servers, in a thread of rank 0.

The thread runs only C code: the compiled P4 program of every switch, and the hosts' engine of every
server.
"""

from __future__ import annotations

import ctypes
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
        library = core()
        self._fabric = library.fabric_open(memory.bell(next(iter(wiring.entries))))
        if self._fabric is None:
            raise MemoryError
        path = compile.PROGRAMS[wiring.values]
        program, built = read(path), build_library(path)
        self.switches = {name: EmbeddedSwitch(program, built) for name in wiring.entries}
        self._nodes = {name: memory.node(name) for name in (*wiring.entries, *wiring.servers)}
        self._servers = {name: Engine(wiring.values) for name in wiring.servers}
        for name, switch in self.switches.items():
            wiring.entries[name].install(switch)
            calls = SwitchCalls.of(switch)
            if library.fabric_switch(self._fabric, self._nodes[name], ctypes.byref(calls)):
                raise MemoryError
        for name, server in self._servers.items():
            server.add(wiring.roles[name])
            served = EngineCalls.of(server)
            if library.fabric_server(
                self._fabric, self._nodes[name], server.handle, ctypes.byref(served)
            ):
                raise MemoryError
        self._thread = Thread(
            target=library.fabric_run, args=(self._fabric,), name="ina-switches", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the switches once nothing is on its way to them."""
        library = core()
        library.fabric_stop(self._fabric)
        self._thread.join()
        library.fabric_close(self._fabric)
        for node in self._nodes.values():
            library.node_close(node)
        for server in self._servers.values():
            server.close()

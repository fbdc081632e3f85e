"""Chooses what runs the P4 switches: BMv2, or the same compiled program as native code."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from testbed import wire
from testbed.backends.emulation.network import EmulationError
from testbed.backends.emulation.switch_target import SwitchTarget
from testbed.hosts import aggregation
from testbed.switches import bmv2, compile
from testbed.switches.compile import PROGRAM, CompileError
from testbed.switches.control import ControlError
from testbed.switches.native.build import BuildError, build
from testbed.switches.native.target import NativeSwitch

_UDP_SUPERFRAMES = (6, 2)
"""The first Linux that delivers UDP superframes to packet sockets; earlier ones drop them."""


def choose(wanted: str) -> str:
    """The target to run. ``auto`` is native, which is faster and tested equal to BMv2.

    EmulationError if the target is not installed.
    """
    if wanted == "bmv2" and not bmv2.installed():
        raise EmulationError(
            "target bmv2: simple_switch and simple_switch_CLI are not installed;"
            " install p4lang's package p4lang-bmv2, or use target native"
        )
    return "native" if wanted == "auto" else wanted


def program(wanted: str | None, values: int = wire.VALUES) -> Path:
    """The compiled program; see `compile.program`. Raises EmulationError if there is none."""
    try:
        return compile.program(wanted, values)
    except CompileError as error:
        raise EmulationError(str(error)) from error


def make(target: str, log: Path, program: Path = PROGRAM) -> SwitchTarget:
    """A switch of the chosen target, not yet started, that runs ``program`` and logs to ``log``."""
    if target == "bmv2":
        return bmv2.Bmv2Switch(program, log)
    return _Native(program)


class _Native(NativeSwitch):
    """The native switch, with what the network needs to watch it."""

    _death: str | None = None

    @property
    def cuts_superframes(self) -> bool:
        return _linux() >= _UDP_SUPERFRAMES

    def close(self) -> None:
        super().close()
        self._death = None

    def lost(self) -> int:
        if self.died() is not None:
            return 0
        try:
            statistics = self.statistics()
        except ControlError as error:  # it ended just now
            self._death = str(error)
            return 0
        ports = statistics.ports.values()
        own = statistics.oversize + statistics.no_port + statistics.endless
        return own + sum(port.rx_drops for port in ports)

    def died(self) -> str | None:
        # The reason can be read only once, and asking for it interrupts a running switch.
        ended = self._process is None or self._process.poll() is not None
        if self._death is None and ended:
            try:
                self.statistics()
            except ControlError as error:
                self._death = str(error)
        return self._death


def _linux() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2]))


def prepare(target: str, program: Path = PROGRAM, values: int = wire.VALUES) -> None:
    """Compile the C programs of hosts and native switches. Raises EmulationError without a
    compiler."""
    try:
        aggregation.load(values)
        if target == "native":
            build(program)
    except BuildError as error:
        raise EmulationError(str(error)) from error

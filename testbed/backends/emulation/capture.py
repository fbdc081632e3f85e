"""The packets of a link, in a file for tcpdump, Wireshark or ``ina-testbed decode``."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from types import TracebackType

from testbed.backends.emulation.network import EmulationError, Network
from testbed.backends.links import ends
from testbed.lifetime import die_with_parent

_COUNTERS = re.compile(r"(\d+) packets? captured, (\d+) .* by filter, (\d+) .* by kernel")
_READING_TIME = 5.0


class Capture:
    """A context in which all packets of a link, in both directions, are written to ``path``."""

    def __init__(self, network: Network, link: str, path: Path) -> None:
        self._network, self._link, self._path = network, link, path

    def __enter__(self) -> Capture:
        if shutil.which("tcpdump") is None:
            raise EmulationError(
                "a capture needs tcpdump, which is not installed: `ina-testbed setup` says how"
            )
        try:
            node, neighbour = ends(self._link, self._network.fabric)
        except ValueError as error:
            raise EmulationError(str(error)) from error
        interface = self._network.addressing.interface(node, neighbour)
        # In immediate mode, the kernel does not hold packets back. As root, tcpdump may write here.
        command = ["tcpdump", "--immediate-mode", "-Z", "root", "-i", interface]
        self._process = subprocess.Popen(
            [*self._network.inside(node), *command, "-w", str(self._path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        assert self._process.stderr is not None
        said = ""
        while "listening on" not in said:
            line = self._process.stderr.readline()
            if not line:
                raise EmulationError(f"tcpdump on {self._link}: {said.strip()}")
            said += line
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._catch_up()
        self._process.send_signal(signal.SIGINT)  # tcpdump then writes its buffer
        self._process.communicate()

    def _catch_up(self) -> None:
        """Wait until tcpdump has read what the kernel had captured when this was called.

        On an interrupt, tcpdump ends at once, without the packets that it has not read yet.
        """
        end = time.monotonic() + _READING_TIME
        read, received, dropped = self._counters()
        captured = received - dropped
        while read < captured and time.monotonic() < end:
            read, _, _ = self._counters()

    def _counters(self) -> tuple[int, int, int]:
        """Packets that tcpdump has read, and that the kernel has received and dropped; zeros if
        tcpdump has ended."""
        assert self._process.stderr is not None
        self._process.send_signal(signal.SIGUSR1)
        for line in self._process.stderr:
            if found := _COUNTERS.search(line):
                read, received, dropped = map(int, found.groups())
                return read, received, dropped
        return 0, 0, 0

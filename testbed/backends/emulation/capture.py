"""The packets of a link, in a file for tcpdump, Wireshark or ``ina-testbed decode``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path
from types import TracebackType

from testbed.backends.emulation.network import EmulationError, Network
from testbed.lifetime import die_with_parent
from testbed.topology.fabric import Fabric


def ends(name: str, fabric: Fabric) -> tuple[str, str]:
    """The two nodes of a link that the user names, such as h0-t0. EmulationError if unknown."""
    for link in fabric.links:
        if name in (f"{link.a}-{link.b}", f"{link.b}-{link.a}"):
            return link.a, link.b
    example = fabric.links[0]
    raise EmulationError(
        f"found no link {name!r} to capture in {fabric.name}, wanted two neighbours such as "
        f"{example.a}-{example.b}"
    )


class Capture:
    """A context in which all packets of a link, both ways, are written to ``path``."""

    def __init__(self, network: Network, link: str, path: Path) -> None:
        self._network, self._link, self._path = network, link, path

    def __enter__(self) -> Capture:
        if shutil.which("tcpdump") is None:
            raise EmulationError(
                "a capture needs tcpdump, which is not installed: ./setup.sh installs it"
            )
        node, neighbour = ends(self._link, self._network.fabric)
        interface = self._network.addressing.interface(node, neighbour)
        # Immediate mode: otherwise packets still buffered at the end are lost. Root: to write here.
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
        self._process.send_signal(signal.SIGINT)  # tcpdump then writes its buffer
        self._process.communicate()

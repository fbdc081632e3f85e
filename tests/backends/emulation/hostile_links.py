"""P4 switches with links that lose, duplicate and delay packets in both directions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patience import awaited

from testbed.backends.emulation.switch_target import SwitchTarget

_RELAY = Path(__file__).with_name("relay.py")
_MTU = 9216  # of any fabric


@dataclass(frozen=True)
class Links:
    """The shares of packets that are lost, that are sent again later, and that are delayed so that
    others overtake them."""

    lost: float = 0.0
    doubled: float = 0.0
    delayed: float = 0.0
    seed: int = 1


class HostileTarget:
    """``target`` behind a relay, a process in the switch's namespace between links and ports."""

    cuts_superframes = False  # each packet is treated by itself

    def __init__(self, target: SwitchTarget, links: Links) -> None:
        self._target, self._links = target, links
        self._relay: subprocess.Popen[str] | None = None
        self.disturbed: dict[str, int] = {}  # numbers of packets, once it is closed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def start(
        self, interfaces: Mapping[int, str], prefix_command: Sequence[str], superframe: int
    ) -> None:
        make = "".join(
            f"link add r{port} mtu {_MTU} type veth peer name s{port} mtu {_MTU}\n"
            f"link set r{port} up\nlink set s{port} up\n"
            for port in interfaces
        )
        subprocess.run([*prefix_command, "ip", "-batch", "-"], input=make, text=True, check=True)
        pairs = [f"{name}=r{port}" for port, name in interfaces.items()]
        shares = [self._links.lost, self._links.doubled, self._links.delayed, self._links.seed]
        self._relay = subprocess.Popen(
            [*prefix_command, sys.executable, str(_RELAY), *map(str, shares), *pairs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._relay.stdout is not None
        assert self._relay.stdout.readline() == "ready\n"
        self._target.start({port: f"s{port}" for port in interfaces}, prefix_command, superframe)

    def begin(self) -> None:
        assert self._relay is not None and self._relay.stdin is not None
        self._relay.stdin.write("begin\n")
        self._relay.stdin.flush()

    def forget(self, registers: Sequence[str]) -> None:
        """Clear all registers at once: no packet arrives or leaves meanwhile."""
        assert self._relay is not None
        os.kill(self._relay.pid, signal.SIGSTOP)
        try:
            awaited(lambda: _state(self._relay.pid) == "T")
            # Packets that have arrived are handled first: by the kernel, then by the switch.
            time.sleep(0.02)
            awaited(lambda: _state(self._target.pid) == "S")
            for register in registers:
                self._target.reset_register(register)
        finally:
            os.kill(self._relay.pid, signal.SIGCONT)

    def close(self) -> None:
        self._target.close()
        if self._relay is not None:
            self.disturbed = json.loads(self._relay.communicate("")[0])
            self._relay = None


def _state(pid: int) -> str:
    """Of a process: T if it is stopped, S if it waits."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

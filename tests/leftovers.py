"""Whether anything of a run is left: its processes, and with them its namespaces and links."""

from __future__ import annotations

import os
import time
from pathlib import Path

from testbed.emulation.network import Network


def namespaces(network: Network) -> set[int]:
    return {os.stat(network.namespace(node)).st_ino for node in network.fabric.nodes}


def processes_in(inodes: set[int]) -> list[str]:
    """Processes in any of these network namespaces. A namespace without one is gone."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            inside = os.stat(f"/proc/{pid}/ns/net").st_ino in inodes
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if inside:
            found.append(f"{pid} {command.decode(errors='replace')}")
    return found


def assert_gone(inodes: set[int], within: float) -> float:
    """Wait until the namespaces are empty; seconds that it took."""
    assert inodes
    began = time.monotonic()
    while left := processes_in(inodes):
        assert time.monotonic() - began < within, left
        time.sleep(0.02)
    return time.monotonic() - began

"""Finds what is left of a run: its processes, and with them its namespaces and links."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from patience import assert_none

from testbed.backends.emulation.network import Network


def namespaces(network: Network) -> set[int]:
    return {os.stat(network.namespace(node)).st_ino for node in network.fabric.nodes}


def namespace_of(pid: int) -> int | None:
    """The network namespace of a process; None if it has ended or is another user's."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None


def command_of(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return words.decode(errors="replace").split("\0")[:-1]


def descendants(ancestor: int) -> list[int]:
    """All running processes below ``ancestor``, sorted."""
    parent = {}
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if stat[0] not in "ZX":
            parent[pid] = int(stat[1])
    found = {ancestor}
    while more := {pid for pid, above in parent.items() if above in found} - found:
        found |= more
    return sorted(found - {ancestor})


def processes_in(inodes: set[int]) -> list[str]:
    """Processes in any of these network namespaces. A namespace without a process is gone."""
    return [
        f"{pid} {' '.join(command_of(pid))}"
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))
        if namespace_of(pid) in inodes
    ]


def assert_gone(inodes: set[int]) -> None:
    """Wait until the namespaces are empty."""
    assert inodes
    assert_none(lambda: processes_in(inodes))


def assert_ended(pids: Iterable[int]) -> None:
    """Wait until these processes have ended. The kernel kills orphans after it reaps a parent."""
    assert_none(lambda: {pid: words for pid in pids if (words := command_of(pid))})

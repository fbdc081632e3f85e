"""Ends the processes that earlier runs left behind, and nothing else.

A run's nodes are unnamed namespaces. They vanish with their last process, and their links with
them, so only processes remain to be ended. Ours have a tag in their environment, which names the
process holding the run. If that process is gone, they are left over.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TAG = "INA_TESTBED_RUN"
"""Environment variable of every process of a run; its value names the process holding the run."""

_PATIENCE_MS = 2000


def mark() -> str:
    """The value of ``TAG`` for a run held by this process."""
    name = _name(os.getpid())
    assert name is not None
    return name


def clean() -> list[str]:
    """Kill the processes of runs that are no longer alive; return a line for each."""
    removed = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):
        # The process may end meanwhile, or belong to another user.
        with (
            suppress(FileNotFoundError, ProcessLookupError, PermissionError),
            _handle(pid) as pidfd,
        ):
            run = _run_of(pid)
            if run is None or _alive(run):
                continue
            what = _command(pid)
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            gone = poll.poll(_PATIENCE_MS)
            end = "" if gone else ", which does not end"
            removed.append(f"process {pid} of run {run}: {what}{end}")
    return removed


@contextmanager
def _handle(pid: int) -> Iterator[int]:
    """A descriptor that stays bound to this process even if its number is reused."""
    pidfd = os.pidfd_open(pid)
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def _name(pid: int) -> str | None:
    """Number and start time (since boot) of a process; no later process has the same two.

    None if there is no such process, or if it is a zombie.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command's name in parentheses, which may contain anything.
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else f"{pid}.{rest[18]}"


def _alive(run: str) -> bool:
    pid = run.partition(".")[0]
    return pid.isdecimal() and _name(int(pid)) == run


def _run_of(pid: int) -> str | None:
    """The tag of a process, None if it has none or belongs to another PID namespace."""
    # The process number in another container's tag means nothing here.
    if os.stat(f"/proc/{pid}/ns/pid").st_ino != os.stat("/proc/self/ns/pid").st_ino:
        return None
    for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        name, _, value = variable.partition(b"=")
        if name == TAG.encode():
            return value.decode(errors="replace")
    return None


def _command(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b" ".join(words).decode(errors="replace").strip() or "(without a command line)"

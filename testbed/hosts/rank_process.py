"""A rank as a process of its own inside a host's network namespace.

The conversation over the pipe: it says "listening" once its sockets are bound, is told
"connect", says "connected", is told when to start, and ends with its outcome. A server is
told "stop" instead. Whatever goes wrong is said as a string with the reason.
"""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
from dataclasses import replace
from multiprocessing.connection import Connection

from testbed.hosts.driver import drive, linger
from testbed.hosts.rank import make
from testbed.hosts.sockets import Sockets
from testbed.hosts.stream import PeerLost
from testbed.hosts.task import Task
from testbed.lifetime import die_with_parent

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Failure(str):
    """The reason why a rank could not go on."""


def main(task: Task, namespace: str | None, parent: int, pipe: Connection) -> None:
    """Run ``task`` inside the network namespace at path ``namespace`` (None: the present one)."""
    die_with_parent(parent)
    # Ctrl-C reaches the whole process group; the harness decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sockets: Sockets | None = None
    try:
        if namespace is not None:
            enter(namespace)
        sockets = Sockets(task)
        rank = make(task, sockets)
        pipe.send("listening")
        pipe.recv()
        sockets.connect(rank.peers)
        pipe.send("connected")
        start = pipe.recv()
        late_s = drive(rank, sockets, start, None if task.is_worker else pipe)
        if not task.is_worker:
            pipe.recv()
        pipe.send(replace(rank.outcome(), late_s=late_s))
        # Peers may still read from this rank's connections: they stay open until told.
        if task.is_worker:
            linger(sockets, pipe)
        pipe.recv()
    except (PeerLost, OSError, EOFError) as error:
        _say(pipe, Failure(f"{type(error).__name__}: {error}"))
    except Exception:
        _say(pipe, Failure(traceback.format_exc()))
    finally:
        if sockets is not None:
            sockets.close()


def _say(pipe: Connection, failure: Failure) -> None:
    try:
        pipe.send(failure)
    except OSError:
        os._exit(1)


def enter(namespace: str) -> None:
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"cannot enter {namespace}: {os.strerror(error)}")
    finally:
        os.close(descriptor)

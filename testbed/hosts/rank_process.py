"""A rank as a process of its own inside a host's network namespace.

Over the pipe, the rank sends "listening" once its sockets are bound, receives "connect", sends
"connected", receives the start time, and sends its outcome at the end. A server receives "stop"
before it sends its outcome. On an error the rank sends a string with the reason.
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
from testbed.workload.gradients import NoGradient

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Failure(str):
    """Why a rank could not continue."""


class Lost(Failure):
    """A rank lost a peer, whose own failure may be the reason."""


def main(task: Task, namespace: str | None, parent: int, pipe: Connection) -> None:
    """Run ``task`` in the network namespace at path ``namespace`` (None: the current one)."""
    die_with_parent(parent)
    # Ctrl-C reaches the whole process group; the process that started it decides what to do.
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
        pipe.send(replace(rank.outcome(), late_s=max(late_s, _beyond_s(task))))
        # Peers may still read from this rank's connections: keep them open until the launcher
        # sends a message.
        if task.is_worker:
            linger(sockets, pipe)
        pipe.recv()
    except NoGradient as error:
        _say(pipe, Failure(str(error)))
    except (PeerLost, OSError, EOFError) as error:
        _say(pipe, Lost(f"{type(error).__name__}: {error}"))
    except Exception:
        _say(pipe, Failure(traceback.format_exc()))
    finally:
        if sockets is not None:
            sockets.close()


def _beyond_s(task: Task) -> float:
    """The most seconds by which real computation exceeded the compute time of an iteration."""
    if task.gradients is None:
        return 0.0
    return task.gradients.computed_s - task.compute_s * min(task.paces)


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

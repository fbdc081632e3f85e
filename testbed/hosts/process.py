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
from multiprocessing.connection import Connection
from typing import TypeAlias

from testbed.hosts import parameters
from testbed.hosts.server import Server
from testbed.hosts.stream import PeerLost
from testbed.hosts.task import Task
from testbed.hosts.worker import Worker
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
    endpoint: Rank | None = None
    try:
        if namespace is not None:
            enter(namespace)
        endpoint = rank(task)
        pipe.send("listening")
        pipe.recv()
        endpoint.connect()
        pipe.send("connected")
        start = pipe.recv()
        if isinstance(endpoint, Worker | parameters.Worker):
            pipe.send(endpoint.run(start))
        else:
            pipe.send(endpoint.run(pipe))
        # Peers may still read from this rank's connections: they stay open until told.
        if isinstance(endpoint, Worker):
            endpoint.linger(pipe)
        pipe.recv()
    except (PeerLost, OSError, EOFError) as error:
        _say(pipe, Failure(f"{type(error).__name__}: {error}"))
    except Exception:
        _say(pipe, Failure(traceback.format_exc()))
    finally:
        if endpoint is not None:
            endpoint.close()


Rank: TypeAlias = Worker | Server | parameters.Worker | parameters.Server


def rank(task: Task) -> Rank:
    """What runs ``task``: a worker or a server, of sums or of parameters."""
    if task.plan.consistency is None:
        return Worker(task) if task.is_worker else Server(task)
    return parameters.Worker(task) if task.is_worker else parameters.Server(task)


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

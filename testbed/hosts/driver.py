"""Drives a rank's steps on the machine's clock and sockets."""

from __future__ import annotations

import select
from multiprocessing.connection import Connection
from time import monotonic

from testbed.hosts.sockets import Sockets
from testbed.hosts.transport import Rank


def drive(rank: Rank, sockets: Sockets, start: float, orders: Connection | None = None) -> float:
    """Run ``rank`` from ``start`` on, until it has ended or anything arrives on ``orders``.

    Returns the longest delay, in seconds, from a time for which the rank waited to this process's
    wake-up.
    """
    ordered = select.poll()
    if orders is not None:
        sockets.watch(orders)
        ordered.register(orders, select.POLLIN)
    late_s = 0.0
    steps = rank.steps(start)
    until = next(steps)
    try:
        while orders is None or not ordered.poll(0):
            now = monotonic()
            if until > now:
                in_time = sockets.wait(until)
                now = monotonic()
                if not in_time:
                    late_s = max(late_s, now - until)
            until = steps.send(now)
    except StopIteration:
        pass
    return late_s


def linger(sockets: Sockets, orders: Connection) -> None:
    """Answer peers that missed something until anything arrives on ``orders``."""
    sockets.watch(orders)
    while not orders.poll():
        sockets.wait()
        for _ in sockets.arrived():
            pass

"""Hosts on one router, for TCP of the C core on its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from testbed.backends.packet.simulation import (
    HOST,
    ROUTER,
    SECOND,
    Link,
    Simulation,
    TcpSettings,
)  # fmt: skip

RATE, MSS, HEADERS = 10**10, 1448, 66
MICROSECOND = SECOND // 10**6
FRAME = (MSS + HEADERS) * 8 * SECOND // RATE


def settings(**changes: int) -> TcpSettings:
    usual = {
        "mss": MSS,
        "overhead": HEADERS,
        "initial_window": 10,
        "receive_window": 3 << 20,
        "queued_time": SECOND // 1000,
        "most_queued": 4 << 20,
        "least_timeout": SECOND // 100,
        "longest_timeout": 120 * SECOND,
        "first_timeout": SECOND,
        "timer_slack": SECOND // 500,
        "acknowledge_delay": SECOND // 25,
        "gather_time": 10 * MICROSECOND,
    }
    return TcpSettings(**usual | changes)


@contextmanager
def star(
    hosts: int, tcp: TcpSettings, delay: int = MICROSECOND, queue: int = 1 << 40, **links: int
) -> Iterator[Simulation]:
    """``hosts`` on a router, which has the number after the last of them. ``queue``: bytes of the
    router's queue to each host. ``links``: other fields of each link."""
    with Simulation(hosts + 1, 0, tcp) as simulation:
        for node in range(hosts + 1):
            kind = ROUTER if node == hosts else HOST
            simulation.node(node, kind, 0x0A000001 + node, node)
        for host in range(hosts):
            ends = {"a": host, "b": hosts, "delay_a": delay, "delay_b": delay}
            own = {"rate": RATE, "limit_a": 1 << 40, "limit_b": queue, "seed": 1}
            simulation.link(Link(**ends | own | links))
            simulation.next_hops(hosts, host, [host])
        yield simulation

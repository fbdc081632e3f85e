"""TCP of the C core by itself: hosts on one router."""

from __future__ import annotations

import pytest

from testbed.backends.packet.simulation import (
    HOST,
    NEVER,
    ROUTER,
    SECOND,
    Link,
    Simulation,
    TcpSettings,
)  # fmt: skip

RATE, MSS, HEADERS = 10**10, 1448, 66
MICROSECOND = SECOND // 10**6


def incast(senders: int, size: int, queue: int = 256_000, loss: float = 0.0, seed: int = 1):
    """Seconds until all have arrived, and what every connection counted."""
    settings = TcpSettings(
        MSS, HEADERS, 10, 3 << 20, 4 * 1514, SECOND // 100, 120 * SECOND, SECOND, SECOND // 25
    )
    receiver, router = senders, senders + 1
    with Simulation(senders + 2, 0, settings) as simulation:
        for node in range(senders + 2):
            kind = ROUTER if node == router else HOST
            simulation.node(node, kind, 0x0A000001 + node, node)
        for host in range(senders + 1):
            simulation.link(
                Link(
                    a=host, b=router, rate=RATE, delay=MICROSECOND, limit_a=1 << 40,
                    limit_b=queue, jitter_a=MICROSECOND, loss=round(loss * 2**64), seed=seed,
                )
            )  # fmt: skip
            simulation.way(router, host, [host])
        connections = [simulation.connect(host, receiver, 5000, host) for host in range(senders)]
        for each in connections:
            simulation.expect(each, size)
            simulation.write(each, size)
        ended = {simulation.run(NEVER) for _ in connections}
        assert {number for _, number in filter(None, ended)} == set(connections)
        return simulation.now / SECOND, [simulation.tcp(each) for each in connections]


def least(senders: int, size: int) -> float:
    return senders * size * (MSS + HEADERS) / MSS * 8 / RATE


def test_one_sender_fills_a_link():
    took, (counted,) = incast(1, 4_000_000)
    assert took == pytest.approx(least(1, 4_000_000), rel=0.01)
    assert counted.retransmitted == 0


@pytest.mark.parametrize("senders", [4, 8, 16])
def test_senders_share_a_link_without_loss_of_throughput(senders):
    took, counted = incast(senders, 8_000_000)
    assert took == pytest.approx(least(senders, 8_000_000), rel=0.05)
    assert sum(each.recoveries for each in counted) > 0  # the queue overflowed, and they went on


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", [0.001, 0.02, 0.2])
def test_everything_arrives_whatever_is_lost(loss, seed):
    _, counted = incast(3, 400_000, loss=loss, seed=seed)
    assert sum(each.retransmitted for each in counted) > 0 or loss < 0.01


def test_a_lost_segment_does_not_cost_a_timeout():
    """Half a percent, of segments and acknowledgements alike: recoveries do nearly all of it."""
    _, (counted,) = incast(1, 8_000_000, loss=0.005)
    assert counted.recoveries > 10
    assert counted.timeouts <= 1

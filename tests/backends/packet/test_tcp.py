"""TCP of the C core on its own: hosts on one router."""

from __future__ import annotations

import pytest
from one_router import FRAME, HEADERS, MICROSECOND, MSS, RATE, settings, star

from testbed.backends.packet.simulation import NEVER, SECOND


def incast(
    senders,
    size,
    queue=256_000,
    loss=0.0,
    seed=1,
    gather_time=10 * MICROSECOND,
    burst=0,
    jitter=MICROSECOND,
    after=0,
):
    """Seconds until everything has arrived, and the counters of every connection ``after`` that."""
    receiver, lost = senders, round(loss * 2**64)
    links = {"jitter_a": jitter, "burst": burst, "loss": lost, "seed": seed}
    tcp = settings(gather_time=gather_time)
    with star(senders + 1, tcp, queue=queue, **links) as simulation:
        connections = [simulation.connect(host, receiver, 5000, host) for host in range(senders)]
        for each in connections:
            simulation.write(each, size)
        ended = {simulation.run(NEVER) for _ in connections}
        assert {number for _, number, _ in filter(None, ended)} == set(connections)
        took = simulation.now / SECOND
        simulation.run(simulation.now + after)
        return took, [simulation.tcp(each) for each in connections]


def least(senders: int, size: int) -> float:
    return senders * size * (MSS + HEADERS) / MSS * 8 / RATE


def test_one_sender_fills_a_link():
    took, (counted,) = incast(1, 4_000_000)
    assert took == pytest.approx(least(1, 4_000_000), rel=0.01)
    assert counted.retransmitted == 0


@pytest.mark.parametrize(("senders", "idle"), [(4, 0.01), (8, 0.01), (16, 0.25)])
def test_senders_share_a_link(senders, idle):
    """Their queue overflows. With 16 senders, the last one may wait for a timeout on its own."""
    took, counted = incast(senders, 8_000_000)
    assert least(senders, 8_000_000) <= took <= least(senders, 8_000_000) * (1 + idle)
    assert sum(each.recoveries for each in counted) > 0


@pytest.mark.parametrize("seed", range(5))
def test_timeouts_do_not_grow_with_gaps(seed):
    """What arrives behind a gap is acknowledged late, and this says nothing about the round
    trip."""
    took, _ = incast(2, 400_000, loss=0.1, seed=seed)
    assert took < 5


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", [0.001, 0.02, 0.2])
def test_everything_arrives_whatever_is_lost(loss, seed):
    _, counted = incast(3, 400_000, loss=loss, seed=seed)
    if loss > 0.01:
        assert sum(each.retransmitted for each in counted) > 0


def test_a_lost_segment_does_not_cost_a_timeout():
    """Half a percent of segments and acknowledgements are lost."""
    _, (counted,) = incast(1, 8_000_000, loss=0.005, gather_time=0)
    assert counted.recoveries > 10
    assert counted.timeouts <= 1


@pytest.mark.parametrize("segments", [1, 9, 17, 18, 41, 42, 101])
def test_the_end_of_a_message_is_acknowledged_before_a_timeout(segments):
    _, (counted,) = incast(1, segments * MSS, gather_time=0, after=SECOND)
    assert (counted.timeouts, counted.retransmitted) == (0, 0)


@pytest.mark.parametrize("senders", [2, 4, 8])
def test_nothing_is_sent_again_because_a_queue_grows(senders):
    """In slow start a round trip takes more than twice as long as the one before."""
    _, counted = incast(senders, 1_000_000, queue=16_000_000, after=SECOND)
    assert [(each.timeouts, each.retransmitted) for each in counted] == [(0, 0)] * senders


@pytest.mark.parametrize("jitter", [0, FRAME])
def test_a_shaper_lets_a_frame_go_before_it_counts_it(jitter):
    """HTB with a burst of two frames: three frames leave an idle link at once, and each further one
    as soon as the previous one has been counted. A wire delivers a frame when its last bit has
    passed. A host's jitter takes at most one frame of the burst."""
    for segments, waiting in ((3, 0), (10, 7)):
        took, _ = incast(1, segments * MSS, gather_time=0, burst=2 * FRAME, jitter=jitter)
        beyond = took * SECOND - (2 * MICROSECOND + waiting * FRAME)
        assert -0.01 * FRAME <= beyond <= jitter + 0.01 * FRAME

"""What the emulator observed, as symptoms of a slow machine."""

from __future__ import annotations

from dataclasses import replace

from testbed.backends.emulation.network import Statistics
from testbed.backends.emulation.run import Observation
from testbed.backends.emulation.sampler import Sampler
from testbed.campaign.verdicts import symptoms
from testbed.hosts.task import RankOutcome
from testbed.machine.verdict import VALID, verdict
from testbed.topology.builders import leaf_spine

FABRIC = leaf_spine(1, 2, 2, 1e10, 1e10, 100_000)
SEEN = Observation(
    outcomes=[RankOutcome(rank, retransmitted=75) for rank in range(4)],
    machine=Sampler(idle=[0.9], waiting=[0.1], seconds=1.0),
    ports={},
    packets=Statistics(
        lost={}, crowded_out={}, queue_drops=10, sent_bytes={}, sent_packets=10_000, tcp_resent={}
    ),
    dead={},
    events={},
    spent_s=0.0,
    rank_s=0.0,
    switch_s=0.0,
    superframe=6,
)


def judged(seen, is_impaired=False):
    return verdict(symptoms(seen, FABRIC, is_impaired))


def test_a_lost_frame_excuses_as_many_packets_as_frames_held():
    """Ten frames of six, missed by four ranks, explain 240 of 300 packets; ten single ones, 40."""
    assert judged(SEEN) == VALID
    assert "300 packets retransmitted" in judged(replace(SEEN, superframe=1))


def test_loss_that_was_asked_for_excuses_all():
    assert judged(replace(SEEN, superframe=1), is_impaired=True) == VALID


def test_packets_that_a_switch_was_too_slow_for_are_named():
    slow = replace(SEEN.packets, lost={"t0": 3, "h1": 2}, crowded_out={"t0-eth1": 1})
    said = judged(replace(SEEN, packets=slow))
    assert "3 packets lost in the packet ring of t0" in said
    assert "2 packets lost in the sockets of h1" in said
    assert "1 packets lost in the processors' queues of received packets" in said

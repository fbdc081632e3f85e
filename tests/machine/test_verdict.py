"""Every rule of the verdict gives its reason when it applies, and only then."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

import pytest

from testbed.backends.emulation import sampler as sampler_module
from testbed.backends.emulation.queues import Reading
from testbed.backends.emulation.rates import Port
from testbed.backends.emulation.sampler import Sampler
from testbed.machine.verdict import VALID, Symptoms, explained, is_needless, verdict

RATE, QUEUE, SLACK = 8e6, 256_000, 15_140

FINE = Symptoms(
    idle=(0.5, 0.36),
    waiting=(0.4, 0.7),
    late_s=0.004,
    iteration_s=0.1,
    lost={"the sockets of h0": 0},
    ports={"h0-t0": Port(RATE, QUEUE, SLACK, most=1.04, busy_s=1.0, owed=1e6, paid=0.95e6)},
    resent=10,
    sent=1000,
)


def test_a_machine_that_carried_the_run_is_not_blamed():
    assert verdict(FINE) == VALID
    assert verdict(Symptoms()) == VALID


@pytest.mark.parametrize(
    ("sign", "words"),
    [
        ({"idle": (0.9, 0.34)}, r"idle only 34% .*\(1 of 2 seconds"),
        ({"waiting": (0.81, 0.2)}, r"waited for a processor 81% .*\(1 of 2 seconds"),
        ({"late_s": 0.006}, "woken 6 ms late, 6% of an iteration"),
        ({"lost": {"the packet ring of t1": 3}}, "3 packets lost in the packet ring of t1"),
        (
            {"ports": {"t0-h0": Port(RATE, QUEUE, SLACK, most=1.06)}},
            "1 link end faster .* t0-h0 at 106%",
        ),
        (
            {
                "ports": {
                    name: Port(RATE, QUEUE, SLACK, busy_s=1.0, owed=1e6, paid=paid)
                    for name, paid in (("h0-t0", 0.8e6), ("h1-t0", 0.4e6), ("h2-t0", 1e6))
                }
            },
            "2 link ends slower .* h1-t0 at 41%",
        ),
        ({"resent": 11}, "11 packets retransmitted, 1% of all"),
        ({"resent": 300, "excused": 256}, "300 packets retransmitted"),
        ({"dead": {"t0": "ended with code 1"}}, "t0: ended with code 1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_each_sign_of_strain_is_a_reason(sign, words):
    assert re.search(words, verdict(replace(FINE, **sign)))


def test_all_reasons_are_told():
    said = verdict(replace(FINE, idle=(0.0,), late_s=1.0, resent=500))
    assert len(said.split("; ")) == 3


@pytest.mark.parametrize("excused", [300, inf])
def test_what_losses_explain_is_no_reason(excused):
    assert verdict(replace(FINE, resent=300, excused=excused)) == VALID


@pytest.mark.parametrize(
    ("losses", "resent", "allowed"),
    [
        (0, 157, True),
        (0, 158, False),
        (1, 48 + 157, True),
        (6, 3144, False),  # once observed with ATP, of 15,700 packets: only six frames were lost
        (125, 4441, False),  # also observed: queues were full of retransmissions
        (1000, 6000, True),
    ],
)
def test_a_loss_explains_so_many_packets_and_no_more(losses, resent, allowed):
    excused = explained(losses, ranks=8, frame=6, sent=15_700)
    said = verdict(replace(FINE, resent=resent, sent=15_700, excused=excused))
    assert (said == VALID) is allowed
    assert is_needless(said) is not allowed


def reading(at: float, sent: float, waiting: int = 0) -> Reading:
    return Reading(at, at + 0.001, round(sent), 0, 0, waiting)


def test_a_port_is_fast_only_beyond_what_a_shaper_lets_pass_at_once():
    allowed = Port(RATE, QUEUE, SLACK)
    allowed.passed(reading(10.0, 500), reading(11.0, 500 + RATE / 8 + SLACK))
    assert allowed.most == pytest.approx(1.0, abs=0.01)
    fast = Port(RATE, QUEUE, SLACK)
    fast.passed(reading(10.0, 500), reading(11.0, 500 + 1.2 * RATE / 8))
    assert fast.most > 1.15


def test_a_port_is_slow_only_while_something_waits_all_along():
    gap = 0.05
    full = round(RATE / 8 * 2 * gap)
    slow, busy, idle = Port(RATE, QUEUE, SLACK), Port(RATE, QUEUE, SLACK), Port(RATE, QUEUE, SLACK)
    for second in range(10):
        now, later = float(second), second + gap
        slow.waited(reading(now, 0, full), reading(later, 0.5 * RATE / 8 * gap))
        busy.waited(reading(now, 0, full), reading(later, RATE / 8 * gap))
        # The waiting packets left soon, and then there was nothing to send.
        idle.waited(reading(now, 0, full // 4), reading(later, full // 4))
    assert slow.share is not None
    assert slow.share < 0.6
    assert busy.share is not None
    assert busy.share >= 1
    assert idle.share is None


def test_one_short_look_proves_nothing():
    port = Port(RATE, QUEUE, SLACK)
    port.waited(reading(0.0, 0, QUEUE), reading(0.01, 0))
    assert port.share is None


def test_the_sampler_reads_what_the_kernel_counts(monkeypatch, tmp_path):
    stat, pressure = tmp_path / "stat", tmp_path / "cpu"
    monkeypatch.setattr(sampler_module, "_STAT", stat)
    monkeypatch.setattr(sampler_module, "_PRESSURE", pressure)
    now = [100.0]
    monkeypatch.setattr("testbed.backends.emulation.sampler.time.monotonic", lambda: now[0])

    def machine(busy: int, idle: int, stolen: int, waited_us: int) -> None:
        stat.write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 {stolen} 0 0\ncpu0 1 2 3\n")
        pressure.write_text(f"some avg10=1.00 avg60=1.00 avg300=1.00 total={waited_us}\nfull x\n")

    machine(1000, 5000, 100, 7_000_000)
    sampler = Sampler()
    sampler.start()
    now[0] += 0.5
    sampler.sample()
    assert not sampler.idle
    now[0] += 0.5
    machine(1060, 5040, 200, 7_250_000)
    sampler.sample()
    assert sampler.idle == [pytest.approx(0.2)]
    assert sampler.waiting == [pytest.approx(0.25)]

    pressure.unlink()
    sampler.start()
    now[0] += 1.0
    machine(1100, 5100, 200, 0)
    pressure.unlink()
    sampler.stop()
    assert sampler.idle
    assert not sampler.waiting

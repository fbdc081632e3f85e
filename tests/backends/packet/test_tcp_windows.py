"""TCP's window and its retransmissions, looked at while a single sender is interrupted once."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from one_router import FRAME, MICROSECOND, MSS, settings, star

from testbed.backends.packet.look import Look
from testbed.backends.packet.simulation import SECOND, Impairment, Simulation

US = MICROSECOND
ALL = 2**64 - 1
SENDER, RECEIVER = range(2)


@dataclass
class Watched:
    """A transfer, looked at every ``step`` picoseconds."""

    simulation: Simulation
    look: Look
    connection: int
    windows: dict[int, int] = field(default_factory=dict)  # segments, by time
    in_flight: dict[int, int] = field(default_factory=dict)  # bytes

    def until(self, time: int, step: int = 10 * US) -> None:
        while self.simulation.now < time:
            goal = min(time, self.simulation.now + step)
            while self.simulation.now < goal:
                self.simulation.run(goal)
            (found,) = self.look.connections()
            self.windows[goal] = found.window // MSS
            self.in_flight[goal] = found.in_flight

    @property
    def counted(self):
        return self.simulation.tcp(self.connection)

    def impair(self, **changes: int) -> None:
        self.simulation.impair(SENDER, 0, Impairment(**changes))


@contextmanager
def transfer(delay: int, receive_window: int = 64 << 20, size: int = 400_000_000):
    """A transfer of ``size`` bytes from one host to another, each ``delay`` from the router."""
    tcp = settings(receive_window=receive_window, least_timeout=SECOND // 5, gather_time=0)
    with star(2, tcp, delay) as simulation:
        connection = simulation.connect(SENDER, RECEIVER, 5000, 6000)
        with Look(simulation, 4) as look:
            simulation.write(connection, size)
            yield Watched(simulation, look, connection)


def lose_one(watched: Watched, after: int) -> int:
    """Lose about a frame at this time; returns the window before."""
    watched.until(after)
    before = watched.windows[after]
    watched.impair(loss=ALL)
    watched.until(after + FRAME, FRAME)
    watched.impair()
    return before


def test_a_loss_halves_the_window():
    """RFC 5681, as in Linux: half of the window when the loss is found."""
    with transfer(delay=25 * US, receive_window=64 * MSS) as watched:
        before = lose_one(watched, 2000 * US)
        watched.until(2400 * US)
        assert (watched.counted.recoveries, watched.counted.timeouts) == (1, 0)
        assert before // 2 <= watched.windows[2400 * US] <= before // 2 + 4


def test_a_timeout_during_a_recovery_does_not_halve_the_window_again():
    """As in Linux: slow start ends at half of the window that the loss was found with."""
    with transfer(delay=25 * US, receive_window=64 * MSS) as watched:
        before = lose_one(watched, 2000 * US)
        while not watched.counted.recoveries:
            watched.until(watched.simulation.now + FRAME // 2, FRAME // 2)
        watched.impair(loss=ALL)
        watched.until(100_000 * US, 1000 * US)
        watched.impair()
        while not watched.counted.timeouts:
            watched.until(watched.simulation.now + 10 * US)
        ended = watched.simulation.now + 1000 * US
        watched.until(ended)
        assert before // 2 <= watched.windows[ended] <= before // 2 + 10


def test_a_late_segment_costs_no_window():
    """It arrives after it was retransmitted, so the recovery is undone (RFC 4015)."""
    with transfer(delay=25 * US, receive_window=64 * MSS) as watched:
        watched.until(2000 * US)
        before = watched.windows[2000 * US]
        watched.impair(delay=ALL, longest=150 * US)
        watched.until(2000 * US + FRAME, FRAME)
        watched.impair()
        watched.until(4000 * US)
        assert watched.counted.recoveries > 0
        assert min(watched.windows[t] for t in watched.windows if t > 2000 * US) < before
        assert watched.windows[4000 * US] >= before


def test_three_later_segments_show_a_loss():
    """Without them, a part of a round trip passes for reordering (RFC 8985)."""
    delay, lost = 500 * US, 40_000 * US
    with transfer(delay, receive_window=1600 * MSS) as watched:
        lose_one(watched, lost)
        watched.until(lost + 3 * delay)
        assert watched.counted.retransmitted == 0
        watched.until(lost + 3 * delay + 20 * FRAME, FRAME)
        assert watched.counted.retransmitted > 0


@pytest.mark.parametrize("receive_window", [1 << 20, 3 << 20])
def test_the_receive_window_bounds_what_is_in_flight(receive_window):
    """Up to the last segment, which is sent whole."""
    with transfer(delay=5000 * US, receive_window=receive_window) as watched:
        watched.until(400_000 * US, 100 * US)
        most = max(watched.in_flight.values())
        assert receive_window <= most < receive_window + MSS
        assert watched.counted.retransmitted == 0

"""A worker's side of in-network aggregation: a sliding window of fragments.

Every fragment goes up as DATA and is done when its RESULT comes back; the result is the
acknowledgement and clocks the next fragment out (ATP, NSDI 2021). Loss is seen as a gap in
the results, or by a timeout; a lost fragment is sent again with the resend flag, which makes
switches on the way give up what they hold of it.

Loss also halves the number of fragments in flight, at most once a round trip, and every window
of results without loss adds one, up to the window's size (the paper's additive increase,
multiplicative decrease; its other signal, ECN, is not used here).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.dataplane import wire
from testbed.endpoint.batch import BatchSocket, runs

FIRST_TIMEOUT = 0.2
LEAST_TIMEOUT = 0.1
LONGEST_TIMEOUT = 1.0
REORDERING = 3
LEAST_IN_FLIGHT = 8


class Window:
    """Sends the fragments of one iteration after another, at most ``size`` outstanding.

    ``slots[i]`` is the aggregator of fragments whose sequence number is i modulo ``size``.
    """

    def __init__(
        self,
        socket: BatchSocket,
        job: int,
        rank: int,
        parent: str,
        slots: npt.NDArray[np.uint32],
    ) -> None:
        self.size = len(slots)
        self.retransmitted = 0
        self.collisions = 0
        self._socket = socket
        self._parent = parent
        self._slots = slots.astype(np.uint32)
        self._headers = np.zeros(self.size, wire.HEADER)
        self._headers["kind"] = wire.KIND_DATA
        self._headers["tree"] = job
        self._headers["bitmap"] = 1 << rank
        self._job = job
        self._first = 0
        self._in_flight = float(self.size)
        self._last_cut = 0.0
        self._look_again = 0.0
        self._timeout = FIRST_TIMEOUT
        self._round_trip: float | None = None
        self._open(np.zeros((0, wire.VALUES), ">i4"), np.zeros((0, wire.VALUES), ">i4"))

    def _open(self, gradients: npt.NDArray[Any], sums: npt.NDArray[Any]) -> None:
        count = len(gradients)
        self._gradients, self._sums = gradients, sums
        self._done = np.zeros(count, bool)
        self._sent_at = np.zeros(count)
        self._resent = np.zeros(count, bool)
        self._ready = self._next = self._lowest = 0
        self._highest = -1
        self._newest = 0.0

    def open(self, gradients: npt.NDArray[Any], sums: npt.NDArray[Any]) -> None:
        """Begin an iteration: big-endian int32 of shape (fragments, 256), in and out."""
        self._first += len(self._gradients)
        self._open(gradients, sums)

    def release(self, fragments: int) -> None:
        """The first ``fragments`` of the iteration may go out."""
        self._ready = fragments

    @property
    def complete(self) -> int:
        """How many fragments, counted from the first, are done without a gap."""
        return self._lowest

    @property
    def deadline(self) -> float | None:
        """When to call :meth:`pump` again even if nothing arrives, on the caller's clock."""
        return self._look_again if self._next > self._lowest else None

    def pump(self, now: float) -> None:
        """Send what the window allows, and what timed out."""
        # A hole holds back as much as it is, not all that follows; only slots bound the span.
        missing = np.count_nonzero(~self._done[self._lowest : self._next])
        allowed = self._next + int(self._in_flight) - missing
        last = min(self._ready, self._lowest + self.size, allowed)
        if last > self._next:
            self._next += self._send(np.arange(self._next, last), now, flags=0)
        if now >= self._look_again:
            self._mend_late(now)
            # Twice a timeout is often enough, and looking is not free.
            self._look_again = now + self._timeout / 2

    def _mend_late(self, now: float) -> None:
        window = slice(self._lowest, self._next)
        late = np.flatnonzero(~self._done[window] & (self._sent_at[window] < now - self._timeout))
        if len(late):
            self._slow_down(now)
            # Not all at once: what was late because of a queue would only lengthen it.
            self._resend(late[: int(self._in_flight)] + self._lowest, now)
            self._timeout = min(2 * self._timeout, LONGEST_TIMEOUT)

    def take(self, packets: npt.NDArray[np.void], now: float) -> None:
        """Account for results, a batch as :meth:`BatchSocket.receive` gives it."""
        if not len(packets):
            return
        index = packets["sequence"].astype(np.int64) - self._first
        mine = (packets["kind"] == wire.KIND_RESULT) & (packets["tree"] == self._job)
        mine &= (index >= self._lowest) & (index < self._next)
        mine[mine] = ~self._done[index[mine]]
        if not mine.all():
            packets, index = packets[mine], index[mine]
            if not len(index):
                return
        self._sums[index] = packets["values"]
        self._done[index] = True
        self._slots[packets["sequence"] % self.size] = packets["next_slot"]
        self.collisions += int(np.count_nonzero(packets["flags"] & wire.FLAG_COLLISION))
        self._highest = max(self._highest, int(index.max()))
        self._in_flight = min(self.size, self._in_flight + len(index) / self._in_flight)
        self._advance()
        self._measure(index, now)
        self._mend_gaps(now)

    def _advance(self) -> None:
        done = self._done[self._lowest : self._next]
        first_open = int(done.argmin())
        self._lowest = self._next if done[first_open] else self._lowest + first_open

    def _measure(self, index: npt.NDArray[np.int64], now: float) -> None:
        first = int(index[0])
        if not self._resent[first]:  # Karn: a resent fragment's time is ambiguous
            self._newest = max(self._newest, float(self._sent_at[first]))
            sample = now - float(self._sent_at[first])
            trip = self._round_trip
            self._round_trip = sample if trip is None else 0.875 * trip + 0.125 * sample
        # Any result ends a back-off.
        if self._round_trip is None:
            self._timeout = FIRST_TIMEOUT
        else:
            self._timeout = min(max(4 * self._round_trip, LEAST_TIMEOUT), LONGEST_TIMEOUT)
        self._look_again = min(self._look_again, now + self._timeout / 2)

    def _mend_gaps(self, now: float) -> None:
        if self._highest - REORDERING <= self._lowest:
            return
        overtaken = slice(self._lowest, self._highest - REORDERING)
        # Sent again, and still not done when something sent later is: lost again (RACK, RFC 8985).
        waits = (self._round_trip or FIRST_TIMEOUT) / 2
        again = self._sent_at[overtaken] < self._newest - waits
        lost = np.flatnonzero(~self._done[overtaken] & (~self._resent[overtaken] | again))
        if len(lost):
            self._slow_down(now)
            self._resend(lost + self._lowest, now)

    def _slow_down(self, now: float) -> None:
        if now - self._last_cut > (self._round_trip or FIRST_TIMEOUT):
            self._in_flight = max(min(LEAST_IN_FLIGHT, self.size), self._in_flight / 2)
            self._last_cut = now

    def _resend(self, index: npt.NDArray[np.int64], now: float) -> None:
        sent = self._send(index, now, flags=wire.FLAG_RESEND)
        self._resent[index[:sent]] = True
        self.retransmitted += sent

    def _send(self, index: npt.NDArray[np.int64], now: float, flags: int) -> int:
        """Send the fragments ``index``; return how many of them went out."""
        sent = 0
        for run in runs(index):
            headers = self._headers[: len(run)]
            sequence = run + self._first
            headers["sequence"] = sequence
            headers["slot"] = self._slots[sequence % self.size]
            headers["flags"] = flags
            went = self._socket.send(headers, self._gradients[run[0] : run[-1] + 1], self._parent)
            self._sent_at[run[:went]] = now
            sent += went
            if went < len(run):
                break
        return sent

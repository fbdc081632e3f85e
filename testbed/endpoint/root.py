"""The root of an aggregation tree: a parameter server that completes what switches summed.

It counts each worker's contribution once, whatever the network did to it, and answers a
complete fragment with its result: acknowledgement, sum and slot release in one (ATP, §4).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from testbed.dataplane import wire
from testbed.endpoint.batch import BatchSocket, runs


class Root:
    """Sums the fragments of one job.

    ``children`` are the addresses to which a result goes for multicast, ``workers`` the address
    of each rank, for an answer to a single one. The ring of sums holds twice the ``window``: the
    fragments in progress, and the finished ones that some worker may still ask for.
    """

    def __init__(
        self,
        socket: BatchSocket,
        job: int,
        workers: Sequence[str],
        children: Sequence[str],
        window: int,
        spare_slots: Sequence[int] = (),
    ) -> None:
        size = 2 * window
        self.collisions = 0
        self.answered_again = 0
        self._socket = socket
        self._job = job
        self._workers = workers
        self._children = children
        self._size = size
        self._everyone = np.uint64((1 << len(workers)) - 1)
        self._sequence = np.full(size, -1, np.int64)
        self._counted = np.zeros(size, np.uint64)
        self._collided = np.zeros(size, bool)
        self._sums = np.zeros((size, wire.VALUES), np.int32)
        self._results = np.zeros((size, wire.VALUES), ">i4")
        self._headers = np.zeros(size, wire.HEADER)
        self._headers["kind"] = wire.KIND_RESULT
        self._headers["tree"] = job
        self._spare_slots = list(spare_slots)
        self._unsent: dict[str, list[int]] = {}

    @property
    def blocked(self) -> bool:
        """Whether results wait for room in the socket."""
        return bool(self._unsent)

    def take(self, packets: npt.NDArray[np.void]) -> None:
        """Add a batch of fragments, as :meth:`BatchSocket.receive` gives it, and answer."""
        ours = (packets["kind"] == wire.KIND_DATA) & (packets["tree"] == self._job)
        if not ours.all():
            packets = packets[ours]
        if not len(packets):
            return
        sequence = packets["sequence"].astype(np.int64)
        row = sequence % self._size
        self._begin(sequence, row)
        current = self._sequence[row] == sequence
        if not current.all():
            packets, row = packets[current], row[current]
        bitmap = packets["bitmap"].astype(np.uint64)
        asked_again = self._counted[row] == self._everyone
        self._add(packets, row, bitmap)
        complete = self._counted[row] == self._everyone
        finished = np.unique(row[complete & ~asked_again])
        if len(finished):
            self._finish(finished)
        resend = (packets["flags"] & wire.FLAG_RESEND) != 0
        if (again := asked_again & resend).any():
            self._answer_again(row[again], bitmap[again])

    def _begin(self, sequence: npt.NDArray[np.int64], row: npt.NDArray[np.int64]) -> None:
        newer = sequence > self._sequence[row]
        if newer.any():
            rows = row[newer]
            self._sequence[rows] = sequence[newer]
            self._counted[rows] = 0
            self._collided[rows] = False

    def _add(
        self,
        packets: npt.NDArray[np.void],
        row: npt.NDArray[np.int64],
        bitmap: npt.NDArray[np.uint64],
    ) -> None:
        collided = (packets["flags"] & wire.FLAG_COLLISION) != 0
        if collided.any():
            self._collided[row[collided]] = True
            self.collisions += int(np.count_nonzero(collided))
        self._headers["slot"][row] = packets["slot"]
        # Packets with the same contributors have distinct fragments, but for duplicates: each
        # such group is one vector operation.
        for contributors in bitmap[:1] if (bitmap == bitmap[0]).all() else np.unique(bitmap):
            same = np.flatnonzero(bitmap == contributors)
            rows, first = np.unique(row[same], return_index=True)
            counted = self._counted[rows]
            fresh = (counted & contributors) == 0
            if not fresh.all():
                rows, first, counted = rows[fresh], first[fresh], counted[fresh]
            if not len(rows):
                continue
            values = packets["values"][same[first]]
            empty = counted == 0
            if empty.all():
                self._sums[rows] = values
            else:
                self._sums[rows[empty]] = values[empty]
                self._sums[rows[~empty]] += values[~empty].astype(np.int32)
            self._counted[rows] = counted | contributors

    def _finish(self, rows: npt.NDArray[np.int64]) -> None:
        rows = rows[np.argsort(self._sequence[rows], kind="stable")]
        self._results[rows] = self._sums[rows]
        headers = self._headers
        headers["sequence"][rows] = self._sequence[rows]
        headers["next_slot"][rows] = headers["slot"][rows]
        collided = self._collided[rows]
        headers["flags"][rows] = np.where(collided, wire.FLAG_COLLISION, 0)
        for row in rows[collided] if self._spare_slots else ():
            # Dynamic re-hash: the fragment that follows in this place uses another slot.
            self._spare_slots.append(int(headers["slot"][row]))
            headers["next_slot"][row] = self._spare_slots.pop(0)
        for child in self._children:
            self._send(rows.tolist(), child)

    def _answer_again(self, row: npt.NDArray[np.int64], bitmap: npt.NDArray[np.uint64]) -> None:
        self.answered_again += len(row)
        for rank, address in enumerate(self._workers):
            asked = row[(bitmap & np.uint64(1 << rank)) != 0]
            if len(asked):
                self._send(asked.tolist(), address)

    def flush(self) -> None:
        """Try again to send what the socket had no room for."""
        unsent, self._unsent = self._unsent, {}
        for address, rows in unsent.items():
            self._send(rows, address)

    def _send(self, rows: list[int], to: str) -> None:
        if to in self._unsent:
            self._unsent[to] += rows
            return
        index = np.asarray(rows)
        sent = 0
        for run in runs(index):
            part = slice(run[0], run[-1] + 1)
            went = self._socket.send(self._headers[part], self._results[part], to)
            sent += went
            if went < len(run):
                self._unsent[to] = rows[sent:]
                break


def hashed_slots(job: int, window: int, slots: int) -> npt.NDArray[np.uint32]:
    """Distinct aggregators for a window: a hash of job and place, then the next one free.

    ATP's hosts hash (CRC32 in the released client) and step on where they collide with
    themselves. ValueError if the window does not fit in the switch's memory.
    """

    if window > slots:
        raise ValueError(f"a window of {window} fragments needs more than {slots} slots")
    taken: dict[int, None] = {}
    for place in range(window):
        slot = zlib.crc32(job.to_bytes(2, "big") + place.to_bytes(4, "big")) % slots
        while slot in taken:
            slot = (slot + 1) % slots
        taken[slot] = None
    return np.fromiter(taken, np.uint32, window)

"""Forwards frames between pairs of interfaces, unreliably. ``HostileTarget`` starts it.

    relay.py LOST DOUBLED DELAYED SEED a=b c=d …

It forwards all frames until a line on its standard input tells it to begin. When its standard input
ends, it prints how many packets it lost, duplicated and delayed, and ends.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import select
import socket
import sys
import time
from collections import Counter
from itertools import count
from random import Random

ALL, SOL_PACKET, PACKET_IGNORE_OUTGOING = 0x0003, 263, 23
AT_ONCE = 64


def opened(interface: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    made.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)  # SO_RCVBUFFORCE
    made.bind((interface, ALL))
    made.setblocking(False)
    return made


def main(lost: float, doubled: float, delayed: float, seed: int, pairs: list[str]) -> None:
    random, did, begun = Random(seed), Counter[str](), False
    to: dict[int, socket.socket] = {}
    sockets: dict[int, socket.socket] = {}
    for pair in pairs:
        ends = [opened(name) for name in pair.split("=")]
        for one, other in (ends, reversed(ends)):
            sockets[one.fileno()], to[one.fileno()] = one, other
    order = count()
    held: list[tuple[float, int, socket.socket, bytes]] = []  # first the time to send it
    print("ready", flush=True)

    def send(end: socket.socket, frame: bytes) -> None:
        with contextlib.suppress(OSError):  # the queue is full, and the frame is lost
            end.send(frame)

    def hold(end: socket.socket, frame: bytes) -> None:
        """Hold a frame for 0.1 ms to 30 ms: some frames are only overtaken, others arrive much too
        late."""
        until = time.monotonic() + 10 ** random.uniform(-4, -1.5)
        heapq.heappush(held, (until, next(order), end, frame))

    def carry(frame: bytes, end: socket.socket) -> None:
        if not begun:
            send(end, frame)
            return
        did["carried"] += 1
        if random.random() < lost:
            did["lost"] += 1
            return
        if random.random() < doubled:
            did["doubled"] += 1
            hold(end, frame)
        if random.random() < delayed:
            did["delayed"] += 1
            hold(end, frame)
        else:
            send(end, frame)

    while True:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else None
        ready = select.select([*sockets, 0], [], [], wait)[0]
        if 0 in ready:
            if not sys.stdin.readline():
                break
            begun = True
            ready.remove(0)
        for file in ready:
            with contextlib.suppress(OSError):  # no more frames, or the link is gone
                for _ in range(AT_ONCE):
                    carry(sockets[file].recv(1 << 16), to[file])
        while held and held[0][0] <= time.monotonic():
            _, _, end, frame = heapq.heappop(held)
            send(end, frame)
    print(json.dumps(did))


if __name__ == "__main__":
    lost, doubled, delayed = (float(each) for each in sys.argv[1:4])
    main(lost, doubled, delayed, int(sys.argv[4]), sys.argv[5:])

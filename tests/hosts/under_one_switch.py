"""Hosts under one switch in virtual time: sums, and which packets are summed."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from star import Star

from testbed import wire
from testbed.hosts.aggregation import Engine, Operation
from testbed.protocols import TreeProtocol
from testbed.protocols.reference import CHILDREN, Aggregation, Ina, Part
from testbed.protocols.roles import Member

TREE, SWITCH, WINDOW, VALUES, PACE = 7, "10.0.0.200", 8, 8, 1e-4
STARTS = (0, 5, 2**32 - 3)


def address(rank: int) -> str:
    return f"10.0.0.{rank + 1}"


@dataclass
class Switch:
    """The reference switch, driven like an engine. ``seen``: the fragments of its sums."""

    protocol: TreeProtocol
    workers: int
    own: int = 99
    seen: list[int] = field(default_factory=list)
    _left: list[tuple[str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._memory = Aggregation(VALUES)
        model, everyone = self.protocol.reference, (1 << self.workers) - 1
        self._part = Part(0, model, self.own, everyone, None, (), 0, 2 * WINDOW, watch=False)

    def take(self, packet: bytes, _: float) -> None:
        (header,) = np.frombuffer(packet[: wire.HEADER_BYTES], wire.HEADER)
        fields = {name: int(header[name]) for name, _ in wire.FIELDS}
        values = np.frombuffer(packet[wire.HEADER_BYTES :], ">i4").astype(np.int32)
        sender = fields["bitmap"].bit_length() - 1
        ina = Ina(**fields, values=values, source=sender, to=self.own)
        self._memory.handle(self._part, ina)
        if ina.to is None:
            return
        if ina.to == CHILDREN:
            self.seen.append(ina.sequence)
        made = np.zeros(1, wire.HEADER)
        for name, _ in wire.FIELDS:
            made[name] = getattr(ina, name)
        answer = made.tobytes() + ina.values.astype(">i4").tobytes()
        to = range(self.workers) if ina.to == CHILDREN else [ina.to]
        self._left += [(address(rank), answer) for rank in to]

    def pump(self, _: float) -> float:
        return float("inf")

    def packets(self):
        left, self._left = self._left, []
        return iter(left)


def all_reduce(protocol, gradients, sizes, loss=0.0, begins=0):
    """Sum ``gradients``, int32[workers, values], pushed in chunks of ``sizes`` values, and check
    the sums. Returns the seconds, the fragments that were summed, and those that were
    retransmitted."""
    workers = len(gradients)
    switch = Switch(protocol, workers)
    with ExitStack() as stack:
        engines = [stack.enter_context(Engine(VALUES, begins)) for _ in range(workers)]
        named = {address(rank): each for rank, each in enumerate(engines)}
        star = Star({**named, SWITCH: switch}, list(named), lambda _: PACE, loss)
        values = gradients.copy()
        for rank, each in enumerate(engines):
            each.add(Member(TREE, protocol, WINDOW, [0], rank, SWITCH))
            first = 0
            for size in sizes:
                part = values[rank, first : first + size]
                each.push(0, Operation.ALL_REDUCE, part.ctypes.data, size)
                first += size
            star.pump(address(rank))
        fragments = sum(-(-size // VALUES) for size in sizes)
        took = star.run(lambda: all(each.done(0) == fragments for each in engines), 200)
        total = gradients.sum(0, dtype=np.int32)
        for row in values:
            np.testing.assert_array_equal(row, total)
        again = sum(each.counters(0).retransmitted for each in engines)
    return took, switch.seen, again

"""Where the units of a gradient and their chunks are in a rank's values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import sub

from testbed.hosts.messages import Message, Turn, size
from testbed.plan.program import Plan
from testbed.plan.units import Unit, grain


class Layout:
    """Positions in a rank's values, and the sizes of its messages.

    In virtual time a rank may carry fewer values than the gradient has: ``carried`` of every
    ``values``, so a full packet carries ``carried``, and a partly filled one fewer. Message sizes
    stay those of the whole gradient.

    A unit that gathers parameters has the place of the gradients of the same bucket.

    Args:
        plan, units: the plan, and the units of one iteration.
        values: int32 values in a packet.
        carried: how many of them are carried; ``values`` for all.
    """

    def __init__(
        self, plan: Plan, units: Sequence[Unit], values: int, carried: int | None = None
    ) -> None:
        self._plan, self._units = plan, units
        self._values, self.carried = values, carried or values
        sizes = [0 if unit.gathers else self._at(unit.elements) for unit in units]
        self.elements = sum(sizes)  # that a rank carries
        starts = list(accumulate(sizes, initial=0))
        summed: dict[int, list[int]] = {}
        for start, unit in zip(starts, units, strict=False):
            if not unit.gathers:
                summed.setdefault(unit.bucket, []).append(start)
        pieces: Counter[tuple[int, int | None]] = Counter()
        for index, unit in enumerate(units):
            if unit.gathers:
                pieces[unit.bucket, unit.needed] += 1
                starts[index] = summed[unit.bucket][pieces[unit.bucket, unit.needed] - 1]
        self._starts = starts[: len(units)]
        self._whole: dict[int, tuple[int, ...]] = {}
        self._cuts: dict[int, tuple[int, ...]] = {}

    def unit(self, number: int) -> slice:
        """The part of the values that unit ``number`` has, counted over all iterations."""
        index = number % len(self._units)
        start = self._starts[index]
        return slice(start, start + self._at(self._units[index].elements))

    def cuts(self, number: int) -> tuple[int, ...]:
        """Where each chunk of unit ``number`` begins within the unit, and where the last one
        ends."""
        index = number % len(self._units)
        if index not in self._cuts:
            self._cuts[index] = tuple(map(self._at, self._whole_cuts(index)))
        return self._cuts[index]

    def chunk(self, number: int, chunk: int) -> slice:
        """The part of the values that ``chunk`` of unit ``number`` has."""
        first, cuts = self.unit(number).start, self.cuts(number)
        return slice(first + cuts[chunk], first + cuts[chunk + 1])

    def compared(self, rank: int) -> int:
        """The number of values of an iteration that worker ``rank`` compares with true sums: all of
        them; or all that it gathers, and the sums of the chunks that it owns."""
        if self._plan.sharding is None:
            return self.elements
        owned = self._plan.owned(rank)
        return sum(
            size
            for number, unit in enumerate(self._units)
            for chunk, size in enumerate(map(sub, self.cuts(number)[1:], self.cuts(number)))
            if unit.gathers or chunk in owned
        )

    def packets(self) -> list[int]:
        """The number of values in each packet of an iteration, in order."""
        found: list[int] = []
        for number in range(len(self._units)):
            for first, last in pairwise(self.cuts(number)):
                full, rest = divmod(last - first, self.carried)
                found += [self.carried] * full + [rest] * (rest > 0)
        return found

    def message_bytes(self, message: Message) -> int:
        """Bytes of ``message`` on its stream, as `testbed.hosts.messages` encodes it."""
        if isinstance(message, Turn):
            return size(message, 0)
        cuts = self._whole_cuts(message.unit % len(self._units))
        return size(message, cuts[message.chunk + 1] - cuts[message.chunk])

    def _at(self, position: int) -> int:
        """The position among the values carried of a ``position`` within a unit."""
        return -(-position * self.carried // self._values)

    def _whole_cuts(self, index: int) -> tuple[int, ...]:
        if index not in self._whole:
            elements = self._units[index].elements
            self._whole[index] = self._plan.cuts(elements, grain(self._plan, self._values))
        return self._whole[index]

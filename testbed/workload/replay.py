"""The times at which a worker computes, given when the sums of its gradients arrived.

A worker pauses for only one reason: it needs the parameters of its tensors, and thus the sums of
their gradients from the previous iteration. Its forward pass waits for each bucket just before the
bucket's first tensor (like SwitchML's dnn_benchmark and ByteScheduler, Peng et al., SOSP 2019), or
for all buckets at once (like PyTorch's DDP with one optimizer step). If parameters are sharded, it
gathers them within the iteration, and waits for each bucket of them (`Computation`).

This module is arithmetic on times in seconds; nothing sleeps. The trace must have the same scale
as the buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from testbed.workload.buckets import Bucket
from testbed.workload.trace import Trace


@dataclass(frozen=True)
class Need:
    """A part of the forward pass: after ``bucket``'s sum arrives, it computes for ``seconds``."""

    bucket: int
    seconds: float


@dataclass(frozen=True)
class Span:
    """A start and an end, in seconds."""

    start_s: float
    end_s: float


@dataclass(frozen=True)
class Iteration:
    """When one iteration of one worker ran, in seconds on the clock of its inputs.

    ``waits``: the parts of its forward pass in which it waited for sums of the previous iteration.
    ``ready_s``: when each bucket's gradients were ready.
    """

    start_s: float
    forward_end_s: float
    compute_end_s: float
    ready_s: tuple[float, ...]
    waits: tuple[Span, ...] = ()

    @property
    def exposed_s(self) -> float:
        """Seconds of the previous iteration's communication that computation did not hide."""
        return lasting_s(self.waits)


def lasting_s(spans: Iterable[Span]) -> float:
    """The total length of ``spans`` in seconds."""
    return sum(span.end_s - span.start_s for span in spans)


def needs(trace: Trace, buckets: Sequence[Bucket]) -> tuple[Need, ...]:
    """The forward pass in parts, one for each bucket, in the order in which it needs the buckets.

    The parts' seconds add up to the trace's forward pass.
    """
    home = {tensor: bucket.index for bucket in buckets for tensor in bucket.tensors}
    seconds: dict[int, float] = {}
    current = home[0]
    for index, tensor in enumerate(trace.tensors):
        # The pass waits for a bucket only once: later tensors of the bucket extend the current
        # part.
        if home[index] not in seconds:
            current = home[index]
            seconds[current] = 0.0
        seconds[current] += tensor.forward_s
    return tuple(Need(bucket, time) for bucket, time in seconds.items())


def priorities(buckets: Sequence[Bucket]) -> tuple[int, ...]:
    """Each bucket's priority, 0 first: its place in the order of the next forward pass.

    Layer-priority order always sends the ready bucket with the lowest number; DDP sends buckets by
    index.
    """
    first = sorted(buckets, key=lambda bucket: min(bucket.tensors))
    place = {bucket.index: number for number, bucket in enumerate(first)}
    return tuple(place[bucket.index] for bucket in buckets)


def forward(
    parts: Sequence[Need],
    start_s: float,
    arrived_s: Mapping[int, float],
    factor: float = 1.0,
) -> tuple[float, tuple[Span, ...]]:
    """When a forward pass that begins at ``start_s`` ends, and when it waits.

    ``arrived_s``: when each bucket's sum arrived; the pass does not wait for buckets that are not
    in it. ``factor``: compute times are multiplied by it.
    """
    now, waits = start_s, []
    for part in parts:
        there = arrived_s.get(part.bucket, now)
        if there > now:
            waits.append(Span(now, there))
            now = there
        now += part.seconds * factor
    return now, tuple(waits)


class Computation:
    """One iteration's computation in parts, each of which waits for the units that it needs.

    The first part does not begin before ``start_s``. ``parts``: the parts' lengths in seconds,
    which are multiplied by ``factor``. ``missing``: the number of units that each part needs.
    """

    def __init__(
        self, parts: Sequence[float], missing: Sequence[int], start_s: float, factor: float = 1.0
    ) -> None:
        self._parts, self._missing, self._factor = parts, list(missing), factor
        self._before = (0.0, *accumulate(parts))
        self._start_s = self._free_s = start_s
        self._begun: list[float] = []
        self.waits: tuple[Span, ...] = ()
        self._go_on(start_s)

    @property
    def end_s(self) -> float:
        """When the last part ends; infinity while any part waits."""
        return self._free_s if len(self._begun) == len(self._parts) else math.inf

    def ready_s(self, compute_s: float, after: int | None) -> float:
        """When ``compute_s`` seconds of computation are over and the part ``after`` has begun;
        infinity while that is unknown. ``compute_s`` must not lie beyond that part."""
        if after is None:
            return self._start_s + compute_s * self._factor
        if after >= len(self._begun):
            return math.inf
        return self._begun[after] + (compute_s - self._before[after]) * self._factor

    def arrived(self, part: int, now_s: float) -> None:
        """Note that a unit that ``part`` needs has ended."""
        self._missing[part] -= 1
        self._go_on(now_s)

    def _go_on(self, now_s: float) -> None:
        while (part := len(self._begun)) < len(self._parts) and not self._missing[part]:
            begun_s = max(self._free_s, now_s)
            if begun_s > self._free_s:
                self.waits += (Span(self._free_s, begun_s),)
            self._begun.append(begun_s)
            self._free_s = begun_s + self._parts[part] * self._factor


def stalled_s(
    parts: Sequence[Need],
    start_s: float,
    arrived_s: Mapping[int, float],
    factor: float = 1.0,
) -> float:
    """The total time for which such a forward pass waits. It delays everything after the pass."""
    return lasting_s(forward(parts, start_s, arrived_s, factor)[1])


def iteration(
    trace: Trace,
    buckets: Sequence[Bucket],
    start_s: float = 0.0,
    arrived_s: Sequence[float] | None = None,
    barrier: bool = False,
    factor: float = 1.0,
) -> Iteration:
    """One iteration that starts at ``start_s``, when the worker has finished the previous one.

    ``arrived_s``: when each bucket's sum of the previous iteration arrived; None in the first one.
    ``barrier``: wait for all sums first. ``factor``: compute times are multiplied by it.

    Raises ValueError unless there is one arrival per bucket.
    """
    arrived = [start_s] * len(buckets) if arrived_s is None else list(arrived_s)
    if len(arrived) != len(buckets):
        raise ValueError(f"{len(arrived)} arrivals for {len(buckets)} buckets")
    if barrier:
        arrived = [max(arrived)] * len(buckets)
    there = {bucket.index: at for bucket, at in zip(buckets, arrived, strict=True)}
    now, waits = forward(needs(trace, buckets), start_s, there, factor)
    late_s = lasting_s(waits)
    return Iteration(
        start_s=start_s,
        forward_end_s=now,
        compute_end_s=now + trace.backward_s * factor,
        # Deferred buckets were ready before the forward pass and its waits.
        ready_s=tuple(
            start_s + bucket.ready_s * factor + (0.0 if bucket.deferred else late_s)
            for bucket in buckets
        ),
        waits=waits,
    )


def transfers(
    ready_s: Sequence[float],
    seconds: Sequence[float],
    order: Sequence[int],
    free_s: float = 0.0,
) -> tuple[Span, ...]:
    """When each bucket is on a channel that carries one bucket at a time, from ``free_s`` on.

    ``seconds``: how long each bucket takes. ``order``: of the ready buckets, the one with the
    lowest number here goes first. Transfers are not interrupted.
    """
    spans: dict[int, Span] = {}
    waiting = set(range(len(ready_s)))
    while waiting:
        free_s = max(free_s, min(ready_s[i] for i in waiting))
        chosen = min((i for i in waiting if ready_s[i] <= free_s), key=lambda i: (order[i], i))
        spans[chosen] = Span(free_s, free_s + seconds[chosen])
        free_s = spans[chosen].end_s
        waiting.remove(chosen)
    return tuple(spans[i] for i in range(len(ready_s)))


def sequence(
    ready_s: Sequence[float], seconds: Sequence[float], order: Sequence[int]
) -> tuple[int, ...]:
    """The order in which `transfers` sends the buckets.

    It depends only on data that all workers have in advance, so that they agree on it without
    communication. If switches sum, all workers must send the same buckets in the same order.
    """
    spans = transfers(ready_s, seconds, order)
    return tuple(sorted(range(len(spans)), key=lambda i: (spans[i].start_s, order[i], i)))


def replay(
    trace: Trace,
    buckets: Sequence[Bucket],
    seconds: Sequence[float],
    iterations: int,
    priority: bool = False,
    barrier: bool = False,
) -> tuple[tuple[Iteration, tuple[Span, ...]], ...]:
    """Iterations, each with the times at which its buckets were on a separate channel.

    ``seconds``: how long each bucket takes on it. An iteration's buckets follow those of the
    previous one. ``priority``: whether buckets are sent in layer-priority order, instead of the
    order in which they become ready.
    """
    order = priorities(buckets) if priority else tuple(range(len(buckets)))
    done: list[tuple[Iteration, tuple[Span, ...]]] = []
    start_s, free_s, arrived_s = 0.0, 0.0, None
    for _ in range(iterations):
        ran = iteration(trace, buckets, start_s, arrived_s, barrier)
        sent = transfers(ran.ready_s, seconds, order, free_s)
        done.append((ran, sent))
        start_s, arrived_s = ran.compute_end_s, [span.end_s for span in sent]
        free_s = max(arrived_s)
    return tuple(done)

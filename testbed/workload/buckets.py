"""Group gradients into buckets, as PyTorch's DistributedDataParallel (DDP) does.

The rule is that of ``compute_bucket_assignment_by_size`` (pytorch/pytorch,
torch/csrc/distributed/c10d/reducer.cpp): tensors are taken in the order in which their gradients
become ready. A bucket ends with the tensor that makes it reach or exceed its cap, so it can exceed
the cap by up to one tensor. The first bucket's cap is smaller, so that communication starts early.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

from testbed.workload.trace import Trace

# DDP's defaults (torch/nn/parallel/distributed.py); its "25 MB" are mebibytes.
BUCKET_BYTES = 25 * 1024 * 1024
FIRST_BUCKET_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Bucket:
    """Gradients that are synchronised together.

    ``tensors`` are indices into the trace's tensors, in gradient-ready order; ``ready_s`` is the
    time when the last of them is ready, in seconds from the iteration's start (forward, then
    backward). A ``deferred`` bucket is synchronised in the iteration after the one that made it.
    ``after`` and ``needed`` are those of its units (`testbed.plan.units.Unit`).
    """

    index: int
    tensors: tuple[int, ...]
    bytes: int
    ready_s: float
    deferred: bool = False
    after: int | None = None
    needed: int | None = None


def fill(
    trace: Trace,
    bucket_bytes: int = BUCKET_BYTES,
    first_bucket_bytes: int = FIRST_BUCKET_BYTES,
    scale: float | Fraction = 1,
    deferred: Collection[int] = (),
) -> tuple[Bucket, ...]:
    """The buckets of one iteration, in the order in which they become ready.

    Caps are in bytes of the full-size model. With ``scale``, buckets are chosen at full size, and
    then get their bytes and times from ``trace.scaled(scale)``. So scaling never moves a tensor to
    another bucket.

    The ``deferred`` tensors fill separate buckets. These come first and are ready at once: they
    hold the previous iteration's gradients (a second stage, as in OSP).

    Raises ValueError for a cap below 1 byte.
    """
    if bucket_bytes < 1 or first_bucket_bytes < 1:
        raise ValueError(
            f"a bucket needs at least 1 byte, found {bucket_bytes} and {first_bucket_bytes}"
        )
    small = trace if scale == 1 else trace.scaled(scale)
    passed = accumulate((small.tensors[i].backward_s for i in trace.ready), initial=small.forward_s)
    ready = dict(zip(trace.ready, list(passed)[1:], strict=True))
    buckets: list[Bucket] = []
    for later, first_cap in ((True, bucket_bytes), (False, first_bucket_bytes)):
        order = [index for index in trace.ready if (index in deferred) is later]
        for group in _groups(trace, order, first_cap, bucket_bytes):
            size = sum(small.tensors[i].elements for i in group) * trace.dtype_bytes
            ready_s = 0.0 if later else ready[group[-1]]
            buckets.append(Bucket(len(buckets), group, size, ready_s, deferred=later))
    return tuple(buckets)


def _groups(
    trace: Trace, order: Sequence[int], first_cap: int, cap: int
) -> Iterable[tuple[int, ...]]:
    group: list[int] = []
    size = 0
    for index in order:
        group.append(index)
        size += trace.tensors[index].elements * trace.dtype_bytes
        if size >= first_cap:
            yield tuple(group)
            group, size, first_cap = [], 0, cap
    if group:
        yield tuple(group)


def after_compute(buckets: Iterable[Bucket], compute_s: float) -> tuple[Bucket, ...]:
    """The same buckets, but none is ready before ``compute_s``: communication without overlap.

    Deferred buckets still overlap, because they belong to the previous iteration.
    """
    return tuple(
        bucket if bucket.deferred else replace(bucket, ready_s=compute_s) for bucket in buckets
    )

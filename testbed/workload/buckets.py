"""Gradients into buckets, as PyTorch's DistributedDataParallel (DDP) fills them.

The rule is that of ``compute_bucket_assignment_by_size`` (pytorch/pytorch,
torch/csrc/distributed/c10d/reducer.cpp): tensors are taken in the order in which their gradients
become ready, and the tensor that makes a bucket reach or exceed its cap is its last. A bucket can
so be larger than its cap, by up to one tensor. The first bucket's cap is smaller, so that
communication starts early.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from testbed.workload.trace import Trace

# DDP's defaults (torch/nn/parallel/distributed.py); its "25 MB" are mebibytes.
BUCKET_BYTES = 25 * 1024 * 1024
FIRST_BUCKET_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Bucket:
    """Gradients that are synchronised together.

    ``tensors`` are indices into the trace's tensors, in gradient-ready order; ``ready_s`` is when
    the last of them is ready, in seconds from the iteration's start (forward, then backward).
    """

    index: int
    tensors: tuple[int, ...]
    bytes: int
    ready_s: float


def fill(
    trace: Trace,
    bucket_bytes: int = BUCKET_BYTES,
    first_bucket_bytes: int = FIRST_BUCKET_BYTES,
    scale: float | Fraction = 1,
) -> tuple[Bucket, ...]:
    """The buckets of one iteration, in the order in which they become ready.

    Caps are in bytes of the full-size model. With ``scale``, buckets are chosen at full size and
    then take their bytes and times from ``trace.scaled(scale)``: scaling never moves a tensor to
    another bucket.

    Raises ValueError for a cap below 1 byte.
    """
    if bucket_bytes < 1 or first_bucket_bytes < 1:
        raise ValueError(
            f"a bucket needs at least 1 byte, found {bucket_bytes} and {first_bucket_bytes}"
        )
    groups: list[list[int]] = [[]]
    size, cap = 0, first_bucket_bytes
    for index in trace.ready:
        groups[-1].append(index)
        size += trace.tensors[index].elements * trace.dtype_bytes
        if size >= cap:
            groups.append([])
            size, cap = 0, bucket_bytes

    small = trace if scale == 1 else trace.scaled(scale)
    clock = small.forward_s
    buckets: list[Bucket] = []
    for group in filter(None, groups):
        clock += sum(small.tensors[i].backward_s for i in group)
        size = sum(small.tensors[i].elements for i in group) * trace.dtype_bytes
        buckets.append(Bucket(len(buckets), tuple(group), size, clock))
    return tuple(buckets)


def after_compute(buckets: Iterable[Bucket], compute_s: float) -> tuple[Bucket, ...]:
    """The same buckets, none ready before ``compute_s``: communication without overlap."""
    return tuple(replace(bucket, ready_s=compute_s) for bucket in buckets)

"""Buckets are filled by DDP's rule, and no tensor is lost."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workload.buckets import BUCKET_BYTES, Bucket, after_compute, fill
from testbed.workload.catalogue import load
from testbed.workload.trace import Tensor, Trace


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    seconds = st.floats(0, 1)
    sizes = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=12))
    tensors = tuple(
        Tensor(f"t{i}", size, draw(seconds), draw(seconds)) for i, size in enumerate(sizes)
    )
    return Trace("drawn", 1, tensors, ready=tuple(draw(st.permutations(range(len(sizes))))))


caps = st.integers(1, 6000)
scales = st.fractions(min_value=Fraction(1, 1000), max_value=2)


@given(traces(), caps, caps, scales)
def test_buckets_partition_the_tensors_in_ready_order(
    trace: Trace, cap: int, first: int, scale: Fraction
) -> None:
    buckets = fill(trace, cap, first, scale)
    small = trace.scaled(scale)
    assert tuple(i for bucket in buckets for i in bucket.tensors) == trace.ready
    assert [bucket.index for bucket in buckets] == list(range(len(buckets)))
    assert sum(bucket.bytes for bucket in buckets) == small.bytes
    for bucket in buckets:
        assert bucket.bytes == 4 * sum(small.tensors[i].elements for i in bucket.tensors)


@given(traces(), caps, caps, scales)
def test_ready_times_grow_from_forward_to_the_end_of_compute(
    trace: Trace, cap: int, first: int, scale: Fraction
) -> None:
    buckets = fill(trace, cap, first, scale)
    assert buckets[0].ready_s >= trace.scaled(scale).forward_s
    assert all(a.ready_s <= b.ready_s for a, b in pairwise(buckets))
    assert buckets[-1].ready_s == pytest.approx(trace.compute_s * scale)


@given(traces(), caps, caps)
def test_a_bucket_closes_with_the_tensor_that_reaches_its_cap(
    trace: Trace, cap: int, first: int
) -> None:
    buckets = fill(trace, cap, first)
    for bucket in buckets:
        limit = first if bucket.index == 0 else cap
        last = trace.tensors[bucket.tensors[-1]].elements * trace.dtype_bytes
        assert bucket.bytes - last < limit
        assert bucket.bytes >= limit or bucket is buckets[-1]


@given(traces(), caps, caps, scales)
def test_scaling_moves_no_tensor(trace: Trace, cap: int, first: int, scale: Fraction) -> None:
    full, small = fill(trace, cap, first), fill(trace, cap, first, scale)
    assert [b.tensors for b in full] == [b.tensors for b in small]


def test_by_hand() -> None:
    tensors = tuple(Tensor(f"t{i}", n, 1.0, 10.0**i) for i, n in enumerate((25, 50, 25, 100)))
    trace = Trace("hand", 1, tensors)
    assert fill(trace, bucket_bytes=300, first_bucket_bytes=100) == (
        Bucket(0, (3,), 400, 4 + 1000),
        Bucket(1, (2, 1), 300, 4 + 1110),
        Bucket(2, (0,), 100, 4 + 1111),
    )


def test_resnet50_in_ddps_default_buckets() -> None:
    # The classifier (2,049,000 values) exceeds 1 MiB with its weight: it is the first bucket.
    buckets = fill(load("resnet50"))
    assert buckets[0].bytes == 4 * 2_049_000
    assert all(bucket.bytes >= BUCKET_BYTES for bucket in buckets[1:-1])
    assert len(buckets) == 5


def test_without_overlap_all_wait_for_the_end_of_compute() -> None:
    trace = load("resnet50")
    waiting = after_compute(fill(trace), trace.compute_s)
    assert {bucket.ready_s for bucket in waiting} == {trace.compute_s}
    assert [b.tensors for b in waiting] == [b.tensors for b in fill(trace)]


@pytest.mark.parametrize(("cap", "first"), [(0, 1), (1, 0), (-1, 1)])
def test_a_cap_must_be_positive(cap: int, first: int) -> None:
    with pytest.raises(ValueError, match="at least 1 byte"):
        fill(load("resnet50"), cap, first)


@given(traces(), caps, caps, scales, st.integers(0, 2**30))
def test_deferred_tensors_come_first_in_buckets_of_their_own(
    trace: Trace, cap: int, first: int, scale: Fraction, drawn: int
) -> None:
    deferred = frozenset(i for i in trace.ready if drawn >> i & 1)
    buckets = fill(trace, cap, first, scale, deferred)
    later = [bucket for bucket in buckets if bucket.deferred]
    now = [bucket for bucket in buckets if not bucket.deferred]
    assert buckets == (*later, *now)
    assert [bucket.index for bucket in buckets] == list(range(len(buckets)))
    for part, kept in ((later, True), (now, False)):
        order = tuple(i for bucket in part for i in bucket.tensors)
        assert order == tuple(i for i in trace.ready if (i in deferred) is kept)
    assert {bucket.ready_s for bucket in later} <= {0.0}
    whole = fill(trace, 1, 1, scale)  # a bucket for each tensor
    ready = {bucket.tensors[0]: bucket.ready_s for bucket in whole}
    assert all(bucket.ready_s == ready[bucket.tensors[-1]] for bucket in now)


def test_what_was_deferred_does_not_wait_for_compute() -> None:
    trace = load("resnet50")
    buckets = after_compute(fill(trace, deferred={0, 1}), trace.compute_s)
    assert [bucket.ready_s for bucket in buckets[:2]] == [0.0, trace.compute_s]

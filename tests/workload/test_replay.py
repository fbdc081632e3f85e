"""The replay's arithmetic: which waits occur, and which communication is exposed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workload.buckets import Bucket, after_compute, fill
from testbed.workload.catalogue import load, names
from testbed.workload.replay import (
    Need,
    Span,
    iteration,
    needs,
    priorities,
    replay,
    transfers,
)
from testbed.workload.trace import Tensor, Trace

# Four tensors of 100 bytes, forward 1 s and backward 2 s each; one bucket for each pair.
TENSORS = tuple(Tensor(f"t{i}", 25, 1.0, 2.0) for i in range(4))
TRACE = Trace("hand", 1, TENSORS)
BUCKETS = fill(TRACE, 200, 200)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Trace, tuple[Bucket, ...]]:
    seconds = st.floats(0, 1)
    sizes = draw(st.lists(st.integers(1, 100), min_size=1, max_size=12))
    tensors = tuple(
        Tensor(f"t{i}", size, draw(seconds), draw(seconds)) for i, size in enumerate(sizes)
    )
    trace = Trace("drawn", 1, tensors, ready=tuple(draw(st.permutations(range(len(sizes))))))
    deferred = draw(st.sets(st.sampled_from(range(len(sizes))), max_size=3))
    return trace, fill(trace, draw(st.integers(1, 600)), 100, deferred=deferred)


times = st.floats(0, 30)


def test_by_hand() -> None:
    assert fill(TRACE, 200, 200) == (Bucket(0, (3, 2), 200, 8.0), Bucket(1, (1, 0), 200, 12.0))
    assert needs(TRACE, BUCKETS) == (Need(1, 2.0), Need(0, 2.0))
    assert priorities(BUCKETS) == (1, 0)
    # The first layers' bucket arrives 3 s late, the other one while the first layers compute.
    ran = iteration(TRACE, BUCKETS, start_s=12.0, arrived_s=[16.5, 15.0])
    assert ran.waits == (Span(12.0, 15.0),)
    assert (ran.forward_end_s, ran.compute_end_s) == (19.0, 27.0)
    assert ran.ready_s == (23.0, 27.0)
    assert ran.exposed_s == 3.0
    # With a barrier, the later bucket counts.
    ran = iteration(TRACE, BUCKETS, start_s=12.0, arrived_s=[16.5, 15.0], barrier=True)
    assert (ran.exposed_s, ran.compute_end_s) == (4.5, 28.5)


def test_priority_lets_front_layers_overtake() -> None:
    # A bucket for each tensor: 5 s to send, but only 2 s of backward pass each, so they queue up.
    buckets = fill(TRACE, 1, 1)
    ready = (6.0, 8.0, 10.0, 12.0)
    by_index = transfers(ready, [5.0] * 4, [0, 1, 2, 3])
    assert [span.end_s for span in by_index] == [11, 16, 21, 26]
    # At 11 s, the third is the ready bucket that is needed first; at 16 s, the fourth.
    by_need = transfers(ready, [5.0] * 4, priorities(buckets))
    assert [span.end_s for span in by_need] == [11, 26, 16, 21]
    first = iteration(TRACE, buckets, 12.0, [s.end_s for s in by_index])
    second = iteration(TRACE, buckets, 12.0, [s.end_s for s in by_need])
    assert (first.forward_end_s, second.forward_end_s) == (30.0, 28.0)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("barrier", [False, True])
def test_on_an_infinitely_fast_network_an_iteration_is_its_compute_time(
    name: str, barrier: bool
) -> None:
    trace = load(name)
    buckets = fill(trace)
    done = replay(trace, buckets, [0.0] * len(buckets), 4, barrier=barrier)
    for (before, _), (after, _) in pairwise(done):
        assert after.compute_end_s - before.compute_end_s == pytest.approx(trace.compute_s)
        assert after.exposed_s == pytest.approx(0, abs=1e-9)


@given(jobs())
def test_parts_of_the_forward_pass_name_each_bucket_once_and_add_up(
    job: tuple[Trace, tuple[Bucket, ...]],
) -> None:
    trace, buckets = job
    parts = needs(trace, buckets)
    assert sorted(part.bucket for part in parts) == [bucket.index for bucket in buckets]
    assert sum(part.seconds for part in parts) == pytest.approx(trace.forward_s)
    order = priorities(buckets)
    assert [part.bucket for part in parts] == sorted(range(len(buckets)), key=order.__getitem__)


@given(jobs(), st.data(), st.floats(0.5, 3))
def test_an_iteration_takes_its_compute_time_and_what_is_exposed(
    job: tuple[Trace, tuple[Bucket, ...]], data: st.DataObject, factor: float
) -> None:
    trace, buckets = job
    arrived = data.draw(st.lists(times, min_size=len(buckets), max_size=len(buckets)))
    some, every = (
        iteration(trace, buckets, 10.0, arrived, barrier, factor) for barrier in (False, True)
    )
    for ran in (some, every):
        length = ran.compute_end_s - ran.start_s
        assert length == pytest.approx(trace.compute_s * factor + ran.exposed_s)
        for bucket, ready in zip(buckets, ran.ready_s, strict=True):
            late = 0.0 if bucket.deferred else ran.exposed_s
            assert ready == pytest.approx(10.0 + bucket.ready_s * factor + late)
    # Waits by tensor are never longer than with the barrier; the last arrival is a lower bound.
    assert every.exposed_s == pytest.approx(max(0.0, max(arrived) - 10.0))
    assert some.exposed_s <= every.exposed_s + 1e-9
    assert some.exposed_s >= max(arrived) - 10.0 - trace.forward_s * factor - 1e-9


@given(jobs(), st.booleans(), st.booleans(), st.data())
def test_the_channel_carries_one_bucket_at_a_time_once_it_is_ready(
    job: tuple[Trace, tuple[Bucket, ...]], priority: bool, barrier: bool, data: st.DataObject
) -> None:
    trace, buckets = job
    seconds = data.draw(st.lists(st.floats(0, 2), min_size=len(buckets), max_size=len(buckets)))
    done = replay(trace, buckets, seconds, 3, priority, barrier)
    for ran, sent in done:
        for ready, span, length in zip(ran.ready_s, sent, seconds, strict=True):
            assert span.start_s >= ready and span.end_s == span.start_s + length
    on_wire = sorted((s for _, sent in done for s in sent), key=lambda s: (s.start_s, s.end_s))
    assert all(a.end_s <= b.start_s for a, b in pairwise(on_wire))
    for (_, sent), (after, _) in pairwise(done):
        assert after.forward_end_s >= max(span.end_s for span in sent)


def test_without_overlap_all_communication_is_exposed() -> None:
    trace = load("resnet50")
    buckets = after_compute(fill(trace), trace.compute_s)
    seconds = [bucket.bytes * 8 / 10e9 for bucket in buckets]
    (_, sent), (second, _) = replay(trace, buckets, seconds, 2, barrier=True)
    assert second.exposed_s == pytest.approx(sum(seconds))
    assert sent[0].start_s == pytest.approx(trace.compute_s)


def test_there_is_one_arrival_a_bucket() -> None:
    with pytest.raises(ValueError, match="1 arrivals for 2 buckets"):
        iteration(TRACE, BUCKETS, 0.0, [1.0])

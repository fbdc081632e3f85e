"""Made-up workloads, their names, and ranges of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.units import format_size
from testbed.workload.catalogue import load
from testbed.workload.synthetic import expand, named, synthetic
from testbed.workload.trace import TraceError


@given(st.integers(1, 10**6), st.integers(1, 50), st.floats(0, 100))
def test_synthetic_has_the_size_and_time_asked_for(
    size: int, tensors: int, compute_s: float
) -> None:
    if -(-size // 4) < tensors:
        with pytest.raises(ValueError, match="cannot fill"):
            synthetic(size, compute_s, tensors)
        return
    trace = synthetic(size, compute_s, tensors)
    assert size <= trace.bytes < size + 4
    assert trace.compute_s == pytest.approx(compute_s)
    sizes = [tensor.elements for tensor in trace.tensors]
    assert len(sizes) == tensors and max(sizes) - min(sizes) <= 1


def test_synthetic_refuses_negative_time() -> None:
    with pytest.raises(ValueError, match="compute time"):
        synthetic(4, -1.0)


@pytest.mark.parametrize(
    ("name", "sizes", "compute_s"),
    [
        ("synthetic/100MB", [100_000_000], 0),
        ("synthetic/8x12.5MB", [12_500_000] * 8, 0),
        ("synthetic/3x1KiB/50ms", [1024] * 3, 0.05),
        ("synthetic/2x5B", [8, 8], 0),
    ],
)
def test_a_name_says_what_is_made_up(name: str, sizes: list[int], compute_s: float) -> None:
    trace = load(name)
    assert trace.name == name
    assert [4 * tensor.elements for tensor in trace.tensors] == sizes
    assert trace.compute_s == pytest.approx(compute_s)
    assert trace.backward_s == pytest.approx(2 * trace.forward_s)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("synthetic/", "wanted synthetic/"),
        ("synthetic/100", "without a unit"),
        ("synthetic/big", "wanted a size"),
        ("synthetic/0B", "at least 1 byte"),
        ("synthetic/0x1MB", "1 to 100000 tensors"),
        ("synthetic/1000000x1MB", "1 to 100000 tensors"),
        ("synthetic/1MB/5", "without a unit"),
        ("synthetic/1MB/5ms/2", "wanted synthetic/"),
        ("synthetic/1MB..2MB*2", "wanted synthetic/"),
    ],
)
def test_a_wrong_name_is_told_what_is_wanted(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        named(name)
    with pytest.raises(TraceError, match=words):
        load(name)


def test_a_range_is_a_workload_for_each_size() -> None:
    assert expand("synthetic/1MB..8MB*2") == tuple(f"synthetic/{n}MB" for n in (1, 2, 4, 8))
    assert expand("synthetic/4x512B..70KiB*16/1ms") == (
        "synthetic/4x512B/1ms",
        "synthetic/4x8KiB/1ms",
    )


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(2, 9))
def test_a_range_begins_at_the_first_size_and_stays_within_the_last(
    first: int, more: int, factor: int
) -> None:
    written = f"synthetic/{format_size(first, exact=True)}..{first + more}B*{factor}"
    sizes = [named(str(name)).bytes for name in expand(written)]
    assert sizes[0] == -(-first // 4) * 4
    assert all(b == pytest.approx(a * factor, abs=4 * factor) for a, b in pairwise(sizes))
    assert sizes[-1] <= first + more + 3 < factor * (sizes[-1] + 3)


@pytest.mark.parametrize("value", ["resnet50", "synthetic/1MB", "./a..b.trace", 3, None])
def test_what_is_no_range_stands_for_itself(value: object) -> None:
    assert expand(value) == (value,)


@pytest.mark.parametrize(
    "value", ["synthetic/1MB..2MB", "synthetic/2MB..1MB*2", "synthetic/1MB..2MB*1"]
)
def test_a_range_that_holds_nothing_or_does_not_end_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"synthetic/1MB\.\.128MB\*2"):
        expand(value)

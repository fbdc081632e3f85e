"""Synthetic workloads for benchmarks: equal tensors with even timing, described by their names.

    synthetic/100MB             one tensor of 100 MB, no compute
    synthetic/8x12.5MB          eight tensors of 12.5 MB, no compute
    synthetic/8x12.5MB/50ms     the same, 50 ms of compute per iteration

Sizes and times are written as everywhere in an experiment file. In a sweep, a range of sizes
expands to one workload for each size, as in nccl-tests (from, to, factor)::

    synthetic/1MB..128MB*2      synthetic/1MB, synthetic/2MB, ... synthetic/128MB
"""

from __future__ import annotations

import re
from dataclasses import replace

from testbed.units import format_size, parse_size, parse_time
from testbed.workload.trace import Tensor, Trace

# The forward pass's share of the time: the backward pass has about twice the arithmetic.
_FORWARD = 1 / 3
SYNTHETIC = "synthetic/"
_NAME = re.compile(rf"{SYNTHETIC}(?:(?P<count>[0-9]+)x)?(?P<size>[^/]+)(?:/(?P<time>[^/]+))?")
_RANGE = re.compile(
    rf"(?P<head>{SYNTHETIC}(?:[0-9]+x)?)(?P<first>[^/]+?)\.\.(?P<last>[^/*]+)\*(?P<factor>[0-9]+)"
    r"(?P<time>/[^/]+)?"
)
_FIX = f"write for example {SYNTHETIC}100MB, {SYNTHETIC}8x12.5MB or {SYNTHETIC}8x12.5MB/50ms"
_MOST_TENSORS = 100_000
_MOST_BYTES, _MOST_S = 10 * 10**12, 1000 * 3600


def synthetic(size_bytes: int, compute_s: float = 0.0, tensors: int = 1) -> Trace:
    """A model of ``size_bytes`` (rounded up to whole values) in ``tensors`` nearly equal tensors.

    An iteration computes for ``compute_s`` seconds, a third of it forward, spread evenly over the
    tensors. Raises ValueError if a tensor would be empty or a time negative.
    """
    elements = -(-size_bytes // 4)
    if tensors < 1 or elements < tensors:
        raise ValueError(f"{size_bytes} bytes cannot fill {tensors} tensors of 4 bytes")
    if not 0 <= compute_s < float("inf"):
        raise ValueError(f"compute time {compute_s} s, wanted a time that is not negative")
    forward = compute_s * _FORWARD / tensors
    backward = compute_s / tensors - forward
    # If tensors are cut at multiples of elements/tensors, their sizes differ by at most one.
    cuts = [elements * i // tensors for i in range(tensors + 1)]
    return Trace(
        name=f"synthetic-{size_bytes}B",
        batch=1,
        tensors=tuple(
            Tensor(f"tensor{i}", cuts[i + 1] - cuts[i], forward, backward) for i in range(tensors)
        ),
        provenance={"contents": "synthetic: equal tensors, even timing"},
    )


def named(name: str) -> Trace:
    """The workload with such a name. Raises ValueError, which says what was found and wanted, and
    how to fix it."""
    match = _NAME.fullmatch(name)
    if match is None or ".." in name:
        raise ValueError(f"found {name!r}, wanted {SYNTHETIC}[COUNTx]SIZE[/TIME]; {_FIX}")
    count, size = int(match["count"] or 1), parse_size(match["size"])
    if not 1 <= count <= _MOST_TENSORS or size < 1:
        wanted = f"1 to {_MOST_TENSORS} tensors of at least 1 byte"
        raise ValueError(f"found {name!r}, wanted {wanted}; {_FIX}")
    compute_s = parse_time(match["time"]) if match["time"] else 0.0
    if count * size > _MOST_BYTES or compute_s > _MOST_S:
        raise ValueError(f"found {name!r}, wanted at most 10TB in all and 1000h; {_FIX}")
    # Each tensor is rounded up to whole values on its own, so that all have the same size.
    values = -(-size // 4)
    return replace(synthetic(4 * values * count, compute_s, count), name=name)


def expand(value: object) -> tuple[object, ...]:
    """The names that a range expands to; other values are returned as they are.

    Raises ValueError for a range that is empty or does not end.
    """
    if not isinstance(value, str) or not value.startswith(SYNTHETIC) or ".." not in value:
        return (value,)
    match = _RANGE.fullmatch(value)
    fix = f"write for example {SYNTHETIC}1MB..128MB*2"
    if match is None:
        raise ValueError(f"found {value!r}, wanted sizes as FIRST..LAST*FACTOR; {fix}")
    size, last, factor = parse_size(match["first"]), parse_size(match["last"]), int(match["factor"])
    if not 1 <= size <= last or factor < 2:
        wanted = "a first size of at least 1 byte, one as large or larger, a factor of at least 2"
        raise ValueError(f"found {value!r}, wanted {wanted}; {fix}")
    names = []
    while size <= last:
        names.append(f"{match['head']}{format_size(size, exact=True)}{match['time'] or ''}")
        size *= factor
    return tuple(names)

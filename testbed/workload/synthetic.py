"""Workloads made up for benchmarks: equal tensors, even timing."""

from __future__ import annotations

from testbed.workload.trace import Tensor, Trace

# The share of forward in forward plus backward: backward is about twice the arithmetic.
_FORWARD = 1 / 3


def synthetic(
    size_bytes: int, compute_s: float = 0.0, tensors: int = 1, dtype_bytes: int = 4
) -> Trace:
    """A model of ``size_bytes`` (rounded up to whole values) in ``tensors`` nearly equal tensors.

    ``compute_s`` seconds an iteration, a third of it forward, spread evenly over the tensors.
    Raises ValueError where a tensor would be empty or a time negative.
    """
    elements = -(-size_bytes // dtype_bytes)
    if tensors < 1 or elements < tensors:
        raise ValueError(f"{size_bytes} bytes cannot fill {tensors} tensors of {dtype_bytes} bytes")
    if not 0 <= compute_s < float("inf"):
        raise ValueError(f"compute time {compute_s} s, wanted a time that is not negative")
    forward = compute_s * _FORWARD / tensors
    backward = compute_s / tensors - forward
    # Cutting at multiples of elements/tensors makes sizes differ by one at most.
    cuts = [elements * i // tensors for i in range(tensors + 1)]
    return Trace(
        name=f"synthetic-{size_bytes}B",
        batch=1,
        tensors=tuple(
            Tensor(f"tensor{i}", cuts[i + 1] - cuts[i], forward, backward) for i in range(tensors)
        ),
        dtype_bytes=dtype_bytes,
        provenance={"contents": "synthetic: equal tensors, even timing"},
    )

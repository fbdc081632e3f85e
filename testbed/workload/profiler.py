"""Read a trace that PyTorch's profiler exported (``torch.profiler.profile``, Chrome trace JSON).

Record it with ``record_shapes=True``. With ``prof.step()`` every step counts; without it, the whole
file is one step. From each step, this module reads

- ``torch::autograd::AccumulateGrad``: one for each parameter. The first of its ``Input Dims`` is
  the gradient's shape, and the first of its ``Input type`` its type. It ends when the gradient is
  ready;
- ``autograd::engine::evaluate_function: X``: the backward pass begins with the first one. The last
  one before a gradient has the ``Sequence number`` of that operation of the forward pass to which
  the parameter belongs;
- operations with this sequence number: the last one that is not inside another is the parameter's
  place in the forward pass. Its forward time lasts from there to the next parameter's place. The
  pass begins with the first operation that has such a number. So data loading is not part of it,
  and the optimizer is not part of the backward pass;
- ``c10d::...``: collectives; their time on the thread that calls them is not computation;
- with a GPU, ``cuda_runtime`` (or ``cuda_driver``) and ``kernel``: an instant on the host becomes
  the instant at which all kernels launched before it have ended. Kernels of NCCL do not count.

A tensor's times are medians over the steps, and the spreads are interquartile ranges. Such a trace
contains neither the names of parameters nor the batch size.
"""

from __future__ import annotations

import json
import math
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from testbed.located import reason
from testbed.workload.compressed import contents
from testbed.workload.trace import Tensor, Trace, TraceError

GRADIENT = "torch::autograd::AccumulateGrad"
STEP = "ProfilerStep#"
_EVALUATED = "autograd::engine::evaluate_function: "
_COLLECTIVE = "c10d::"
_OPERATION = "aten::"
_LAUNCHES, _KERNEL = ("cuda_runtime", "cuda_driver"), "kernel"
_READ = (GRADIENT, STEP, _EVALUATED, _COLLECTIVE)
_SEQUENCE, _DIMS, _TYPE = "Sequence number", "Input Dims", "Input type"
_LAUNCH = "correlation"
_BYTES = {"float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2}
_RECORD = "record with torch.profiler.profile(record_shapes=True) around whole training steps"


@dataclass(frozen=True)
class Event:
    """A complete event ("X" in the trace format). Times are in microseconds."""

    name: str
    kind: str
    thread: object
    start: float
    end: float
    args: Mapping[str, Any]


@dataclass(frozen=True)
class _Gradient:
    """A gradient of one step. ``owner`` is when its parameter's operation begins. Times are in
    microseconds."""

    operation: str
    shape: tuple[int, ...]
    type: str
    owner: float
    ready: float


@dataclass(frozen=True)
class _Step:
    """A step: for each gradient, in the order in which they are ready, its times in
    microseconds."""

    gradients: tuple[_Gradient, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]

    @property
    def form(self) -> list[tuple[str, tuple[int, ...], str]]:
        return [(each.operation, each.shape, each.type) for each in self.gradients]


def load(path: Path) -> Trace:
    """Read an exported trace, plain or compressed by gzip; a batch of 1.

    Raises TraceError if it is not such a trace, lacks shapes or a backward pass, or if its steps
    differ.
    """
    events = _events(path)
    try:
        return _trace(path, [_step(each) for each in _steps(events)])
    except ValueError as error:
        raise TraceError([f"{path}: {error}"]) from error


def _events(path: Path) -> list[Event]:
    """The complete events of the file that this module reads, in the order of time."""
    try:
        content = json.loads(contents(path))
        found = content["traceEvents"] if isinstance(content, dict) else content
        if not isinstance(found, list):
            raise TypeError
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError([f"{path}: cannot be read: {reason(error)}"]) from error
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise TraceError(
            [f"{place}: found {error.msg.lower()}, wanted JSON: truncated?"]
        ) from error
    except (KeyError, TypeError, RecursionError, ValueError) as error:
        wanted = f"wanted a Chrome trace with a list of traceEvents; {_RECORD}"
        raise TraceError([f"{path}: found other JSON, {wanted}"]) from error
    events = [event for each in found if (event := _event(each)) is not None]
    return sorted(events, key=lambda event: (event.start, -event.end))


def _event(raw: object) -> Event | None:
    """The event; None for anything else, if nothing reads it, or if it has no usable time."""
    if not isinstance(raw, dict) or raw.get("ph") != "X":
        return None
    name, kind, args = raw.get("name"), str(raw.get("cat", "")), raw.get("args")
    start, lasts = _time(raw.get("ts")), _time(raw.get("dur"))
    if not isinstance(name, str) or start is None or lasts is None:
        return None
    args = args if isinstance(args, dict) else {}
    # Most events of a large trace are operations inside others, or Python's functions.
    if not (
        name.startswith(_READ)
        or (name.startswith(_OPERATION) and _SEQUENCE in args)
        or kind in (*_LAUNCHES, _KERNEL)
    ):
        return None
    thread = (repr(raw.get("pid")), repr(raw.get("tid")))
    numbers = (_SEQUENCE, _LAUNCH)
    sound = {key: each for key, each in args.items() if key not in numbers or type(each) is int}
    return Event(name, kind, thread, start, start + lasts, sound)


def _time(value: object) -> float | None:
    """A time in microseconds; None for anything else."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return value if 0 <= value < 1e18 else None  # not-a-number is neither


def _steps(events: Sequence[Event]) -> list[list[Event]]:
    """The events of each step; if no step is marked, all events are one."""
    clock = _device_clock(events)
    marks = sorted(
        {
            (e.start, e.end)
            for e in events
            if e.name.startswith(STEP) and e.kind != "gpu_user_annotation"
        }
    )
    host = [event for event in events if event.kind not in (*_LAUNCHES, _KERNEL)]
    starts = [event.start for event in host]
    groups = [
        host[bisect_left(starts, start) : bisect_right(starts, end)] for start, end in marks
    ] or [host]
    return [
        [Event(e.name, e.kind, e.thread, clock(e.start), clock(e.end), e.args) for e in group]
        for group in groups
        if any(event.name == GRADIENT for event in group)
    ]


def _device_clock(events: Iterable[Event]) -> Callable[[float], float]:
    """A function of an instant on the host: when the work launched until then is done. On a CPU,
    that is the instant itself."""
    ends: dict[int, float] = {}  # a launch of a CUDA graph has many kernels
    for event in events:
        if event.kind == _KERNEL and _LAUNCH in event.args and not event.name.startswith("nccl"):
            launch = event.args[_LAUNCH]
            ends[launch] = max(event.end, ends.get(launch, 0.0))
    launched = [
        (event.start, ends[event.args[_LAUNCH]])
        for event in events
        if event.kind in _LAUNCHES and event.args.get(_LAUNCH) in ends
    ]
    at = [start for start, _ in launched]
    done = list(accumulate((end for _, end in launched), max))

    def clock(instant: float) -> float:
        before = bisect_right(at, instant)
        return max(instant, done[before - 1]) if before else instant

    return clock


def _step(events: Sequence[Event]) -> _Step:
    """What one step says about each gradient. Raises ValueError if it lacks something."""
    first = next((event for event in events if event.name.startswith(_EVALUATED)), None)
    if first is None:
        raise ValueError(f"found no {_EVALUATED}..., wanted a backward pass; {_RECORD}")
    places: dict[int, Event] = {}  # by sequence number
    for event in events:
        if (
            event.start < first.start
            and event.name.startswith(_OPERATION)
            and _SEQUENCE in event.args
        ):
            number = event.args[_SEQUENCE]
            if number not in places or event.end > places[number].end:
                places[number] = event
    gradients: list[_Gradient] = []
    owner = first
    for event in events:
        if event.name.startswith(_EVALUATED) and _SEQUENCE in event.args:
            owner = places.get(event.args[_SEQUENCE], owner)
        if event.name == GRADIENT:
            shape, kind = _shape(event)
            operation = owner.name.partition("::")[2] or "parameter"
            start = min(owner.start, first.start)
            gradients.append(_Gradient(operation, shape, kind, start, event.end))
    gradients.sort(key=lambda each: each.ready)
    collectives = [event for event in events if event.name.startswith(_COLLECTIVE)]

    def lasts(start: float, end: float, thread: object) -> float:
        waits = (each for each in collectives if each.thread == thread)
        return max(0.0, end - start - sum(_shared(start, end, each) for each in waits))

    instants = [first.start, *(each.ready for each in gradients)]
    backward = [lasts(start, end, first.thread) for start, end in pairwise(instants)]
    # In forward order, each parameter's time lasts until the next one's begins; the first begins
    # with the pass.
    order = _forward_order(gradients)
    begin = min(places.values(), key=lambda event: event.start, default=first)
    begun = [begin.start, *(gradients[index].owner for index in order[1:]), first.start]
    forward = [0.0] * len(order)
    for index, (start, end) in zip(order, pairwise(begun), strict=True):
        forward[index] = lasts(start, end, begin.thread)
    return _Step(tuple(gradients), tuple(forward), tuple(backward))


def _forward_order(gradients: Sequence[_Gradient]) -> list[int]:
    """Positions in ready order, sorted by the forward pass. For the same operation, the gradient
    that is ready last comes first."""
    return sorted(range(len(gradients)), key=lambda index: (gradients[index].owner, -index))


def _shared(start: float, end: float, event: Event) -> float:
    return max(0.0, min(end, event.end) - max(start, event.start))


def _shape(event: Event) -> tuple[tuple[int, ...], str]:
    dims, kinds = event.args.get(_DIMS), event.args.get(_TYPE)
    if not (isinstance(dims, list) and dims and isinstance(kinds, list) and kinds):
        raise ValueError(
            f"found {GRADIENT} without {_DIMS}, wanted the gradient's shape; {_RECORD}"
        )
    shape, kind = dims[0], kinds[0]
    if not (
        isinstance(shape, list)
        and all(isinstance(n, int) and not isinstance(n, bool) and 1 <= n < 2**40 for n in shape)
        and math.prod(shape) < 2**40
    ):
        raise ValueError(f"found {GRADIENT} with the shape {str(shape)[:40]}, wanted whole numbers")
    if not isinstance(kind, str) or kind not in _BYTES:
        raise ValueError(
            f"found a gradient of {str(kind)[:40]!r}, wanted one of {', '.join(_BYTES)}"
        )
    return tuple(shape), kind


def _trace(path: Path, steps: Sequence[_Step]) -> Trace:
    if not steps:
        raise ValueError(f"found no {GRADIENT}, wanted one for each parameter; {_RECORD}")
    usual = steps[-1]
    for number, step in enumerate(steps):
        if step.form != usual.form:
            raise ValueError(
                f"found other gradients in step {number + 1} than in the last of {len(steps)},"
                " wanted the same in the same order; record after the first steps, in which DDP"
                " still orders its buckets"
            )
    if len(kinds := {each.type for each in usual.gradients}) > 1:
        raise ValueError(f"found gradients of {' and '.join(sorted(kinds))}, wanted one type")
    order = _forward_order(usual.gradients)
    tensors = []
    for place, index in enumerate(order):
        gradient = usual.gradients[index]
        shape = "x".join(map(str, gradient.shape)) or "scalar"
        forward = [step.forward[index] / 1e6 for step in steps]
        backward = [step.backward[index] / 1e6 for step in steps]
        tensors.append(
            Tensor(
                f"{place}.{gradient.operation}.{shape}",
                math.prod(gradient.shape),
                median(forward),
                median(backward),
                _spread(forward),
                _spread(backward),
            )
        )
    place_of = {index: place for place, index in enumerate(order)}
    return Trace(
        path.name.split(".")[0],
        1,
        tuple(tensors),
        tuple(place_of[index] for index in range(len(order))),
        _BYTES[usual.gradients[0].type],
        {
            "imported_from": "a trace of PyTorch's profiler; names are those of operations",
            "dtype": usual.gradients[0].type,
            "iterations": str(len(steps)),
        },
    )


def _spread(values: Sequence[float]) -> float:
    """The interquartile range; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low

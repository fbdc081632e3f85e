"""Traces of PyTorch's profiler: real ones, a hand-made one with a GPU, and errors."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.workload import formats, profiler
from testbed.workload.trace import TraceError

PROFILES = Path(__file__).parent / "profiles"
SHAPES = [4, 4 * 9, 4, 4, 32 * 144, 32, 10 * 32, 10]  # conv (bias, weight), norm, two linear layers
GRADIENT, EVALUATED = profiler.GRADIENT, "autograd::engine::evaluate_function: "


def content(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((PROFILES / f"{kind}.json.gz").read_bytes()))
    return found


def written(folder: Path, events: object) -> Path:
    path = folder / "made.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.mark.parametrize("kind", ["plain", "ddp"])
def test_a_recorded_model_keeps_its_gradients_and_times(kind: str, tmp_path: Path) -> None:
    trace = profiler.load(PROFILES / f"{kind}.json.gz")
    assert sorted(tensor.elements for tensor in trace.tensors) == sorted(SHAPES)
    names = [tensor.name.split(".")[1] for tensor in trace.tensors]
    assert names == [*2 * ["conv2d"], *2 * ["batch_norm"], "linear", "addmm", "linear", "addmm"]
    assert trace.ready == tuple(reversed(range(8)))
    assert (trace.dtype_bytes, trace.provenance["iterations"]) == (4, "2")
    events = content(kind)["traceEvents"]
    spans = []
    for step in (each for each in events if each["name"].startswith("ProfilerStep#")):
        inside = [
            each
            for each in events
            if each.get("ph") == "X" and step["ts"] <= each["ts"] <= step["ts"] + step["dur"]
        ]
        first = min(each["ts"] for each in inside if each["name"].startswith(EVALUATED))
        last = max(each["ts"] + each["dur"] for each in inside if each["name"] == GRADIENT)
        waits = [each for each in inside if each["name"] == "c10d::allreduce_"]
        elements = sum(each["args"]["Input Dims"][0][0][0] for each in waits)
        assert elements == (trace.elements if kind == "ddp" else 0)
        spans.append((last - first - sum(w["dur"] for w in waits if w["ts"] < last)) / 1e6)
    assert trace.backward_s == pytest.approx(sum(spans) / 2, rel=0.2)
    formats.save(trace, tmp_path / "x.trace")
    assert formats.load(str(tmp_path / "x.trace")).elements == trace.elements


def event(name: str, ts: float, dur: float, cat: str = "cpu_op", **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur} | {
        "args": {key.replace("_", " "): value for key, value in args.items()}
    }


def gradient(ts: float, shape: list[int], kind: str = "c10::Half") -> list[dict[str, Any]]:
    dims = {"Input_Dims": [shape], "Input_type": [kind]}
    return [event(EVALUATED + GRADIENT, ts, 2), event(GRADIENT, ts, 1, **dims)]


def on_gpu() -> list[dict[str, Any]]:
    """Two layers: the host launches within 100 us, and the kernels end at 1000, 2000, 5000 and
    9000 us."""
    kernels = [("forward1", 10, 1000), ("forward2", 20, 2000), ("backward2", 41, 5000)]
    kernels += [("nccl:all_reduce", 52, 20000), ("backward1", 61, 9000)]
    return [
        event("aten::linear", 9, 5, Sequence_number=1),
        event("aten::linear", 19, 5, Sequence_number=2),
        event(EVALUATED + "AddmmBackward0", 40, 5, Sequence_number=2),
        *gradient(50, [3, 5]),
        event(EVALUATED + "AddmmBackward0", 60, 5, Sequence_number=1),
        *gradient(70, [7]),
        *(
            event("cudaLaunchKernel", at, 1, "cuda_runtime", correlation=number)
            for number, (_, at, _) in enumerate(kernels)
        ),
        *(
            event(name, end - 500, 500, "kernel", correlation=number)
            for number, (name, _, end) in enumerate(kernels)
        ),
    ]


def test_with_a_gpu_its_kernels_say_when_a_gradient_is_ready(tmp_path: Path) -> None:
    trace = profiler.load(written(tmp_path, on_gpu()))
    first, second = trace.tensors
    assert (first.elements, second.elements, trace.dtype_bytes) == (7, 15, 2)
    # From the first kernel's launch to its end, and between the ends of kernels.
    assert (first.forward_s, second.forward_s) == pytest.approx((991e-6, 1000e-6))
    assert (second.backward_s, first.backward_s) == pytest.approx((3000e-6, 4000e-6))


def test_a_cuda_graph_ends_with_the_last_of_its_kernels(tmp_path: Path) -> None:
    alone = profiler.load(written(tmp_path, on_gpu()))
    # It begins after the kernel backward2 of the same launch, and ends before it.
    short = event("short", 4600, 10, "kernel", correlation=2)
    assert profiler.load(written(tmp_path, [*on_gpu(), short])) == alone


def without(events: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    return [
        each | {"args": {name: value for name, value in each["args"].items() if name != key}}
        for each in events
    ]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], "found no torch::autograd::AccumulateGrad"),
        (without(on_gpu(), "Input Dims"), "record_shapes=True"),
        (gradient(1, [2], "int8"), "found a gradient of 'int8'"),
        (gradient(1, [-2]), "shape [-2], wanted whole numbers"),
        (gradient(1, [2]) + gradient(5, [2], "float"), "gradients of c10::Half and float"),
        (
            [
                *(event("ProfilerStep#1", 0, 9), *gradient(1, [2])),
                *(event("ProfilerStep#2", 10, 9), *gradient(11, [3])),
            ],
            "other gradients in step 1",
        ),
        ({"a": 1}, "wanted a Chrome trace"),
    ],
)
def test_what_is_lacking_is_told(events: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as raised:
        profiler.load(written(tmp_path, events))
    assert words in str(raised.value)
    assert "made.json: " in str(raised.value)


def test_a_cut_file_is_named_with_its_place(tmp_path: Path) -> None:
    path = written(tmp_path, on_gpu())
    path.write_text(path.read_text()[:-5])
    with pytest.raises(TraceError, match=r"made\.json:1:\d+: found .*truncated\?"):
        profiler.load(path)
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes((PROFILES / "ddp.json.gz").read_bytes()[:-99])
    with pytest.raises(TraceError, match="cannot be read"):
        profiler.load(cut)
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(TraceError, match="cannot be read: a device or a pipe"):
        profiler.load(pipe)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutants")


ANY = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=3),
    st.just({}), st.just([None]), st.just([[[1]]]),
)  # fmt: skip


@settings(max_examples=100)
@given(
    changes=st.lists(
        st.tuples(
            st.integers(0, len(on_gpu()) - 1),
            st.sampled_from(["ph", "name", "ts", "dur", "args", "cat", "tid"]),
            ANY,
        ),
        max_size=3,
    ),
    inner=st.lists(
        st.tuples(
            st.integers(0, len(on_gpu()) - 1),
            st.sampled_from(["Input Dims", "Input type", "Sequence number", "correlation"]),
            ANY,
        ),
        max_size=3,
    ),
)
def test_a_damaged_file_is_read_or_refused(folder: Path, changes: Any, inner: Any) -> None:
    events = on_gpu()
    for index, key, value in inner:
        events[index]["args"][key] = value
    for index, key, value in changes:
        events[index][key] = value
    try:
        trace = profiler.load(written(folder, events))
    except TraceError:
        return
    assert trace.elements > 0
    assert trace.compute_s >= 0


def test_events_that_nothing_reads_are_not_kept(tmp_path: Path) -> None:
    """Stacks and inner operations are most of a large trace."""
    plain = content("plain")["traceEvents"]
    stacks = [
        {"ph": "X", "cat": "python_function", "name": "f", "ts": each["ts"], "dur": 1.0}
        for each in plain
        if each["ph"] == "X"
    ]
    kept = profiler._events(written(tmp_path, plain))
    assert profiler._events(written(tmp_path, plain + stacks)) == kept
    inner = {each.name for each in kept if "Sequence number" not in each.args}
    assert not any(name.startswith("aten::") for name in inner)

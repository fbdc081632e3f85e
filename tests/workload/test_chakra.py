"""Chakra execution traces: written, read (those of other tools, too), and rejected if invalid."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workload import chakra, protobuf
from testbed.workload.catalogue import load, names
from testbed.workload.chakra import Node
from testbed.workload.trace import Tensor, Trace, TraceError
from testbed.workload.trace_file import save

# Two layers and the beginning of a second iteration, in the form of Chakra's text converter,
# encoded by Google's protobuf library from Chakra 1.0.0's et_def.proto. It has attributes of types
# that are not used here: lists, doubles and floats.
OFFICIAL = base64.b64decode(
    "JgoFMS4wLjASHQoGc2NoZW1h6gESMS4wLjItY2hha3JhLjEuMC4wJhIQQ09NUF9OT0RFX2wwX0ZXRBgEOGRSDgoJaXNf"
    "Y3B1X29w2AEALAgBEhBDT01QX05PREVfbDFfRldEGAQqAQA4yAFSDgoJaXNfY3B1X29w2AEALwgCEhNDT01QX05PREVf"
    "bDFfQldEX1dHGAQqAQE4rAJSDgoJaXNfY3B1X29w2AEAcQgDEhtDT01NX0NPTExfTk9ERV9sMV9BTExSRURVQ0UYByoB"
    "AlINCgljb21tX3R5cGVIAFIOCgljb21tX3NpemVooB9SFAoMaW52b2x2ZWRfZGlt4gEDCgEBUgwKAXgZAAAAAAAA+D9S"
    "CAoBZi0AACBALggEEhNDT01QX05PREVfbDFfQldEX0lHGAQqAQI4MlIOCglpc19jcHVfb3DYAQAvCAUSE0NPTVBfTk9E"
    "RV9sMF9CV0RfV0cYBCoBBDiQA1IOCglpc19jcHVfb3DYAQBxCAYSG0NPTU1fQ09MTF9OT0RFX2wwX0FMTFJFRFVDRRgH"
    "KgEFUg0KCWNvbW1fdHlwZUgAUg4KCWNvbW1fc2l6ZWjAPlIUCgxpbnZvbHZlZF9kaW3iAQMKAQFSDAoBeBkAAAAAAAD4"
    "P1IICgFmLQAAIEAsCAcSEENPTVBfTk9ERV9sMF9GV0QYBCoCBQY4ZFIOCglpc19jcHVfb3DYAQA="
)
SMALL = Trace(
    "small",
    8,
    (
        Tensor("a.w", 1000, 0.001, 0.004),
        Tensor("b.w", 500, 0.002, 0.003),
        Tensor("b.b", 1, 0, 5e-4),
    ),
    ready=(1, 2, 0),
    dtype_bytes=2,
)


def written(path: Path, nodes: list[Node]) -> Path:
    messages = [chakra._message(node) for node in nodes]
    path.write_bytes(protobuf.delimited([protobuf.field(1, "1.0.0"), *messages]))
    return path


def comp(number: int, parents: list[int], micros: int, name: str = "op", cpu: int = 0) -> Node:
    return Node(number, name, 4, parents, 0, micros, {"is_cpu_op": cpu})


def reduce(number: int, parents: list[int], size: int = 400, kind: int = 0) -> Node:
    attributes: chakra.Attributes = {"comm_type": kind, "comm_size": size}
    return Node(number, "nccl all reduce", 7, parents, 0, 0, attributes)


def test_what_google_s_library_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "official.0.et"
    path.write_bytes(OFFICIAL)
    trace = chakra.load(path)
    assert trace.name == "official"
    # A layer's two gradients have one common time; the second iteration is left out.
    assert trace.tensors == (
        Tensor("l0", 2000, 100e-6, pytest.approx(450e-6)),  # type: ignore[arg-type]
        Tensor("l1", 1000, 200e-6, 300e-6),
    )
    assert trace.ready == (1, 0)
    path.write_bytes(gzip.compress(OFFICIAL))
    assert chakra.load(path) == trace


def test_a_round_trip_keeps_everything_that_a_trace_is(tmp_path: Path) -> None:
    chakra.save(SMALL, tmp_path / "small.et")
    found = chakra.load(tmp_path / "small.et")
    assert (found.name, found.batch, found.dtype_bytes) == ("small", 8, 2)
    assert (found.tensors, found.ready) == (SMALL.tensors, SMALL.ready)


def test_a_tensor_s_name_does_not_make_its_backward_pass_a_forward_one(tmp_path: Path) -> None:
    names = ("layers.0.feed_forward.w1", "head", "forward")
    tensors = tuple(Tensor(name, 1000, 0.001, 0.002) for name in names)
    chakra.save(Trace("named", 1, tensors, ready=(2, 1, 0)), tmp_path / "named.et")
    assert chakra.load(tmp_path / "named.et").tensors == tensors


@pytest.mark.parametrize("phase", ["BWD", "BWD_IG", "BWD_WG"])
def test_each_kind_of_backward_pass_of_a_forward_layer_is_one(phase: str, tmp_path: Path) -> None:
    nodes = [comp(0, [], 20, f"COMP_NODE_feed_forward_{phase}"), reduce(1, [0])]
    trace = chakra.load(written(tmp_path / "t.et", nodes))
    assert (trace.forward_s, trace.backward_s) == pytest.approx((0.0, 20e-6))


@pytest.mark.parametrize("name", names())
def test_shipped_traces_come_back_to_the_microsecond(name: str, tmp_path: Path) -> None:
    trace = load(name)
    chakra.save(trace, tmp_path / "x.et")
    found = chakra.load(tmp_path / "x.et")
    assert found.ready == trace.ready
    assert found.compute_s == pytest.approx(trace.compute_s, abs=1e-6)
    for before, after in zip(trace.tensors, found.tensors, strict=True):
        assert (after.name, after.elements) == (before.name, before.elements)
        assert after.forward_s == pytest.approx(before.forward_s, abs=1.01e-6)
        assert after.backward_s == pytest.approx(before.backward_s, abs=1.01e-6)
    save(found, tmp_path / "x.trace")
    assert load(tmp_path / "x.trace").tensors == found.tensors


def test_a_graph_without_names_is_read_by_its_dependencies(tmp_path: Path) -> None:
    nodes = [
        comp(1, [], 10, "aten::forward"),
        comp(2, [], 99, "launch", cpu=1),
        comp(3, [1, 2], 20),
        reduce(4, [3], 400),
        comp(5, [3], 30),
        reduce(6, [4, 5], 800),
        comp(7, [5], 5),
        comp(8, [6, 7], 1000, "optimizer"),
    ]
    trace = chakra.load(written(tmp_path / "g.et", nodes))
    second, first = trace.tensors
    assert (first.elements, second.elements) == (100, 200)
    assert [trace.tensors[i].elements for i in trace.ready] == [100, 200]
    assert first.name != second.name and " " not in first.name
    assert trace.forward_s == pytest.approx(10e-6)
    assert (first.backward_s, second.backward_s) == pytest.approx((20e-6, 35e-6))


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([comp(1, [], 1)], "no all-reduce"),
        ([reduce(1, [], kind=2)], "a collective of type 2, wanted only all-reduces"),
        ([Node(3, "send", 5)], r"node 3 \(send\) is a COMM_SEND_NODE"),
        ([reduce(1, [9])], "node 1 depends on 9, which does not exist"),
        ([reduce(1, []), reduce(1, [])], "same id"),
        ([comp(1, [2], 1), comp(2, [1], 1), reduce(3, [2])], "circular"),
        ([reduce(1, [], size=0)], "found 0 for a size"),
    ],
)
def test_what_cannot_be_replayed_is_refused(nodes: list[Node], words: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=words) as caught:
        chakra.load(written(tmp_path / "x.et", nodes))
    assert str(caught.value).startswith(f"{tmp_path / 'x.et'}: ")


def test_a_cut_file_is_refused_or_lacks_whole_messages(tmp_path: Path) -> None:
    path = tmp_path / "cut.et"
    ends, at = set(), 0
    for message in protobuf.undelimited(OFFICIAL):
        at += len(protobuf.varint(len(message))) + len(message)
        ends.add(at)
    for length in range(len(OFFICIAL)):
        path.write_bytes(OFFICIAL[:length])
        if length not in ends:
            with pytest.raises(TraceError):
                chakra.load(path)


@given(st.binary(max_size=60), st.integers(0, len(OFFICIAL)))
def test_bytes_of_any_kind_never_end_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.et"
    path.write_bytes(OFFICIAL[:at] + noise + OFFICIAL[at + len(noise) :])
    try:
        chakra.load(path)
    except TraceError as error:
        assert str(error).startswith(str(path))


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_packed_and_single_numbers_are_the_same(numbers: list[int]) -> None:
    one_by_one = b"".join(protobuf.field(5, number) for number in numbers)
    collect: Callable[[bytes], list[int]] = lambda message: [  # noqa: E731
        number for _, value in protobuf.fields(message) for number in protobuf.whole_numbers(value)
    ]
    assert collect(protobuf.packed(5, numbers)) == collect(one_by_one) == numbers

"""SwitchML's layer lists: reading, writing, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.workload import layers
from testbed.workload.catalogue import load, names
from testbed.workload.trace import Tensor, Trace, TraceError

# The header of SwitchML's own example has spaces after its commas.
EXAMPLE = """layer_index, numel, forward_pass_ns, backward_pass_ns
0,524288,5000,5001
1,16777217,160000,170000
"""


def test_their_form_is_read(tmp_path: Path) -> None:
    (tmp_path / "example.csv").write_text(EXAMPLE)
    trace = layers.load(tmp_path / "example.csv")
    assert (trace.name, trace.batch, trace.dtype_bytes) == ("example", 1, 4)
    assert trace.tensors == (
        Tensor("layer0", 524288, 5e-6, 5.001e-6),
        Tensor("layer1", 16777217, 160e-6, 170e-6),
    )
    assert trace.ready == (1, 0)


def test_a_round_trip_gives_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(EXAMPLE.replace(", ", ","))
    layers.save(layers.load(tmp_path / "a.csv"), tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == (tmp_path / "a.csv").read_text()


@pytest.mark.parametrize("name", names())
def test_shipped_traces_keep_sizes_and_times(name: str, tmp_path: Path) -> None:
    trace = load(name)
    layers.save(trace, tmp_path / "x.csv")
    found = layers.load(tmp_path / "x.csv")
    assert [t.elements for t in found.tensors] == [t.elements for t in trace.tensors]
    for before, after in zip(trace.tensors, found.tensors, strict=True):
        assert after.forward_s == pytest.approx(before.forward_s, abs=1e-9)
        assert after.backward_s == pytest.approx(before.backward_s, abs=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("numel", "elements", 1, "wanted the columns layer_index, numel"),
        ("524288", "-1", 2, "wanted four whole numbers"),
        ("524288", "0", 2, "numel 0, wanted at least 1"),
        (",5001", "", 2, "wanted four whole numbers"),
        ("0,524288,5000,5001\n", "", 2, "layer 1, wanted 0: lines missing?"),
    ],
)
def test_a_wrong_line_is_named(old: str, new: str, line: int, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(EXAMPLE.replace(old, new, 1))
    with pytest.raises(TraceError) as caught:
        layers.load(path)
    assert any(p.startswith(f"{path}:{line}: ") and words in p for p in caught.value.problems)


@pytest.mark.parametrize("text", ["", EXAMPLE.splitlines()[0]])
def test_an_empty_list_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(TraceError, match="no layer"):
        layers.load(tmp_path / "x.csv")


def test_what_their_benchmark_cannot_read_is_not_written(tmp_path: Path) -> None:
    slow = Trace("slow", 1, (Tensor("a", 1, 3.0, 0.0),))
    with pytest.raises(ValueError, match="a: 3000000000, wanted at most 2147483647"):
        layers.save(slow, tmp_path / "x.csv")


def test_gradients_of_two_bytes_are_not_written(tmp_path: Path) -> None:
    half = Trace("half", 1, (Tensor("a", 1000, 1.0, 0.0),), dtype_bytes=2)
    with pytest.raises(ValueError, match="found gradients of 2 bytes a value, wanted float32"):
        layers.save(half, tmp_path / "x.csv")

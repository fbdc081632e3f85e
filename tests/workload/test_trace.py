"""The shipped traces, and the errors that the reader reports."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workload.catalogue import WORKLOADS, load, names
from testbed.workload.trace import Tensor, Trace, TraceError
from testbed.workload.trace_file import _checksum, save

# The gradient values and the tensors of each shipped model, and its published iteration in seconds.
# Vision models as in torchvision and timm; BERT with both pre-training heads (BERT-base without
# them has 109,482,240 values, the heads 624,188); GPT-2's head is its word embedding.
SHIPPED = {
    "resnet18": (11_689_512, 62, 512 / 3481.78),
    "resnet50": (25_557_032, 161, 256 / 1200),
    "resnet101": (44_549_160, 314, 256 / 747.89),
    "resnet152": (60_192_808, 467, 192 / 501.44),
    "vgg16": (138_357_544, 32, 384 / 546.06),
    "bert-base": (110_106_428, 206, 96 / 641.511),
    "bert-large": (336_226_108, 398, 64 / 224),
    "gpt2": (124_439_808, 148, 0.3),
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A trace file with three tensors: its header ends on line 8, tensors are lines 10 to 12."""
    tensors = tuple(Tensor(f"layer{i}", 10 + i, 1e-3, 2e-3) for i in range(3))
    path = tmp_path / "small.trace"
    save(Trace("small", 8, tensors, ready=(2, 0, 1)), path)
    return path


def edit(path: Path, change: Callable[[str], str]) -> None:
    """Change the file and its checksum, so that only the change is an error."""
    lines = change(path.read_text()).splitlines(keepends=True)
    digest = _checksum("".join(lines).encode())
    sealed = [f"sha256: {digest}\n" if line.startswith("sha256:") else line for line in lines]
    path.write_text("".join(sealed))


def problems(path: Path) -> tuple[str, ...]:
    with pytest.raises(TraceError) as caught:
        load(path)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


def test_names_are_the_shipped_traces() -> None:
    assert set(names()) == set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_have_their_known_sizes(name: str) -> None:
    trace = load(name)
    assert (trace.elements, len(trace.tensors)) == SHIPPED[name][:2]
    assert trace.bytes == 4 * trace.elements
    assert trace.name == name


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_times_add_up_to_the_published_iteration(name: str) -> None:
    trace = load(name)
    assert trace.compute_s == pytest.approx(SHIPPED[name][2], rel=1e-5)
    assert 1 < trace.backward_s / trace.forward_s < 4
    assert "not captured gradients" in trace.provenance["contents"]
    assert trace.provenance["iteration_time_source"]
    assert {"dtype", "recorded_on", "recorded_batch", "recorded_with", "seed"} <= set(
        trace.provenance
    )


def test_checksums_cover_every_shipped_file() -> None:
    lines = (WORKLOADS / "SHA256SUMS").read_text().splitlines()
    sums = dict(reversed(line.split("  ")) for line in lines)
    shipped = [*WORKLOADS.glob("*.trace"), *WORKLOADS.glob("*.npz")]
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in shipped}


def test_resnet_finishes_its_classifier_first_and_its_stem_last() -> None:
    trace = load("resnet50")
    order = [trace.tensors[i].name for i in trace.ready]
    assert order[0].startswith("classifier") and order[1].startswith("classifier")
    assert order[-1] == trace.tensors[0].name == "resnet.embedder.embedder.convolution.weight"


@pytest.mark.parametrize(
    ("name", "tied"),
    [
        ("bert-base", "bert.embeddings.word_embeddings.weight"),
        ("bert-large", "bert.embeddings.word_embeddings.weight"),
        ("gpt2", "transformer.wte.weight"),
    ],
)
def test_language_models_finish_their_tied_embedding_last(name: str, tied: str) -> None:
    # In the backward pass, the decoder uses it first, but the embedding uses it last, so it is
    # ready at the end.
    trace = load(name)
    assert trace.tensors[trace.ready[-1]].name == tied


@pytest.mark.parametrize("name", SHIPPED)
def test_loading_takes_under_100_ms(name: str) -> None:
    def once() -> float:
        start = time.thread_time()
        load(name)
        return time.thread_time() - start

    assert min(once() for _ in range(3)) < 0.1


def test_a_path_and_a_name_give_the_same_trace() -> None:
    assert load(WORKLOADS / "resnet50.trace") == load("resnet50")
    assert load(str(WORKLOADS / "resnet50.trace")) == load("resnet50")


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    tensors = (Tensor("a", 3, 0.001, 0.25, 1e-6, 2e-6), Tensor("b", 1, 0.0, 1e-9))
    trace = Trace("tiny", 7, tensors, ready=(0, 1), dtype_bytes=2, provenance={"model": "a b"})
    save(trace, tmp_path / "tiny.trace")
    assert load(tmp_path / "tiny.trace") == trace


def test_unknown_provenance_is_not_written(tmp_path: Path) -> None:
    trace = Trace("x", 1, (Tensor("a", 1, 0, 0),), provenance={"colour": "red"})
    with pytest.raises(ValueError, match="colour"):
        save(trace, tmp_path / "x.trace")


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("schema_version: 1", "schema_version: 2", 1, "schema_version 2"),
        ("batch: 8", "batch: -8", 3, "batch '-8'"),
        ("batch: 8", "batch: 8\nbatch: 9", 4, "batch again, first on line 3"),
        ("batch: 8", "bach: 8", 3, "unknown field 'bach'"),
        ("batch: 8\n", "", 7, "lacks batch"),
        ("batch: 8", "batch 8", 3, "wanted 'key: value'"),
        ("elements: 33", "elements: 34", 6, "34 elements, the tensors 33"),
        ("elements\tready", "values\tready", 9, "wanted the columns"),
        ("layer1\t11", "layer1\t-11", 11, "elements '-11'"),
        ("layer1\t11", "layer1\t0", 11, "elements '0'"),
        ("layer1\t11\t2\t1000.000", "layer1\t11\t2\t-1.0", 11, "forward_us '-1.0'"),
        ("layer1\t11\t2\t1000.000", "layer1\t11\t2\tnan", 11, "forward_us 'nan'"),
        ("layer1\t11\t2", "layer1\t11\t1", 8, "the column ready"),
        ("layer1\t11", "layer0\t11", 11, "'layer0', wanted a unique name"),
        ("layer1\t11", "layer1 11", 11, "6 columns, wanted 7"),
        ("---\n", "", 11, "no line '---'"),
    ],
)
def test_a_wrong_line_is_named(small: Path, old: str, new: str, line: int, words: str) -> None:
    assert old in small.read_text()
    edit(small, lambda text: text.replace(old, new, 1))
    found = [problem for problem in problems(small) if words in problem]
    assert found and found[0].startswith(f"{small}:{line}: ")


def test_all_problems_are_told_at_once(small: Path) -> None:
    edit(small, lambda t: t.replace("batch: 8", "batch: x").replace("layer0\t10", "layer0\t-1"))
    told = problems(small)
    assert any(":3: batch 'x'" in problem for problem in told)
    assert any(":10: elements '-1'" in problem for problem in told)


def test_a_cut_file_is_refused_wherever_it_is_cut(small: Path) -> None:
    data = small.read_bytes()
    for length in range(len(data)):
        small.write_bytes(data[:length])
        assert all(problem.startswith(f"{small}:") for problem in problems(small)), length


def test_a_cut_table_is_called_so(small: Path) -> None:
    small.write_text("".join(small.read_text().splitlines(keepends=True)[:-1]))
    assert any("ends after 2 tensors, the header says 3: truncated?" in p for p in problems(small))


def test_a_changed_value_breaks_the_checksum(small: Path) -> None:
    small.write_text(small.read_text().replace("1000.000", "1001.000", 1))
    assert [p.split(": ")[1].split()[0] for p in problems(small)] == ["checksum"]
    assert problems(small)[0].startswith(f"{small}:7: ")


def test_bytes_that_are_no_text_are_refused(small: Path) -> None:
    small.write_bytes(small.read_bytes().replace(b"layer1", b"layer\xff"))
    assert problems(small) == (f"{small}:11: not text in UTF-8",)


def test_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no workload 'resnet51'; shipped are bert-base, "):
        load("resnet51")
    with pytest.raises(TraceError, match="cannot be read"):
        load(tmp_path / "none.trace")
    with pytest.raises(TraceError, match="cannot be read"):
        load(tmp_path)


def test_ready_must_name_every_tensor_once() -> None:
    with pytest.raises(ValueError, match="ready"):
        Trace("x", 1, (Tensor("a", 1, 0, 0), Tensor("b", 1, 0, 0)), ready=(0, 0))


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=4))
def test_scaling_rounds_elements_up_and_keeps_ratios(scale: Fraction) -> None:
    trace = load("resnet50")
    small = trace.scaled(scale)
    for before, after in zip(trace.tensors, small.tensors, strict=True):
        assert after.elements >= 1
        assert 0 <= after.elements - before.elements * scale < 1 or after.elements == 1
        assert after.backward_s == pytest.approx(before.backward_s * scale)
    assert small.compute_s == pytest.approx(trace.compute_s * scale)
    assert small.ready == trace.ready


@pytest.mark.parametrize("scale", [0, -1])
def test_a_scale_must_be_positive(scale: int) -> None:
    with pytest.raises(ValueError, match="scale"):
        load("resnet50").scaled(scale)

"""The recorder, on a tiny model with a tied tensor; needs the ``record`` extra."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="the record extra (torch) is not installed")
pytest.importorskip("transformers", reason="the record extra (transformers) is not installed")

from testbed.workload.catalogue import load  # noqa: E402
from testbed.workload.trace_file import save  # noqa: E402

record: Any = pytest.importorskip("workloads.record", reason="not run from the repository")
models: Any = pytest.importorskip("workloads.models")


class Tiny(torch.nn.Module):  # type: ignore[misc]
    """An embedding, a layer and a decoder that shares the embedding's matrix.

    The layer is registered after the decoder but used before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)
        self.decoder = torch.nn.Linear(4, 10)
        self.layer = torch.nn.Linear(4, 4)
        self.decoder.weight = self.embedding.weight

    def forward(self, words: Any) -> SimpleNamespace:
        guesses = self.decoder(self.layer(self.embedding(words)))
        return SimpleNamespace(loss=torch.nn.functional.cross_entropy(guesses, words))


def tiny(build: Any) -> Any:
    return models.Model(
        build=build,
        inputs=lambda batch: {"words": torch.randint(0, 10, (batch,))},
        description="tiny",
        shape="a word",
        loss="cross entropy",
        published=models.Published(batch=100, samples_per_s=50, source="nowhere"),
    )


def test_a_tiny_model_end_to_end(tmp_path: Path) -> None:
    model = tiny(Tiny)
    trace = record.record("tiny", model, batch=8, warmup=1, iterations=3, seed=1)
    # In forward order; the tied tensor occurs once, under its first name.
    names = [tensor.name for tensor in trace.tensors]
    assert names == ["embedding.weight", "layer.weight", "layer.bias", "decoder.bias"]
    assert [tensor.elements for tensor in trace.tensors] == [40, 16, 4, 10]
    # The decoder's gradients are ready first; that of the tied matrix only after the embedding's
    # part.
    assert names[trace.ready[0]] == "decoder.bias"
    assert names[trace.ready[-1]] == "embedding.weight"
    assert trace.forward_s > 0 and trace.backward_s > 0
    assert trace.batch == 8

    scaled = record.scale_to(trace, model.published)
    assert scaled.compute_s == pytest.approx(2.0) and scaled.batch == 100
    assert scaled.provenance["iteration_time_source"] == "nowhere"

    save(scaled, tmp_path / "tiny.trace")
    loaded = load(tmp_path / "tiny.trace")
    assert loaded.ready == scaled.ready and loaded.provenance == scaled.provenance
    assert loaded.compute_s == pytest.approx(2.0, abs=1e-6)


def test_a_tensor_without_gradient_is_refused() -> None:
    class Idle(Tiny):
        def __init__(self) -> None:
            super().__init__()
            self.unused = torch.nn.Linear(2, 2)

    with pytest.raises(RuntimeError, match="every tensor"):
        record.record("idle", tiny(Idle), batch=2, warmup=0, iterations=2, seed=1)


def test_a_sample_is_of_the_workers_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    sample: Any = pytest.importorskip("workloads.sample")
    torch.manual_seed(3)
    network = Tiny()
    trace = record.record("tiny", tiny(lambda: network), batch=2, warmup=0, iterations=2, seed=1)
    words = iter([torch.tensor([i % 10, i % 7]) for i in range(100)])
    monkeypatch.setattr(sample, "BLOCK", 8)
    monkeypatch.setattr(sample, "load", lambda _: trace)
    monkeypatch.setitem(sample.MODELS, "tiny", tiny(Tiny))
    monkeypatch.setitem(sample.SOURCES, "tiny", lambda _: (lambda _: {"words": next(words)}, "x"))
    monkeypatch.setitem(sample.RATES, "tiny", 0.1)
    monkeypatch.setitem(sample.FAMILIES, "tiny", "tiny")
    taken = sample.take("tiny", batch=2, workers=3, blocks=4, steps=(1, 3), seed=1)
    assert taken["values"].shape == (3, 8, 8) and taken["values"].dtype == np.float32
    assert taken["steps"].tolist() == [1] * 4 + [3] * 4

    # The first worker's gradient of the first step, computed by hand.
    torch.manual_seed(1)
    again = Tiny()
    again(torch.tensor([0, 0])).loss.backward()
    tensors = dict(again.named_parameters())
    ready = [tensors[trace.tensors[i].name].grad.flatten() for i in trace.ready]
    flat = torch.cat(ready).numpy()
    for position, block in zip(taken["positions"][:4], taken["values"][0], strict=False):
        assert block == pytest.approx(flat[position : position + 8])


def test_importance_is_parameter_times_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    sample: Any = pytest.importorskip("workloads.sample")
    importance: Any = pytest.importorskip("workloads.importance")
    torch.manual_seed(3)
    trace = record.record("tiny", tiny(Tiny), batch=2, warmup=0, iterations=2, seed=1)
    words = [torch.tensor([i, 7 - i]) for i in range(4)]
    left = iter(words)
    for place, mine in (
        (sample.MODELS, tiny(Tiny)),
        (sample.SOURCES, lambda _: (lambda _: {"words": next(left)}, "x")),
        (sample.RATES, 0.1),
        (sample.FAMILIES, "tiny"),
    ):
        monkeypatch.setitem(place, "tiny", mine)
    monkeypatch.setattr(sample, "load", lambda _: trace)
    found = importance.record("tiny", batch=2, steps=2, batches=2, seed=1).provenance

    torch.manual_seed(1)
    again = Tiny()
    optimizer = torch.optim.AdamW(again.parameters(), lr=0.1)
    shares = dict.fromkeys((tensor.name for tensor in trace.tensors), 0.0)
    for step, batch in enumerate(words):
        optimizer.zero_grad()
        again(batch).loss.backward()
        if step < 2:
            optimizer.step()
            continue
        for name, parameter in again.named_parameters():
            if name in shares:
                shares[name] += float((parameter * parameter.grad).detach().abs().sum()) / 2
    assert [float(each) for each in found["pgp"].split()] == pytest.approx(
        list(shares.values()), rel=1e-4
    )
    assert "after 2 steps" in found["pgp_recorded"]

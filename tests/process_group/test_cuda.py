"""A GPU, where there is one: the backend ``ina``, measured traces, and jobs that learn."""

from __future__ import annotations

import pytest
import yaml
from patience import PATIENCE_S
from test_device import SCRIPT, learning
from test_process_group import printed, ranks


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # leaves the GPU to other processes
    if not torch.cuda.is_available():
        pytest.skip("no GPU")


def called(folder, *words):
    return printed(["-m", "testbed.cli", *words], folder, 8 * PATIENCE_S)


@pytest.mark.parametrize("world", [2, 3])
def test_tensors_on_a_gpu_are_summed_exactly(world, tmp_path):
    ranks("on_cuda", world, tmp_path)


def test_a_trace_is_measured_on_a_gpu(tmp_path):
    from testbed.workload.formats import load

    (tmp_path / "mine.py").write_text(SCRIPT)
    called(tmp_path, "trace", "script", "mine.py", "--device", "cuda", "mine.trace")
    found = load(str(tmp_path / "mine.trace"))
    assert "measured on" in found.provenance["contents"]
    assert found.forward_s > 0
    assert found.backward_s > 0


@pytest.mark.parametrize("backend", ["simulate", "packet"])
def test_jobs_learn_on_a_gpu_as_on_the_cpu(backend, tmp_path):
    from testbed.run_tables import read_results, read_training

    (tmp_path / "mine.py").write_text(SCRIPT)
    called(tmp_path, "trace", "script", "mine.py", "--compute", "1ms", "mine.trace")
    asked = learning(tmp_path, sweep={"jobs.0.system": ["ps", "atp", "asp"]})
    asked["backend"] = backend
    asked["emulation"]["carried_values"] = "all"
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(asked))
    found = {}
    for device in ("cpu", "cuda"):
        said = called(tmp_path, "train", "mine.yaml", "--device", device, "-o", tmp_path / device)
        assert f"evaluated on {device}" in said
        rows = read_results([tmp_path / device])
        assert set(rows.error) == {""}
        assert set(rows.verdict) == {"valid"}
        assert all(("computed on" in notes) == (device == "cuda") for notes in rows.notes)
        curves = read_training([tmp_path / device]).sort_values(["system", "iteration"])
        found[device] = curves[["system", "iteration", "value"]].to_numpy().tolist()
    assert [row[:2] for row in found["cuda"]] == [row[:2] for row in found["cpu"]]
    for here, there in zip(found["cpu"], found["cuda"], strict=True):
        assert abs(here[2] - there[2]) < 0.1

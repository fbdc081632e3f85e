"""A device whose memory the host cannot use, as a GPU's, which is built for these tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from test_process_group import printed, ranks
from tiny import data

PATH = f"{Path(__file__).parent}:{Path(__file__).parents[2]}"
MEASURES = """
import sys
from pathlib import Path

import device
from testbed.training.profile import trace_of
from testbed.workload.trace_file import save

device.load(Path(sys.argv[1]))
save(trace_of(Path("training.py"), None, 16, device=device.NAME), Path("measured.trace"))
"""

TRAINS = """
import sys
from pathlib import Path

import device
from testbed.cli import main

device.load(Path(sys.argv[1]))
main(["train", *sys.argv[2:]])
"""

SCRIPT = """
import torch

def model():
    return torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
    )

def data(rank, world):
    random = torch.Generator().manual_seed(rank)
    return torch.randn(64, 6, generator=random), torch.randint(2, (64,), generator=random)

def loss(model, inputs, targets):
    assert inputs.device.type == targets.device.type == model[0].weight.device.type
    return torch.nn.functional.cross_entropy(model(inputs), targets)

def evaluate(model):
    place = model[0].weight.device
    inputs, targets = data(99, 100)
    print("evaluated on", place.type)
    return (model(inputs.to(place)).argmax(1) == targets.to(place)).float().mean()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    pytest.importorskip("torch")
    import device

    try:
        return device.build(tmp_path_factory.mktemp("device"))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no device can be built here: {error}")


def test_tensors_go_through_host_memory(library, tmp_path):
    ranks("on_a_device", 2, tmp_path, DEVICE=str(library))


def test_a_trace_is_measured_by_the_events_of_its_streams(library, tmp_path):
    from testbed.workload.formats import load

    (tmp_path / "training.py").write_text(SCRIPT)
    printed(["-c", MEASURES, library], tmp_path, PYTHONPATH=PATH)
    found = load(str(tmp_path / "measured.trace"))
    assert "measured on the device other" in found.provenance["contents"]
    assert set(found.ready[:2]) == {4, 5}  # the last layer's gradients come first
    assert found.forward_s > 0
    assert min(each.backward_s for each in found.tensors) >= 0
    assert found.backward_s > 0


def trained(library, folder, experiment, *arguments):
    """The rows and curves of ``train`` in a process that knows the device, and what it printed."""
    from testbed.run_tables import read_results, read_training

    (folder / "mine.py").write_text(SCRIPT)
    trace = ["trace", "script", folder / "mine.py", "--compute", "1ms", folder / "mine.trace"]
    printed(["-m", "testbed.cli", *trace], PYTHONPATH=PATH)
    (folder / "mine.yaml").write_text(yaml.safe_dump(experiment))
    out = folder / f"out{'-'.join(arguments)}"
    asked = [str(library), folder / "mine.yaml", "-o", out, *arguments]
    said = printed(["-c", TRAINS, *asked], folder, PYTHONPATH=PATH)
    curves = read_training([out]).sort_values(["system", "iteration"])
    return read_results([out]), curves[["system", "iteration", "value", "weights"]], said


def learning(folder, **changes):
    asked = data(folder, backend="simulate", emulation__repeats=1, **changes)
    asked["jobs"][0] |= {
        "workload": str(folder / "mine.trace"),
        "training": {"rate": 0.2, "evaluate_every": 2},
        "iterations": 4,
        "warmup": 0,
        "options": {},
    }
    return asked


def check_equal(library, folder, asked):
    import device

    before, on_cpu, _ = trained(library, folder, asked)
    after, there, said = trained(library, folder, asked, "--device", device.NAME)
    assert f"evaluated on {device.NAME}" in said
    assert set(before.error) == set(after.error) == {""}
    assert not any("computed on" in notes for notes in before.notes)
    assert all("gradients computed on other" in notes for notes in after.notes)
    assert on_cpu.to_numpy().tolist() == there.to_numpy().tolist()
    (kept,) = folder.glob("out--device*/*/*/experiment.yaml")
    assert yaml.safe_load(kept.read_text())["jobs"][0]["training"]["device"] == device.NAME


@pytest.mark.parametrize("backend", ["simulate", "packet"])
def test_jobs_learn_the_same_bits_on_a_device(backend, library, tmp_path):
    asked = learning(tmp_path, sweep={"jobs.0.system": ["ps", "atp", "asp"]})
    asked["backend"] = backend
    asked["emulation"]["carried_values"] = "all"
    check_equal(library, tmp_path, asked)


@pytest.mark.root
@pytest.mark.usefixtures("root_namespace")
def test_workers_in_mininet_learn_the_same_bits_on_a_device(library, tmp_path):
    asked = learning(tmp_path, emulation__dilation=400, fabric__ina="all")
    asked["backend"] = "emulate"
    check_equal(library, tmp_path, asked)

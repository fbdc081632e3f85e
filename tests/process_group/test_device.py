"""A device whose memory the host cannot use, as a GPU's, which is built for these tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_process_group import environment, ranks

MEASURES = """
import sys
from pathlib import Path

import device
from testbed.training.profile import trace_of
from testbed.workload.trace_file import save

device.load(Path(sys.argv[1]))
save(trace_of(Path("training.py"), None, 16, device=device.NAME), Path("measured.trace"))
"""

SCRIPT = """
import torch

def model():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

def data(rank, world):
    return torch.randn(64, 6), torch.randint(2, (64,))

def loss(model, inputs, targets):
    assert inputs.device.type == targets.device.type == model[0].weight.device.type
    return torch.nn.functional.cross_entropy(model(inputs), targets)

def evaluate(model):
    return 0
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
    path = environment(PYTHONPATH=f"{Path(__file__).parent}:{Path(__file__).parents[2]}")
    command = [sys.executable, "-c", MEASURES, str(library)]
    subprocess.run(command, env=path, cwd=tmp_path, check=True)
    found = load(str(tmp_path / "measured.trace"))
    assert "measured on the device other" in found.provenance["contents"]
    assert set(found.ready[:2]) == {2, 3}  # the last layer's gradients come first
    assert found.forward_s > 0
    assert min(each.backward_s for each in found.tensors) >= 0
    assert found.backward_s > 0

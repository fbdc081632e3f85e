"""Training with PyTorch, from a file to a report."""

from __future__ import annotations

import re
import sys

import pytest
import yaml
from tiny import data
from verbs import invoke

import testbed
from testbed.run_tables import read_training

SCRIPT = """
import torch

def model():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

def data(rank, world):
    inputs = torch.randn(64, 6, generator=torch.Generator().manual_seed(rank))
    return inputs, (inputs[:, 0] > 0).long()

def loss(model, inputs, targets):
    return torch.nn.functional.cross_entropy(model(inputs), targets)

def evaluate(model):
    inputs, targets = data(99, 100)
    return (model(inputs).argmax(1) == targets).float().mean()
"""

NAMED = """
def named(*layers):
    found = torch.nn.Sequential(*layers)
    found.register_parameter("a\\nb", torch.nn.Parameter(torch.zeros(1)))
    return found
"""


def called(*arguments):
    return invoke(*arguments)


def file(folder, script=SCRIPT, **changes):
    (folder / "mine.py").write_text(script)
    asked = data(folder, **{"backend": "simulate", **changes})
    asked["jobs"][0] |= {"training": {"rate": 0.2, "target": 0.8}, "iterations": 30, "warmup": 0}
    asked["jobs"][0]["workload"] = str(folder / "mine.trace")
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(asked))
    return path


@pytest.fixture
def traced(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "mine.py").write_text(SCRIPT)
    made = called(
        *("trace", "script", tmp_path / "mine.py", "--compute", "1ms", tmp_path / "mine.trace")
    )
    assert made.exit_code == 0, made.output
    return tmp_path


def test_a_trace_can_be_measured(traced):
    from testbed.workload.formats import load

    made = called("trace", "script", traced / "mine.py", traced / "measured.trace")
    assert made.exit_code == 0, made.output
    stated, found = (load(str(traced / f"{name}.trace")) for name in ("mine", "measured"))
    assert [(each.name, each.elements) for each in found.tensors] == [
        (each.name, each.elements) for each in stated.tensors
    ]
    assert "measured" in found.provenance["contents"]
    assert set(found.ready[:2]) == {2, 3}  # the last layer's gradients come first
    assert found.forward_s > 0
    assert min(each.backward_s for each in found.tensors) >= 0
    assert found.backward_s > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--device", "nowhere"], "--device: found nowhere, wanted one that PyTorch can use"),
        (["--device", "meta"], "--device: found meta, wanted one that PyTorch can use"),
        (["--device", "cpu", "--compute", "1ms"], "found --device beside --compute"),
    ],
)
def test_a_trace_cannot_be_measured_everywhere(arguments, said, traced):
    found = called("trace", "script", traced / "mine.py", *arguments, traced / "not.trace")
    assert found.exit_code == 2
    assert said in found.output
    assert not (traced / "not.trace").exists()


@pytest.mark.parametrize(
    ("old", "new", "arguments", "said"),
    [
        ("return inputs, (", "return torch.ones(()), (", [], "whose first dimension is the sample"),
        ("Sequential(", "Identity(", [], "model() found no parameter that learns"),
        ("Linear(6, 8)", "LazyLinear(8)", [], "parameter 0.weight has no values"),
        ("import torch", "import torch; raise SystemExit(0)", [], "raised SystemExit: 0"),
        ("return torch.nn.Sequential(", "return named(", [], "columns, wanted 7"),
        ("", "", ["--compute", "99999999h"], "wanted microseconds"),
        ("", "", ["--batch", "0"], "0 is not in the range 1<=x"),
        ("", "", ["--batch", "-3"], "-3 is not in the range 1<=x"),
    ],
)
def test_no_trace_is_made_of_what_cannot_be_used(old, new, arguments, said, tmp_path):
    pytest.importorskip("torch")
    path, out = tmp_path / "mine.py", tmp_path / "mine.trace"
    path.write_text((SCRIPT.replace(old, new) if old else SCRIPT) + NAMED)
    found = called("trace", "script", path, "--compute", "1ms", *arguments, out)
    assert (found.exit_code, out.exists()) == (2, False), found.output
    assert said in found.output


def test_systems_learn_and_the_report_says_when(traced):
    sweep = {"jobs.0.system": ["ring", "ps", "osp", "asp"]}
    path = file(traced, emulation__repeats=1, sweep=sweep)
    asked = yaml.safe_load(path.read_text())
    asked["jobs"][0]["options"] = {}
    path.write_text(yaml.safe_dump(asked))
    first, _ = (testbed.run(path, traced / name) for name in "ab")
    assert set(first.results.error) == {""}
    learnt = [read_training(traced / name) for name in "ab"]
    curves = [each.drop(columns="run") for each in learnt]
    assert curves[0].equals(curves[1])
    own = dict(list(learnt[0].groupby("system")))
    assert own["ring"].weights.tolist() == own["ps"].weights.tolist()
    assert own["ring"].weights.tolist() != own["osp"].weights.tolist()
    assert own["ring"].value.iloc[-1] > 0.8
    assert own["asp"].staleness.max() > 0
    page = testbed.write_report(first.results.run.iloc[0])
    text = page.with_suffix(".md").read_text()
    assert "Time to a target" in text
    assert (page.parent / "figures/training.svg").is_file()


def emulated(folder, script=SCRIPT, **changes):
    path = file(folder, script, backend="emulate", emulation__dilation=400, **changes)
    asked = yaml.safe_load(path.read_text())
    asked["jobs"][0]["iterations"] = 6
    path.write_text(yaml.safe_dump(asked))
    return path


@pytest.mark.root
@pytest.mark.usefixtures("root_namespace")
def test_emulated_switches_teach_what_virtual_time_does(traced):
    path = emulated(traced, fabric__ina="all", emulation__repeats=1)
    rows = testbed.run(path, traced / "emulated").results
    assert (rows.error.tolist(), rows.verified.tolist()) == ([""], [True])
    assert "the parameters follow from the sums that arrived" in rows.notes[0]
    assert rows.switch_target[0] == "native"
    path.write_text(path.read_text().replace("backend: emulate", "backend: simulate"))
    testbed.run(path, traced / "simulated")
    over, beside = (read_training(traced / name) for name in ("emulated", "simulated"))
    assert over.weights.tolist() == beside.weights.tolist()
    assert over.value.tolist() == beside.value.tolist()
    assert over.time_s.is_monotonic_increasing


@pytest.mark.root
@pytest.mark.usefixtures("root_namespace")
def test_a_script_that_raises_in_a_rank_is_one_line_and_ends_its_cell_only(traced):
    raising = SCRIPT.replace("def loss(", "calls = 0\ndef loss(").replace(
        "    return torch.nn.functional",
        "    global calls\n    calls += 1\n    assert calls < 30, 'enough'\n"
        "    return torch.nn.functional",
    )
    path = emulated(traced, raising, emulation__repeats=1, sweep={"jobs.0.iterations": [6, 60]})
    rows = testbed.run(path, traced / "out").results.set_index("iterations")
    assert rows.error[6] == ""
    assert "raised AssertionError: enough" in rows.error[60]
    assert "\n" not in rows.error[60]
    assert "worker rank" in rows.error[60]


def test_without_a_barrier_a_job_does_not_learn_in_emulation(traced):
    from testbed.experiment.load import loads
    from testbed.placement.deployments import Deployments
    from testbed.training.errors import TrainingError
    from testbed.training.learning import prepare

    path = emulated(traced, jobs__0__system="asp")
    with pytest.raises(TrainingError, match=r"asp: found a job that learns without a barrier"):
        prepare([Deployments().of(loads(path.read_text()))])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Linear(6, 8)", "Linear(6, 8).double()", "0.weight is torch.float64"),
        ("randn(64,", "randn(3,", "found 3 inputs and 3 targets, wanted as many of both"),
        ("return (model", "return float('inf') * (model", "evaluate() found inf, wanted a finite"),
        (
            "return (model",
            "raise SystemExit(0)\n    (model",
            "mine.py:16: evaluate() raised SystemE",
        ),
        ("Linear(8, 2)", "Linear(8, 3)", "does not fit the workload mine"),
        ("return torch.nn.functional", "return torch.nn.fictional", "mine.py:12: loss() raised"),
    ],
)
def test_a_wrong_script_is_one_line(old, new, said, traced):
    found = called("train", file(traced, SCRIPT.replace(old, new)), "-o", traced / "out")
    assert found.exit_code == 1
    # What is found before the first cell runs is in the output; other reasons are in the cell's
    # row.
    rows = "".join(path.read_text() for path in traced.glob("out/*/*/results.csv"))
    assert said in found.output + rows
    assert "Traceback" not in found.output


@pytest.mark.parametrize("verb", ["train", "run"])
def test_a_device_that_cannot_be_used_is_an_error_of_the_file(verb, traced):
    path = file(traced)
    asked = yaml.safe_load(path.read_text())
    asked["jobs"][0]["training"]["device"] = "nowhere"
    path.write_text(yaml.safe_dump(asked))
    found = called(verb, path, "-o", traced / "out")
    assert found.exit_code == 2
    assert re.search(r"mine.yaml:\d+:\d+: found nowhere, wanted one that PyTorch", found.output)
    assert not (traced / "out").exists()
    chosen = called("train", path, path, "--device", "meta", "-o", traced / "out")
    assert chosen.exit_code == 2
    assert "--device: found meta, wanted one that PyTorch can use here" in chosen.output
    twice = called("train", path, path, "--device", "cpu", "-o", traced / "out")
    assert twice.exit_code == 0, twice.output


def test_an_option_does_not_contradict_a_sweep_of_devices(traced):
    path = file(traced, sweep={"jobs.0.training.device": ["cpu", "cuda"]})
    found = called("train", path, "--device", "cpu", "-o", traced / "out")
    assert found.exit_code == 2
    assert "found --device beside a sweep of devices, wanted one of them" in found.output


def test_without_pytorch_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    from testbed.workload.catalogue import load
    from testbed.workload.trace_file import save

    save(load("training/tabular-mlp"), tmp_path / "mine.trace")
    found = called("train", file(tmp_path), "-o", tmp_path / "out")
    assert found.exit_code == 1
    assert "training needs PyTorch" in found.output
    assert not (tmp_path / "out").exists()


def test_a_dry_run_trains_nothing(traced):
    found = called("train", file(traced), "--dry-run", "-o", traced / "out")
    assert found.exit_code == 0, found.output
    assert "1 cell" in found.output
    assert not (traced / "out").exists()


def test_a_file_without_training_is_refused(tmp_path):
    path = tmp_path / "plain.yaml"
    path.write_text(yaml.safe_dump(data(tmp_path, backend="simulate")))
    found = called("train", path)
    assert found.exit_code == 2
    assert "found no job with the key training" in found.output


def test_a_job_that_learns_is_checked(tmp_path):
    path = file(tmp_path, backend="emulate", emulation__scale="1/2")
    (tmp_path / "mine.py").unlink()
    (tmp_path / "mine.trace").touch()
    found = called("validate", path)
    assert found.exit_code == 2
    for said in ("found no script", "wanted 1 for jobs that learn"):
        assert said in found.output

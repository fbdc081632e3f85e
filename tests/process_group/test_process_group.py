"""torch.distributed over P4 switches: ranks on this machine, without root and without ports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from leftovers import assert_ended
from patience import PATIENCE_S, limited

ROOT = Path(__file__).parents[2]
RANKS = Path(__file__).with_name("ranks.py")

ATP_IN_TWO_RACKS = """\
schema_version: 1
name: two-racks
fabric: {kind: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 3, host_rate: 10Gbit}
jobs:
  - system: atp
    workload: resnet50
    workers: 3
    placement: spread
    gradients: real
    quantisation: factor
"""


def environment(**more: str) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if name != "INA_TESTBED_EXPERIMENT"}
    path = os.pathsep.join([str(ROOT), kept.get("PYTHONPATH", "")]).strip(":")
    return kept | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | more


def ranks(scenario: str, world: int, folder: Path, **more: str) -> str:
    """What the ranks print. Raises AssertionError unless all end without an error."""
    pytest.importorskip("torch")
    return printed([RANKS, scenario, world, folder], **more)


def printed(command, folder: Path | None = None, patience_s: float = 4 * PATIENCE_S, **more) -> str:
    """What Python prints, called with ``command`` in ``folder``. Raises AssertionError if it ends
    with an error."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env=environment(**more),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience_s,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def experiment(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text)
    return str(path)


def test_collectives_do_what_they_should_and_sums_are_those_of_fixed_point(tmp_path):
    ranks("collectives", 3, tmp_path)


def test_collectives_can_start_while_gloo_waits_for_the_gil(tmp_path):
    ranks("needs_the_gil", 1, tmp_path)


def test_an_unmodified_ddp_script_trains_to_the_same_bits_as_fixed_point_sums_made_locally(
    tmp_path,
):
    ranks("training", 2, tmp_path)


def test_a_callback_of_a_sum_can_wait_for_another_sum_as_powersgd_does(tmp_path):
    ranks("callbacks", 2, tmp_path)


def test_a_sum_in_a_destroyed_group_is_refused(tmp_path):
    ranks("destroyed", 2, tmp_path)


def test_an_experiment_says_which_switches_sum_and_how(tmp_path):
    ranks(
        "of_an_experiment",
        3,
        tmp_path,
        INA_TESTBED_EXPERIMENT=experiment(tmp_path, ATP_IN_TWO_RACKS),
    )


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("workers: 3", "workers: 4", "found 4 workers for a group of 2 ranks, wanted one for each"),
        ("workers: 3", "workers: many", "mine.yaml:7:14: jobs.0.workers: found 'many'"),
        ("system: atp", "system: ring", "found the system ring, wanted one that sums"),
        ("  - system", "  - {system: ring, workload: vgg16, workers: 2}\n  - system", "2 jobs"),
    ],
)
def test_what_does_not_fit_the_group_is_told_on_one_line(tmp_path, old, new, wanted):
    pytest.importorskip("torch")
    from testbed.torch.errors import GroupError
    from testbed.torch.wiring import wiring

    text = ATP_IN_TWO_RACKS.replace(old, new).replace("workers: 3", "workers: 2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INA_TESTBED_EXPERIMENT", experiment(tmp_path, text))
        with pytest.raises(GroupError, match=wanted) as raised:
            wiring(2)
    assert "\n" not in str(raised.value)


def test_every_rank_says_why_its_group_cannot_be_made(tmp_path):
    file = experiment(tmp_path, ATP_IN_TWO_RACKS)
    said = ranks("refuses", 2, tmp_path, INA_TESTBED_EXPERIMENT=file).splitlines()
    assert len(said) == 2
    assert all("found 3 workers for a group of 2 ranks" in line for line in said)


def test_rank_0_lives_until_the_others_know_why_there_is_no_group(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    from testbed.torch.errors import GroupError
    from testbed.torch.summing import Summing

    monkeypatch.setenv("INA_TESTBED_EXPERIMENT", experiment(tmp_path, ATP_IN_TWO_RACKS))
    store, said = torch.distributed.HashStore(), {}

    def meet(rank):
        try:
            Summing(store, rank, 2, PATIENCE_S, agree=None)
        except GroupError as error:
            said[rank] = str(error)

    first = Thread(target=meet, args=[0])
    first.start()
    store.wait(["wiring/0"])
    first.join(0.2)
    assert not said
    meet(1)
    first.join(PATIENCE_S)
    assert said.keys() == {0, 1} and said[0] == said[1]


@pytest.mark.parametrize("scenario", ["first_dies", "last_dies"])
def test_a_rank_that_dies_is_named_by_those_that_wait_for_it(tmp_path, scenario):
    pytest.importorskip("torch")
    printed = subprocess.run(
        [sys.executable, RANKS, scenario, "2", tmp_path],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=4 * PATIENCE_S,
    ).stdout
    victim = 0 if scenario == "first_dies" else 1
    assert printed == f"rank {victim} ended before the others had its sums\n"


def test_nothing_is_left_of_ranks_that_are_killed(tmp_path):
    pytest.importorskip("torch")
    parent = subprocess.Popen(
        [sys.executable, RANKS, "waits", "2", tmp_path],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with parent, limited(parent):
        assert parent.stdout is not None
        processes = [int(parent.stdout.readline()) for _ in range(2)]
        # Rank 1 waits for a sum, so it must end, too, when the rank with the switches ends.
        os.kill(processes[0], signal.SIGTERM)
        os.kill(processes[1], signal.SIGINT)
        parent.wait()
    assert_ended([*processes, parent.pid])


def test_without_pytorch_one_line_says_what_to_install(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    done = subprocess.run(
        [sys.executable, "-c", "import testbed.torch"],
        env=environment(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)])),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: testbed.torch needs PyTorch, which cannot be imported (no torch here);"
        " install it, for example with: pip install 'ina-testbed[train]'"
    )

"""Training with workers that are processes: each has the weights of a local fixed-point sum."""

from __future__ import annotations

from dataclasses import replace

import pytest
from learner import Points, deployed, learner
from patience import PATIENCE_S

from testbed.backends.emulation import backend as emulator
from testbed.deployment.tasks import tasks
from testbed.hosts.launcher import Launcher, RankFailed
from testbed.training.errors import TrainingError
from testbed.training.places import places
from testbed.training.synchronous import Synchronous

DILATION = 200


def travelling(job, points) -> Synchronous:
    return Synchronous(job.job, job.plan.workers, places(job), points, 1, evaluates=False)


def launched(folder, system, learnt=travelling):
    """The outcomes of the workers of a job without trees, as processes on this host."""
    (job,) = deployed(folder, system, fabric__ina="none").jobs
    job = replace(job, learnt=learnt(job, Points(job.trace.elements)))
    addresses = {host: f"127.0.0.{rank + 1}" for rank, host in enumerate(job.plan.hosts)}
    told = tasks(job, (), addresses, DILATION, 1)
    with Launcher(told, [None] * len(told)) as launcher:
        return launcher.run(timeout=PATIENCE_S)[: job.plan.workers]


def local(folder, system, **changes) -> str:
    sums, _ = learner(deployed(folder, system, **changes))
    sums.learn()
    return sums.weights


@pytest.mark.parametrize("system", ["ring", "ps", "osp"])
def test_every_worker_learns_what_a_local_sum_teaches(system, tmp_path):
    outcomes = launched(tmp_path, system)
    assert [each.wrong for each in outcomes] == [0] * 4
    assert {each.weights for each in outcomes} == {local(tmp_path, system, fabric__ina="none")}


class Failing(Synchronous):
    def fill(self, rank, iteration, out, start=0):
        if (rank, iteration) == (3, 2):
            raise TrainingError("mine.py:5: loss() raised KeyError: 'no such layer'")
        super().fill(rank, iteration, out, start)


def test_a_script_that_raises_in_one_rank_ends_the_run_with_its_line(tmp_path):
    """The other ranks lose it as a peer; they are not named."""

    def failing(job, points):
        return Failing(job.job, job.plan.workers, places(job), points, 1, evaluates=False)

    with pytest.raises(RankFailed, match=r"worker rank 3: mine.py:5: loss\(\) raised") as caught:
        launched(tmp_path, "ring", failing)
    assert "\n" not in str(caught.value)


def test_computing_for_longer_than_the_trace_says_makes_a_rank_late(tmp_path):
    def slow(job, points):
        made = travelling(job, points)
        made.computed_s = 1000.0
        return made

    assert all(each.late_s > 900 for each in launched(tmp_path, "ring", slow))


@pytest.mark.root
@pytest.mark.usefixtures("root_namespace")
@pytest.mark.parametrize("system", ["switchml", "atp"])
def test_real_gradients_are_summed_by_emulated_switches(system, tmp_path):
    deployment = deployed(tmp_path, system, "emulate", emulation__dilation=DILATION)
    (job,) = deployment.jobs
    job = replace(job, learnt=travelling(job, Points(job.trace.elements)))
    (measured,) = emulator.run(replace(deployment, jobs=(job,)), tmp_path).jobs
    assert measured.verified
    assert measured.switch_target == "native"
    assert measured.weights == {local(tmp_path, system)}

"""Training with an all-reduce in every iteration gives bit for bit what a local fixed-point sum
gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from learner import SYNCHRONOUS, Points, deployed, learner

from testbed.backends.packet import backend as packets
from testbed.training.errors import TrainingError
from testbed.training.places import places

FACTOR = 2.0**20


RATE, MOMENTUM = np.float32(0.2), np.float32(0.9)


def reference(elements, workers, iterations):
    """SGD over int32 sums, written out; no code of the testbed."""
    points = Points(elements)
    parameters = np.zeros(elements, np.float32)
    velocity = np.zeros(elements, np.float32)
    for iteration in range(iterations):
        total = np.zeros(elements, np.int32)
        for worker in range(workers):
            gradient = parameters - points.point(worker, iteration)
            total += np.rint(gradient.astype(np.float64) * FACTOR).astype(np.int32)
        mean = (total / FACTOR / workers).astype(np.float32)
        velocity = MOMENTUM * velocity + mean
        parameters = parameters - RATE * velocity
    return parameters


@pytest.mark.parametrize("system", SYNCHRONOUS)
def test_weights_are_those_of_a_local_fixed_point_sum(system, tmp_path):
    deployment = deployed(tmp_path, system)
    sums, points = learner(deployment)
    sums.learn()
    flat = places(deployment.jobs[0]).gather(sums.parameters)
    assert flat.tobytes() == reference(points.elements, 4, 4).tobytes()
    assert [point.iteration for point in sums.points] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("system", [*SYNCHRONOUS, "osp"])
@pytest.mark.parametrize("quantisation", ["fixed_point", "block_exponent"])
def test_weights_follow_from_the_sums_that_packets_brought(
    system, quantisation, tmp_path, monkeypatch
):
    """Packets go through the compiled P4 switches, if the system has any."""
    deployment = deployed(tmp_path, system, "packet", jobs__0__quantisation=quantisation)
    (job,) = deployment.jobs
    over, _ = learner(deployment)
    taken = []
    take = over.take

    def noted(rank, iteration, received):
        taken.append((rank, iteration))
        take(rank, iteration, received)

    monkeypatch.setattr(over, "take", noted)
    measured = packets.run(replace(deployment, jobs=(replace(job, learnt=over),)), tmp_path)
    assert measured.jobs[0].verified
    assert sorted(taken) == [(rank, iteration) for rank in range(4) for iteration in range(4)]
    local, _ = learner(deployment)
    local.learn()
    assert over.parameters.tobytes() == local.parameters.tobytes()
    assert over.points == local.points


def test_a_wrong_sum_is_noticed(tmp_path):
    sums, _ = learner(deployed(tmp_path, "ring"))
    right = np.empty(sums.elements, np.int32)
    sums.fill(0, 0, right)
    right = sums.total(0, 0, sums.elements).copy()
    assert sums.wrong(right, 0, 0) == 0
    right[3] += 1
    assert sums.wrong(right, 0, 0) == 1


def test_deferred_sums_arrive_one_iteration_later(tmp_path):
    deployment = deployed(tmp_path, "osp", correction="none")
    sums, points = learner(deployment)
    where = places(deployment.jobs[0])
    later = where.gather(where.deferred.astype(np.float32)).astype(bool)
    assert 0 < later.sum() < len(later)
    sums.learn()
    exact = reference(points.elements, 4, 4)
    flat = where.gather(sums.parameters)
    assert flat[~later].tobytes() == exact[~later].tobytes()
    # The first gradient of deferred parameters is used at the end of the second iteration.
    second = next(given for worker, iteration, given in points.given if iteration == 1)
    assert not second[later].any()
    assert second[~later].all()


def test_a_worker_steps_with_its_own_gradient_until_the_sum_arrives(tmp_path):
    deployment = deployed(tmp_path, "osp")
    sums, points = learner(deployment)
    where = places(deployment.jobs[0])
    later = where.gather(where.deferred.astype(np.float32)).astype(bool)
    sums.learn()
    for worker in range(4):
        (seen,) = (p for w, i, p in points.given if (w, i) == (worker, 1))
        own = np.float32(0.2) * points.point(worker, 0)
        assert seen[later] == pytest.approx(own[later])
    # The sum replaces the worker's own step. Without other terms, all workers' parameters would be
    # equal.
    kept = sums.parameters[where.deferred]
    assert np.isfinite(kept).all()


def test_what_leaves_the_range_of_int32_is_one_line(tmp_path):
    changes = {"jobs__0__quantisation": "factor", "jobs__0__factor": 1_000_000_000}
    sums, _ = learner(deployed(tmp_path, "ring", **changes))
    with pytest.raises(TrainingError, match=r"iteration 1: .* leaves the range of int32") as caught:
        sums.learn()
    assert "\n" not in str(caught.value)

"""Training without an all-reduce: parameters are as stale as the schedule makes them."""

from __future__ import annotations

import numpy as np
import pytest
from learner import Points, deployed

from testbed.backends.flow import backend as flow
from testbed.backends.packet import backend as packets
from testbed.training.asynchronous import Asynchronous
from testbed.training.places import places
from testbed.workload.iteration import UpdateTimes

BACKENDS = {"simulate": flow.run, "packet": packets.run}


def learnt(folder, system, backend="simulate", **changes):
    deployment = deployed(folder, system, backend, **changes)
    (job,) = deployment.jobs
    (measured,) = BACKENDS[backend](deployment, folder).jobs
    points = Points(job.trace.elements)
    servers = Asynchronous(job.job, job.plan.workers, places(job), points)
    servers.learn(measured.updates, min(own[0].start for own in measured.iterations))
    return servers, points, measured


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("system", ["asp", "ssp", "r2sp"])
def test_every_update_is_added_once(backend, system, tmp_path):
    servers, points, measured = learnt(tmp_path, system, backend)
    pieces = {(each.unit, each.chunk) for each in measured.updates}
    assert len(measured.updates) == len(pieces) * 4 * 4
    assert sorted((w, i) for w, i, _ in points.given) == [
        (w, i) for w in range(4) for i in range(4)
    ]
    times = [point.at_s for point in servers.points]
    assert times == sorted(times)
    assert servers.points[-1].iteration == 4


def test_a_worker_that_no_one_disturbs_makes_the_steps_of_sgd(tmp_path):
    """Its parameters lack no update; with two workers, its updates count half."""
    (job,) = deployed(tmp_path, "asp", jobs__0__workers=2).jobs
    points = Points(job.trace.elements)
    servers = Asynchronous(job.job, 2, places(job), points)
    pieces = [(unit, chunk) for unit in range(len(job.units)) for chunk in range(job.plan.chunks)]
    alone = [UpdateTimes(0.0, *piece, 0, (0,)) for _ in range(3) for piece in pieces]
    servers.learn(alone, 0.0)
    assert {point.staleness for point in servers.points} == {0}
    parameters, velocity = np.zeros(points.elements, np.float32), np.float32(0)
    for _, iteration, seen in points.given:
        assert seen.tobytes() == parameters.tobytes()
        gradient = parameters - points.point(0, iteration)
        sent = (np.rint(gradient.astype(np.float64) * 2.0**20) / 2.0**20).astype(np.float32)
        velocity = np.float32(0.9) * velocity + sent / np.float32(2)
        parameters = parameters - np.float32(0.2) * velocity


def test_a_bound_of_zero_is_a_barrier(tmp_path):
    """All workers then have the same parameters in each iteration."""
    _, points, _ = learnt(tmp_path, "ssp", jobs__0__options={"staleness": 0})
    for iteration in range(4):
        seen = {given.tobytes() for _, at, given in points.given if at == iteration}
        assert len(seen) == 1


def test_without_a_barrier_parameters_are_stale(tmp_path):
    servers, points, _ = learnt(tmp_path, "asp")
    assert servers.points[-1].staleness > 1
    seen = {given.tobytes() for _, at, given in points.given if at == 1}
    assert len(seen) == 4

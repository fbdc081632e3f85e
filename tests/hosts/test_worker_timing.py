"""The times at which a worker computes and sends: hosts, simulator and replay agree.

The hosts' worker is driven on a virtual clock, with a network that carries one unit at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

from testbed.backends.flow.agenda import Agenda
from testbed.backends.flow.scenario import Job
from testbed.backends.flow.training import Training
from testbed.hosts.task import Task
from testbed.hosts.transport import NEVER
from testbed.hosts.worker import Worker
from testbed.plan.program import Plan, SwitchAllReduce
from testbed.plan.trees import Tree
from testbed.plan.units import cut
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.workload import replay
from testbed.workload.buckets import after_compute, fill
from testbed.workload.catalogue import load
from testbed.workload.gradients import Gradients
from testbed.workload.iteration import IterationTimes

TRACE = load("resnet18").scaled(0.01)
PLAN = Plan(
    "alone",
    ("host",),
    1,
    1,
    ((SwitchAllReduce(0, 0),),),
    (Tree("switch", {"host": 0}, {"host": "switch"}, SWITCHML),),
)
ITERATIONS = 4


class Channel:
    """A worker's transport and its only tree: one unit at a time, at ``pace`` seconds per byte."""

    def __init__(self, pace: float) -> None:
        self.now = 100.0
        self.flows = {0: self}
        self._pace = pace
        self._under_way: list[tuple[float, int]] = []
        self._free = 0.0
        self._done = 0

    def push(self, operation, values, priority):
        begun = max(self._free, self.now)
        self._free = begun + values.nbytes * self._pace
        self._under_way.append((self._free, len(values)))
        return len(values)

    def done(self):
        while self._under_way and self._under_way[0][0] <= self.now:
            self._done += self._under_way.pop(0)[1]
        return self._done

    def next_end(self):
        return min((end for end, _ in self._under_way[:1]), default=NEVER)

    def floats(self):
        return np.zeros(0, np.uint64)

    def send(self, to, message):
        raise AssertionError("nothing is sent to ranks here")

    def finished(self):
        return self.flows

    def arrived(self):
        return ()

    def flush(self):
        pass

    def account(self, outcome):
        pass


def worked(task: Task, pace: float) -> list[IterationTimes]:
    channel = Channel(pace)
    worker = Worker(task, channel)
    steps = worker.steps(100.0)
    until = next(steps)
    with suppress(StopIteration):
        while True:
            channel.now = max(channel.now, min(until, channel.next_end()))
            until = steps.send(channel.now)
    outcome = worker.outcome()
    assert outcome.wrong == 0 and outcome.checked == ITERATIONS * task.layout.elements
    return outcome.iterations


def simulated(job: Job, pace: float) -> list[IterationTimes]:
    agenda = Agenda()
    training = Training(job, agenda)
    free = 0.0

    def begin(rank: int, number: int) -> None:
        nonlocal free
        size = 4 * job.units[number % len(job.units)].elements
        free = max(free, agenda.now) + size * pace
        agenda.at(free, training.finished, rank, number)

    training.synchroniser = SimpleNamespace(begin=begin)
    agenda.advance(0.0)
    while agenda.next < float("inf"):
        agenda.advance(agenda.next)
    assert training.is_over
    return training.iterations[0]


def times(iterations: list[IterationTimes], zero: float = 0.0) -> list[tuple[float, float, float]]:
    return [(each.start - zero, each.compute_end - zero, each.stalled) for each in iterations]


def stalls(
    each_ones: Iterable[Sequence[replay.Span]], zero: float = 0.0
) -> list[tuple[int, float, float]]:
    """The iteration, start and end of each stall, without stalls that rounding causes."""
    return [
        (number, span.start_s - zero, span.end_s - zero)
        for number, spans in enumerate(each_ones)
        for span in spans
        if span.end_s - span.start_s > 1e-9
    ]


@pytest.mark.parametrize("by_tensor", [False, True])
@pytest.mark.parametrize("priority", [False, True])
@pytest.mark.parametrize("deferred", [(), (0, 1, 30)])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("busy", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("paces", [(1.0,) * ITERATIONS, (1.0, 1.5, 1.0, 0.5)])
def test_endpoint_simulator_and_replay_agree(by_tensor, priority, deferred, overlap, busy, paces):
    buckets = fill(TRACE, 20_000, 2_000, deferred=deferred)
    if not overlap:
        buckets = after_compute(buckets, TRACE.compute_s)
    units = cut(buckets, PLAN, 1)
    pace = busy * TRACE.compute_s / sum(4 * unit.elements for unit in units)
    seconds = [4 * unit.elements * pace for unit in units]
    if priority:
        order = replay.sequence(
            [unit.ready_s for unit in units], seconds, replay.priorities(buckets)
        )
        units = tuple(units[index] for index in order)
    forward = replay.needs(TRACE, buckets) if by_tensor else ()
    task = Task(
        PLAN, 0, 0, ("here",), units, TRACE.compute_s,
        Gradients(1, 1, sum(unit.elements for unit in units)), paces,
        forward=forward,
    )  # fmt: skip
    ours = worked(task, pace)
    job = Job(PLAN, units, TRACE.compute_s, (task.paces,), forward=forward)
    theirs = simulated(job, pace)
    np.testing.assert_allclose(times(ours, 100), times(theirs), atol=1e-9)
    stood_still = stalls((each.stalls for each in ours), 100)
    np.testing.assert_allclose(stood_still, stalls(each.stalls for each in theirs), atol=1e-9)
    # The replay decides the order in each iteration; here it was fixed before the first one.
    if set(paces) == {1.0} and not (by_tensor and priority and deferred):
        again = replay.replay(TRACE, buckets, seconds, ITERATIONS, priority, not by_tensor)
        ends = [ran.compute_end_s for ran, _ in again]
        np.testing.assert_allclose([each.compute_end - 100 for each in ours], ends, atol=1e-9)
        if by_tensor:
            np.testing.assert_allclose(
                stood_still, stalls(ran.waits for ran, _ in again), atol=1e-9
            )

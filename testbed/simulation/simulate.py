"""The simulator: jobs on a fabric, from their start to their last sum."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.simulation.agenda import Agenda
from testbed.simulation.channels import Channels
from testbed.simulation.programs import Programs
from testbed.simulation.routes import Routes
from testbed.simulation.scenario import Assumptions, Job, Timeline
from testbed.simulation.stretches import Stretches
from testbed.simulation.training import Synchroniser, Training
from testbed.simulation.updates import Updates
from testbed.topology.fabric import Fabric


class Stalled(Exception):
    """A job's ranks wait for one another for ever: its plan is not one (see the checker)."""


def simulate(
    fabric: Fabric,
    jobs: Sequence[Job],
    assumptions: Assumptions = Assumptions(),  # noqa: B008
) -> Timeline:
    """Run ``jobs`` side by side on ``fabric``; the same jobs give the same timeline.

    Raises Stalled if a plan waits for ever.
    """
    agenda = Agenda()
    routes = Routes(fabric, assumptions)
    channels = Channels(routes.capacity, agenda, assumptions.resolution)
    trainings = []
    for number, job in enumerate(jobs):
        training = Training(job, agenda)
        training.synchroniser = _synchroniser(
            job, f"job {number}", training, routes, channels, agenda, assumptions
        )
        trainings.append(training)
    while True:
        agenda.advance(agenda.now)
        channels.settle()
        time = min(agenda.next, channels.next)
        if time == float("inf"):
            break
        channels.advance(time)
        agenda.advance(time)
    for number, training in enumerate(trainings):
        if not training.is_over:
            raise Stalled(f"job {number} ({jobs[number].plan.system}): its ranks wait for ever")
    carried = channels.carried()
    return Timeline(
        tuple(tuple(map(tuple, training.iterations)) for training in trainings),
        {
            ends: amount
            for ends, amount in zip(routes.ends, carried.tolist(), strict=False)
            if amount > 0
        },
        max(own[-1].end for training in trainings for own in training.iterations),
    )


def _synchroniser(
    job: Job,
    name: str,
    training: Training,
    routes: Routes,
    channels: Channels,
    agenda: Agenda,
    assumptions: Assumptions,
) -> Synchroniser:
    if job.plan.consistency is not None:
        return Updates(job, name, routes, channels, agenda, training.finished)
    if job.plan.stretches and assumptions.stretches:
        return Stretches(job, name, routes, channels, training.finished)
    return Programs(job, name, routes, channels, agenda, training.finished)

"""The simulator: jobs on a fabric, from start to last sum."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.backends.flow.agenda import Agenda
from testbed.backends.flow.channels import Channels
from testbed.backends.flow.programs import Programs
from testbed.backends.flow.routes import Links, Ways
from testbed.backends.flow.scenario import Assumptions, Job, Timeline
from testbed.backends.flow.stretches import Stretches
from testbed.backends.flow.training import Training
from testbed.backends.flow.updates import Updates
from testbed.backends.measurements import Stalled
from testbed.plan.stages import Stages
from testbed.topology.fabric import Fabric


def _is_closed(job: Job, assumptions: Assumptions) -> bool:
    """Whether all rounds are simulated as one, which is exact if all positions keep step."""
    programs = job.plan.programs
    return (
        isinstance(programs, Stages)
        and bool(programs.stages)
        and job.plan.workers >= assumptions.closed_from
        and (programs.in_step or programs.transfers > assumptions.most_transfers)
    )


def simulate(
    fabric: Fabric,
    jobs: Sequence[Job],
    assumptions: Assumptions = Assumptions(),  # noqa: B008
) -> Timeline:
    """Run ``jobs`` side by side on ``fabric``; the same jobs give the same timeline.

    Raises Stalled if a plan waits for ever.
    """
    agenda = Agenda()
    links = Links(fabric)
    channels = Channels(links.capacity, agenda)
    trainings = []
    for number, job in enumerate(jobs):
        training = Training(job, agenda)
        ways = Ways(fabric, links, assumptions, job, f"job {number}")
        if job.plan.consistency is not None:
            training.synchroniser = Updates(job, ways, channels, agenda, training.finished)
        elif _is_closed(job, assumptions):
            training.synchroniser = Stretches(job, links, ways, channels, training.finished)
        else:
            training.synchroniser = Programs(job, ways, channels, agenda, training.finished)
        trainings.append(training)
    agenda.advance(0.0)
    while True:
        channels.settle()
        time = min(agenda.next, channels.next)
        if time == float("inf"):
            break
        if time == channels.next:
            channels.complete(time)
        agenda.advance(time)
    for number, training in enumerate(trainings):
        if not training.is_over:
            raise Stalled(f"job {number} ({jobs[number].plan.system}): its ranks wait for ever")
    carried = channels.carried()
    return Timeline(
        tuple(tuple(map(tuple, training.iterations)) for training in trainings),
        {
            ends: amount
            for ends, amount in zip(links.ends, carried.tolist(), strict=True)
            if amount > 0 and ends[0] != ends[1]
        },
        max(own[-1].end for training in trainings for own in training.iterations),
        tuple(
            tuple(each.synchroniser.noted) if isinstance(each.synchroniser, Updates) else ()
            for each in trainings
        ),
    )

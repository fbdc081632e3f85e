"""A cell on the emulator: its jobs run in Mininet, and every sum is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from testbed.backends.emulation import targets
from testbed.backends.emulation.deployed import observe
from testbed.backends.emulation.run import Observation
from testbed.campaign.link_loads import loads
from testbed.campaign.measurement import measure
from testbed.deployment.deploy import DeployedJob
from testbed.experiment.schema import Experiment
from testbed.hosts.task import Outcome
from testbed.machine.verdict import Signs, explained, verdict
from testbed.results import Iteration, LinkLoad, Row
from testbed.switches.events import CONTRIBUTIONS, Event
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric
from testbed.topology.framing import superframe


class SumMismatch(Exception):
    """A worker received a sum that is not the true one."""


def run(
    experiment: Experiment,
    fabric: Fabric,
    jobs: Sequence[DeployedJob],
    rows: Sequence[Row],
    log_dir: Path,
    captures: Sequence[str] = (),
) -> tuple[list[Row], list[Iteration], list[LinkLoad]]:
    """Run ``jobs`` side by side; their ``rows`` filled in, and what workers and links did.

    SumMismatch, RankFailed or EmulationError if not.
    """
    observation = observe(experiment, fabric, jobs, log_dir, captures)
    target = targets.choose(experiment.emulation.target)
    filled: list[Row] = []
    iterations: list[Iteration] = []
    first = 0
    signs = _signs(observation, fabric, experiment.emulation.loss)
    for job, row in zip(jobs, rows, strict=True):
        outcomes = observation.outcomes[first : first + len(job.plan.hosts)]
        first += len(job.plan.hosts)
        row, own = _examine(job, row, outcomes, observation, signs)
        filled.append(replace(row, switch_target=target if job.plan.trees else ""))
        iterations += own
    return filled, iterations, _carried(rows[0], fabric, observation)


def _carried(row: Row, fabric: Fabric, observation: Observation) -> list[LinkLoad]:
    """What links carried while the ranks ran, synchronising their start included."""
    sent = observation.packets.sent_bytes
    carried = {
        ends: float(sent[Addressing.interface(*ends)])
        for link in fabric.links
        for ends in ((link.a, link.b), (link.b, link.a))
    }
    every = [each for outcome in observation.outcomes for each in outcome.iterations]
    seconds = max(each.end for each in every) - min(each.start for each in every)
    return loads(row, fabric, carried, seconds / row.dilation)


def _examine(
    job: DeployedJob,
    row: Row,
    outcomes: Sequence[Outcome],
    observation: Observation,
    signs: Signs,
) -> tuple[Row, list[Iteration]]:
    if wrong := {each.rank: each.wrong for each in outcomes if each.wrong}:
        ranks = ", ".join(f"rank {rank}: {count}" for rank, count in wrong.items())
        raise SumMismatch(f"job {job.number} ({job.system.name}): values that differ: {ranks}")
    workers = outcomes[: job.plan.workers]
    row, iterations = measure(
        row, job, [each.iterations for each in workers], 1 / (row.dilation * row.scale)
    )
    assert row.iteration_s is not None
    row = replace(
        row,
        retransmitted=sum(each.retransmitted for each in outcomes)
        + sum(observation.packets.tcp_resent[host] for host in set(job.plan.hosts)),
        collisions=max(each.collisions for each in outcomes),
        overflows=max(each.overflows for each in outcomes),
        **_counted(observation.events.get(job.number, Counter())),
        quantisation_error=outcomes[0].quantisation_error,
        verified=all(each.checked == values_to_check(job) for each in workers),
        verdict=verdict(
            replace(
                signs,
                late_s=max(each.late_s for each in outcomes),
                iteration_s=row.iteration_s * row.dilation * row.scale,
            )
        ),
    )
    return row, iterations


def _signs(observation: Observation, fabric: Fabric, loss: float) -> Signs:
    """What the run showed of the machine, whatever the job."""
    packets, outcomes = observation.packets, observation.outcomes
    places = {
        f"the {'sockets' if node in fabric.hosts else 'packet ring'} of {node}": count
        for node, count in packets.lost.items()
    }
    losses = packets.queue_drops + sum(each.collisions for each in outcomes)
    return Signs(
        idle=observation.machine.idle,
        waiting=observation.machine.waiting,
        lost={
            **places,
            "the processors' queues of received packets": sum(packets.crowded_out.values()),
        },
        ports=observation.ports,
        resent=sum(each.retransmitted for each in outcomes) + sum(packets.tcp_resent.values()),
        sent=packets.sent_packets,
        excused=inf
        if loss
        else explained(losses, len(outcomes), superframe(fabric), packets.sent_packets),
        dead=observation.dead,
    )


def _counted(events: Counter[Event]) -> dict[str, Any]:
    """Columns of a row that P4 switches counted."""
    return {
        "switch_packets": sum(events[event] for event in CONTRIBUTIONS),
        "switch_sums": events[Event.COMPLETED],
        "switch_duplicates": events[Event.DUPLICATE],
        "switch_collisions": events[Event.COLLISION],
        "switch_refused": events[Event.REFUSED],
    }


def values_to_check(job: DeployedJob) -> int:
    """Values that a worker must have compared by the end."""
    return (job.job.iterations + job.job.warmup) * job.gradient_bytes // 4

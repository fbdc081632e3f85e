"""Whether this machine was fast enough for the emulation of each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from testbed.backends.emulation.backend import Emulated
from testbed.backends.emulation.run import Observation
from testbed.backends.measurements import Measurements
from testbed.deployment.deploy import Deployment
from testbed.machine.verdict import VALID, Symptoms, explained, verdict
from testbed.topology.fabric import Fabric


def verdicts(
    deployment: Deployment, measured: Measurements, iteration_s: Sequence[float]
) -> list[str]:
    """For each job, "valid" or every reason why it is not.

    ``iteration_s`` has the mean length of each job's iterations, on the back end's clock. Simulated
    jobs are always valid: in virtual time no machine is too slow.
    """
    if not isinstance(measured, Emulated) or measured.observation is None:
        return [VALID] * len(measured.jobs)
    is_impaired = deployment.experiment.emulation.is_impaired
    same = symptoms(measured.observation, deployment.fabric, is_impaired)
    return [
        verdict(replace(same, late_s=job.late_s, iteration_s=mean))
        for job, mean in zip(measured.jobs, iteration_s, strict=True)
    ]


def symptoms(observation: Observation, fabric: Fabric, is_impaired: bool) -> Symptoms:
    """The run's symptoms that are the same for all jobs."""
    packets, outcomes = observation.packets, observation.outcomes
    places = {
        f"the {'sockets' if node in fabric.hosts else 'packet ring'} of {node}": count
        for node, count in packets.lost.items()
    }
    losses = packets.queue_drops + sum(each.collisions for each in outcomes)
    return Symptoms(
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
        if is_impaired
        else explained(losses, len(outcomes), observation.superframe, packets.sent_packets),
        dead=observation.dead,
    )

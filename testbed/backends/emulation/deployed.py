"""Deployed jobs on the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.backends.emulation import targets
from testbed.backends.emulation.run import Conditions, Observation, emulate
from testbed.deployment.deploy import DeployedJob
from testbed.deployment.memory import allocate
from testbed.deployment.tasks import tasks
from testbed.experiment.schema import Experiment
from testbed.topology.fabric import Fabric

PATIENCE = 10
"""How many times its expected duration a run may last before it is given up."""


def observe(
    experiment: Experiment,
    fabric: Fabric,
    jobs: Sequence[DeployedJob],
    log_dir: Path,
    captures: Sequence[str] = (),
) -> Observation:
    """Run ``jobs`` side by side. RankFailed or EmulationError if they do not end."""
    emulation = experiment.emulation
    allocations = allocate([(job.plan, job.window) for job in jobs], fabric.slots)
    target, program = (
        targets.choose(emulation.target),
        targets.program(emulation.p4_program, fabric.values),
    )
    log_dir.mkdir(parents=True, exist_ok=True)
    # Only a switch that sums for some job needs the P4 program; the others route in the kernel.
    summing = {switch for own in allocations for each in own for switch in each.tree.switches}
    return emulate(
        fabric,
        {switch: targets.make(target, log_dir / f"{switch}.log", program) for switch in summing},
        [each for own in allocations for each in own],
        lambda network: [
            task
            for job, own in zip(jobs, allocations, strict=True)
            for task in tasks(
                job,
                own,
                {node: network.addressing.ip(node) for node in fabric.nodes},
                emulation.dilation,
                emulation.seed,
            )
        ],
        Conditions(
            emulation.dilation,
            emulation.seed,
            {ends: via for job in jobs for ends, via in job.plan.pins.items()},
            emulation.loss,
            {link: log_dir / f"{link}.pcap" for link in captures},
        ),
        timeout=60 + PATIENCE * emulation.dilation * max(job.expected_end_s for job in jobs),
    )

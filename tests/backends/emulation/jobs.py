"""Runs an experiment's jobs on the emulated fabric, and can disturb them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leftovers import namespaces
from traffic import switches

from testbed.backends.emulation import targets
from testbed.backends.emulation.network import Network, Statistics
from testbed.deployment.deploy import DeployedJob, deploy
from testbed.deployment.memory import allocate
from testbed.deployment.tasks import tasks
from testbed.experiment.schema import Experiment
from testbed.hosts.launcher import Launcher
from testbed.hosts.task import RankOutcome
from testbed.placement.fabric import build_fabric
from testbed.protocols.allocation import Allocation


@dataclass
class Reduction:
    """The results of a run; ``inodes`` are the namespaces of its nodes."""

    jobs: Sequence[DeployedJob]
    allocations: list[Allocation]
    outcomes: list[RankOutcome]
    statistics: Statistics
    inodes: set[int]

    @property
    def workers(self) -> list[RankOutcome]:
        found, first = [], 0
        for job in self.jobs:
            found += self.outcomes[first : first + job.plan.workers]
            first += len(job.plan.hosts)
        return found

    def assert_exact(self) -> None:
        """Assert that every worker compared every value of every iteration, and that none
        differed."""
        for job in self.jobs:
            rounds = job.job.warmup + job.job.iterations
            for outcome in self.workers:
                assert outcome.wrong == 0, f"wrong sum: {outcome.wrong} values, rank {outcome.rank}"
                assert outcome.checked == rounds * job.gradient_bytes // 4 > 0


def reduce(
    experiment: Experiment,
    folder: Path,
    disturb: Callable[[Network], object] = lambda network: None,
    watch: Callable[[Network, Launcher], None] = lambda network, launcher: None,
    timeout: float = 60.0,
    made: Callable[..., Any] = switches,
) -> Reduction:
    """Run all jobs of ``experiment``; ``disturb`` is called once, ``watch`` every 0.2 s.

    ``made`` creates the switches that run the P4 program.
    """
    fabric = build_fabric(experiment)
    jobs = deploy(experiment, fabric).jobs
    allocations = allocate([(job.plan, job.window) for job in jobs], fabric.slots)
    every = [each for own in allocations for each in own]
    p4 = {switch for each in every for switch in each.tree.switches}
    emulation = experiment.emulation
    program = targets.program(emulation.p4_program, fabric.values)
    running = made(emulation.target, p4, folder, program)
    routes = {flow: route for job in jobs for flow, route in job.plan.routes.items()}
    with Network(fabric, emulation.dilation, running, every, emulation.seed, routes) as network:
        addresses = {node: network.addressing.ip(node) for node in fabric.nodes}
        told = [
            task
            for job, own in zip(jobs, allocations, strict=True)
            for task in tasks(job, own, addresses, emulation.dilation, emulation.seed)
        ]
        inodes = namespaces(network)
        disturb(network)
        hosts = [network.namespace(task.plan.hosts[task.rank]) for task in told]
        with Launcher(told, hosts) as launcher:
            outcomes = launcher.run(lambda: watch(network, launcher), timeout)
        return Reduction(jobs, every, outcomes, network.statistics(), inodes)

"""A group's network as plain data: its links, each host's role and each switch's entries.

Frames go directly to the next aggregating node. Switches that only forward are left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from testbed.deployment import experiments
from testbed.deployment.deploy import DeployedJob, deploy
from testbed.deployment.errors import DeploymentError
from testbed.deployment.memory import allocate
from testbed.deployment.tasks import role
from testbed.experiment.schema import Experiment
from testbed.located import Invalid
from testbed.placement.fabric import build_fabric
from testbed.plan.program import Plan, SwitchAllReduce
from testbed.protocols.allocation import Allocation
from testbed.protocols.roles import Member, Root
from testbed.switches.entries import SwitchEntries, derive
from testbed.topology.addressing import Addressing
from testbed.torch.errors import GroupError

EXPERIMENT = "INA_TESTBED_EXPERIMENT"
"""The environment variable that may name an experiment file."""

_DEFAULT = Path(__file__).with_name("default.yaml")


@dataclass(frozen=True)
class Address:
    ip: str
    mac: int


@dataclass(frozen=True)
class Wiring:
    """Everything that the ranks of a group must agree on.

    Attributes:
        workers: the hosts of the ranks, in their order.
        links: the sender and the receiver of each link, for both directions.
        roles: those of the workers and of servers in the tree.
        entries: those of the switches.
        values: int32 values in a packet.
        window: packets that a sender may have in flight.
        factor: the factor of all values; None for block exponents.
    """

    workers: tuple[str, ...]
    addresses: Mapping[str, Address]
    links: tuple[tuple[str, str], ...]
    roles: Mapping[str, Member | Root]
    entries: Mapping[str, SwitchEntries]
    values: int
    window: int
    factor: float | None

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(host for host in self.roles if host not in self.workers)


def wiring(world: int) -> Wiring:
    """The network of a group of ``world`` ranks. Raises GroupError, which says why there is
    none."""
    file = os.environ.get(EXPERIMENT)
    try:
        if file is None:
            text = Template(_DEFAULT.read_text()).substitute(workers=world, hosts=world + 1)
            experiment = experiments.reads(text)
        else:
            experiment = experiments.read(Path(file))
            _check(experiment, file, world)
        deployment = deploy(experiment, build_fabric(experiment))
    except (Invalid, DeploymentError, OSError) as error:
        raise GroupError(" ".join(str(error).split())) from error
    return _of(deployment.jobs[0], file or "the default experiment")


def _check(experiment: Experiment, file: str, world: int) -> None:
    if experiment.sweep is not None:
        raise GroupError(f"{file}: found a sweep, wanted one experiment for the group; remove it")
    if len(experiment.jobs) != 1:
        raise GroupError(f"{file}: found {len(experiment.jobs)} jobs, wanted one for the group")
    (job,) = experiment.jobs
    workers = job.workers if isinstance(job.workers, int) else len(job.workers)
    if workers != world:
        raise GroupError(
            f"{file}: found {workers} workers for a group of {world} ranks, wanted one for each;"
            f" write jobs.0.workers: {world}, or start {workers} ranks"
        )


def _of(job: DeployedJob, file: str) -> Wiring:
    plan, fabric, values = job.plan, job.fabric, job.fabric.values
    operations = {type(each) for program in plan.programs for each in program}
    if len(plan.trees) != 1 or plan.chunks != 1 or operations != {SwitchAllReduce}:
        raise GroupError(
            f"{file}: found the system {plan.system}, wanted one that sums all gradients on one"
            " tree through switches"
        )
    ((allocation,),) = allocate([(plan, job.window)], fabric.slots)
    if not allocation.tree.switches:
        raise GroupError(f"{file}: found no switch that sums; give fabric.ina switches")
    addressing = Addressing(fabric)
    switches = tuple(allocation.tree.switches)
    nodes = (*plan.hosts, *switches)
    ip = {node: addressing.ip(node) for node in nodes}
    found = (role(plan, r, allocation, ip, job.window, fabric) for r in plan.ranks)
    roles = {
        host: each
        for host, each in zip(plan.hosts, found, strict=True)
        if isinstance(each, Member | Root)
    }
    factor = {
        "block_exponent": None,
        "factor": float(job.job.factor),
        "fixed_point": 2.0**job.job.fixed_point,
    }[job.job.quantisation]
    return Wiring(
        workers=plan.hosts[: plan.workers],
        addresses={node: Address(ip[node], addressing.mac(node)) for node in nodes},
        links=_links(plan, allocation),
        roles=roles,
        entries={each: derive(each, fabric, addressing, [allocation]) for each in switches},
        values=values,
        window=job.window.fragments,
        factor=factor,
    )


def _links(plan: Plan, allocation: Allocation) -> tuple[tuple[str, str], ...]:
    """The links of the tree, and those over which a server answers a single worker."""
    ends = set(allocation.tree.parent.items())
    for server in plan.hosts[plan.workers :]:
        ends |= {(worker, server) for worker in plan.hosts[: plan.workers]}
    return tuple(sorted(ends | {(b, a) for a, b in ends}))

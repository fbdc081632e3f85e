"""Runs a case in virtual time, and judges how it ended.

Whatever fails for a while, every sum must be exact and every worker must end. If a host died or a
link stays down, the run may end with an error, within `PATIENCE_S` of simulated silence. After a
run without an error, no host may send any more, and no slot may be held by a fragment that will
never be complete. The packets must always add up: each packet that a link accepted was delivered,
lost or rejected, and the simulation has lost track of none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from testbed.backends.measurements import BrokenConnection, Stalled
from testbed.backends.outages import gone
from testbed.backends.packet import backend
from testbed.backends.packet.backend import Assembled, assembled
from testbed.backends.packet.simulation import SECOND
from testbed.backends.recording import NOTHING
from testbed.deployment.deploy import Deployment, deploy
from testbed.experiment.schema import Experiment
from testbed.hosts.layout import Layout
from testbed.hosts.task import RankOutcome
from testbed.placement.fabric import build_fabric
from testbed.protocols import protocol_of
from testbed.protocols.allocation import Allocation
from testbed.switches.native.embedded import EmbeddedSwitch
from testbed.switches.native.program import Program
from testbed.switches.occupancy import CONTRIBUTORS, OWNERS

PATIENCE_S = 3.0
"""Seconds of simulated silence after which ranks that wait for a dead host are given up."""
SILENCE_S = 20.0
"""The same if nothing is gone for good. A connection that has lost ten retransmissions in a row is
silent for 10 s."""
LIMIT_S = 100.0
"""Seconds of simulated time within which every run must end."""
_AFTER_S = 2.0
"""More seconds than any timeout of a host: a rank that still sends after that would send for
ever."""


NO_WORLD = "no world"
"""How the error begins if no experiment could be deployed."""


@dataclass(frozen=True)
class Verdict:
    """How a run ended.

    ``failure``: the condition that did not hold; empty if all did. ``error``: the error with which
    a run ended. ``hops``: the packets that links accepted. ``seconds``: simulated time.
    """

    failure: str
    error: str
    hops: int
    seconds: float

    @property
    def kind(self) -> str:
        """The kind of failure; a shrunk case must fail with the same one as the whole case."""
        return self.failure.partition(":")[0]


class Bench:
    """Switches that are loaded once, and used by one run after another."""

    def __init__(self) -> None:
        self._made: dict[Path, list[EmbeddedSwitch]] = {}
        self._used = 0

    def switch(self, program: Program, built: Path, seed: int) -> EmbeddedSwitch:
        """A switch without any entries or state."""
        made = self._made.setdefault(built, [])
        if self._used == len(made):
            made.append(EmbeddedSwitch(program, built, seed))
        switch = made[self._used]
        self._used += 1
        switch.restart()
        return switch

    def free(self) -> None:
        """Note that all switches may be used again."""
        self._used = 0


def deployed(case: Mapping[str, Any]) -> Deployment:
    """A case's deployment. Raises as `deploy` does."""
    experiment = Experiment.model_validate(case)
    return deploy(experiment, build_fabric(experiment))


def judge(deployment: Deployment, bench: Bench) -> Verdict:
    """Run a deployment, and judge it."""
    bench.free()
    with assembled(deployment, NOTHING, bench.switch) as made:
        failure, error = _run(deployment, made)
        simulation = made.simulation
        return Verdict(failure, error, simulation.hops, simulation.now / SECOND)


def _run(deployment: Deployment, made: Assembled) -> tuple[str, str]:
    lasting = _lasts(deployment)
    silence, limit = (
        round(each * SECOND) for each in (PATIENCE_S if lasting else SILENCE_S, LIMIT_S)
    )
    error = ""
    try:
        made.loop.run(silence, limit)
    except (Stalled, BrokenConnection) as raised:
        emulation = deployment.experiment.emulation
        lost = gone(emulation.faults, made.simulation.now / SECOND / float(emulation.scale))
        error = f"{type(raised).__name__}: {lost}{raised}"
        if not lasting or made.simulation.now >= limit:
            return error, error
    outcomes = made.loop.outcomes()
    failure = _wrong(deployment, outcomes, partial=bool(error))
    if not failure and not error and not lasting:
        failure = _after(deployment, made)
    return failure or _uncounted(deployment, made), error


def _lasts(deployment: Deployment) -> bool:
    """Whether something is gone for good: a host, a link, or values in a switch's memory that no
    one sends again."""
    trees = [tree for job in deployment.jobs for tree in job.plan.trees]
    fragile = {
        switch for tree in trees for switch in tree.switches
        if not protocol_of(tree).survives_restart
    }  # fmt: skip
    return any(
        fault.switch in fragile or fault.lasts for fault in deployment.experiment.emulation.faults
    )


def _wrong(deployment: Deployment, outcomes: list[list[RankOutcome]], partial: bool) -> str:
    for job, own in zip(deployment.jobs, outcomes, strict=True):
        # A parameter server compares its parameters when all workers have ended.
        ended = own[: job.plan.workers] if partial else own
        wrong = {each.rank: each.wrong for each in ended if each.wrong}
        if wrong:
            return f"wrong sum: job {job.number}, values that differ by rank: {wrong}"
        carried = backend.carried(deployment)
        layout = Layout(job.plan, job.units, job.fabric.values, carried)
        iterations = job.job.iterations + job.job.warmup
        if not partial and any(
            each.checked != iterations * layout.compared(each.rank)
            for each in own[: job.plan.workers]
        ):
            return f"unchecked: job {job.number} did not compare every value"
    return ""


def _after(deployment: Deployment, made: Assembled) -> str:
    """What is wrong when all workers have ended and the network has become silent."""
    loop, simulation = made.loop, made.simulation
    loop.drain(simulation.now + round(_AFTER_S * SECOND))
    before = simulation.hops
    loop.drain(simulation.now + round(_AFTER_S * SECOND))
    if simulation.hops != before:
        return f"still sending: {simulation.hops - before} packets, {_AFTER_S:g} s after the end"
    impaired = _impaired(deployment, made)
    for name, switch in made.switches.items():
        joined = {
            each.number: each
            for own in made.allocations
            for each in own
            if name in each.tree.switches
        }
        if failure := _slots(name, switch, joined, impaired):
            return failure
    return ""


def _slots(
    name: str, switch: EmbeddedSwitch, joined: Mapping[int, Allocation], impaired: bool
) -> str:
    """The first slot that holds what it must not, as text. Shared slots are free at the end, unless
    packets were lost, duplicated or late: a late packet may take a slot for good. A pool's slots
    keep the last sum."""
    owners, contributors = switch.register(OWNERS), switch.register(CONTRIBUTORS)
    (taken,) = np.nonzero(contributors)
    for slot in taken.tolist():
        number, bits = int(owners[slot]) >> 32, int(contributors[slot])
        found = joined.get(number)
        if found is None:
            return f"slot of a stranger: {name} slot {slot} belongs to tree {number}"
        if not found.first <= slot < found.first + found.slots:
            return f"slot of others: {name} slot {slot} holds a fragment of tree {number}"
        members = sum(found.tree.bits(child) for child in found.tree.children(name))
        if bits & ~members:
            return f"bits of a stranger: {name} slot {slot} has {bits:#x} of {members:#x}"
        if not impaired and (protocol_of(found.tree).shares_slots or bits != members):
            return f"leaked slot: {name} slot {slot} still has {bits:#x} of {members:#x}"
    return ""


def _impaired(deployment: Deployment, made: Assembled) -> bool:
    """Whether anything but the jobs themselves decided when packets arrived."""
    if any(fault.wrap is None for fault in deployment.experiment.emulation.faults):
        return True
    every = [counters for _, counters in backend.ports(made.simulation, deployment.fabric)]
    lost = any(each.lost or each.dropped or each.corrupted or each.duplicated for each in every)
    return lost or any(each.retransmitted for own in made.loop.outcomes() for each in own)


def _uncounted(deployment: Deployment, made: Assembled) -> str:
    """How the packets do not add up, as text; empty if they do."""
    for (a, b), port, held in backend.held(made.simulation, deployment.fabric):
        sent, ended = (
            port.sent_frames,
            port.lost + port.corrupted + port.delivered - port.duplicated,
        )
        if sent != ended + held:
            return (
                f"packets do not add up: {a}-{b} took {sent}, of which {ended} ended, {held} wait"
            )
    if made.simulation.unaccounted:
        return f"packets lost track of: {made.simulation.unaccounted}"
    return ""

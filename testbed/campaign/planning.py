"""The cells of an experiment before they run: their deployments, and the time that they should
take."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from testbed import protocols, systems, wire
from testbed.campaign import losing, replanning
from testbed.deployment.deploy import DeployedJob, Deployment
from testbed.deployment.digest import digest
from testbed.deployment.errors import DeploymentError, Undeployable
from testbed.deployment.memory import allocate
from testbed.deployment.tables import routes
from testbed.deployment.users_code import users_systems
from testbed.deployment.users_protocols import is_in
from testbed.experiment.cells import Cell
from testbed.experiment.schema import Emulation
from testbed.machine import calibration, capacity
from testbed.placement.deployments import Deployments
from testbed.placement.fabric import what_matters
from testbed.plan import chain
from testbed.plan.cost import busiest_s, link_loads
from testbed.protocols import TreeProtocol, protocol_of
from testbed.switches.compile import COMPILER, PROGRAMS, SOURCES, CompileError, check_program
from testbed.topology.paths import diverted

SIMULATION_S = 1.0
"""A rough guess of the seconds that a simulated cell takes."""
_PACKETS_S, _HOP_S = 0.1, 3e-7
"""A rough guess of the seconds that a cell in packets takes, and of those that it takes for each
packet on each link."""


_LARGE_ENOUGH = 1 / 8
"""With loss, times at a smaller scale are mostly timeouts."""
_MOST_OF_STEPS = 0.1
"""The share of a job's time that latencies which its scale does not shrink may add unmentioned."""
_LONG_FAULT = 100
"""A fault that lasts this many times as long as the jobs is mentioned."""
FLOWS = 16384
"""Most flows with a path of their own in the table of a switch that sums; see `p4/headers.p4`."""


@dataclass(frozen=True)
class Planned:
    """A cell that is still to be run: its deployment, its expected seconds, a ``warning`` if it
    will probably fail or be invalid, and a ``refusal`` if this machine is clearly too slow."""

    cell: Cell
    deployment: Deployment
    seconds: float
    warning: str | None = None
    refusal: str | None = None


class NoCell(ValueError):
    """There is no such cell, or none to explain; the message says what was found and wanted."""


def of_ids(cells: Sequence[Cell], ids: Sequence[str]) -> list[Cell]:
    """The cells whose ids begin with one of ``ids``. Raises NoCell if no cell's id begins with one
    of these."""
    for wanted in ids:
        if not wanted or not any(cell.id.startswith(wanted) for cell in cells):
            raise NoCell(found_no(wanted, (cell.id for cell in cells)))
    return [cell for cell in cells if cell.id.startswith(tuple(ids))]


def found_no(wanted: str, ids: Iterable[str]) -> str:
    """The message that no cell's id begins with ``wanted``, and which ids there are."""
    known = list(dict.fromkeys(ids))
    some = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
    return f"--cell: found {wanted!r}, wanted one of {some}; see run --dry-run"


def plan(cells: Sequence[Cell], deployments: Deployments | None = None) -> list[Planned]:
    """Plan each of ``cells``. Raises Undeployable, which says which cells cannot be set up, and
    why.

    Each is deployed once, or not at all if ``deployments`` already has it.
    """
    deployments = deployments or Deployments()
    known: dict[tuple[str, str], Planned] = {}
    problems: dict[str, DeploymentError] = {}
    drawn = [(cell.id, what_matters(cell.experiment)) for cell in cells]
    for cell, key in zip(cells, drawn, strict=True):
        if key not in known:
            try:
                known[key] = _expect(cell, deployments.of(cell.experiment))
            except DeploymentError as error:
                located = DeploymentError(f"{title(cell)}: {error}", error.place)
                problems.setdefault(str(error), located)
    problems |= _not_the_same_again([*known.values()])
    if problems:
        raise Undeployable([*problems.values()])
    return [
        replace(known[key], cell=cell, deployment=deployments.of(cell.experiment))
        for cell, key in zip(cells, drawn, strict=True)
    ]


def _expect(cell: Cell, deployment: Deployment) -> Planned:
    check_slots(deployment)
    if cell.experiment.backend != "simulate":
        _check_program(cell.experiment.emulation.p4_program)
        check_trees(deployment)
        _check_own_protocols(deployment)
    if cell.experiment.backend == "simulate":  # which has no loss
        return Planned(cell, deployment, SIMULATION_S)
    lossy, known = losing.warning(deployment), calibration.load()
    needed = capacity.demand(deployment, known)
    if cell.experiment.backend == "packet":
        emulation = cell.experiment.emulation
        warning = (
            lossy
            or _long_timeouts(emulation)
            or _long_steps(deployment)
            or _long_faults(deployment)
        )
        return Planned(cell, deployment, _in_packets_s(deployment, needed), warning)
    dilation = cell.experiment.emulation.dilation
    seconds = max(job.expected_end_s for job in deployment.jobs) * dilation
    return Planned(
        cell,
        deployment,
        seconds + known.bring_up_s * len(deployment.fabric.nodes),
        lossy or _unlimited(deployment) or capacity.warning(needed, dilation),
        capacity.refusal(needed, dilation),
    )


def _unlimited(deployment: Deployment) -> str | None:
    """A warning that a switch should take longer than all links, but is not slowed in emulation."""
    fabric = deployment.fabric
    for job in deployment.jobs if fabric.capacity else ():
        loads = link_loads(job.plan, fabric)
        on_links = {(a, b): load for (a, b), load in loads.items() if a != b}
        if busiest_s(on_links, fabric) < busiest_s(loads, fabric):
            return (
                f"fabric.capacity: found one that limits {job.system.title}: the emulator does not"
                " slow switches, so a run is faster than the closed form; write backend: packet"
            )
    return None


def _long_timeouts(emulation: Emulation) -> str | None:
    """A warning that timeouts take most of the time of a small job whose packets are lost."""
    if not emulation.loss or emulation.timers != "real" or emulation.scale > _LARGE_ENOUGH:
        return None
    times = f"{1 / emulation.scale:g}"
    return (
        f"emulation.scale: found 1/{times} with loss: hosts' timeouts do not shrink with a job, so"
        f" each takes {times} times as much of it; raise emulation.scale to trust these times"
    )


def _long_steps(deployment: Deployment) -> str | None:
    """A warning that packets' own time in each dependent step is much of a small job's time."""
    emulation, fabric = deployment.experiment.emulation, deployment.fabric
    if emulation.scale == 1:
        return None
    for job in deployment.jobs:
        (hop, *_), steps = fabric.neighbours(job.plan.hosts[0]), chain.length(job.plan)
        packet_s = fabric.mtu * 8 / fabric.link(job.plan.hosts[0], hop).rate
        added_s = job.job.iterations * steps * packet_s
        if added_s > _MOST_OF_STEPS * job.expected_jct_s:
            share = added_s / job.expected_jct_s
            return (
                f"emulation.scale: found 1/{1 / emulation.scale:g}: the latency of {steps}"
                f" dependent steps does not shrink with the job, and adds at least {share:.0%} to"
                f" the time of {job.system.title}; write scale: 1, or a larger one"
            )
    return None


def _long_faults(deployment: Deployment) -> str | None:
    """A warning that a fault lasts much longer than the jobs, whose hosts retransmit meanwhile."""
    emulation = deployment.experiment.emulation
    jobs_s = max(job.expected_end_s for job in deployment.jobs) / float(emulation.scale)
    for index, fault in enumerate(emulation.faults):
        lasts_s = 0.0 if fault.until is None or fault.impairs else fault.until - fault.at
        if lasts_s > _LONG_FAULT * jobs_s:
            return (
                f"emulation.faults.{index}.until: found a fault of {lasts_s:.3g} s, and jobs that"
                f" take about {jobs_s:.3g} s: hosts retransmit all the while, so the run may take"
                " long; end it sooner"
            )
    return None


def _in_packets_s(deployment: Deployment, needed: capacity.Demand) -> float:
    """The seconds that a cell in packets should take. Most of them go into the packets on its
    links."""
    sent = sum(
        load.iteration_bytes * (job.job.iterations + job.job.warmup)
        for load, job in zip(needed.loads, deployment.jobs, strict=True)
    )
    return _PACKETS_S + _HOP_S * sent / (4 * deployment.fabric.values)


@cache
def _check_program(program: str | None) -> None:
    """Raise DeploymentError if a user's P4 program cannot be used. P4 source is compiled if p4c is
    installed."""
    if program is not None and not (program.endswith(".p4") and shutil.which(COMPILER) is None):
        check_compiles(program)


def check_compiles(program: str) -> None:
    """Raise DeploymentError if a user's P4 program does not compile, or if its compiler is not
    installed."""
    try:
        check_program(program)
    except CompileError as error:
        first = str(error).splitlines()[0]  # p4c shows the source below
        raise DeploymentError(first, ("emulation", "p4_program")) from error


def own_program(deployment: Deployment) -> Path | None:
    """The P4 file of a user's own protocol that a job's trees use; None if all are the testbed's.
    The testbed's own program does not know it."""
    own = (own_control(protocol_of(tree)) for job in deployment.jobs for tree in job.plan.trees)
    return next(filter(None, own), None)


def own_control(protocol: TreeProtocol) -> Path | None:
    """The P4 file of a protocol outside the package; None for the testbed's own."""
    home = Path(str(import_module(f"{protocols.__name__}.{protocol.name}").__file__)).parent
    return None if home.parent == Path(protocols.__file__).parent else home / protocol.control


def _check_own_protocols(deployment: Deployment) -> None:
    program, own = deployment.experiment.emulation.p4_program, own_program(deployment)
    if own and (program is None or _is_the_testbeds(Path(program))):
        raise DeploymentError(
            f"emulation.p4_program: found {program or 'none'}, wanted {own} or what p4c made of it:"
            " the testbed's program does not have this protocol",
            ("emulation", *(["p4_program"] if program else [])),
        )
    if not own or program is None:
        return
    found = (protocol_of(tree) for job in deployment.jobs for tree in job.plan.trees)
    for protocol in {each.name: each for each in found}.values():
        if (control := own_control(protocol)) and not is_in(Path(program), protocol):
            raise DeploymentError(
                f"emulation.p4_program: found {program} without the protocol {protocol.name},"
                f" number {protocol.number}, wanted {control} or what p4c made of it",
                ("emulation", "p4_program"),
            )


def _is_the_testbeds(program: Path) -> bool:
    """Whether it is the testbed's own program or a copy of it, compiled or not."""
    own = [*PROGRAMS.values(), SOURCES / "ina.p4"]
    return program.is_file() and program.read_bytes() in [each.read_bytes() for each in own]


def _not_the_same_again(planned: Sequence[Planned]) -> dict[str, DeploymentError]:
    """An error for each user's system that makes another plan for the same job elsewhere, or in
    another repeat that shares it, by its name."""
    users = users_systems()
    own = [
        each for each in planned if any(job.system.name in users for job in each.deployment.jobs)
    ]
    again = replanning.elsewhere([each.cell.experiment for each in own]) if own else []
    found: dict[str, DeploymentError] = {}
    for at, each in enumerate(own):
        for job in each.deployment.jobs:
            name, here = job.system.name, digest(job)
            if name in users and any(other[at][job.number] != here for other in again):
                found[name] = DeploymentError(
                    f"{title(each.cell)}: jobs.{job.number}.system: {name} made two plans for the"
                    " same job, wanted one; sort sets, draw random numbers with the job's seed, as"
                    " in random.Random(job.seed), and if it draws any, let draws_anew of its"
                    f" options return True, in {systems.home(name)}",
                    ("jobs", job.number, "system"),
                )
    return found


def check_slots(deployment: Deployment) -> None:
    """Raise DeploymentError if switches have too few slots for all jobs together."""
    jobs = [(job.plan, job.window) for job in deployment.jobs]
    try:
        allocate(jobs, deployment.fabric.slots)
    except DeploymentError as error:
        raise DeploymentError(str(error), error.place or ("fabric", "slots")) from error


def check_trees(deployment: Deployment) -> None:
    """Raise DeploymentError if packets cannot name all contributors, or if a switch has no room for
    a tree. The simulator has no packets."""
    for job in deployment.jobs:
        _check_packets(job)
    _check_flows(deployment)


def _check_packets(job: DeployedJob) -> None:
    at = f"jobs.{job.number}"
    for tree in job.plan.trees:
        switch = max(tree.switches, key=lambda name: len(tree.children(name)), default=tree.root)
        found = len(tree.children(switch)) if tree.switches else 0
        if found > wire.BITMAP:
            raise DeploymentError(
                f"{at}.workers: found {found} children of {switch} on a tree of {job.system.name},"
                f" wanted at most {wire.BITMAP}, one for each bit of its packets; let more switches"
                " below it aggregate, take fewer workers, or write backend: simulate",
                ("jobs", job.number, "workers"),
            )
        if max(tree.participants) >= wire.MAX_RANKS + (tree.root_rank is not None):
            raise DeploymentError(
                f"{at}.workers: found {job.plan.workers}, wanted at most {wire.MAX_RANKS} on trees;"
                " take fewer, or write backend: simulate",
                ("jobs", job.number, "workers"),
            )


def _check_flows(deployment: Deployment) -> None:
    routed = routes(deployment)
    for switch in sorted(deployment.fabric.ina) if len(routed) > FLOWS else ():
        found = len(diverted(deployment.fabric, routed, switch))
        if found > FLOWS:
            raise DeploymentError(
                f"found {found} flows with a path of their own at {switch}, wanted at most {FLOWS},"
                " the entries of its table; write fabric.routing: ecmp, take fewer workers or"
                " servers, or write backend: simulate",
                ("fabric", "routing"),
            )


def warned(planned: Iterable[Planned]) -> list[str]:
    """The warnings of all cells, each once."""
    return list(dict.fromkeys(each.warning for each in planned if each.warning))


def refuse(planned: Sequence[Planned]) -> None:
    """Raise DeploymentError if this machine is clearly too slow for any of the cells."""
    beyond = dict.fromkeys(
        f"{title(each.cell)}: {each.refusal}" for each in planned if each.refusal
    )
    if beyond:
        raise DeploymentError("\n".join(beyond))


def title(cell: Cell) -> str:
    jobs = " + ".join(f"{job.system} {job.workload}" for job in cell.experiment.jobs)
    others = [
        f"{path.rpartition('.')[2]}={_brief(value)}"
        for path, value in cell.settings.items()
        if not path.endswith((".system", ".workload"))
    ]
    return " ".join([jobs, *others, f"repeat {cell.repeat + 1}"])


def _brief(value: Any) -> str:
    """``fat-tree(k=4,ina=all)`` for a whole fabric."""
    if isinstance(value, Mapping):
        inner = ",".join(f"{key}={_brief(each)}" for key, each in value.items() if key != "kind")
        return f"{value.get('kind', '')}({inner})"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_brief, value))}]"
    return str(value)

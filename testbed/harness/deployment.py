"""An experiment becomes a fabric, and each of its jobs a plan with its timing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from testbed import model
from testbed.dataplane import wire
from testbed.dataplane.entries import Allocation
from testbed.endpoint.root import hashed_slots
from testbed.endpoint.task import Aggregation, Task, Unit, cut
from testbed.experiment import fabrics
from testbed.experiment.schema import Experiment, Job
from testbed.plan.checker import check
from testbed.plan.program import Plan
from testbed.plan.trees import Style
from testbed.systems import Assignment, System, registry
from testbed.topology import builders, placement
from testbed.topology.fabric import Fabric
from testbed.workload.buckets import after_compute, fill
from testbed.workload.gradients import Gradients
from testbed.workload.trace import Trace, load

LARGEST_WINDOW = 256
INA_RATE_PER_CORE, TCP_RATE_PER_CORE = 60e6, 200e6
"""Bit/s of all workers' links together that one core carried with a third of its time to spare."""

LONGEST_TICK_S = 0.004
"""Longer ticks would show in the emulated times, for they end every transfer."""


class DeploymentError(Exception):
    """What the experiment asks for cannot be set up; the message says why and what would do."""


@dataclass(frozen=True)
class DeployedJob:
    """A job placed on the fabric. Units and times are scaled, but not dilated."""

    number: int
    job: Job
    system: System
    trace: Trace
    plan: Plan
    units: tuple[Unit, ...]
    compute_s: float
    window: int
    tick_s: float
    expected: model.Expected

    @property
    def slots(self) -> int:
        """Slots that a tree of its own needs: two versions of the window."""
        return 2 * self.window

    @property
    def gradient_bytes(self) -> int:
        """Bytes that one iteration synchronises, scaled, padding included."""
        return 4 * sum(unit.elements for unit in self.units)

    def tasks(
        self, addresses: dict[str, str], slots: int, dilation: float, seed: int
    ) -> list[Task]:
        """One task a rank, on the emulator's clock. ``addresses`` maps fabric nodes to IP."""
        gradients = Gradients(seed + self.number, self.plan.workers, self.gradient_bytes // 4)
        gradients.expected_total()
        for rank in range(self.plan.workers):
            gradients.base(rank)
        units = tuple(
            Unit(unit.bucket, unit.offset, unit.elements, unit.ready_s * dilation)
            for unit in self.units
        )
        return [
            Task(
                plan=self.plan,
                rank=rank,
                job=self.number,
                addresses=tuple(addresses[host] for host in self.plan.hosts),
                units=units,
                compute_s=self.compute_s * dilation,
                iterations=self.job.warmup + self.job.iterations,
                gradients=gradients,
                aggregation=self._aggregation(rank, addresses, slots, dilation),
            )
            for rank in self.plan.ranks
        ]

    def _aggregation(
        self, rank: int, addresses: Mapping[str, str], slots: int, dilation: float
    ) -> Aggregation | None:
        if not self.plan.trees:
            return None
        (tree,) = self.plan.trees
        host = self.plan.hosts[rank]
        return Aggregation(
            job=self.number,
            slots=hashed_slots(self.number, self.window, slots),
            parent=addresses[tree.parent[host]] if host in tree.parent else "",
            children=tuple(addresses[child] for child in tree.children(tree.root)),
            tick_s=min(self.tick_s * dilation, LONGEST_TICK_S),
            burst=max(1, self.window // 8),
        )


def build_fabric(experiment: Experiment) -> Fabric:
    """The fabric of a resolved experiment, with its INA ToRs chosen. DeploymentError if not."""
    wanted = experiment.fabric
    if wanted.slots > wire.SLOTS:
        raise DeploymentError(
            f"fabric.slots: found {wanted.slots}, wanted at most {wire.SLOTS}, the compiled "
            "program's memory; lower it, or compile p4/ with a larger SLOTS"
        )
    fabric = _bare(wanted)
    capacity = wanted.capacity
    if capacity is None or isinstance(capacity, float):
        capacity = dict.fromkeys(fabric.switches, capacity) if capacity else {}
    fabric = replace(
        fabric, slots=wanted.slots, capacity=capacity, step_latency=wanted.step_latency
    )
    if isinstance(wanted.ina, tuple):
        return fabric.with_ina(wanted.ina)
    share = {"all": 1.0, "none": 0.0}[wanted.ina] if isinstance(wanted.ina, str) else wanted.ina
    seed = experiment.emulation.seed
    return fabric.with_ina(
        placement.ina_switches(fabric, share, wanted.ina_policy, wanted.ina_tier, seed)
    )


def _bare(wanted: fabrics.Fabric) -> Fabric:
    """The fabric's nodes and links alone."""
    if isinstance(wanted, fabrics.Graph):
        links = [(*link.ends, link.rate) for link in wanted.links]
        return builders.graph(wanted.switches, links, wanted.host_rate, wanted.queue)
    rates = wanted.host_rate, wanted.uplink_rate, wanted.queue
    if isinstance(wanted, fabrics.FatTree):
        return builders.fat_tree(wanted.k, wanted.racks, *rates)
    return builders.leaf_spine(wanted.spines, wanted.leaves, wanted.racks, *rates)


def deploy(experiment: Experiment, fabric: Fabric) -> list[DeployedJob]:
    """Place, plan, check and time every job. DeploymentError says what cannot be."""
    places = _places(experiment.jobs, fabric)
    return [
        _deploy(number, job, place, fabric, experiment.emulation.scale)
        for number, (job, place) in enumerate(zip(experiment.jobs, places, strict=True))
    ]


def _places(jobs: Sequence[Job], fabric: Fabric) -> list[Assignment]:
    taken = {
        host
        for job in jobs
        for named in (job.workers, job.servers)
        if isinstance(named, tuple)
        for host in named
    }
    policies = {"packed": placement.packed, "spread": placement.spread}
    places = []
    for job in jobs:
        policy = policies[job.placement]
        _, most_servers = registry[job.system].servers
        try:
            workers = (
                job.workers
                if isinstance(job.workers, tuple)
                else policy(fabric, job.workers, taken)
            )
            taken |= set(workers)
            if most_servers == 0:
                servers: tuple[str, ...] = ()
            elif isinstance(job.servers, tuple):
                servers = job.servers
            elif job.colocated:
                servers = workers[: job.servers]
            else:
                servers = policy(fabric, job.servers, taken)
        except ValueError as error:
            raise DeploymentError(f"{job.system} on {job.workload}: {error}") from error
        taken |= set(servers)
        # Ranks go rack by rack whatever the order in the file, so that a ring stays in its rack.
        order = {host: index for index, host in enumerate(fabric.hosts)}
        places.append(Assignment(tuple(sorted(workers, key=order.__getitem__)), servers))
    return places


def _deploy(number: int, job: Job, place: Assignment, fabric: Fabric, scale: float) -> DeployedJob:
    system = registry[job.system]
    trace = load(job.workload)
    try:
        options = system.settle(job.options)
        plan = system.plan(replace(place, options=options, trace=trace), fabric)
    except ValueError as error:
        raise DeploymentError(str(error)) from error
    check(plan)
    buckets = fill(trace, job.bucket, job.first_bucket, scale)
    compute_s = trace.compute_s * scale
    if not job.overlap:
        buckets = after_compute(buckets, compute_s)
    units = cut(buckets, plan, scale)
    window = _window(job, plan, fabric)
    pieces = [(unit.ready_s, unit.elements * 4) for unit in units]
    return DeployedJob(
        number=number,
        job=job,
        system=system,
        trace=trace,
        plan=plan,
        units=units,
        compute_s=compute_s,
        window=window,
        tick_s=_tick_s(window, plan, fabric),
        expected=model.iteration(plan, fabric, pieces, compute_s),
    )


def _window(job: Job, plan: Plan, fabric: Fabric) -> int:
    """Fragments in flight: what all streams that may meet at a port leave in half of its queue.

    ECMP may put any of its flows on the same link, so a stream counts on all of them.
    """
    asked: int | None = job.options.get("window")
    if asked is not None:
        if asked > fabric.slots:
            raise DeploymentError(
                f"window: found {asked}, wanted at most the {fabric.slots} slots of a switch"
            )
        return asked
    if not plan.trees:
        return 0
    (tree,) = plan.trees
    streams: Counter[tuple[str, str]] = Counter()
    for child, parent in tree.parent.items():
        streams.update(_links(fabric, child, parent))
    fair = min(
        fabric.link(*ends).queue // 2 // (wire.FRAME * count) for ends, count in streams.items()
    )
    return max(2, min(fair, LARGEST_WINDOW, fabric.slots))


def _links(fabric: Fabric, source: str, to: str) -> set[tuple[str, str]]:
    """Every directed link on a shortest path."""
    if source == to:
        return set()
    hops = fabric.next_hops(source, to)
    return {(source, hop) for hop in hops}.union(*(_links(fabric, hop, to) for hop in hops))


def _tick_s(window: int, plan: Plan, fabric: Fabric) -> float:
    """Endpoints may let packets gather for a quarter of the time that a window lasts."""
    if not plan.trees:
        return 0.0
    (tree,) = plan.trees
    rate = fabric.link(tree.root, fabric.tor_of(tree.root)).rate
    return window * tree.streams * wire.FRAME * 8 / rate / 4


def allocate(jobs: Sequence[DeployedJob], fabric: Fabric) -> list[Allocation]:
    """Number all jobs' trees, and divide the switches' memory among them.

    Trees of style ATP share what the others, whose slots are theirs alone, leave over.
    DeploymentError if it is too little.
    """
    trees = [(job, tree) for job in jobs for tree in job.plan.trees]
    if len(trees) > wire.MAX_TREES:
        raise DeploymentError(f"{len(trees)} trees, wanted at most {wire.MAX_TREES}")
    own = [0 if tree.style is Style.ATP else job.slots for job, tree in trees]
    shared = fabric.slots - sum(own)
    wanted = max((job.window for job, tree in trees if tree.style is Style.ATP), default=0)
    if shared < wanted:
        raise DeploymentError(
            f"fabric.slots: found {fabric.slots}, wanted at least {sum(own) + wanted} for the"
            " windows of all jobs; raise slots, or lower the option window"
        )
    allocations, first = [], shared
    for number, ((job, tree), slots) in enumerate(zip(trees, own, strict=True)):
        if slots:
            allocations.append(Allocation(number, job.number, tree, first, slots))
            first += slots
        else:
            allocations.append(Allocation(number, job.number, tree, 0, shared))
    return allocations


def strain(jobs: Sequence[DeployedJob], fabric: Fabric, dilation: float, cores: int) -> str | None:
    """A warning, if the jobs' links carry more than such a machine did in our own runs.

    The verdict decides afterwards; this only says it before the time is spent.
    """
    load = 0.0
    for job in jobs:
        hosts = job.plan.hosts[: job.plan.workers]
        rate = sum(fabric.link(host, fabric.tor_of(host)).rate for host in hosts)
        load += rate / (INA_RATE_PER_CORE if job.plan.trees else TCP_RATE_PER_CORE)
    enough = load / cores
    if enough <= dilation:
        return None
    systems = ", ".join(dict.fromkeys(job.system.name for job in jobs))
    return (
        f"{systems}: the workers' links at dilation {dilation:g} carry more than {cores} cores "
        f"are likely to; a dilation of {ceil(enough)} would do, with scale lowered alike"
    )

"""Rina: a ring in which the workers of a rack with an aggregating ToR act as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from testbed.experiment.fields import sequence
from testbed.plan.cost import ClosedForm, Timing
from testbed.plan.program import Pipelining, Plan
from testbed.systems import agent_ring, ring, stream_ring
from testbed.systems.racks import Group, by_rack, jobs_before
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric
from testbed.workload.buckets import BUCKET_BYTES, fill
from testbed.workload.trace import Trace

BY_AGENTS = Pipelining(credit=2)
CLEARLY = 0.97
"""The closed form of iterations in which units overlap, such as a ring's, is as far off as that."""


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """The plan of the ring of groups; plain ring all-reduce if no group forms or, unless groups are
    asked for, if these would not gain.

    ValueError if the option agents names a host that cannot be one.
    """
    around = groups(job, fabric)
    alone = replace(ring.plan(replace(job, options={}), fabric), system="rina")
    if not any(group.tor for group in around):
        return alone
    ranks = {host: rank for rank, host in enumerate(job.workers)}
    streams = job.options.get("reading") != "agent"
    programs, trees = (stream_ring if streams else agent_ring).programs(around, ranks)
    grouped = Plan(
        system="rina",
        hosts=job.workers,
        workers=len(ranks),
        chunks=len(stream_ring.stations(around) if streams else around),
        programs=programs,
        trees=tuple(replace(each, turn=jobs_before(job.workers, fabric)) for each in trees),
        pipelining=Pipelining() if streams else BY_AGENTS,
    )
    if job.options.get("groups") == "always" or _gain(alone, grouped, job.trace, fabric):
        return grouped
    return alone


def _gain(alone: Plan, grouped: Plan, trace: Trace | None, fabric: Fabric) -> bool:
    """Whether groups gain: see ``SYSTEM.reading``."""

    def times(timing: Timing) -> tuple[float, float]:
        forms = (ClosedForm(plan, fabric, fabric.step_latency) for plan in (grouped, alone))
        with_groups, without = (form.iteration(timing).iteration_s for form in forms)
        return with_groups, without

    bucket, its_ring = times(Timing([(0.0, BUCKET_BYTES)]))
    if trace is None:
        return bucket < its_ring
    pieces = [(each.ready_s, each.bytes) for each in fill(trace)]
    iteration, ring_iteration = times(Timing(pieces, trace.compute_s))
    if iteration <= CLEARLY * ring_iteration:
        return True
    return bucket < its_ring and iteration <= ring_iteration


def groups(job: Assignment, fabric: Fabric) -> tuple[Group, ...]:
    """The ring: the workers of a rack with INA are a group; other workers are alone.

    Where no stream comes by, a group has at least two workers. ValueError if the option agents
    names a host that cannot be an agent.
    """
    asked: Sequence[str] = job.options.get("agents", ())
    least = 2 if job.options.get("reading") == "agent" or len(job.workers) == 1 else 1
    found: list[Group] = []
    for tor, members in by_rack(job.workers, fabric).items():
        chosen = [host for host in members if host in asked]
        if len(chosen) > 1:
            raise _refusal(chosen[1], f"{chosen[0]} is asked for in the same rack", "keep one")
        if len(members) >= least and tor in fabric.ina:
            found.append(Group(members, chosen[0] if chosen else members[0], tor))
            continue
        if chosen and tor in fabric.ina:
            why = f"it is the job's only worker in the rack of {tor}"
            raise _refusal(chosen[0], why, "place another worker there, or leave it out")
        if chosen:
            raise _refusal(
                chosen[0], f"its ToR {tor} does not aggregate", f"leave it out, or give {tor} INA"
            )
        found += [Group((host,), host) for host in members]
    for host in asked:
        if host not in job.workers:
            raise _refusal(host, "it is not a worker of the job", "leave it out")
    return tuple(found)


def _refusal(host: str, why: str, fix: str) -> ValueError:
    return ValueError(f"rina: option agents: {host} cannot be an agent: {why}; {fix}")


class RinaOptions(WithWindow):
    """Which worker represents a rack, where sums are added, and when a rack is a group."""

    agents: Annotated[tuple[str, ...], BeforeValidator(sequence)] = Field(
        default=(),
        description="a list of hosts, in each rack one at most, that are agents instead of the"
        " workers of lowest rank",
        examples=[["h0"]],
    )
    reading: Literal["stream", "agent"] = Field(
        default="stream",
        description="one of stream (the sums of the groups before are added in the rack's ToR),"
        " agent (by the rack's agent)",
        examples=["agent"],
    )
    groups: Literal["gaining", "always"] = Field(
        default="gaining",
        description="one of gaining (racks are groups if an iteration is shorter with them in"
        " closed form; otherwise there is plain ring all-reduce), always",
        examples=["always"],
    )


SYSTEM = System(
    name="rina",
    title="Rina",
    colour="#9467bd",
    marker="D",
    citation="Chen et al., Rina: Enhancing Ring-AllReduce with In-network Aggregation in "
    "Distributed Model Training, ICNP 2024; arXiv 2407.19721",
    published=(
        "Workers under a ToR with INA act as one abstracted worker, coordinated by its agent, the "
        "worker of lowest rank; all others are autonomous workers.",
        "The model is split by the number of groups, not of workers, so the ring's chain is "
        "shorter.",
        "INA serves both in scatter-reduce and in all-gather. It works with plain ring all-reduce.",
    ),
    reading=(
        "The paper's text was not available to us, only its abstract and summaries.",
        "With reading: stream, the sum of the groups before enters a rack's ToR as one more "
        "child. The ToR adds its workers' packets, and one stream goes on to the next worker or "
        "ToR. Adjacent racks are one chain, and one position of the ring. A chunk that ends in a "
        "chain returns from its last ToR to all that took part, and the last rack's agent passes "
        "it on. A worker before a chain sends the chunks of all-gather to its first ToR, which "
        "copies them to the rack and onwards. So workers of a group send M and receive M. With INA "
        "at all ToRs there is one chain, so nothing is split and no agent takes part: it is "
        "SwitchML's protocol on a chain of ToRs.",
        "With reading: stream, single workers send INA packets to one another, too: TCP fills "
        "the queues in which the packets of trees, and their acknowledgements, would wait.",
        "With reading: stream, no hash chooses the links of a chain: its streams use equal ones "
        "in turn, and others on the way back.",
        "With reading: agent, the sum of the groups before goes to the group's agent, whose part "
        "of the chunk then includes it. After scatter-reduce each group sums the chunk that ends "
        "there once, within the rack, as SwitchML does, so the chain has 2(G-1)+1 steps for G "
        "groups. In a step of all-gather an agent sends one stream to the next group's ToR.",
        "The default is stream. Where uplinks carry the streams of all racks, it takes the time of "
        "other INA once all ToRs sum, as a summary says of Rina; where they do not, both readings "
        "are faster than ATP (rina-comparable-when-full in claims.md), and agent by less. With "
        "agent an agent's link carries (2-1/G)M, more than a ring's as soon as there are more "
        "groups than half the workers.",
        "Groups form if an iteration of the model, in buckets of DDP's default size, takes at "
        "least 3 % less with them in closed form, or if it takes no longer and a bucket on its own "
        "is summed sooner. Otherwise the workers run plain ring all-reduce. The option groups: "
        "always forms them anyway.",
        "With reading: agent, at most two buckets are in flight. A tree's uses have one order: "
        "with more, trees wait for buckets that the workers' TCP connections have not brought.",
        "A job's only worker under an INA ToR is a group, too: the ToR adds its packets to the "
        "stream of the groups before. With reading: agent it is autonomous, because the ToR would "
        "have nothing to add.",
        "Without INA this is ring all-reduce; with all workers in one rack with INA, it is "
        "SwitchML.",
        "Groups are in the order of racks. The option agents names agents other than the workers "
        "of lowest rank.",
        "Jobs that share racks begin their rings at different racks, so that their streams take "
        "different links.",
    ),
    servers=(0, 0),
    aggregates=True,
    plan=plan,
    options=RinaOptions,
)

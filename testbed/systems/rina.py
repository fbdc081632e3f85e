"""Rina: a ring in which the workers of a rack with an aggregating ToR act as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field

from testbed.experiment.fields import sequence
from testbed.plan.program import Multicast, Plan, SwitchAllReduce, SwitchReduce
from testbed.plan.stages import Hop, Ring, Stage, Stages, Turn
from testbed.plan.trees import Tree
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.systems.racks import by_rack
from testbed.systems.ring import hops as ring_hops
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric


@dataclass(frozen=True)
class Group:
    """Workers that are one position of the ring; other groups communicate with their agent.

    ``tor`` sums their packets. It is None for a single, autonomous worker.
    """

    members: tuple[str, ...]
    agent: str
    tor: str | None = None


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """G groups and G chunks. ValueError if the option agents names a host that cannot be one."""
    ring = groups(job, fabric)
    ranks = {host: rank for rank, host in enumerate(job.workers)}
    agents = [ranks[group.agent] for group in ring]
    trees: list[Tree] = []
    local, up, down = _grow(ring, ranks, trees)

    chunks = tuple((chunk,) for chunk in range(len(ring)))
    around = list(enumerate(ring_hops(agents)))

    def turning(turn: Turn, hops: Iterable[Hop]) -> Stage:
        return (Ring(tuple(hops), chunks, turn),)

    stages = [
        turning(Turn.SCATTER, (SwitchReduce(0, up[at]) if at in up else hop for at, hop in around)),
        # The chunk that ends here: the agent's part holds the sums of all other groups.
        tuple(
            Ring((SwitchAllReduce(0, tree),), (chunks[(position + 1) % len(ring)],), Turn.ONCE)
            for position, tree in local.items()
        ),
        turning(
            Turn.GATHER,
            (
                Multicast(0, down[to]) if (to := (at + 1) % len(ring)) in down else hop
                for at, hop in around
            ),
        ),
    ]
    return Plan(
        system="rina",
        hosts=job.workers,
        workers=len(ranks),
        chunks=len(ring),
        programs=Stages(len(ranks), stages, trees),
        trees=tuple(trees),
    )


def groups(job: Assignment, fabric: Fabric) -> tuple[Group, ...]:
    """The ring: a rack with INA and at least two workers is a group; other workers are alone.

    ValueError if the option agents names a host that cannot be an agent.
    """
    asked: Sequence[str] = job.options.get("agents", ())
    found: list[Group] = []
    for tor, members in by_rack(job.workers, fabric).items():
        chosen = [host for host in members if host in asked]
        if len(chosen) > 1:
            raise _refusal(chosen[1], f"{chosen[0]} is asked for in the same rack", "keep one")
        if len(members) > 1 and tor in fabric.ina:
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


def _grow(
    ring: Sequence[Group], ranks: Mapping[str, int], trees: list[Tree]
) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """Each group's trees by position: local, to the next agent, and from the previous agent."""
    local: dict[int, int] = {}
    up: dict[int, int] = {}
    down: dict[int, int] = {}
    for position, group in enumerate(ring):
        if group.tor is None:
            continue
        members = {host: ranks[host] for host in group.members}
        parent = dict.fromkeys(group.members, group.tor)
        local[position] = len(trees)
        trees.append(Tree(group.tor, members, parent, SWITCHML))
        if len(ring) == 1:
            continue
        following, before = ring[(position + 1) % len(ring)].agent, ring[position - 1].agent
        for tree_of, root in ((up, following), (down, before)):
            tree_of[position] = len(trees)
            upwards = parent | {group.tor: root}
            trees.append(Tree(root, members, upwards, RACK, ranks[root]))
    return local, up, down


class RinaOptions(WithWindow):
    """Who speaks for a rack."""

    agents: Annotated[tuple[str, ...], BeforeValidator(sequence)] = Field(
        default=(),
        description="a list of hosts, in each rack one at most, that are agents instead of the"
        " workers of lowest rank",
        examples=[["h0"]],
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
        "In a step of scatter-reduce all workers of a group send their part of a chunk to the "
        "ToR; the agent's part includes the sums of the groups before. One stream of sums goes to "
        "the agent of the next group, and acknowledgements return.",
        "After scatter-reduce each group sums the chunk that ends there once, within the rack, "
        "as SwitchML does. So the chain has 2(G-1)+1 steps for G groups.",
        "In a step of all-gather an agent sends one stream to the next group's ToR, which copies "
        "it to all workers of the rack.",
        "A job's only worker in a rack is autonomous, even under an INA ToR. Without INA this is "
        "ring all-reduce; with all workers in one rack with INA, it is SwitchML.",
        "Groups are in the order of racks. The option agents names agents other than the workers "
        "of lowest rank.",
    ),
    servers=(0, 0),
    aggregates=True,
    plan=plan,
    options=RinaOptions,
)

"""A ring of workers and racks, in which the rack's agent adds the sums that arrive at a rack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from testbed.plan.program import Multicast, SwitchAllReduce, SwitchReduce
from testbed.plan.stages import Hop, Ring, Stage, Stages, Turn
from testbed.plan.trees import Tree
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.systems.racks import Group
from testbed.systems.ring import hops as ring_hops


def programs(ring: Sequence[Group], ranks: Mapping[str, int]) -> tuple[Stages, list[Tree]]:
    """The stages of all ranks, and the trees. There is a chunk for each group."""
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
    return Stages(len(ranks), stages, trees), trees


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

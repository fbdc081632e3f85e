"""A switch in trees of every protocol: as the root, below the root, above another switch."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

from testbed import wire
from testbed.plan.trees import Tree
from testbed.protocols import TreeProtocol
from testbed.protocols.allocation import Allocation
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.events import Event
from testbed.protocols.netreduce.protocol import PROTOCOL as NETREDUCE
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.studies.conform.scene import registers
from testbed.switches.compile import PROGRAM
from testbed.switches.control import Control
from testbed.switches.entries import SwitchEntries, derive
from testbed.switches.events import read
from testbed.topology.addressing import Addressing
from testbed.topology.builders import leaf_spine

SWITCH = "t0"
FABRIC = leaf_spine(1, 2, (3, 3), 1e9, 1e9, 256_000).with_ina(["t0", "t1", "s0"])
ADDRESSING = Addressing(FABRIC)
PORTS = tuple(range(1, len(FABRIC.neighbours(SWITCH)) + 1))
SLOTS, SHARED_SLOTS = 4, 16  # few, so that fragments meet

RANKS = {"h0": 0, "h1": 1, "h2": 2, "h3": 3, "h4": 62, "h5": 63}
MANY = 900  # added to ranks, so that a bitmap has no bit for them


def tree(style: TreeProtocol, root: str, more: int = 0, **children: str) -> Tree:
    """``children`` of each inner node, separated by blanks; ``more`` is added to ranks."""
    parent = {child: at for at, names in children.items() for child in names.split()}
    members = {host: RANKS[host] + more for host in RANKS if host in parent}
    return Tree(root, members, parent, style, RANKS.get(root))


TREES = {
    ATP: (
        tree(ATP, "h5", t0="h0 h1 h2", h5="t0"),
        tree(ATP, "h4", t0="h0 h1", h4="t0"),
        tree(ATP, "h2", t0="h0 t1", t1="h3 h5", h2="t0"),
        tree(ATP, "h3", t0="h1", h3="t0"),
        tree(ATP, "h5", MANY, t0="h0 h1", s0="t0 t1", t1="h3 h4", h5="s0"),
        tree(ATP, "h3", MANY, t0="h0 t1", t1="h4 h5", h3="t0 h2"),
    ),
    SWITCHML: (
        tree(SWITCHML, "t0", t0="h0 h1 h2"),
        tree(SWITCHML, "t1", t0="h0 h2", t1="t0 h5"),
        tree(SWITCHML, "t0", t0="h0 t1", t1="h3 h4 h5"),
        tree(SWITCHML, "h4", t0="h1 h2", h4="t0 h5"),
        tree(SWITCHML, "t1", MANY, t0="h0 h2", t1="t0 h5"),
    ),
    RACK: (
        tree(RACK, "h2", t0="h0 h1", h2="t0"),
        tree(RACK, "h3", t0="h0 h1 h2", h3="t0"),
        tree(RACK, "h4", MANY, t0="h1 h2", h4="t0"),
    ),
    NETREDUCE: (
        tree(NETREDUCE, "t0", t0="h0 h1 h2"),
        tree(NETREDUCE, "s0", t0="h0 h1", s0="t0 t1", t1="h3 h4"),
        tree(NETREDUCE, "t0", t0="h0 t1", t1="h4 h5"),
        tree(NETREDUCE, "s0", MANY, t0="h0 h1", s0="t0 h3"),
    ),
}

PROTOCOLS = tuple(TREES)

# Copies of its results leave at every port, after all earlier packets.
MARKER = Allocation(200, 255, tree(ATP, "h5", t0="h0 h1 h2 h3", h5="t0"), 0, 0)


def _allocations() -> tuple[Allocation, ...]:
    """ATP's trees share slots; each job has two trees."""
    trees = [tree for trees in TREES.values() for tree in trees]
    numbers = [0, wire.MAX_NUMBERS - 1, *range(1, len(trees))]
    made = []
    for place, tree in enumerate(trees):
        own = SHARED_SLOTS + SLOTS * place, SLOTS
        part = (0, SHARED_SLOTS) if tree.protocol is ATP else own
        made.append(Allocation(numbers[place], place // 2, tree, *part))
    return (*made, MARKER)


ALLOCATIONS = _allocations()
JOBS = sorted({each.job for each in ALLOCATIONS})
ENTRIES: SwitchEntries = derive(SWITCH, FABRIC, ADDRESSING, ALLOCATIONS)


_registers = cache(registers)


def forget(switch: Control, program: Path = PROGRAM) -> None:
    """Clear all memory, like a switch that restarts."""
    for register in _registers(program):
        switch.reset_register(register)


def counted(switch: Control) -> Counter[tuple[int, Event]]:
    """The events of every job except the marker's."""
    jobs = (job for job in JOBS if job != MARKER.job)
    return Counter({(job, event): n for job in jobs for event, n in read(switch, job).items()})

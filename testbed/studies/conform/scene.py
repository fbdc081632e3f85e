"""The switch under test, in a small fabric with trees of one protocol.

In these trees, the switch is the root, is below another node, or is above another switch.
Everything follows from the protocol's declarations, so that any protocol on trees can be tested.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from testbed import wire
from testbed.plan.program import Multicast, SwitchAllReduce
from testbed.plan.trees import Tree
from testbed.protocols import TreeProtocol
from testbed.protocols.allocation import Allocation
from testbed.switches.compile import CompileError, compile_user_program, interface, packet_values
from testbed.switches.entries import SwitchEntries, derive
from testbed.switches.reference import ReferenceSwitch
from testbed.topology.addressing import Addressing
from testbed.topology.builders import leaf_spine

SWITCH = "t0"
FABRIC = leaf_spine(1, 2, (3, 3), 1e9, 1e9, 256_000).with_ina(["t0", "t1", "s0"])
ADDRESSING = Addressing(FABRIC)
WINDOW = 2
"""Fragments that a member has in flight."""
MESSAGE = 2
"""Packets of a message, if hosts send on connections."""
SLOTS = 2 * WINDOW
SHARED_SLOTS = 3
"""Slots of all trees together, if they share them: so few that fragments collide."""
_MANY = 900
"""This is added to ranks, so that a bitmap has no bit for them."""

Frame = tuple[int, bytes]
"""A port of the switch, and a frame."""

NAMES: Mapping[str, str] = {ADDRESSING.ip(node): node for node in FABRIC.nodes}
"""The nodes by their addresses."""


@dataclass(frozen=True)
class Place:
    """A tree of which the switch is part. ``multicasts``: whether its root sends to the members."""

    allocation: Allocation
    multicasts: bool = False

    @property
    def tree(self) -> Tree:
        return self.allocation.tree

    @cached_property
    def children(self) -> tuple[str, ...]:
        return self.tree.children(SWITCH)

    @cached_property
    def parent(self) -> str | None:
        return self.tree.parent.get(SWITCH)

    @cached_property
    def on_connections(self) -> bool:
        return self.tree.protocol.port == wire.ROCE_PORT

    @property
    def answer(self) -> int:
        """The kind of packet that comes down from the root."""
        protocol = self.tree.protocol
        assert isinstance(protocol, TreeProtocol)
        sums = SwitchAllReduce in protocol.operations
        return wire.KIND_RESULT if sums or self.multicasts else wire.KIND_ACK

    def slot(self, sequence: int) -> int:
        """The slot that hosts name for a sequence number."""
        shared = 5 * self.allocation.number if self.tree.protocol.shares_slots else 0
        return (sequence + shared) % self.allocation.slots


@dataclass(frozen=True)
class Scene:
    """``protocol`` on the switch, for packets of ``lanes`` values."""

    protocol: TreeProtocol
    lanes: int
    frames: dict[Hashable, Frame] = field(default_factory=dict, compare=False, repr=False)
    """The frames made so far; most packets occur in many sequences."""

    @cached_property
    def places(self) -> dict[str, Place]:
        """The trees: ``one`` and ``two`` belong to different jobs and are side by side; in
        ``below``, the switch is below another node, in ``above`` above another switch; ``server``
        has a host as its root; ``wide`` has more workers than bits; ``copies`` exists if the
        protocol multicasts."""
        trees = _trees(self.protocol)
        shared = self.protocol.shares_slots
        return {
            name: Place(
                Allocation(
                    number + 1,
                    number,
                    tree,
                    0 if shared else SLOTS * number,
                    SHARED_SLOTS if shared else SLOTS,
                ),
                name == "copies",
            )
            for number, (name, tree) in enumerate(trees.items())
        }

    @cached_property
    def entries(self) -> SwitchEntries:
        allocations = [place.allocation for place in self.places.values()]
        return derive(SWITCH, FABRIC, ADDRESSING, allocations)

    def reference(self) -> ReferenceSwitch:
        allocations = [place.allocation for place in self.places.values()]
        return ReferenceSwitch(SWITCH, FABRIC, allocations, self.lanes)


def _trees(protocol: TreeProtocol) -> dict[str, Tree]:
    def tree(root: str, more: int = 0, **children: str) -> Tree:
        ranks = {host: rank + more for rank, host in enumerate(FABRIC.hosts)}
        parent = {child: at for at, names in children.items() for child in names.split()}
        members = {host: rank for host, rank in ranks.items() if host in parent}
        return Tree(root, members, parent, protocol, ranks.get(root))

    if protocol.switch_may_be_root:
        found = {
            "one": tree("t0", t0="h0 h1 h2"),
            "two": tree("t0", t0="h0 h1"),
            "below": tree("s0", t0="h0 h1", s0="t0 t1", t1="h3 h4"),
            "above": tree("t0", t0="h0 t1", t1="h3 h4"),
            "wide": tree("s0", _MANY, t0="h0 h1", s0="t0 t1", t1="h3 h4"),
        }
        if protocol.port != wire.ROCE_PORT:
            found["server"] = tree("h4", t0="h1 h2", h4="t0 h5")
        return found
    found = {
        "one": tree("h5", t0="h0 h1 h2", h5="t0"),
        "two": tree("h4", t0="h0 h1", h4="t0"),
        "below": tree("h5", t0="h0 h1", s0="t0 t1", t1="h3 h4", h5="s0"),
        "above": tree("h2", t0="h0 t1", t1="h3 h4", h2="t0"),
        "wide": tree("h2", _MANY, t0="h0 t1", t1="h3 h4", h2="t0"),
    }
    if Multicast in protocol.operations:
        found["copies"] = tree("h5", t0="h0 h1", h5="t0")
    return found


class Unusable(Exception):
    """A program that cannot be tested; the message says why, and what is wanted."""


def prepared(program: Path, protocol: TreeProtocol) -> tuple[Path, Scene]:
    """The compiled program, and the scene for its packets. Raises Unusable if it cannot be
    tested."""
    try:
        if program.suffix == ".p4":
            program = compile_user_program(program, wire.FEW)
        document = json.loads(program.read_bytes())
        names, lanes = interface(document), packet_values(document)
    except CompileError as error:
        raise Unusable(str(error)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"no key {error}" if isinstance(error, KeyError) else error
        raise Unusable(
            f"found no P4 source (.p4) and no program that p4c-bm2-ss compiled (.json): {reason}"
        ) from error
    if lanes not in (wire.FEW, *wire.SIZES):
        raise Unusable(
            f"found packets of {lanes} values (header values_t), wanted"
            f" {', '.join(map(str, wire.SIZES))} or {wire.FEW}; use the headers of p4/headers.p4"
        )
    scene = Scene(protocol, lanes)
    if missing := sorted(_needed(scene.entries) - names):
        raise Unusable(
            f"lacks {', '.join(missing)}, which the entries of {protocol.name} name; keep the names"
            " of p4/ina.p4"
        )
    return program, scene


def _needed(entries: SwitchEntries) -> set[str]:
    """The tables and actions that the entries need, named as in ``interface``."""
    tables = {f"table {entry.table}" for entry in entries.entries}
    return tables | {
        f"action {entry.action} with {len(entry.params)} parameters" for entry in entries.entries
    }


def registers(program: Path) -> Sequence[str]:
    """The names of a program's registers."""
    found = json.loads(program.read_bytes())["register_arrays"]
    return [each["name"] for each in found]

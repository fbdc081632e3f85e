"""Base classes of protocols: the behaviour of a switch's slots, of hosts and of the root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any

from testbed import wire
from testbed.plan.program import Operation
from testbed.plan.trees import Tree
from testbed.plan.units import Unit
from testbed.protocols.congestion import NONE, Congestion
from testbed.protocols.part import Part
from testbed.protocols.roles import Child, Member, Neighbours, Place, Role, Root
from testbed.protocols.tables import Exact, TableEntry

if TYPE_CHECKING:
    from testbed.protocols.reference import Model


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A registered protocol.

    Attributes:
        name: the name of its folder.
        citation: the paper, or another source.
        published: rules taken from the source.
        reading: rules that are this project's own reading, where the source is silent.
        loss: how a lost packet is recovered.
        operations: the operations of a plan that it carries out.
        port: where its hosts listen (UDP; TCP where no switch sums).
        congestion: how hosts change the number of fragments in flight.
    """

    name: str
    citation: str
    published: tuple[str, ...]
    reading: tuple[str, ...]
    loss: str
    operations: tuple[type[Operation], ...]
    port: int = wire.PORT
    congestion: Congestion = NONE


@dataclass(frozen=True, kw_only=True)
class TreeProtocol(Protocol):
    """A protocol whose switches sum. Its rules are methods, which a protocol may override.

    Attributes:
        number: its number in table entries, in ``p4/headers.p4`` and in the hosts' engine.
        control: the P4 file of its switch behaviour.
        switch_may_be_root: whether a switch may return sums; otherwise the root is a host.
        shares_slots: whether trees share switch memory, in which hosts name slots one by one;
            otherwise each tree has slots of its own, two for each fragment of its window.
        survives_restart: whether all ranks still end if a switch loses its memory while a member
            lacks a result. Otherwise no one can give that member the result, and the run ends with
            an error.
        watches_overflow: whether switches detect sums that leave the range of int32.
        skips_zeros: whether what is 0 at all ranks is not sent; `carried` says how many packets are
            sent.
    """

    number: int
    control: str
    switch_may_be_root: bool
    shares_slots: bool = False
    survives_restart: bool = False
    watches_overflow: bool = False
    skips_zeros: bool = False

    @property
    def reference(self) -> Model:
        """The switch behaviour in Python, for differential tests: MODEL of ``reference.py``."""
        model: Model = import_module(f"{__package__}.{self.name}.reference").MODEL
        return model

    def window(self, options: Mapping[str, Any], fair: int) -> tuple[int, int]:
        """Fragments in flight, and fragments in a message (0: there are no messages).

        ``options`` are the job's; ``fair`` is the number of fragments that the fabric's queues
        allow.
        """
        return int(options.get("window") or fair), 0

    def priorities(
        self, options: Mapping[str, Any], units: Sequence[Unit], scale: Fraction | float
    ) -> tuple[int, ...]:
        """The priority of each of an iteration's ``units`` in switches' memory, 0 to 7.

        ``options`` are the job's; sizes are ``scale`` times those of the real cluster.
        """
        return (0,) * len(units)

    def own_slots(self, fragments: int) -> int:
        """Number of a switch's slots reserved for a tree with ``fragments`` in flight."""
        return 0 if self.shares_slots else 2 * fragments

    def carried(self, packets: int, window: int, values: int, union: float) -> float:
        """The mean number of a chunk's ``packets`` of ``values`` values that are sent with a
        ``window``. ``union`` is the share that is not 0 at some rank: the share of packets or of
        values, whichever the protocol skips."""
        return packets

    def slots(self, place: Place) -> Sequence[int]:
        """The slots that a host uses, counted from the first slot of its tree."""
        return (0,)

    def role(self, place: Place) -> Role | Neighbours:
        """The role of a rank that takes part in a tree."""
        number, window, slots = place.allocation.number, place.window.fragments, self.slots(place)
        tree = place.tree
        if not place.is_root:
            bit = tree.bits(place.host).bit_length() - 1
            origin = tree.number(place.host)
            return Member(number, self, window, slots, bit, place.parent, origin)
        children = tuple(
            Child(place.addresses[child], tree.ranks_below(child))
            for child in tree.children(tree.root)
        )
        workers = {rank: place.addresses[host] for host, rank in tree.rank_of.items()}
        serves = place.rank >= place.plan.workers
        return Root(number, self, window, slots, children, serves, workers, tree.behind)

    def join(self, part: Part) -> TableEntry:
        """The entry by which a switch recognises a tree's packets, with its part in the tree."""
        return TableEntry(
            "InaIngress.trees",
            (Exact(part.own), Exact(part.allocation.number)),
            "InaIngress.join",
            (self.number, *part.parameters, part.number, int(self.watches_overflow)),
        )

    def connection(self, part: Part, child: str, index: int) -> TableEntry | None:
        """The entry by which a switch recognises the connection of ``child``, its ``index``-th
        child; None if hosts have no connections."""
        return None

    def copy(self, part: Part, child: str) -> tuple[str, tuple[int, ...]]:
        """The action of ``p4/replication.p4`` that addresses the copy for ``child``, and the
        action's first parameters."""
        return "address", (part.ip(child),)


def protocol_of(tree: Tree) -> TreeProtocol:
    """The protocol on ``tree`` as a ``TreeProtocol``; a plan sees only its ``Rules``."""
    assert isinstance(tree.protocol, TreeProtocol)
    return tree.protocol

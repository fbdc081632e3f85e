"""The rules, each with packets that may show that a program breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from testbed import wire
from testbed.studies.conform.scene import Scene
from testbed.studies.conform.traffic import Answered, Hosts, Setting, Step, connects, plain

Forge = Callable[[Random, Scene, Step], Step]
"""Turns a host's next packet into one that no host sends."""

_RECENT = 6


@dataclass(frozen=True)
class Rule:
    """One rule. ``places`` are the trees that take part, if the scene has them. The numbers are the
    probabilities with which a packet or an answer is lost, repeated, late or forged."""

    name: str
    says: str
    places: tuple[str, ...] = ("one",)
    shuffled: bool = False  # members are at different fragments
    lost: float = 0.0
    repeated: float = 0.0
    late: float = 0.0  # repeated, however old
    forged: float = 0.0
    forge: Forge | None = None
    firsts: tuple[int, ...] = (0,)
    extreme: bool = False

    def setting(self, scene: Scene, random: Random) -> Setting:
        return Setting(scene, random.choice(self.firsts), self.extreme)

    def applies(self, scene: Scene) -> bool:
        return any(place in scene.places for place in self.places)

    def drawn(self, setting: Setting, random: Random, count: int) -> list[Answered]:
        """A random sequence of at most ``count`` packets."""
        return list(_Drawn(self, setting, random).steps(count))


@dataclass
class _Drawn:
    """Draws packets of hosts that use the reference as their switch, under the rule's faults."""

    rule: Rule
    setting: Setting
    random: Random
    sent: list[Step] = field(default_factory=list)
    known: set[Step] = field(default_factory=set)  # the same, for fast look-ups

    def steps(self, count: int) -> Iterator[Answered]:
        places = self.setting.scene.places
        names = [name for name in self.rule.places if name in places]
        names = [name for name in names if self.random.random() < 0.7] or names[:1]
        self.hosts = Hosts(self.setting)
        self.knows: dict[tuple[str, str], set[int]] = {}
        self.answer_due: set[tuple[str, int]] = set()
        reference = self.setting.scene.reference()
        for _ in range(count):
            step = self._next(names)
            if step is None:
                return
            self.sent.append(step)
            self.known.add(step)
            arrived = self.setting.frame(step)
            left = reference.process(arrived[1])
            yield Answered(step, arrived, left)
            for name, node, fragment in self.hosts.receive(left):
                if node not in places[name].children:
                    if self.hosts.complete(name, fragment) and not places[name].multicasts:
                        self.answer_due.add((name, fragment))
                elif self.random.random() >= self.rule.lost:
                    self.knows.setdefault((name, node), set()).add(fragment)

    def _next(self, names: list[str]) -> Step | None:
        fate, rule = self.random.random(), self.rule
        if self.sent and fate < rule.repeated:
            return self.random.choice(self.sent[-_RECENT:])
        if self.sent and fate < rule.repeated + rule.late:
            return self.random.choice(self.sent)
        due = sorted(
            (step for name in names for step in self._due(name)),
            key=lambda step: (step.fragment, self.random.random()),
        )
        if not due:
            return self.random.choice(self.sent[-_RECENT:]) if self.sent else None
        step = self.random.choice(due) if rule.shuffled else due[0]
        if rule.forge is not None and self.random.random() < rule.forged:
            return rule.forge(self.random, self.setting.scene, step)
        self.answer_due.discard((step.place, step.fragment))
        return step

    def _due(self, name: str) -> Iterator[Step]:
        """What the hosts of a tree may send now: the next packet of each, and those without an
        answer."""
        place = self.setting.scene.places[name]
        if place.multicasts:
            assert place.parent is not None
            for fragment in range(_RECENT * 4):
                step = Step(name, place.parent, wire.KIND_RESULT, fragment)
                if not self.hosts.complete(name, fragment):
                    if self.hosts.may_send(step) and (step not in self.known or self.rule.lost):
                        yield step
                    break
        elif place.parent is not None:
            for at, fragment in sorted(self.answer_due):
                if at == name:
                    yield Step(name, place.parent, place.answer, fragment)
        for child in place.children:
            knows = self.knows.setdefault((name, child), set())
            if place.multicasts:
                for fragment in sorted(knows):
                    step = Step(name, child, wire.KIND_RECEIPT, fragment)
                    if step not in self.known:
                        yield step
                continue
            for fragment in range(_RECENT * 8):
                step = Step(name, child, wire.KIND_DATA, fragment)
                if not self.hosts.needed(place, step) <= knows:
                    break
                if fragment in knows:
                    continue
                if step not in self.known:
                    yield step
                    if not connects(place, step):
                        break
                elif self.rule.lost:
                    yield self._again(step)

    def _again(self, step: Step) -> Step:
        """A retransmission, as the protocol's hosts mark it."""
        if not self.setting.scene.protocol.shares_slots:
            return step
        return Step(
            step.place, step.sender, step.kind, step.fragment, (("flags", wire.FLAG_RESEND),)
        )


def _is_below(scene: Scene, step: Step) -> bool:
    return step.sender in scene.places[step.place].children


def _beyond(random: Random, scene: Scene, step: Step) -> Step:
    if not _is_below(scene, step):
        return step
    slots = scene.places[step.place].allocation.slots
    return step.forged(slot=random.choice((slots, slots, slots + 1, 4095, (1 << 32) - 1)))


def _nobody(random: Random, scene: Scene, step: Step) -> Step:
    if not _is_below(scene, step):
        return step
    own = scene.places[step.place].tree.bits(step.sender)
    return step.forged(bitmap=random.choice((0, 0, own | 1 << 40, 1 << 50)))


def _elsewhere(random: Random, scene: Scene, step: Step) -> Step:
    if random.random() < 0.5:
        return step.forged(tree=random.choice((77, 78, wire.MAX_NUMBERS - 1)))
    to = random.choice(("h1", "h2", "h4", "s0"))
    return Step(**{**vars(step), "to": to, "honest": False})


def _malformed(random: Random, scene: Scene, step: Step) -> Step:
    how = random.randrange(3)
    if how == 0:
        return step.forged(kind=random.choice((0, 5, 255)))
    if how == 1:
        return Step(**{**vars(step), "kind": random.choice((3, 4)), "honest": False})
    return Step(**{**vars(step), "bytes_of_values": random.choice((0, 4)), "honest": False})


def _marked(random: Random, scene: Scene, step: Step) -> Step:
    flags = (wire.FLAG_ECN, wire.FLAG_OVERFLOW, wire.FLAG_RESEND, wire.FLAG_FLOATS)
    chosen = (("flags", random.choice(flags)),)
    return Step(step.place, step.sender, step.kind, step.fragment, chosen)


def _behind(random: Random, scene: Scene, step: Step) -> Step:
    """A packet with the bits of another node's children, in a tree with more workers than bits."""
    return step.forged(next_slot=random.choice((0, 1, 2, 3))) if _is_below(scene, step) else step


def _plain(random: Random, scene: Scene, step: Step) -> Step:
    return plain(
        random.choice(("h0", "h1", "h3")),
        random.choice(("h0", "h1", "h2", "h4", "s0")),
        random.choice((80, 53, wire.CHUNKS_PORT)),
        random.choice((6, 17, 17, 1)),
        random.choice((64, 64, 2, 1, 0)),
        random.choice((0x0800,) * 5 + (0x86DD,)),
    )


_ALL = ("one", "two", "below", "above", "server", "wide", "copies")
_HALF, _WHOLE = (1 << 31) - 4, (1 << 32) - 4
_MESSAGES = (1 << 24) - 4  # numbers of packets on connections have 24 bits

RULES: tuple[Rule, ...] = (
    Rule("sum", "the sum leaves once, with the last contribution, and to all that should get it",
         ("one", "server")),
    Rule("copies", "a rank's packet is copied to all members; their receipts go back as one",
         ("copies",)),
    Rule("order", "members may be at different fragments of their window",
         ("one", "server", "copies"), shuffled=True),
    Rule("values", "each value is summed by itself, modulo 2^32; an overflow is marked if the "
         "protocol says so", ("one", "below"), shuffled=True, extreme=True),
    Rule("levels", "a sum goes to the next switch; a packet from above goes to all children",
         ("below", "above"), shuffled=True),
    Rule("duplicates", "a repeated contribution is not added again",
         ("one", "below", "copies"), shuffled=True, repeated=0.4),
    Rule("answers", "a member that lost an answer gets it when it sends again",
         ("one", "server", "below", "copies"), shuffled=True, lost=0.4),
    Rule("stale", "a packet of an older fragment does not change a newer one",
         ("one", "below"), shuffled=True, late=0.4, lost=0.1),
    Rule("wrap", "fragments' numbers wrap around",
         ("one", "below"), shuffled=True, repeated=0.1, late=0.1, lost=0.1,
         firsts=(_WHOLE, _HALF, _MESSAGES)),
    Rule("jobs", "jobs do not change one another's sums",
         ("one", "two", "above", "server"), shuffled=True, repeated=0.1, lost=0.1),
    Rule("slots", "a packet uses no slot outside its job's",
         ("one", "two"), shuffled=True, forge=_beyond, forged=0.4),
    Rule("members", "only the bits of the switch's own children count",
         ("one", "above"), shuffled=True, forge=_nobody, forged=0.4),
    Rule("trees", "packets of unknown trees, or to other nodes, are only forwarded",
         ("one", "two"), shuffled=True, forge=_elsewhere, forged=0.4),
    Rule("kinds", "unknown kinds and cut packets change nothing",
         ("one", "below"), shuffled=True, forge=_malformed, forged=0.4),
    Rule("marks", "marks of a contribution reach its sum; requests are answered",
         ("one", "below"), shuffled=True, repeated=0.1, forge=_marked, forged=0.4),
    Rule("wide", "with more workers than bits, a sum is one bit at its parent",
         ("wide",), shuffled=True, repeated=0.1, lost=0.1, forge=_behind, forged=0.15),
    Rule("forwarding", "other packets are forwarded until their TTL expires",
         ("one",), forge=_plain, forged=0.8),
    Rule("together", "all of this at once",
         _ALL, shuffled=True, repeated=0.15, late=0.05, lost=0.15, firsts=(0, _WHOLE)),
)  # fmt: skip

"""Packets as steps, their frames, and hosts that know which packets they may send."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from testbed import wire
from testbed.protocols import protocol_of
from testbed.studies.conform.scene import (
    ADDRESSING,
    FABRIC,
    MESSAGE,
    SWITCH,
    WINDOW,
    Frame,
    Place,
    Scene,
)
from testbed.switches.frames import BTH, LINK, UDP, Packet, parse, set_checksum, set_number
from testbed.switches.frames import number as number_in

Values = npt.NDArray[np.int32]

_SPACE = 1 << 32
_EXTREMES = np.array([-(2**31), 2**31 - 1, -1, 0, 1, 2**30], np.int64)


@dataclass(frozen=True)
class Step:
    """A packet that arrives at the switch, from ``sender``, for a tree of the scene.

    ``changes`` are header fields that differ from what the tree's host would send. An ``honest``
    step occurs only when the protocol lets the host send it; others may come at any time.
    """

    place: str
    sender: str
    kind: int
    fragment: int
    changes: tuple[tuple[str, int], ...] = ()
    bytes_of_values: int | None = None  # None: all
    to: str = ""  # the destination, if another
    honest: bool = True
    plain: bytes = b""  # a frame that is no INA packet

    def forged(self, **fields: int) -> Step:
        return replace(self, honest=False, changes=(*self.changes, *fields.items()))


@dataclass(frozen=True, slots=True)
class Answered:
    """A step, its frame, and the frames with which the reference answers it."""

    step: Step
    arrived: Frame
    wanted: list[Frame]


@dataclass(frozen=True)
class Setting:
    """What the packets of a sequence have in common: the number of each tree's first fragment, and
    whether values are mostly the largest and smallest int32, or small digits that show whose they
    are."""

    scene: Scene
    first: int = 0
    extreme: bool = False

    def sequence(self, fragment: int) -> int:
        return (self.first + fragment) % _SPACE

    def fragment(self, sequence: int, of: int = _SPACE) -> int:
        """The fragment for which a sequence number (modulo ``of``) stands."""
        return (sequence - self.first) % of

    def frame(self, step: Step) -> Frame:
        """The frame of a step, and the port at which it arrives."""
        frames, key = self.scene.frames, (self.first, self.extreme, step)
        if key not in frames:
            hop = next(iter(FABRIC.next_hops(SWITCH, step.sender)))
            port = ADDRESSING.port(SWITCH, hop)
            frames[key] = port, step.plain or bytes(self._packet(step))
        return frames[key]

    def _packet(self, step: Step) -> Packet:
        place = self.scene.places[step.place]
        packet = self._on_connection(place, step) if connects(place, step) else None
        packet = packet or self._fragment(place, step)
        if packet.ina is not None:
            for name, value in step.changes:
                packet.ina[name] = value
        if step.bytes_of_values is not None:
            packet.rest = b"" if packet.values is None else packet.values.tobytes()
            packet.rest, packet.values = packet.rest[: step.bytes_of_values], None
        if step.to:
            packet.link["dst"] = ADDRESSING.ip_number(step.to)
        return _finished(packet)

    def _fragment(self, place: Place, step: Step) -> Packet:
        tree, sequence = place.tree, self.sequence(step.fragment)
        ina = np.zeros(1, wire.HEADER)
        ina["kind"], ina["tree"], ina["sequence"] = step.kind, place.allocation.number, sequence
        ina["slot"] = ina["next_slot"] = place.slot(sequence)
        if step.sender in place.children:
            ina["bitmap"] = tree.bits(step.sender)
            ina["next_slot"] = tree.number(step.sender) or ina["slot"]
        packet = Packet(_link(step.sender, SWITCH), _udp(wire.PORT), ina=ina)
        if step.kind not in (wire.KIND_ACK, wire.KIND_RECEIPT):
            packet.values = self._values(place, step).astype(">i4")
        return packet

    def _on_connection(self, place: Place, step: Step) -> Packet:
        """A packet of a message to the next rank on the ring."""
        tree, rank = place.tree, place.tree.rank_of[step.sender]
        ring = sorted(tree.rank_of, key=tree.rank_of.__getitem__)
        receiver = ring[(ring.index(step.sender) + 1) % len(ring)]
        message, offset = divmod(step.fragment, MESSAGE)
        first = self.sequence(message * MESSAGE)
        bth = np.zeros(1, BTH)
        bth["opcode"] = wire.SEND_LAST if offset else wire.SEND_FIRST
        bth["partition"] = 0xFFFF
        set_number(bth["connection"], wire.connection(place.allocation.number, rank))
        set_number(bth["sequence"], (first + offset) % (1 << 24))
        ina = None
        if not offset:
            ina = np.zeros(1, wire.HEADER)
            ina["kind"], ina["tree"] = wire.KIND_DATA, place.allocation.number
            ina["sequence"], ina["slot"] = first, place.slot(first)
            ina["next_slot"] = message % wire.LIVE_MESSAGES << 24 | MESSAGE
            ina["bitmap"] = tree.bits(step.sender)
        packet = Packet(_link(step.sender, receiver), _udp(wire.ROCE_PORT), bth, ina)
        packet.values = self._values(place, step).astype(">i4")
        return packet

    def _values(self, place: Place, step: Step) -> Values:
        """The values of a step: the contribution of the members behind the sender or, from above,
        the sum or a rank's values."""
        ranks = place.tree.rank_of
        hosts = sorted(ranks, key=ranks.__getitem__)
        if step.sender in place.children:
            below = place.tree.ranks_below(step.sender)
            hosts = [host for host in hosts if ranks[host] in below]
        elif place.multicasts:
            hosts = [place.tree.root]
        model = protocol_of(place.tree).reference
        return model.total([self._of(place, host, step.fragment) for host in hosts])

    def _of(self, place: Place, host: str, fragment: int) -> npt.NDArray[np.int64]:
        number, lanes = FABRIC.hosts.index(host), self.scene.lanes
        if not self.extreme:
            digits: npt.NDArray[np.int64] = 10**number * (1 + (fragment + np.arange(lanes)) % 9)
            return digits
        seed = f"{place.allocation.number} {host} {fragment}".encode()
        drawn = np.frombuffer(hashlib.shake_128(seed).digest(4 * lanes), ">u4")
        values: npt.NDArray[np.int64] = _EXTREMES[drawn % len(_EXTREMES)]
        return values


def answered(setting: Setting, steps: Iterable[Step]) -> Iterator[Answered]:
    """The steps, up to the first one that a correct host would not send."""
    reference, hosts = setting.scene.reference(), Hosts(setting)
    for step in steps:
        if not hosts.may_send(step):
            return
        arrived = setting.frame(step)
        wanted = reference.process(arrived[1])
        yield Answered(step, arrived, wanted)
        hosts.receive(wanted)


def connects(place: Place, step: Step) -> bool:
    """Whether a step's packet travels on a host's own connection."""
    return (
        place.on_connections and step.sender in place.tree.rank_of and step.kind == wire.KIND_DATA
    )


def plain(sender: str, to: str, port: int, protocol: int, ttl: int, kind: int = 0x0800) -> Step:
    """A packet that belongs to no tree."""
    link = _link(sender, to)
    link["ttl"], link["protocol"], link["type"] = ttl, protocol, kind
    packet = _finished(Packet(link, _udp(port), rest=b"no INA"))
    return Step("", sender, 0, 0, honest=False, plain=bytes(packet))


def _link(sender: str, to: str) -> npt.NDArray[np.void]:
    link = np.zeros(1, LINK)
    link["to_mac"] = np.void(ADDRESSING.mac(SWITCH).to_bytes(6, "big"))
    link["from_mac"] = np.void(ADDRESSING.mac(sender).to_bytes(6, "big"))
    link["type"], link["version_ihl"], link["ttl"], link["protocol"] = 0x0800, 0x45, 64, 17
    link["src"], link["dst"] = ADDRESSING.ip_number(sender), ADDRESSING.ip_number(to)
    return link


def _udp(port: int) -> npt.NDArray[np.void]:
    udp = np.zeros(1, UDP)
    udp["sport"] = udp["dport"] = port
    return udp


def _finished(packet: Packet) -> Packet:
    assert packet.udp is not None
    size = len(bytes(packet)) - packet.link.nbytes
    packet.link["length"], packet.udp["length"] = size + 20, size
    packet.udp["checksum"] = _udp_checksum(bytes(packet))
    set_checksum(packet.link)
    return packet


def _udp_checksum(frame: bytes) -> int:
    """The checksum of RFC 768, over the addresses, the protocol, the length, and the datagram with
    checksum 0."""
    datagram = bytearray(frame[34:])
    datagram[6:8] = b"\0\0"
    length = len(datagram)
    data = frame[26:34] + bytes((0, 17)) + length.to_bytes(2, "big") + bytes(datagram)
    total = int(np.frombuffer(data + bytes(length % 2), ">u2").sum(dtype=np.uint64))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ total or 0xFFFF


def alike(found: list[Frame], wanted: list[Frame], lanes: int) -> bool:
    """Whether receivers see no difference."""
    return found == wanted or seen(found, lanes) == seen(wanted, lanes)


def seen(frames: Iterable[Frame], lanes: int) -> list[Frame]:
    """The frames as receivers see them, in the order of ports: without what no host reads (the bits
    in a packet from above), and without UDP checksums that are correct."""
    return sorted((port, _seen(frame, lanes)) for port, frame in frames)


def _seen(frame: bytes, lanes: int) -> bytes:
    packet = parse(frame, lanes)
    if packet is None or packet.udp is None:
        return frame
    if packet.udp["checksum"][0] == _udp_checksum(frame):
        packet.udp["checksum"] = 0
    if packet.ina is not None and packet.ina["kind"][0] in (wire.KIND_RESULT, wire.KIND_ACK):
        packet.ina["bitmap"] = 0
    return bytes(packet)


@dataclass
class Hosts:
    """What the hosts of all trees have received, and thus what they may send.

    ``answered`` has the fragments whose answer was sent to a child; ``heard`` has the children
    whose contributions have reached the parent.
    """

    setting: Setting
    answered: dict[tuple[str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    heard: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))

    def may_send(self, step: Step) -> bool:
        """Whether a correct host could have sent the packet by now."""
        if not step.honest:
            return True
        place = self.setting.scene.places[step.place]
        if step.sender not in place.children:
            if place.multicasts:
                before = step.fragment - WINDOW
                return before < 0 or self.complete(step.place, before)
            return self.complete(step.place, step.fragment)
        done = self.answered[step.place, step.sender]
        if step.kind == wire.KIND_RECEIPT:
            return step.fragment in done
        return self.needed(place, step) <= done

    def needed(self, place: Place, step: Step) -> set[int]:
        """The fragments whose answers the child needs before it may send this one."""
        before = [step.fragment - WINDOW]
        if connects(place, step):
            first = step.fragment - step.fragment % MESSAGE - WINDOW
            before = list(range(first, first + MESSAGE))
        return {fragment for fragment in before if fragment >= 0}

    def complete(self, place: str, fragment: int) -> bool:
        """Whether all contributions have reached the parent."""
        return self.heard[place, fragment] >= set(self.setting.scene.places[place].children)

    def receive(self, frames: Iterable[Frame]) -> list[tuple[str, str, int]]:
        """Note the frames that left the switch. Returns, for each packet of a tree, the tree, the
        node that received the packet, and the fragment."""
        return [found for _, frame in frames if (found := self._receive(frame)) is not None]

    def _receive(self, frame: bytes) -> tuple[str, str, int] | None:
        packet = parse(frame, self.setting.scene.lanes)
        if packet is None or packet.udp is None:
            return None
        to = int(packet.link["dst"][0])
        for name, place in self.setting.scene.places.items():
            fragment = self._fragment(place, packet)
            if fragment is None:
                continue
            for child in place.children:
                if to == ADDRESSING.ip_number(child) and _is_answer(packet):
                    self.answered[name, child].add(fragment)
                    return name, child, fragment
            above = place.parent
            if above and to == ADDRESSING.ip_number(above) and not _is_answer(packet):
                self.heard[name, fragment] |= _contributors(place, packet)
                return name, above, fragment
        return None

    def _fragment(self, place: Place, packet: Packet) -> int | None:
        number = place.allocation.number
        if packet.bth is not None:
            if number_in(packet.bth["connection"]) // wire.MAX_RANKS != number:
                return None
            return self.setting.fragment(number_in(packet.bth["sequence"]), 1 << 24)
        if packet.ina is None or packet.ina["tree"][0] != number:
            return None
        return self.setting.fragment(int(packet.ina["sequence"][0]))


def _is_answer(packet: Packet) -> bool:
    if packet.bth is not None:
        return bool(packet.bth["reserved"][0])
    assert packet.ina is not None
    return int(packet.ina["kind"][0]) in (wire.KIND_RESULT, wire.KIND_ACK)


def _contributors(place: Place, packet: Packet) -> set[str]:
    """The children whose contributions an upward packet names."""
    assert packet.ina is not None
    bitmap, number = int(packet.ina["bitmap"][0]), int(packet.ina["next_slot"][0])
    tree = place.tree
    if tree.is_wide and (number, bitmap) == (tree.number(SWITCH), tree.bits(SWITCH)):
        return set(place.children)
    return {
        child
        for child in place.children
        if bitmap & tree.bits(child) and (not tree.is_wide or number == tree.number(child))
    }

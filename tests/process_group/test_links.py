"""Links in shared memory: the copies that a switch sends to hosts share their values."""

from __future__ import annotations

import ctypes
import struct
from ctypes import (
    CFUNCTYPE,
    POINTER,
    byref,
    c_char_p,
    c_size_t,
    c_uint,
    c_uint32,
    c_uint64,
    c_void_p,
)

import pytest

pytest.importorskip("torch")

from testbed.torch.links import SwitchCalls, core

HEADERS, INA, VALUES = 42, 24, 64
FULL = HEADERS + INA + VALUES
FRAMES = 4
HOSTS = (1, 2)


class Piece(ctypes.Structure):
    _fields_ = (("base", c_void_p), ("size", c_size_t))


PUT = CFUNCTYPE(None, c_void_p, c_uint, POINTER(Piece), c_uint)
ATTACH = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
PROCESS = CFUNCTYPE(None, c_uint, c_void_p, c_size_t, c_uint64)


class Link:
    """A link's memory, at which the test is the other end."""

    def __init__(self) -> None:
        size = core().link_bytes(FRAMES, FULL)
        self._memory = ctypes.create_string_buffer(size + 64)
        self.at = (ctypes.addressof(self._memory) + 63) & ~63
        self._slot_bytes = (size - 128) // FRAMES

    def word(self, at: int) -> c_uint32:
        return c_uint32.from_address(self.at + at)

    @property
    def sent(self) -> c_uint32:
        return self.word(0)

    @property
    def taken(self) -> c_uint32:
        return self.word(64)

    def _slot(self, number: int) -> int:
        return self.at + 128 + number % FRAMES * self._slot_bytes

    def send(self, frame: bytes) -> None:
        slot = self._slot(self.sent.value)
        ctypes.memmove(slot, struct.pack("=Iq", len(frame), 0), 12)
        ctypes.memmove(slot + 22, frame, len(frame))
        self.sent.value += 1

    def elsewhere(self, number: int) -> int:
        return ctypes.c_int64.from_address(self._slot(number) + 4).value

    def frame(self, number: int) -> bytes:
        slot = self._slot(number)
        size = c_uint32.from_address(slot).value
        there = slot + self.elsewhere(number) + 22 + HEADERS
        return ctypes.string_at(slot + 22, HEADERS) + ctypes.string_at(there, size - HEADERS)


class Switch:
    """Sends each frame to both hosts, with their address and their ``marks`` in INA's header."""

    def __init__(self, to_host: bool = True) -> None:
        self.up, self.down = Link(), [Link() for _ in HOSTS]
        self.marks = dict.fromkeys(HOSTS, b"")
        self._bell = ctypes.create_string_buffer(192)
        bell = (ctypes.addressof(self._bell) + 63) & ~63
        self.node = core().node_open(bell, FRAMES, FULL)
        assert core().node_hear(self.node, self.up.at) == 0
        for host, link in zip(HOSTS, self.down, strict=True):
            none = bytes(HEADERS)
            assert not core().node_reach(self.node, host, link.at, bell, to_host, none, none)
        assert core().node_shares(self.node) == 0
        self._calls = ATTACH(self._attach), PROCESS(self._process)
        self._struct = SwitchCalls(*(ctypes.cast(each, c_void_p) for each in self._calls))

    def _attach(self, owner: int, put: int, depth: int) -> None:
        self._owner, self._put = owner, PUT(put)

    def _process(self, port: int, packet: int, length: int, now: int) -> None:
        kept = []
        for host in HOSTS:
            headers = bytearray(ctypes.string_at(packet, HEADERS + INA))
            struct.pack_into("=I", headers, 30, host)
            headers[HEADERS : HEADERS + len(self.marks[host])] = self.marks[host]
            kept.append(c_char_p(bytes(headers)))
            pieces = (Piece * 2)(
                Piece(ctypes.cast(kept[-1], c_void_p).value, len(headers)),
                Piece(packet + len(headers), length - len(headers)),
            )
            self._put(self._owner, 0, pieces, 2)

    def pass_on(self, values: bytes) -> None:
        self.up.send(bytes(HEADERS + INA) + values * VALUES)
        drive = core().drive_switch
        drive.argtypes, drive.restype = (
            [c_void_p, POINTER(SwitchCalls), ctypes.c_double],
            ctypes.c_bool,
        )
        assert drive(self.node, byref(self._struct), 0.0)

    @property
    def dropped(self) -> list[int]:
        """Frames that each host lacks."""
        return [self.up.sent.value - link.sent.value for link in self.down]


def values_of(frame: bytes) -> bytes:
    return frame[HEADERS + INA :]


def test_copies_for_hosts_share_values_and_have_their_own_headers():
    switch = Switch()
    switch.pass_on(b"a")
    first, second = switch.down
    assert (first.elsewhere(0), bool(second.elsewhere(0))) == (0, True)
    for host, link in zip(HOSTS, switch.down, strict=True):
        assert values_of(link.frame(0)) == b"a" * VALUES
        assert struct.unpack_from("=I", link.frame(0), 30) == (host,)


@pytest.mark.parametrize("to_host", [True, False])
def test_a_copy_with_another_header_or_for_a_switch_is_whole(to_host):
    switch = Switch(to_host)
    if to_host:
        switch.marks[2] = b"\x09"
    switch.pass_on(b"a")
    first, second = switch.down
    assert first.elsewhere(0) == second.elsewhere(0) == 0
    assert values_of(second.frame(0)) == values_of(first.frame(0)) == b"a" * VALUES
    assert second.frame(0)[HEADERS] == (9 if to_host else 0)


def test_values_stay_until_every_host_has_read_them():
    switch = Switch()
    sent = [bytes([number]) for number in range(FRAMES + 2)]
    for values in sent[:FRAMES]:
        switch.pass_on(values)
    switch.down[0].taken.value = FRAMES  # the other has read nothing
    switch.pass_on(b"x")
    assert switch.dropped == [1, 1]
    for number in range(FRAMES):
        assert values_of(switch.down[1].frame(number)) == sent[number] * VALUES
    switch.down[1].taken.value = 1
    switch.pass_on(sent[FRAMES])
    assert switch.dropped == [1, 1]
    for link in switch.down:
        assert values_of(link.frame(FRAMES)) == sent[FRAMES] * VALUES
    assert values_of(switch.down[1].frame(1)) == sent[1] * VALUES


def test_what_was_shared_long_ago_does_not_fill_a_link():
    switch = Switch()
    for _ in range(3 * FRAMES):
        switch.pass_on(b"a")
        for link in switch.down:
            link.taken.value += 1
    assert switch.dropped == [0, 0]

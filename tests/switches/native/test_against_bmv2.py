"""Random packets through BMv2 and the native switch: the same packets leave both."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from native_case import PORTS, PROGRAMS
from native_cases import CASES
from native_fuzz import mangled
from patience import awaited
from record_bmv2 import INSIDE, answers, ends, link

from testbed.switches.bmv2 import Bmv2Switch
from testbed.switches.native.target import NativeSwitch

_PACKETS = 60
_TAGS = (b"\x81\x00", b"\x88\xa8")
"""Types of frames with a VLAN's tag, which the kernel takes off before BMv2 reads a frame."""


@pytest.mark.root
@pytest.mark.bmv2
@pytest.mark.parametrize(
    ("name", "seed"),
    [*((name, None) for name in CASES), ("meters", 4027212955)],  # and a seed that once failed
)
def test_native_equals_bmv2_on_mangled_packets(name, seed, tmp_path):
    case, program = CASES[name], PROGRAMS / f"{name}.json"
    seed = random.randrange(1 << 32) if seed is None else seed
    generator = random.Random(seed)
    seeds = [packet for _, packet in case.packets()]
    bmv2 = Bmv2Switch(program, tmp_path / "log")
    with ends() as sockets, NativeSwitch.offline(program, sanitize=True) as native:
        try:
            bmv2.start({port: link(port) for port in PORTS}, INSIDE)
            for switch in (bmv2, native):
                case.set_up(switch)
            for _ in range(_PACKETS):
                port = generator.choice(PORTS)
                packet = mangled(generator, seeds)[:1400].ljust(case.least, b"\x5a")
                if packet[12:14] in _TAGS:
                    packet = packet[:12] + b"\x5a" + packet[13:]
                left = sorted(native.process(port, packet))
                ours = [(out, data) for out, data in left if out in PORTS and len(data) >= 14]
                theirs = answers(sockets, port, packet, len(ours))
                shown = f"seed {seed}, port {port}, {packet.hex()}"
                assert [(o, p.hex()) for o, p in ours] == [(o, p.hex()) for o, p in theirs], shown
            # A copy that leaves by no port, or is too short to leave, may still be in a queue.
            with suppress(AssertionError):
                awaited(lambda: case.count(native) == case.count(bmv2))
            assert case.count(native) == case.count(bmv2), f"seed {seed}"
        finally:
            bmv2.close()

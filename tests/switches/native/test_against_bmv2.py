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


@pytest.mark.root
@pytest.mark.bmv2
@pytest.mark.parametrize("name", CASES)
def test_native_equals_bmv2_on_mangled_packets(name, tmp_path):
    case, program = CASES[name], PROGRAMS / f"{name}.json"
    seed = random.randrange(1 << 32)
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

"""The native switch handles every packet as BMv2 did in the recording (``record_bmv2.py``)."""

from __future__ import annotations

import json

import pytest
from native_case import PORTS, PROGRAMS, fingerprint
from native_cases import CASES

from testbed.switches.native.target import NativeSwitch


@pytest.mark.parametrize("name", CASES)
def test_native_equals_recorded_bmv2(name):
    document = json.loads((PROGRAMS / f"{name}.recorded.json").read_text())
    assert document["steps"], "nothing was recorded"
    assert document["source"] == fingerprint(name), "the program has changed: run record_bmv2.py"
    assert [(p, d.hex()) for p, d in CASES[name].packets()] == [
        tuple(step["in"]) for step in document["steps"]
    ], "the cases have changed since: run record_bmv2.py"
    with NativeSwitch.offline(PROGRAMS / f"{name}.json", sanitize=True) as switch:
        CASES[name].set_up(switch)
        for n, step in enumerate(document["steps"]):
            port, data = step["in"]
            left = sorted(switch.process(port, bytes.fromhex(data)))
            found = [[out, packet.hex()] for out, packet in left if out in PORTS]
            assert found == step["out"], f"packet {n}: {data}"
        assert CASES[name].count(switch) == document["counters"]

"""A program may use any names: C's keywords, and names that would be the same in C."""

from __future__ import annotations

import json

import pytest
from native_case import PORTS, PROGRAMS
from native_cases import CASES

from testbed.switches.native.layout import identifier
from testbed.switches.native.target import NativeSwitch

NEW_NAMES = {
    "tbl_router57": "done",
    "tbl_drop": "switch",
    "tbl_drop_0": "x.y",
    "node_3": "x_y",
    "node_5": "s",
    "start": "a.b",
    "calc": "c.d",
    "calc_0": "c_d",
}


def renamed(part):
    """A compiled program, or a part of it, with all names of its tables, conditions, parser states
    and calculations replaced."""
    if isinstance(part, dict):
        return {key: renamed(value) for key, value in part.items()}
    if isinstance(part, list):
        return [renamed(value) for value in part]
    return NEW_NAMES.get(part, part) if isinstance(part, str) else part


def test_a_program_does_the_same_under_names_that_are_none_in_c(tmp_path):
    program = json.loads((PROGRAMS / "router.json").read_text())
    for part in ("parsers", "pipelines", "calculations", "checksums", "actions"):
        # Headers and fields are in lists of their own, which do not change.
        program[part] = renamed(program[part])
    (ipv4,) = (state for state in program["parsers"][0]["parse_states"] if state["name"] == "ipv4")
    ipv4["name"] = "a_b"
    text = json.dumps(program).replace('"next_state": "ipv4"', '"next_state": "a_b"')
    assert all(f'"{name}"' in text for name in NEW_NAMES.values())
    path = tmp_path / "renamed.json"
    path.write_text(text)
    recorded = json.loads((PROGRAMS / "router.recorded.json").read_text())
    with NativeSwitch.offline(path) as switch:
        CASES["router"].set_up(switch)
        for step in recorded["steps"]:
            port, data = step["in"]
            left = sorted(switch.process(port, bytes.fromhex(data)))
            assert [[out, packet.hex()] for out, packet in left if out in PORTS] == step["out"]


@pytest.mark.parametrize(
    ("one", "other"), [("x.y", "x_y"), ("x_y", "x__y"), ("a_", "a."), ("_2e_", "."), ("ä", "a")]
)
def test_two_names_are_two_identifiers(one, other):
    assert identifier(one) != identifier(other)
    assert all(f"x{identifier(name)}".isidentifier() for name in (one, other))
    assert all(identifier(name).isascii() for name in (one, other))

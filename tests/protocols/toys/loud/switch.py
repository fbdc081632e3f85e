"""The toy's program: ours, with another control in the place of SwitchML's.

It is made of the compiled program, so that it needs no compiler: the control answers its own
number, and its one action that answers a sender alone answers all.
"""

from __future__ import annotations

import json
from pathlib import Path

from testbed.protocols.loud.protocol import PROTOCOL

from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.switches.compile import PROGRAM, kept

_CONTROL = "InaIngress.aggregation.switchml"


def program() -> Path:
    """A program that experiments may name as their own (``emulation.p4_program``)."""
    made = json.loads(PROGRAM.read_bytes())
    actions = {action["name"]: action for action in made["actions"]}
    answer_all = actions[f"{_CONTROL}.answer_all"]["primitives"]
    actions[f"{_CONTROL}.answer_sender"]["primitives"] = answer_all
    (branch,) = [
        each["expression"]["value"]
        for pipeline in made["pipelines"]
        for each in pipeline["conditionals"]
        if each["source_info"]["source_fragment"] == "meta.style == Style.SWITCHML"
    ]
    assert int(branch["right"]["value"], 16) == SWITCHML.number
    branch["right"]["value"] = f"0x{PROTOCOL.number:02x}"
    return kept(PROTOCOL.name, json.dumps(made).encode())

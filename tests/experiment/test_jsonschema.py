"""The exported JSON schema is fresh, and takes what the program takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from testbed import units
from testbed.experiment.jsonschema import schema, text
from testbed.experiment.load import loads
from testbed.experiment.schema import Experiment

COMMITTED = Path(__file__).parents[2] / "experiments" / "schema.json"


def test_the_committed_schema_is_fresh() -> None:
    assert COMMITTED.read_text() == text(), (
        "run: python -m testbed.experiment.jsonschema > experiments/schema.json"
    )


@pytest.mark.parametrize(
    ("model", "name", "good", "bad"),
    [
        ("LeafSpine", "host_rate", "10Gbit", "10"),
        ("LeafSpine", "queue", "64KiB", "64Kib"),
        ("Job", "bucket", "25MB", "25"),
    ],
)
def test_units_are_described_by_pattern(model: str, name: str, good: str, bad: str) -> None:
    field = schema()["$defs"][model]["properties"][name]
    assert field["type"] == "string"
    assert re.search(field["pattern"], good)
    assert not re.search(field["pattern"], bad)


def test_defaults_are_as_a_file_has_them() -> None:
    job = schema()["$defs"]["Job"]["properties"]
    assert units.parse_size(job["bucket"]["default"]) == 25_000_000
    assert schema()["$defs"]["Emulation"]["properties"]["scale"]["default"] == "1/128"


def test_the_examples_of_the_schema_are_an_experiment() -> None:
    def examples(properties: dict[str, Any], names: list[str]) -> dict[str, Any]:
        return {name: properties[name]["examples"][0] for name in names}

    whole = schema()
    fields = examples(whole["properties"], whole["required"])
    job = whole["$defs"]["Job"]
    fields["jobs"] = [examples(job["properties"], list(job["properties"]))]
    fabric = whole["$defs"]["LeafSpine"]
    names = [name for name in fabric["properties"] if name != "oversubscription"]
    fields["fabric"] = examples(fabric["properties"], names)
    emulation = whole["$defs"]["Emulation"]["properties"]
    fields["emulation"] = examples(emulation, list(emulation))
    assert isinstance(loads(json.dumps(fields)), Experiment)

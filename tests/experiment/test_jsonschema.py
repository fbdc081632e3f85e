"""The exported JSON schema is up to date, and accepts what the program accepts."""

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
from testbed.systems import registry

COMMITTED = Path(__file__).parents[2] / "experiments" / "schema.json"


def test_the_committed_schema_is_fresh() -> None:
    assert COMMITTED.read_text() == text(registry), (
        "run: ina-testbed schema > experiments/schema.json"
    )


@pytest.mark.parametrize(
    ("model", "name", "good", "bad"),
    [
        ("LeafSpine", "host_rate", "10Gbit", "10"),
        ("LeafSpine", "queue", "64KiB", "64Kib"),
        ("FatTree", "fabric_rate", "10Gbit", "10"),
        ("Graph", "step_latency", "10us", "10"),
        ("GraphLink", "rate", "10Gbit", "10"),
        ("Job", "bucket", "25MB", "25"),
        ("Job", "start", "1s", "1"),
    ],
)
def test_units_are_described_by_pattern(model: str, name: str, good: str, bad: str) -> None:
    field = schema(registry)["$defs"][model]["properties"][name]
    field = field.get("anyOf", [field])[0]
    assert field["type"] == "string"
    assert re.search(field["pattern"], good)
    assert not re.search(field["pattern"], bad)


def test_defaults_are_as_a_file_has_them() -> None:
    job = schema(registry)["$defs"]["Job"]["properties"]
    assert units.parse_size(job["bucket"]["default"]) == 25_000_000
    assert schema(registry)["$defs"]["Emulation"]["properties"]["scale"]["default"] == "1/128"


@pytest.mark.parametrize("kind", ["LeafSpine", "FatTree", "Graph"])
def test_the_examples_of_the_schema_are_an_experiment(kind: str) -> None:
    def examples(properties: dict[str, Any], names: list[str]) -> dict[str, Any]:
        return {name: properties[name]["examples"][0] for name in names}

    whole = schema(registry)
    fields = examples(whole["properties"], [*whole["required"], "backend"])
    job = whole["$defs"]["Job"]
    # Not every workload has a training script.
    known = [name for name in job["properties"] if name != "training"]
    fields["jobs"] = [examples(job["properties"], known)]
    fields["jobs"][0] |= {"workers": 2, "servers": 0}
    properties = whole["$defs"][kind]["properties"]
    fields["fabric"] = examples(properties, [n for n in properties if n != "oversubscription"])
    emulation = whole["$defs"]["Emulation"]["properties"]
    fields["emulation"] = examples(emulation, [n for n in emulation if n != "p4_program"])
    assert isinstance(loads(json.dumps(fields)), Experiment)

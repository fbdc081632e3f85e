"""Options of systems: described in the schema, and rejected with their place in the file."""

from __future__ import annotations

import jsonschema
import pytest
from pydantic import Field, model_validator

from testbed.experiment.jsonschema import schema
from testbed.experiment.load import loads
from testbed.experiment.options import Options, check
from testbed.located import Invalid
from testbed.systems import registry

EXPERIMENT = """\
schema_version: 1
name: options
fabric: {{kind: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 4, host_rate: 10Gbit, slots: 64}}
jobs:
  - system: {system}
    workload: resnet50
    workers: 3
    options:
      {options}
"""


@pytest.mark.parametrize(
    ("system", "options", "found"),
    [
        ("atp", "widow: 4", '9:7: .*found "widow", wanted an option of atp .*mean "window"'),
        ("asp", "window: 4", r'9:7: .*found "window", wanted an option of asp \(partition, credit'),
        ("atp", "window: 0", "9:15: .*window: found 0, wanted the fragments .*window: 64"),
        ("atp", "window: 65", "9:15: .*needs 65 slots of a switch, wanted at most the 64"),
        ("netreduce", "message: 17", "9:16: .*needs 68 slots"),
        ("ring", "order: nave", "9:14: .*found 'nave', wanted one of rack, naive.*\"naive\""),
        ("osp", "carrier: ring", "9:16: .*found 'ring', wanted one of a2tp, atp, byteps, esa"),
        ("osp", "deferred: 1", "9:17: .*found 1, wanted auto, or a part"),
        ("grid", "rate: fast", "9:13: .*found 'fast', wanted the rate that each worker"),
        ("rina", "agents: [h0, 3]", "9:20: .*found 3, wanted a list of hosts"),
        (
            "esa",
            "priority: 8",
            "9:17: .*found 8, wanted remaining, layer, or a whole number from 1 to 7",
        ),
        (
            "esa",
            "priority: 3",
            "9:7: .*found it with a single job, wanted jobs that share switches",
        ),
        ("panama", "trees: 0", "9:14: .*found 0, wanted the most aggregation trees"),
        ("a2tp", "priority: 3", '9:7: .*found "priority", wanted an option of a2tp .window'),
        ("ssp", "staleness: 1.5", "9:18: .*found 1.5, wanted the iterations"),
    ],
)
def test_what_is_wrong_with_an_option_is_told_at_its_place(system, options, found):
    text = EXPERIMENT.format(system=system, options=options)
    with pytest.raises(Invalid, match=f"^<text>:{found}"):
        loads(text, systems=registry)


def test_gradients_that_were_not_recorded_are_refused_at_their_place():
    text = EXPERIMENT.format(system="ring", options="order: rack").replace("3\n", "3\n    X\n")
    text = text.replace("X", "gradients: real").replace("resnet50", "synthetic/1MB")
    with pytest.raises(Invalid, match=r"^<text>:8:16: .*found real, wanted normal"):
        loads(text, systems=registry)


@pytest.mark.parametrize("system", registry.values(), ids=lambda system: system.name)
def test_the_schema_knows_the_options_of_each_system(system):
    whole = schema(registry)
    job = {"system": system.name, "workload": "resnet50", "workers": 2}
    check = jsonschema.Draft202012Validator({**whole["$defs"]["Job"], "$defs": whole["$defs"]})
    examples = {name: field.examples[0] for name, field in system.options.model_fields.items()}
    check.validate({**job, "options": examples})
    assert not check.is_valid({**job, "options": {"widow": 1}})
    # The schema has defaults in the form in which a file has them.
    described = whole["$defs"][f"options-{system.name}"].get("properties", {})
    defaults = {name: each["default"] for name, each in described.items()}
    check.validate({**job, "options": {k: v for k, v in defaults.items() if v is not None}})


@pytest.mark.parametrize(
    ("second", "ina", "lacks"),
    [
        ("atp", "all", ""),
        ("switchml", "all", ""),
        ("osp", "all", ""),  # with carrier: atp its sums need slots
        ("atp", "none", "no switch that sums"),
        ("ring", "all", "no other job that switches sum for"),
        ("ps", "all", "no other job that switches sum for"),
        ("ring", "none", "no switch that sums"),
    ],
)
def test_a_priority_among_jobs_needs_switches_that_sum_for_several(second, ina, lacks):
    text = EXPERIMENT.format(system="esa", options="priority: 3")
    text += f"  - {{system: {second}, workload: resnet50, workers: 2}}\n"
    text = text.replace("slots: 64}", f"slots: 64, ina: {ina}}}").replace(
        "workers: 3", "workers: 2"
    )
    if not lacks:
        assert loads(text, "file.yaml", systems=registry, workloads=["resnet50"])
        return
    with pytest.raises(Invalid, match=rf"9:7: .*found it with {lacks}, wanted jobs that share"):
        loads(text, "file.yaml", systems=registry, workloads=["resnet50"])


class Checked(Options):
    """An author's options, as pydantic allows them."""

    low: int = Field(default=0, ge=0, description="the lowest", examples=[0, 1])
    high: int = Field(default=1, ge=0, alias="top", description="the highest", examples=[2])
    plain: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _ordered(self):
        if self.low > self.high:
            raise ValueError("found low above top, wanted it below")
        return self


@pytest.mark.parametrize(
    ("given", "place", "said"),
    [
        ({"low": 3}, (), "found low above top, wanted it below"),
        ({"low": -1}, ("low",), "found -1, wanted the lowest; write for example `low: 0`"),
        ({"top": -1}, ("top",), "found -1, wanted the highest; write for example `top: 2`"),
        ({"plain": -1}, ("plain",), "found -1, wanted another value; write for example `plain: `"),
    ],
)
def test_what_an_author_checks_is_told(given, place, said):
    (found,) = check("mine", Checked, given)
    assert (found.place, found.message) == (place, said)


def test_a_system_without_options_says_so():
    (found,) = check("mine", Options, {"window": 4})
    assert found.message == 'found "window", but mine takes no options; remove it'

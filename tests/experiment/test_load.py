"""Experiment files: good ones are read whole, bad ones are told everything that is wrong."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from testbed.experiment.load import dump, load, loads
from testbed.experiment.schema import Emulation, Experiment, Fabric, Job, Sweep
from testbed.located import Invalid, write

FIXTURES = sorted((Path(__file__).parent / "fixtures").iterdir())
SYSTEMS = {"ps": (1, 64), "ring": (0, 0), "atp": (1, 1)}
WORKLOADS = ("resnet50", "bert-base")

FULL = """\
schema_version: 1
name: full
description: every key, none at its default
fabric:
  kind: leaf-spine
  spines: 3
  leaves: 2
  hosts_per_leaf: [5, 4]
  host_rate: 25Gbit
  oversubscription: 4:1
  queue: 64KiB
  ina: [t1]
  slots: 100
jobs:
  - &first
    system: atp
    workload: resnet50
    workers: 4
    placement: spread
    servers: 1
    iterations: 7
    warmup: 0
    bucket: 4MiB
    first_bucket: 512B
    overlap: false
    options: {window: 8, text: "1e6", off: "no", deep: [1.5, null, {a: true}]}
  - <<: *first
    system: ps
    workers: [h0, h1]
    servers: [h1]
    colocated: true
emulation:
  target: native
  dilation: 12.5
  scale: 1/3
  repeats: 3
  seed: 9
sweep:
  product:
    jobs.0.options.window: [4, 8]
  zip:
    fabric.ina: [none, 0.5, [t0, t1]]
    fabric.slots: [1, 2, 3]
  exclude:
    - {fabric.slots: 2, jobs.0.options.window: 8}
"""
SMALL = """\
schema_version: 1
name: small
fabric: {kind: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 5, host_rate: 10Gbit}
jobs:
  - {system: ring, workload: resnet50, workers: 8}
"""


@pytest.mark.parametrize("case", FIXTURES, ids=lambda case: case.name)
def test_every_problem_is_told(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(case)
    with pytest.raises(Invalid) as caught:
        load("experiment.yaml", systems=SYSTEMS, workloads=WORKLOADS)
    assert str(caught.value) + "\n" == (case / "expected.txt").read_text()


def test_all_keys() -> None:
    experiment = loads(FULL, systems=SYSTEMS, workloads=WORKLOADS)
    assert experiment.fabric.racks == (5, 4)
    assert experiment.fabric.host_rate == 25e9
    assert experiment.fabric.queue == 65536
    assert experiment.fabric.ina == ("t1",)
    first, second = experiment.jobs
    assert (first.bucket, first.first_bucket, first.overlap) == (4 * 2**20, 512, False)
    assert (second.system, second.workers, second.iterations) == ("ps", ("h0", "h1"), 7)
    assert experiment.emulation.scale == 1 / 3
    assert experiment.sweep is not None
    assert experiment.sweep.zip["fabric.slots"] == (1, 2, 3)


def test_defaults() -> None:
    experiment = loads(SMALL)
    assert experiment.fabric.uplink_rate == experiment.fabric.host_rate == 1e10
    assert experiment.fabric.ina == "all"
    assert experiment.jobs[0].servers == 1
    assert experiment.jobs[0].bucket == 25_000_000
    assert experiment.emulation == Emulation()
    assert experiment.sweep is None


def test_oversubscription_counts_the_fullest_rack() -> None:
    # 5 hosts of 25 Gbit/s above 3 uplinks at 4:1.
    assert loads(FULL).fabric.uplink_rate == pytest.approx(5 * 25e9 / 3 / 4)


@pytest.mark.parametrize("text", [FULL, SMALL])
def test_a_dump_loads_back_equal(text: str) -> None:
    experiment = loads(text, systems=SYSTEMS, workloads=WORKLOADS)
    again = dump(experiment)
    assert loads(again, systems=SYSTEMS, workloads=WORKLOADS) == experiment
    assert dump(loads(again)) == again


def test_a_dump_has_all_defaults_with_units() -> None:
    text = dump(loads(SMALL))
    assert "bucket: 25MB" in text
    assert "host_rate: 10Gbit" in text
    assert "scale: 1/128" in text
    assert "null" not in text


def test_a_system_without_servers_needs_no_host_for_them() -> None:
    text = SMALL.replace("workers: 8", "workers: 10")
    assert loads(text, systems=SYSTEMS).jobs[0].workers == 10
    with pytest.raises(Invalid, match="10 workers and 1 parameter server"):
        loads(text.replace("ring", "ps"), systems=SYSTEMS)


def test_names_are_not_checked_unless_given() -> None:
    text = SMALL.replace("ring", "novel").replace("resnet50", "gpt9")
    assert loads(text).jobs[0].system == "novel"


def test_a_trace_may_be_named_by_its_path(tmp_path: Path) -> None:
    trace = tmp_path / "mine.trace"
    trace.touch()
    text = SMALL.replace("resnet50", f'"{trace}"')
    assert loads(text, workloads=WORKLOADS).jobs[0].workload == str(trace)


def test_what_is_swept_need_not_be_given_besides() -> None:
    text = SMALL.replace("system: ring, ", "") + "sweep:\n  jobs.0.system: [ps, ring]\n"
    assert loads(text, systems=SYSTEMS).jobs[0].system == "ps"


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(Invalid, match=r"gone\.yaml: found no such file or directory, wanted"):
        load("gone.yaml")


@pytest.mark.parametrize("model", [Experiment, Fabric, Job, Emulation, Sweep])
def test_every_field_has_a_description_and_an_example(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        assert field.description, name
        assert len(field.examples or []) == 1, name


def _places(data: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        list(data.items())
        if isinstance(data, dict)
        else list(enumerate(data))
        if isinstance(data, list)
        else []
    )
    return [place, *(p for key, value in items for p in _places(value, (*place, key)))]


WHOLE = loads(FULL).data()
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 70)
    | st.floats()
    | st.sampled_from(["", "0", "10Gbit", "1/2", "h0", "t9", "all", "jobs.0", "ring", "é\n"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["system", "jobs.0.workers", "zip", "x", ""]), inner)
    ),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(_places(WHOLE)[1:]), ODD), min_size=1, max_size=3))
def test_no_input_does_worse_than_being_refused(changes: list[tuple[Any, Any]]) -> None:
    data = copy.deepcopy(WHOLE)
    for place, value in changes:
        inner = data
        try:
            for part in place[:-1]:
                inner = inner[part]
            inner[place[-1]] = value
        except (TypeError, KeyError, IndexError):
            continue  # an earlier change took the place away
    text = write(data)
    try:
        experiment = loads(text, systems=SYSTEMS, workloads=WORKLOADS)
    except Invalid as refusal:
        assert refusal.problems
        for problem in refusal.problems:
            assert 1 <= problem.line <= text.count("\n") + 1
            assert problem.message.startswith("found ")
            assert "wanted" in problem.message
            assert "\n" not in str(problem)
    else:
        assert loads(dump(experiment)) == experiment

"""Valid experiment files are read completely; for invalid ones every error is reported."""

from __future__ import annotations

import copy
import json
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from testbed.experiment.cells import distinct
from testbed.experiment.fabrics import KINDS, MOST_ADDRESSED, FatTree, Graph, GraphLink
from testbed.experiment.load import dump, load, loads
from testbed.experiment.options import Options
from testbed.experiment.schema import Compute, Emulation, Experiment, Job, Stragglers, Sweep
from testbed.located import Invalid, write
from testbed.placement.fabric import build_fabric
from testbed.shipped import folder
from testbed.topology import addressing

FIXTURES = sorted((Path(__file__).resolve().parent / "fixtures").iterdir())


class AnyOptions(Options):
    """Options that accept anything."""

    model_config = ConfigDict(extra="allow")


class Taken(NamedTuple):
    servers: tuple[int, int]
    options: type[Options] = AnyOptions
    sparse: bool = False
    aggregates: bool = False


SYSTEMS = {"ps": Taken((1, 64)), "ring": Taken((0, 0)), "atp": Taken((1, 1))}
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
  ina_policy: random
  ina_tier: any
  slots: 100
  capacity: {t1: 9Gbit, s0: 1.5Gbit}
  step_latency: 12.5us
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
    start: 2ms
    fixed_point: 0
    compute:
      factor: [1, 1.5, 2, 1]
      jitter: 1/8
      stragglers: {workers: [0, 3], slowdown: 2.5, probability: 0.1}
    options: {window: 8, text: "1e6", off: "no", deep: [1.5, null, {a: true}]}
  - <<: *first
    system: ps
    workers: [h0, h1]
    servers: [h1]
    colocated: true
    compute: {stragglers: {workers: 1, slowdown: 2}}
backend: packet
emulation:
  target: native
  dilation: 12.5
  scale: 1/3
  loss: 1/1000
  repeats: 3
  seed: 9
sweep:
  product:
    jobs.0.options.window: [4, 8]
  zip:
    fabric.ina: [2, 0.5, [t0, t1]]
    fabric.slots: [1, 2, 3]
  exclude:
    - {fabric.slots: 2, jobs.0.options.window: 8}
"""
FAT_TREE = """\
schema_version: 1
name: fat-tree
fabric: {kind: fat-tree, k: 4, hosts_per_edge: [2, 1, 2, 2, 2, 2, 2, 3], host_rate: 10Gbit}
jobs:
  - {system: ps, workload: resnet50, workers: 15, servers: [h15]}
sweep:
  fabric.k: [4]
  fabric.ina: [0, 2, 0.5, 20]
  fabric.ina_tier: [any]
"""
# GRID's worked example (Fig. 1).
GRAPH = """\
schema_version: 1
name: triangle
fabric:
  kind: graph
  host_rate: 9Gbit
  switches:
    S1: [W1, W2, W3, W4]
    S2: [W5, W6]
    S3: [W7, W8, PS]
    X: []
  links:
    - {ends: [S1, S2], rate: 3Gbit}
    - {ends: [S1, S3], rate: 3Gbit}
    - {ends: [S2, S3], rate: 3Gbit}
    - {ends: [X, S3], rate: 1Gbit}
    - {ends: [W7, S3], rate: 1Gbit}
  ina: [S1, S2, X]
  capacity: 9Gbit
jobs:
  - {system: ps, workload: resnet50, workers: [W1, W8], servers: [PS]}
sweep:
  fabric.links.0.rate: [3Gbit, 4Gbit]
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
    # Relative paths are reported as absolute ones, and long values are shortened. So the checkout's
    # place must not matter.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="") as folder:
        here = Path(folder) / "case"
        here.symlink_to(case)
        with pytest.raises(Invalid) as caught:
            load(str(here / "experiment.yaml"), systems=SYSTEMS, workloads=WORKLOADS)
    told = str(caught.value).replace(f"{here}/", "")
    assert told + "\n" == (case / "expected.txt").read_text()


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
    assert experiment.emulation.loss == 0.001
    assert experiment.backend == "packet"
    assert experiment.fabric.capacity == {"t1": 9e9, "s0": 1.5e9}
    assert experiment.fabric.step_latency == 12.5e-6
    assert first.compute is not None
    assert first.compute.factor == (1, 1.5, 2, 1)
    assert (first.start, first.fixed_point) == (2e-3, 0)
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


def test_a_fat_tree() -> None:
    fabric = loads(FAT_TREE).fabric
    assert isinstance(fabric, FatTree)
    assert fabric.racks == (2, 1, 2, 2, 2, 2, 2, 3)
    assert len(fabric.host_names) == 16
    assert len(fabric.switch_names) == 20
    half = fabric.model_copy(update={"oversubscription": 3.0})
    assert half.uplink_rate == pytest.approx(3 * 10e9 / 2 / 3)
    assert fabric.model_copy(update={"hosts_per_edge": None}).racks == (2,) * 8


def test_a_graph() -> None:
    fabric = loads(GRAPH).fabric
    assert isinstance(fabric, Graph)
    assert fabric.tor_of["PS"] == "S3"
    assert fabric.racks == (4, 2, 3)
    assert fabric.names_above == ("X",)
    assert fabric.capacity == 9e9


def test_a_whole_number_of_inas_is_a_count_and_one_with_a_point_a_fraction() -> None:
    for ina in ("1", "1.0", "0", "0.0", "2"):
        written = loads(dump(loads(SMALL.replace("spines: 2", f"spines: 2, ina: {ina}"))))
        assert repr(written.fabric.ina) == ina


def test_a_p4_program_is_found_beside_the_experiment(tmp_path: Path) -> None:
    for name in ("one.p4", "two.json"):
        (tmp_path / name).touch()
    text = SMALL + "emulation: {p4_program: one.p4}\n"
    (tmp_path / "set.yaml").write_text(text)
    assert load(tmp_path / "set.yaml").emulation.p4_program == str(tmp_path / "one.p4")
    text = SMALL + "sweep:\n  emulation.p4_program: [one.p4, ./two.json]\n"
    (tmp_path / "swept.yaml").write_text(text)
    programs = [
        cell.experiment.emulation.p4_program for cell in distinct(load(tmp_path / "swept.yaml"))
    ]
    assert programs == [str(tmp_path / "one.p4"), str(tmp_path / "two.json")]


@pytest.mark.parametrize("path", ["a\0.p4", "a" * 5000 + ".p4", ".p4/x.p4"])
def test_a_p4_program_that_cannot_be_is_none(path: str) -> None:
    with pytest.raises(Invalid, match=r"emulation\.p4_program: found"):
        loads(SMALL + write({"emulation": {"p4_program": path}}))


@pytest.mark.parametrize("path", ["a\0.trace", "a" * 5000 + ".trace", "/"])
def test_a_trace_that_cannot_be_is_none(path: str) -> None:
    text = SMALL.replace("workload: resnet50", f"workload: {json.dumps(path)}")
    with pytest.raises(Invalid, match=r"jobs\.0\.workload: found"):
        loads(text, workloads=WORKLOADS)


def test_the_examples_of_the_readme_are_valid() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    assert len(examples) >= 3
    for text in examples:
        rest = "" if "jobs:" in text else SMALL[SMALL.index("jobs:") :].replace("8", "4")
        head = "" if "jobs:" in text else "schema_version: 1\nname: readme\n"
        assert loads(head + text + rest).jobs


def of_shape(shape: str, backend: str) -> Experiment:
    """An experiment of two workers on a fabric, given as its kind and its numbers."""
    return loads(
        "schema_version: 1\nname: large\n"
        f"fabric: {{kind: {shape}, host_rate: 10Gbit}}\n"
        "jobs: [{system: ring, workload: resnet50, workers: 2}]\n"
        f"backend: {backend}\n",
        systems=SYSTEMS,
    )


def star(arms: int, hosts: int) -> str:
    """A graph of a switch with two hosts and ``arms`` switches with ``hosts`` each."""
    switches = {f"S{arm}": [f"H{arm}x{host}" for host in range(hosts)] for arm in range(arms)}
    links = [{"ends": ["hub", switch], "rate": "10Gbit"} for switch in switches]
    shape = {"switches": {"hub": ["H0", "H1"], **switches}, "links": links}
    return f"graph, {json.dumps(shape)[1:-1]}"


@pytest.mark.parametrize(
    ("most", "more", "found"),
    [
        (
            "leaf-spine, spines: 1, leaves: 254, hosts_per_leaf: 1",
            "leaf-spine, spines: 1, leaves: 255, hosts_per_leaf: 1",
            "255 racks",
        ),
        (
            "leaf-spine, spines: 254, leaves: 2, hosts_per_leaf: 1",
            "leaf-spine, spines: 255, leaves: 2, hosts_per_leaf: 1",
            "255 switches above the ToRs",
        ),
        (
            "leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 254",
            "leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 255",
            "255 hosts in a rack",
        ),
        ("fat-tree, k: 18", "fat-tree, k: 20", "300 switches above the ToRs"),
        ("circuits, hosts: 254, host_links: 2", "circuits, hosts: 255, host_links: 2", "255 racks"),
        (star(253, 1), star(254, 1), "255 racks"),
        (star(254, 0), star(255, 0), "255 switches above the ToRs"),
    ],
)
def test_fabrics_with_more_nodes_than_addresses_are_refused(
    most: str, more: str, found: str
) -> None:
    assert (addressing.MOST_RACKS, addressing.MOST_IN_RACK) == (MOST_ADDRESSED,) * 2
    for backend in ("packet", "emulate"):
        addressing.Addressing(build_fabric(of_shape(most, backend)))
        with pytest.raises(Invalid, match=f"fabric: found {found}, wanted at most 254 with"):
            of_shape(more, backend)
    with pytest.raises(ValueError, match="more than 254"):
        addressing.Addressing(build_fabric(of_shape(more, "simulate")))


@pytest.mark.parametrize("text", [FULL, SMALL, FAT_TREE, GRAPH])
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
    trace.write_bytes((folder("workloads") / "resnet18.trace").read_bytes())
    text = SMALL.replace("resnet50", f'"{trace}"')
    assert loads(text, workloads=WORKLOADS).jobs[0].workload == str(trace)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no line 'schema_version: 1'"),
        (b"\x80\x81", "not text in UTF-8"),
        (b"root:x:0:0:secret\n", "no line 'schema_version: 1'"),
        (b"schema_version: 2\n", "schema_version 2, this testbed reads 1"),
        (b"schema_version: 1\nname: cut\n", "the header lacks batch"),
    ],
)
def test_a_trace_that_is_not_sound_is_told_at_its_workload(
    content: bytes, problem: str, tmp_path: Path
) -> None:
    trace = tmp_path / "mine.trace"
    trace.write_bytes(content)
    with pytest.raises(Invalid) as caught:
        loads(SMALL.replace("resnet50", f'"{trace}"'), workloads=WORKLOADS)
    (told,) = caught.value.problems
    assert told.path == "jobs.0.workload"
    assert told.line
    assert problem in told.message
    assert "secret" not in told.message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (SMALL.replace("system: ring", "system: RING"), 'did you mean "ring"?'),
        (SMALL + "sweep: {prduct: {jobs.0.system: [ps]}}\n", 'did you mean "product"?'),
        (re.sub("(?ms)^jobs:.*?(?=^[a-z]|\\Z)", "jobs: [ring]\n", SMALL), "wanted a mapping"),
    ],
)
def test_a_near_miss_is_told_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(Invalid, match=re.escape(hint)):
        loads(text, systems=SYSTEMS)


def test_what_is_swept_need_not_be_given_besides() -> None:
    text = SMALL.replace("system: ring, ", "") + "sweep:\n  jobs.0.system: [ps, ring]\n"
    assert loads(text, systems=SYSTEMS).jobs[0].system == "ps"


def test_a_job_of_many_workers_may_be_simulated() -> None:
    fabric = "{kind: leaf-spine, spines: 2, leaves: 4, hosts_per_leaf: 64, host_rate: 10Gbit}"
    job = "{system: ring, workload: resnet50, workers: 200}"
    text = f"schema_version: 1\nname: many\nfabric: {fabric}\njobs: [{job}]\n"
    assert loads(text + "backend: simulate\n").jobs[0].workers == 200
    with pytest.raises(Invalid, match="wanted at most 64 in emulation"):
        loads(text)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(Invalid, match=r"gone\.yaml: found no such file or directory, wanted"):
        load("gone.yaml")


@pytest.mark.parametrize(
    "model",
    [Experiment, *KINDS.values(), GraphLink, Job, Compute, Stragglers, Emulation, Sweep],
)
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


WHOLE = [loads(text).data() for text in (FULL, FAT_TREE, GRAPH)]
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 70)
    | st.floats()
    | st.sampled_from(["", "0", "10Gbit", "1/2", "h0", "t9", "all", "jobs.0", "ring", "é\n"])
    | st.sampled_from(["graph", "fat-tree", "S1", "PS", "5us", "x.p4"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["system", "jobs.0.workers", "zip", "x", ""]), inner)
        | st.dictionaries(st.sampled_from(["kind", "switches", "ends", "k", "S1", "rate"]), inner)
    ),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_input_does_worse_than_being_refused(drawn: st.DataObject) -> None:
    data = copy.deepcopy(drawn.draw(st.sampled_from(WHOLE)))
    change = st.tuples(st.sampled_from(_places(data)[1:]), ODD)
    for place, value in drawn.draw(st.lists(change, min_size=1, max_size=3)):
        inner = data
        try:
            for part in place[:-1]:
                inner = inner[part]
            inner[place[-1]] = value
        except (TypeError, KeyError, IndexError):
            continue  # an earlier change removed this place
    text = write(data)
    try:
        experiment = loads(text, systems=SYSTEMS, workloads=WORKLOADS)
    except Invalid as refusal:
        assert refusal.problems
        for problem in refusal.problems:
            assert 1 <= problem.line <= text.count("\n") + 1
            assert re.match(r"([\w.]+: )?found ", problem.message)
            assert "wanted" in problem.message
            assert "\n" not in str(problem)
    else:
        assert loads(dump(experiment)) == experiment

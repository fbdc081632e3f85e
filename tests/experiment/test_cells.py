"""Sweeps become cells: which ones, with which names, and in which order."""

from __future__ import annotations

import pytest

from testbed.experiment.cells import cell_id, distinct, expand
from testbed.experiment.load import loads
from testbed.experiment.schema import Experiment

BASE = """\
schema_version: 1
name: base
fabric: {kind: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 5, host_rate: 10Gbit}
jobs:
  - {system: ring, workload: resnet50, workers: 8}
emulation: {repeats: 3, seed: 4}
"""
PRODUCT = """\
sweep:
  jobs.0.system: [ps, ring, atp]
  fabric.ina: [none, all]
"""


def experiment(sweep: str = "", base: str = BASE) -> Experiment:
    return loads(base + sweep)


def test_without_a_sweep_there_is_one_cell() -> None:
    (cell,) = distinct(experiment())
    assert cell.settings == {}
    assert cell.experiment == experiment()


def test_a_product_makes_every_combination_once() -> None:
    cells = distinct(experiment(PRODUCT))
    assert [tuple(cell.settings.values()) for cell in cells] == [
        (system, ina) for system in ("ps", "ring", "atp") for ina in ("none", "all")
    ]
    assert len({cell.id for cell in cells}) == 6
    for cell in cells:
        assert cell.experiment.sweep is None
        assert cell.experiment.jobs[0].system == cell.settings["jobs.0.system"]
        assert cell.experiment.fabric.ina == cell.settings["fabric.ina"]


def test_zip_advances_together_and_exclude_leaves_out() -> None:
    cells = distinct(
        experiment("""\
sweep:
  product:
    jobs.0.system: [ps, ring]
  zip:
    jobs.0.workers: [2, 4]
    fabric.leaves: [1, 2]
  exclude:
    - {jobs.0.system: ps, jobs.0.workers: 4}
""")
    )
    assert [tuple(cell.settings.values()) for cell in cells] == [
        ("ps", 2, 1),
        ("ring", 2, 1),
        ("ring", 4, 2),
    ]


def test_exclude_takes_lists_of_values() -> None:
    cells = distinct(
        experiment("""\
sweep:
  product:
    jobs.0.system: [ps, ring, atp]
    fabric.ina: [none, [t0], all]
  exclude:
    - {jobs.0.system: [ps, ring], fabric.ina: [[t0], all]}
    - {jobs.0.system: atp, fabric.ina: [t0]}
""")
    )
    assert [tuple(cell.settings.values()) for cell in cells] == [
        ("ps", "none"),
        ("ring", "none"),
        ("atp", "none"),
        ("atp", "all"),
    ]


def test_a_swept_section_that_the_file_leaves_out() -> None:
    base = BASE.replace("emulation: {repeats: 3, seed: 4}\n", "")
    cells = distinct(experiment("sweep:\n  emulation.dilation: [100, 300]\n", base))
    assert [cell.experiment.emulation.dilation for cell in cells] == [100, 300]


def test_a_value_that_follows_from_a_swept_one() -> None:
    cells = distinct(experiment("sweep:\n  fabric.host_rate: [10Gbit, 25Gbit]\n"))
    assert [cell.experiment.fabric.uplink_rate for cell in cells] == [10e9, 25e9]


def test_whole_fabrics_and_backends_are_swept() -> None:
    cells = distinct(
        experiment("""\
sweep:
  fabric:
    - {kind: fat-tree, k: 4, host_rate: 10Gbit}
    - {kind: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 5, host_rate: 10Gbit}
  backend: [emulate, simulate]
""")
    )
    assert [(cell.experiment.fabric.kind, cell.experiment.backend) for cell in cells] == [
        ("fat-tree", "emulate"),
        ("fat-tree", "simulate"),
        ("leaf-spine", "emulate"),
        ("leaf-spine", "simulate"),
    ]
    assert len({cell.id for cell in cells}) == 4


def test_every_cell_is_run_before_any_is_repeated() -> None:
    runs = expand(experiment(PRODUCT))
    assert len(runs) == 18
    blocks = [runs[start : start + 6] for start in (0, 6, 12)]
    for repeat, block in enumerate(blocks):
        assert {run.repeat for run in block} == {repeat}
        assert len({run.id for run in block}) == 6
    orders = {tuple(run.id for run in block) for block in blocks}
    assert len(orders) == 3


def test_the_order_depends_on_the_seed_alone() -> None:
    other = BASE.replace("seed: 4", "seed: 5")
    first, second = expand(experiment(PRODUCT)), expand(experiment(PRODUCT))
    assert first == second
    assert [run.settings for run in expand(experiment(PRODUCT, other))] != [
        run.settings for run in first
    ]


def test_an_identity_is_what_is_run() -> None:
    base = cell_id(experiment())
    assert len(base) == 10
    for same in (
        BASE.replace("name: base", "name: other\ndescription: words"),
        BASE.replace("repeats: 3", "repeats: 1"),
        BASE.replace("10Gbit", "10000Mbit"),
        BASE.replace("workers: 8", "workers: 8, servers: 1"),
    ):
        assert cell_id(experiment(base=same)) == base, same
    for other in (
        BASE.replace("workers: 8", "workers: 7"),
        BASE.replace("seed: 4", "seed: 5"),
        BASE.replace("spines: 2", "spines: 3"),
    ):
        assert cell_id(experiment(base=other)) != base, other


def test_cells_that_are_the_same_are_refused() -> None:
    same = Experiment.model_validate(
        {**experiment().data(), "sweep": {"fabric.host_rate": ["10Gbit", "10000Mbit"]}}
    )
    with pytest.raises(ValueError, match="the same cell twice"):
        expand(same)

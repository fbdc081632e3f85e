"""OmniReduce: its aggregator, its time against density, and what it refuses."""

from __future__ import annotations

import pytest
from tiny import data

import testbed
from testbed.located import Invalid
from testbed.plan.checker import check
from testbed.protocols.omnireduce.protocol import PROTOCOL
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine

OMNIREDUCE = registry["omnireduce"]
FABRIC = leaf_spine(2, 3, 5, 1e10, 1e10, 10**6)


def tree(workers, ina):
    plan = OMNIREDUCE.plan(Assignment(tuple(workers)), FABRIC.with_ina(ina))
    check(plan)
    (only,) = plan.trees
    assert only.protocol is PROTOCOL
    return only


def test_racks_sum_and_the_fullest_is_the_root():
    found = tree(["h0", "h5", "h6", "h10", "h11"], ["t1", "t2"])
    assert found.root == "t1"
    assert found.children("t1") == ("h0", "h5", "h6", "t2")


def test_a_spine_will_do_where_no_rack_sums():
    assert tree(["h0", "h5", "h6"], ["s1"]).root == "s1"


def test_its_tree_is_that_of_its_dense_twin_at_every_tier():
    job = Assignment(("h0", "h1", "h5", "h6", "h10"))
    fabric = FABRIC.with_ina(FABRIC.switches)
    (ours,), (dense,) = (
        registry[name].plan(job, fabric).trees for name in ("omnireduce", "switchml")
    )
    assert ours.root in ("s0", "s1")
    assert (ours.parent, ours.turn) == (dense.parent, dense.turn)


def test_without_a_switch_it_is_not_admitted():
    with pytest.raises(ValueError, match=r"not admitted.*without_ina: ring"):
        OMNIREDUCE.plan(Assignment(("h0", "h5")), FABRIC)


def run(folder, **changes):
    told = {
        "jobs__0__system": "omnireduce", "fabric__ina": "all", "fabric__spines": 1,
        "jobs__0__workload": "synthetic/4MB", "jobs__0__bucket": "25MB", "jobs__0__iterations": 1,
        "jobs__0__warmup": 0, "jobs__0__first_bucket": "25MB", "fabric__queue": "32KB",
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    rows = testbed.run(data(folder, **{**told, **changes}), folder / "results").results
    return rows.iloc[0]


@pytest.mark.parametrize("backend", ["packet", "simulate"])
@pytest.mark.parametrize("density", [1, 0.4, 0.1, 0.01])
def test_the_closed_form_holds_at_every_density(tmp_path, backend, density):
    row = run(tmp_path, backend=backend, jobs__0__density=density)
    assert row.error == ""
    # A block's lane is fixed. With some fifteen blocks per lane, the longest lane decides.
    rel = 0.3 if density == 0.01 else 0.05
    assert row.jct_s == pytest.approx(row.expected_jct_s, rel=rel)
    assert backend == "simulate" or row.verified


def test_at_full_density_it_costs_no_more_than_its_dense_twin(tmp_path):
    ours = run(tmp_path / "ours", backend="packet")
    dense = run(tmp_path / "dense", backend="packet", jobs__0__system="switchml")
    assert ours.jct_s <= 1.05 * dense.jct_s


def test_its_time_is_that_of_the_blocks_that_some_worker_has(tmp_path):
    """The first blocks of a chunk, one for each fragment of the window, come on top."""
    whole = run(tmp_path / "whole", backend="simulate").jct_s
    part = run(tmp_path / "part", backend="simulate", jobs__0__density=0.1)
    union = 1 - 0.9**4
    assert union < part.jct_s / whole < union + 0.05
    assert part.notes.startswith("density 0.1: ")


@pytest.mark.parametrize("density", [1, 0.1])
def test_losses_change_no_sum(tmp_path, density):
    row = run(tmp_path, backend="packet", jobs__0__density=density, emulation__loss=0.01)
    assert row.error == ""
    assert row.verified
    assert row.retransmitted > 0


def test_recorded_gradients_are_summed_with_their_zeros(tmp_path):
    row = run(
        tmp_path, backend="packet", jobs__0__workload="vgg16", jobs__0__gradients="real",
        jobs__0__density="recorded", emulation__scale=1 / 512, emulation__carried_values="all",
    )  # fmt: skip
    assert row.error == ""
    assert row.verified
    assert row.quantisation_error < 1e-4


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"jobs__0__system": "ring", "jobs__0__density": 0.1},
         r"\d+:12: jobs.0.density: found 0.1 with the system ring, .* take .*omnireduce"),
        ({"jobs__0__density": 0.1, "jobs__0__gradients": "real", "jobs__0__workload": "resnet50",
          "jobs__0__quantisation": "block_exponent"}, "quantisation: found block_exponent with a"),
        ({"jobs__0__density": "recorded", "jobs__0__gradients": "real", "backend": "packet",
          "jobs__0__workload": "resnet50"}, "density: found recorded with packets that carry few"),
        ({"jobs__0__density": 0}, "density: found 0, wanted a ratio above 0, at most 1, or record"),
        ({"jobs__0__density": "most"}, "density: found 'most', wanted a ratio above 0"),
        ({"jobs__0__density": "recorded"}, "density: found recorded, wanted real gradients"),
    ],
)  # fmt: skip
def test_a_density_that_makes_no_sense_is_refused(tmp_path, changes, told):
    with pytest.raises(Invalid, match=told):
        run(tmp_path, **{"backend": "simulate", **changes})

"""SwitchML: which node is the root, and where sums are made."""

from __future__ import annotations

import pytest

from testbed.plan.checker import check
from testbed.protocols.switchml.protocol import PROTOCOL
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine

SWITCHML = registry["switchml"]
FABRIC = leaf_spine(2, 3, 5, 1e10, 1e10, 10**6)


def tree(workers, ina, servers=("h14",), **options):
    plan = SWITCHML.plan(Assignment(tuple(workers), servers, options), FABRIC.with_ina(ina))
    check(plan)
    (only,) = plan.trees
    assert only.protocol is PROTOCOL
    return plan, only


def test_one_rack_is_summed_by_its_switch():
    plan, found = tree(["h0", "h1", "h2"], ["t0"])
    assert found.root == "t0"
    assert found.root_rank is None
    assert found.parent == {"h0": "t0", "h1": "t0", "h2": "t0"}
    assert plan.hosts == ("h0", "h1", "h2")  # the server has nothing to do


def test_of_several_racks_the_fullest_is_the_root():
    _, found = tree(["h0", "h1", "h5", "h6", "h7", "h10"], FABRIC.tors)
    assert found.root == "t1"
    assert found.children("t1") == ("h5", "h6", "h7", "h10", "t0")
    assert found.children("t0") == ("h0", "h1")


def test_of_equal_racks_that_of_rank_0_is_the_root():
    _, found = tree(["h5", "h0", "h6", "h1"], FABRIC.tors)
    assert found.root == "t1"


def test_a_spine_that_aggregates_is_the_root():
    _, found = tree(["h0", "h1", "h5", "h6", "h7", "h10"], [*FABRIC.tors, "s0"])
    assert found.root == "s0"
    assert set(found.children("s0")) == {"t0", "t1", "h10"}


def test_workers_below_tors_without_ina_send_to_the_root():
    plan, found = tree(["h0", "h1", "h5", "h6", "h10", "h11", "h12"], ["t0", "t2"])
    assert found.root == "t2"
    assert set(found.children("t2")) == {"h10", "h11", "h12", "h5", "h6", "t0"}
    assert plan.hosts == ("h0", "h1", "h5", "h6", "h10", "h11", "h12")


def test_a_tor_with_a_single_worker_can_be_the_root():
    _, found = tree(["h0", "h1", "h5"], ["t1", "t2"])
    assert found.children("t1") == ("h0", "h1", "h5")


def test_a_server_sums_what_is_left_if_asked_to():
    plan, found = tree(["h0", "h1", "h5", "h6"], ["t0", "t2"], root="server")
    assert found.root == "h14"
    assert found.root_rank == 4
    # The server's own ToR, t2, has no workers to sum for.
    assert set(found.children("h14")) == {"t0", "h5", "h6"}
    assert plan.hosts[-1] == "h14"


def test_with_ina_at_all_tors_a_switch_is_the_root_even_then():
    _, found = tree(["h0", "h1", "h5"], FABRIC.tors, root="server")
    assert found.root == "t0"


@pytest.mark.parametrize(
    ("ina", "options"),
    [([], {}), (["t1", "t2"], {"root": "server"})],
    ids=["none", "where it has no two workers"],
)
def test_where_no_switch_sums_it_is_not_admitted(ina, options):
    with pytest.raises(ValueError, match=r"not admitted: .* take the option without_ina: server"):
        tree(["h0", "h1", "h5"], ina, **options)


def test_without_ina_all_send_to_the_server_if_asked_to():
    _, found = tree(["h0", "h1", "h5"], [], without_ina="server")
    assert found.switches == ()
    assert found.streams == 3


@pytest.mark.parametrize(
    ("servers", "words"),
    [(("h0",), "is a worker too"), ((), "found 0 servers, wanted exactly one")],
)
def test_a_server_that_cannot_be_the_root_is_refused(servers, words):
    with pytest.raises(ValueError, match=words):
        tree(["h0", "h1", "h5"], [], servers)
    tree(["h0", "h1"], ["t0"], servers)  # no server is needed, so it does not matter

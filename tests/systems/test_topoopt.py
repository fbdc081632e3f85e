"""TopoOpt: rings on circuits, hosts that forward, and errors in files about circuits."""

from __future__ import annotations

import time
from math import gcd

import pytest
from tiny import data

import testbed
from testbed.experiment.load import loads
from testbed.located import Invalid
from testbed.plan import cost as model
from testbed.plan.checker import check
from testbed.systems import Assignment, registry
from testbed.topology.builders import circuits
from testbed.topology.circuits import jumps, ways
from testbed.topology.framing import framing

TOPOOPT = registry["topoopt"]


def pace(system, fabric):
    """Time per byte, in units of a byte on a circuit of 10 Gbit/s, headers left out."""
    made = registry[system].plan(Assignment(fabric.hosts), fabric)
    check(made)
    tcp = framing(fabric)
    overhead = 1 / tcp.tcp_efficiency + tcp.tcp_ack_share
    return model.seconds_per_byte(made, fabric) * 1e10 / 8 / overhead


def test_jumps_are_those_of_the_released_code():
    began = time.process_time()
    assert jumps(128, 2) == (1, 13)
    assert time.process_time() - began < 1
    for hosts in range(2, 40):
        chosen = jumps(hosts, 3)
        assert all(gcd(jump, hosts) == 1 for jump in chosen)
        assert len(set(ways(hosts, chosen))) == len(ways(hosts, chosen))


@pytest.mark.parametrize(("hosts", "chosen"), [(12, (1, 5)), (7, (1, 2, 3)), (16, (3,)), (2, (1,))])
def test_d_links_take_as_long_as_d_rings_of_a_part_each(hosts, chosen):
    fabric = circuits(hosts, chosen, 1e10, 10**6)
    links = 2 * len(chosen)
    assert {len(fabric.neighbours(tor)) for tor in fabric.tors} <= {1 + links, 2}
    assert pace("topoopt", fabric) == pytest.approx(2 * (hosts - 1) / hosts / links, rel=0.01)


def test_hosts_forward_for_one_another():
    fabric = circuits(8, (1,), 1e10, 10**6)
    # Three rings with other jumps each take several circuits, which puts more load on the same
    # links.
    some = Assignment(fabric.hosts[:7], (), TOPOOPT.settle({"rings": 3}))
    made = TOPOOPT.plan(some, fabric)
    check(made)
    assert pace("ring", fabric) < model.seconds_per_byte(made, fabric) * 1e10 / 8


@pytest.mark.parametrize("backend", ["simulate", "packet"])
def test_it_takes_as_long_as_its_closed_form(backend, tmp_path):
    asked = data(
        tmp_path, backend=backend, jobs__0__system="topoopt", jobs__0__workers=5,
        jobs__0__workload="synthetic/100MB", emulation__scale="1/20",
    )  # fmt: skip
    fabric = {"kind": "circuits", "hosts": 5, "host_links": 4, "host_rate": "10Gbit"}
    asked["fabric"] = {**fabric, "reconfiguration": "10ms", "queue": "4MB"}
    row = testbed.run(asked, tmp_path / "results").results.iloc[0]
    assert (row.error, row.verdict) == ("", "valid")
    assert row.jct_s == pytest.approx(row.expected_jct_s, rel=0.05)


FILE = """\
schema_version: 1
name: circuits
fabric:
  {kind}
  host_rate: 10Gbit
  {more}
jobs:
  - {{system: topoopt, workload: resnet50, workers: 4}}
"""
CIRCUITS = "kind: circuits\n  hosts: 8\n  host_links: 4"
LEAF_SPINE = "kind: leaf-spine\n  spines: 1\n  leaves: 2\n  hosts_per_leaf: 4"


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        (CIRCUITS, "circuits: [1, 3, 5]", "8:20: fabric.circuits.2: found 3 jumps, which take 6"),
        (CIRCUITS, "circuits: [1, 4]", "8:17: fabric.circuits.1: found a jump of 4, wanted one"),
        (CIRCUITS, "ina: all", "8:8: fabric.ina: found all, wanted none"),
        (LEAF_SPINE, "circuits: [1]", '9:3: fabric.circuits: found "circuits", wanted one of the'),
    ],
)
def test_circuits_that_a_fabric_cannot_have_are_refused(kind, more, message):
    with pytest.raises(Invalid) as refused:
        loads(FILE.format(kind=kind, more=more), "x.yaml")
    assert f"x.yaml:{message}" in str(refused.value)

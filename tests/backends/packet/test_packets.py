"""Whole experiments packet by packet, beside the flow back end."""

from __future__ import annotations

import pytest
from tiny import data

import testbed

SYSTEMS = ("ring", "ps", "atp", "switchml", "rina", "netreduce", "grid")


def run(folder, name="one", **changes):
    asked = {"backend": "packet", "fabric__spines": 1, "fabric__ina": "all"} | changes
    return testbed.run(data(folder, **asked), folder / name)


@pytest.mark.parametrize("system", SYSTEMS)
def test_large_messages_take_as_long_as_flows(system, tmp_path):
    """Without loss, and where racks are alike. NetReduce acknowledges every packet here, and not
    some together as on a busy machine, which costs it the twentieth that an acknowledgement is."""
    seconds = {}
    for backend in ("packet", "simulate"):
        found = run(
            tmp_path,
            backend,
            backend=backend,
            jobs__0__system=system,
            jobs__0__workload="synthetic/8MB",
            jobs__0__iterations=2,
            jobs__0__placement="spread",
            emulation__scale="1",
            fabric__queue="4MB",
        )
        (row,) = found.results.itertuples()
        assert (row.error, row.verdict) == ("", "valid")
        seconds[backend] = row.jct_s
    assert seconds["packet"] == pytest.approx(seconds["simulate"], rel=0.06)


@pytest.mark.parametrize("system", ["ring", "atp", "rina"])
def test_the_same_seed_gives_the_same_times(system, tmp_path):
    first, second = (
        run(tmp_path, name, jobs__0__system=system, emulation__loss=0.01) for name in ("a", "b")
    )
    for table in ("results", "iterations", "links"):
        left, right = (
            getattr(each, table).drop(columns=["run", "started_at"], errors="ignore")
            for each in (first, second)
        )
        assert left.equals(right), table


@pytest.mark.parametrize("system", SYSTEMS)
def test_sums_are_exact_where_packets_are_lost(system, tmp_path):
    (row,) = run(tmp_path, jobs__0__system=system, emulation__loss=0.02).results.itertuples()
    assert row.error == ""
    assert row.verified
    assert row.retransmitted > 0


@pytest.mark.parametrize("system", ["atp", "switchml", "rina", "netreduce", "grid"])
def test_switches_are_sent_nothing_twice_without_loss(system, tmp_path):
    (row,) = run(tmp_path, jobs__0__system=system).results.itertuples()
    assert row.retransmitted == 0


def test_what_it_cannot_do_is_said(tmp_path):
    (row,) = run(tmp_path, emulation__target="bmv2").results.itertuples()
    assert "emulation.target: found bmv2, wanted native or auto" in row.error

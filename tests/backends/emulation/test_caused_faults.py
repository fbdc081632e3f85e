"""Faults that a user asks for, in the emulator. They begin at 0, before the first packet, so that
no result depends on this machine's speed."""

from __future__ import annotations

import os

import pytest
from leftovers import descendants
from patience import assert_none
from tiny import data
from traffic import TARGETS

import testbed
from testbed.backends.emulation import backend
from testbed.machine.verdict import is_needless

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("root_namespace")]


def run(folder, faults, **changes):
    """The row of a job that must cross t0-s0 with packets of h0."""
    asked = data(folder, fabric__spines=1, fabric__ina="all", **changes)
    asked["emulation"]["faults"] = faults
    before = set(descendants(os.getpid()))
    (row,) = testbed.run(asked, folder / asked.get("backend", "emulate")).results.itertuples()
    assert_none(lambda: set(descendants(os.getpid())) - before)
    return row


@pytest.mark.parametrize("target", TARGETS)
def test_what_comes_back_changes_no_sum(target, tmp_path):
    faults = [
        {"at": "0s", "until": "2ms", "link": "t0-s0"},
        {"at": "0s", "until": "3ms", "host": "h0"},
        {"at": "0s", "until": "1ms", "switch": "t0", "tables": 5},
        {"at": "2ms", "switch": "t0"},
        {"at": "0s", "until": "2ms", "switch": "t1"},
    ]
    row = run(tmp_path, faults, emulation__target=target)
    assert (row.error, row.verified) == ("", True)
    for step in ("t0-s0 down", "t0-s0 up", "h0 paused", "h0 goes on", "t1 killed", "t1 started"):
        assert row.notes.count(f"{step} at ") == 1
    assert row.notes.count("t0 killed and started at ") == 2
    assert "t0 told at " in row.notes
    assert not is_needless(row.verdict)
    for excused in ("sockets of h0", "ended"):  # a stopped process, a killed switch
        assert excused not in row.verdict


def test_a_kernel_router_and_an_impaired_link_come_back(tmp_path):
    faults = [
        {"at": "0s", "until": "1ms", "switch": "s0"},
        {"at": "0s", "until": "2ms", "link": "h0-t0", "loss": 1, "duplication": 0.5},
    ]
    row = run(tmp_path, faults, jobs__0__system="ring", jobs__0__warmup=0)
    assert (row.error, row.verified) == ("", True)
    assert row.jct_s > 0.0019  # nothing of h0 arrived before
    assert "s0 off at 0s" in row.notes and "h0-t0 up at " in row.notes


@pytest.mark.parametrize(
    "fault",
    [
        {"link": "t0-s0"},
        {"link": "t0-s0", "loss": 1},
        {"switch": "s0"},
        {"switch": "t0"},
        {"host": "h0"},
    ],
    ids=str,
)
def test_what_two_faults_stop_waits_for_the_end_of_both(fault, tmp_path):
    faults = [{"at": "0s", "until": until, **fault} for until in ("8ms", "1ms")]
    row = run(tmp_path, faults, jobs__0__warmup=0)
    assert (row.error, row.verified) == ("", True)
    assert row.jct_s > 0.0079


@pytest.mark.parametrize("fault", [{"host": "h0"}, {"link": "t0-s0"}], ids=str)
def test_what_is_gone_for_good_ends_the_run_as_in_virtual_time(fault, tmp_path, monkeypatch):
    monkeypatch.setattr(backend, "_GONE_S", 1.0)
    outcomes = []
    for name in ("packet", "emulate"):
        row = run(tmp_path, [{"at": "0s", **fault}], backend=name, jobs__0__iterations=1)
        outcomes.append((row.verdict, bool(row.verified), row.error.partition(": ")[0]))
    assert outcomes[0] == outcomes[1]
    (word,) = fault.values()
    assert outcomes[0][0] == "failed" and f" {word} " in outcomes[0][2]

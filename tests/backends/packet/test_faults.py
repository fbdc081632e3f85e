"""Links, switches and hosts that fail at a given time."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP
from scapy.utils import PcapReader
from tiny import data

import testbed
from testbed.located import Invalid


def run(folder, name="one", faults=(), captures=(), **changes):
    asked = data(folder, backend="packet", fabric__spines=1, fabric__ina="all", **changes)
    asked["emulation"]["faults"] = list(faults)
    return testbed.run(asked, folder / name, captures=captures)


def undisturbed(folder, system):
    found = run(folder, "undisturbed", jobs__0__system=system)
    return found.results.jct_s.item(), found.iterations.end_s.max()


@pytest.mark.parametrize("system", ["ring", "ps", "atp", "switchml", "rina", "netreduce"])
def test_a_job_survives_a_link_that_comes_back(system, tmp_path):
    jct, end = undisturbed(tmp_path, system)
    # After the warm-up, which takes about half of ``end``.
    outage = {"at": f"{end * 1e6:.0f}us", "until": "50ms", "link": "t0-s0"}
    first, second = (
        run(tmp_path, name, [outage], jobs__0__system=system).results for name in ("a", "b")
    )
    assert (first.error.item(), first.verified.item()) == ("", True)
    assert first.jct_s.item() > 0.037 > 2 * jct
    assert first.jct_s.item() == second.jct_s.item()


@pytest.mark.parametrize("system", ["atp", "switchml", "rina"])
def test_a_switch_that_loses_its_memory_changes_no_sum(system, tmp_path):
    _, end = undisturbed(tmp_path, system)
    faults = [{"at": f"{end * part * 1e6 / 50:.0f}us", "switch": "t0"} for part in range(1, 100)]
    (row,) = run(tmp_path, "restarted", faults, jobs__0__system=system).results.itertuples()
    assert (row.error, row.verified) == ("", True)
    assert row.retransmitted > 0


@pytest.mark.parametrize("system", ["ring", "ps", "atp"])
def test_a_dead_worker_ends_the_run_with_an_error(system, tmp_path):
    _, end = undisturbed(tmp_path, system)
    dead = {"at": f"{end / 2 * 1e6:.0f}us", "host": "h0"}
    (row,) = run(tmp_path, "dead", [dead], jobs__0__system=system).results.itertuples()
    assert "TCP gave up" in row.error or "wait for ever" in row.error


def test_a_fault_after_the_end_is_noted(tmp_path):
    late = [{"at": "500s", "switch": "t0"}, {"at": "0s", "wrap": 20}]
    (row,) = run(tmp_path, "late", late, jobs__0__system="atp").results.itertuples()
    assert row.notes.startswith("ended at ")
    assert row.notes.endswith(", before the faults of t0 at 500s")


LONG = {"at": "100us", "until": "30ms"}
SHORT = {"at": "1ms", "until": "2ms"}


@pytest.mark.parametrize(
    "what",
    [
        {"link": "t0-s0"},
        {"link": "t0-s0", "loss": 1.0},
        {"host": "h0"},
        {"switch": "t0"},
    ],
    ids=["down", "impaired", "paused", "off"],
)
def test_a_fault_lasts_although_another_one_ends(what, tmp_path):
    asked = {"jobs__0__system": "switchml", "jobs__0__warmup": 0}
    runs = {
        "long": [{**LONG, **what}],
        "short": [{**SHORT, **what}],
        "both": [{**LONG, **what}, {**SHORT, **what}],
    }
    jct = {
        name: run(tmp_path, name, faults, **asked).results.jct_s.item()
        for name, faults in runs.items()
    }
    assert jct["both"] > 0.029
    assert jct["short"] < 0.01
    assert jct["both"] == pytest.approx(jct["long"], rel=0.05)


def test_what_an_impairment_does_not_change_stays(tmp_path):
    usual = {"jobs__0__system": "switchml", "emulation__loss": {"t0-s0": 0.2}}
    held_up = {"at": "0s", "link": "t0-s0", "reordering": 0.01}
    (row,) = run(tmp_path, "both", [held_up], **usual).results.itertuples()
    assert row.verified
    assert row.retransmitted > 500


def test_a_link_that_is_down_delivers_no_frame_that_it_held_up(tmp_path):
    faults = [
        {"at": "200us", "until": "400us", "link": "h0-t0", "reordering": 0.5, "delay": "5ms"},
        {"at": "400us", "until": "5ms", "link": "h0-t0"},
    ]
    run(tmp_path, "one", faults, ["h0-t0"], jobs__0__system="ring", jobs__0__warmup=0)
    (found,) = (tmp_path / "one").rglob("h0-t0.pcap")
    with PcapReader(str(found)) as packets:
        times = [float(packet.time) for packet in packets if packet[IP].dst == "10.0.0.1"]
    assert min(times) < 400e-6
    assert max(times) > 5e-3
    assert not [each for each in times if 410e-6 < each < 5e-3]


def test_a_delay_is_of_those_faults_that_reorder(tmp_path):
    """The default is 100 us, for faults that reorder nothing, too."""
    held_up = {"at": "0s", "link": "t0-s0", "reordering": 1.0, "delay": "1us"}
    other = {"at": "0s", "link": "t0-s0", "loss": 1e-9}
    asked = {"jobs__0__system": "switchml"}
    alone = run(tmp_path, "alone", [held_up], **asked).results
    beside = run(tmp_path, "beside", [held_up, other], **asked).results
    assert beside.jct_s.item() == pytest.approx(alone.jct_s.item(), rel=0.01)


def test_packets_for_a_link_that_is_down_are_no_overflow(tmp_path):
    (row,) = run(
        tmp_path, "down", [{**LONG, "link": "t0-s0"}], jobs__0__system="switchml"
    ).results.itertuples()
    assert row.verified
    assert "queues dropped" not in row.notes


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"link": "h0-s9"}, '0.link: found "h0-s9", wanted an existing link'),
        ({"switch": "t7"}, '0.switch: found "t7", wanted an existing switch'),
        ({"host": "s0"}, '0.host: found "s0", wanted an existing host'),
    ],
)
@pytest.mark.parametrize("is_swept", [False, True])
def test_what_fails_must_exist_in_every_cell(is_swept, fault, said, tmp_path):
    bad, good = [{"at": "1ms", **fault}], [{"at": "1ms", "link": "s0-t0"}]
    changes = {"sweep": {"emulation.faults": [bad, good]}} if is_swept else {}
    with pytest.raises(Invalid) as caught:
        run(tmp_path, faults=good if is_swept else bad, **changes)
    (problem,) = caught.value.problems
    assert said in str(problem)
    assert not (tmp_path / "one").exists()

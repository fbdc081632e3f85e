"""Whole experiments packet by packet, compared with the flow back end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tiny import FRAGMENTS, data

import testbed
from testbed.deployment.errors import DeploymentError
from testbed.systems import registry

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
SLOWER = {
    "ring": 0.02, "atp": 0.01, "switchml": 0.01, "rina": 0.03, "netreduce": 0.01,
    "grid": 0.01,
}  # fmt: skip
SYSTEMS = ("ps", *SLOWER)
ONE = {"jobs__0__iterations": 1, "jobs__0__warmup": 0}


def run(folder, name="one", **changes):
    asked = {"backend": "packet", "fabric__spines": 1, "fabric__ina": "all"} | changes
    return testbed.run(data(folder, **asked), folder / name)


def valid_row(folder, name="one", **changes):
    (row,) = run(folder, name, **changes).results.itertuples()
    assert (row.error, row.verdict) == ("", "valid")
    return row


@pytest.mark.parametrize(("system", "slower"), SLOWER.items())
def test_large_messages_take_as_long_as_flows(system, slower, tmp_path):
    seconds = {}
    for backend in ("packet", "simulate"):
        row = valid_row(
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
        seconds[backend] = row.jct_s
    assert 0.98 <= seconds["packet"] / seconds["simulate"] <= 1 + slower


@pytest.mark.parametrize("spines", [1, 2])
def test_ps_takes_as_long_as_its_closed_form_where_what_is_in_flight_fits_into_queues(
    spines, tmp_path
):
    """With pieces of 4 MB, senders in step would overflow the server's queue at full scale."""
    seconds = {}
    for partition in (64_000, 4_000_000):
        row = valid_row(
            tmp_path,
            str(partition),
            fabric__spines=spines,
            fabric__fabric_rate="40Gbit",
            fabric__queue="256KB",
            jobs__0__system="ps",
            jobs__0__options={"partition": partition},
            jobs__0__workload="synthetic/32MB",
            jobs__0__placement="spread",
            jobs__0__bucket="25MB",
            jobs__0__first_bucket="1MB",
            emulation__scale="1",
            **ONE,
        )
        seconds[partition] = row.jct_s
        if partition == 64_000:
            assert row.retransmitted == 0
            assert row.jct_s == pytest.approx(row.expected_jct_s, rel=0.02)
    assert seconds[4_000_000] > 1.1 * seconds[64_000]


@pytest.mark.parametrize("ina", [0.5, "all"])
def test_grids_streams_take_the_paths_of_its_plan(ina, tmp_path):
    """With hashed routes, some streams would share a link, and the job would take 1.3 times as
    long."""
    fat_tree = {"kind": "fat-tree", "k": 4, "host_rate": "10Gbit", "queue": "512KB", "ina": ina}
    row = valid_row(
        tmp_path,
        fabric=fat_tree,
        jobs__0__system="grid",
        jobs__0__workload="synthetic/8MB",
        jobs__0__workers=12,
        emulation__scale="1",
    )
    assert row.jct_s == pytest.approx(row.expected_jct_s, rel=0.05)


@pytest.mark.parametrize("system", ["netreduce", "flare"])
def test_sums_pass_three_tiers_of_switches(system, tmp_path):
    row = valid_row(
        tmp_path,
        fabric={"kind": "fat-tree", "k": 4, "host_rate": "10Gbit", "queue": "512KB", "ina": "all",
                "ina_tier": "any"},
        jobs__0__system=system,
        jobs__0__workload="synthetic/8MB",
        jobs__0__workers=12,
        emulation__scale="1/4",
    )  # fmt: skip
    assert row.jct_s == pytest.approx(row.expected_jct_s, rel=0.05)
    # Every link carries the gradient once; with two tiers only, a core's links carry it twice.
    assert row.jct_s < 1.2 * row.iterations * 8 * 8e6 / 10e9


@pytest.mark.parametrize("system", ["atp", "grid", "netreduce", "rina", "switchml"])
def test_many_streams_on_short_queues_take_as_long_as_their_closed_form(system, tmp_path):
    """Half of a queue holds too few of each stream's packets for a round trip."""
    row = valid_row(
        tmp_path,
        fabric={"kind": "leaf-spine", "spines": 1, "leaves": 8, "hosts_per_leaf": 2,
                "host_rate": "10Gbit", "fabric_rate": "10Gbit", "queue": "64KB", "ina": "all",
                "link_delay": "1us"},
        jobs__0__system=system,
        jobs__0__workload="synthetic/8MB",
        jobs__0__workers=14,
        emulation__scale="1/4",
    )  # fmt: skip
    assert row.jct_s == pytest.approx(row.expected_jct_s, rel=0.02)


@pytest.mark.parametrize("carrier", [name for name, each in registry.items() if each.carries])
def test_osps_stages_run_over_each_carrier(carrier, tmp_path):
    row = valid_row(
        tmp_path,
        jobs__0__system="osp",
        jobs__0__options={"carrier": carrier},
        jobs__0__workload="synthetic/8x1MB/20ms",
        jobs__0__iterations=2,
        emulation__scale="1/4",
        fabric__queue="4MB",
    )
    slower = 1.1 if registry[carrier].aggregates else 1.3
    assert 0.99 * row.expected_jct_s <= row.jct_s <= slower * row.expected_jct_s


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


@pytest.mark.parametrize("system", SYSTEMS)
def test_sums_are_exact_where_packets_arrive_twice(system, tmp_path):
    impaired = {"emulation__duplication": {"all": 0.05}, "emulation__loss": {"t1-s0": 0.02}}
    (row,) = run(tmp_path, jobs__0__system=system, **impaired).results.itertuples()
    assert (row.error, row.verified) == ("", True)


def test_a_link_loses_what_is_asked_of_it(tmp_path):
    """Whether it is asked for by its name, as one of the hosts' links, or as one of all links."""
    seconds = {}
    for name, loss in {
        "none": 0, "one": {"h0-t0": 0.1}, "other": {"all": 0.1, "t0-h0": 0, "hosts": 0},
        "number": 0.02, "hosts": {"hosts": 0.02},
    }.items():  # fmt: skip
        found = run(tmp_path, name, jobs__0__system="atp", emulation__loss=loss)
        seconds[name] = found.results.jct_s.item()
    assert len(set(seconds.values())) == 4
    assert seconds["number"] == seconds["hosts"]
    assert min(seconds.values()) == seconds["none"]


@pytest.mark.parametrize("system", ["atp", "switchml", "rina", "netreduce", "grid"])
def test_switches_are_sent_nothing_twice_without_loss(system, tmp_path):
    """Except that a group of Rina's may wait for a single worker, and then a packet asks for the
    sum."""
    (row,) = run(tmp_path, jobs__0__system=system).results.itertuples()
    assert row.retransmitted <= (5 if system == "rina" else 0)


@pytest.mark.parametrize("ina", ["all", 0], ids=["with INA", "without"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_job_may_have_more_workers_than_a_bitmap_has_bits(system, ina, tmp_path):
    """Without INA a server has more children than that, too."""
    changes = {
        "fabric__hosts_per_leaf": [36, 36],
        "jobs__0__workers": 70,
        "fabric__ina": ina,
        **ONE,
    }
    if system == "switchml" and not ina:
        changes["jobs__0__options"] = {"without_ina": "server"}
    found = run(tmp_path, jobs__0__system=system, emulation__scale="1/65536", **changes)
    (row,) = found.results.itertuples()
    assert (row.error, row.verified) == ("", True)


WHOLE = {"jobs__0__bucket": "100MB", "jobs__0__first_bucket": "100MB"}


def with_costs(folder, system, **costs):
    """Seconds of a job of two iterations that synchronise their gradient at once."""
    changes = {f"fabric__{name}": cost for name, cost in costs.items()}
    found = run(folder, "-".join(costs.values()), jobs__0__system=system, **WHOLE, **changes)
    assert (found.results.error.item(), found.results.verified.item()) == ("", True)
    return found.results.jct_s.item()


# An ATP worker sends its gradient and receives the sum; in a ring of four, it does so in each of 6
# steps.
@pytest.mark.parametrize(("system", "messages"), [("atp", 2), ("netreduce", 2), ("ring", 12)])
def test_hosts_handle_messages_one_after_another(system, messages, tmp_path):
    free, costly = (with_costs(tmp_path, system, message_cost=cost) for cost in ("0s", "10us"))
    assert costly - free == pytest.approx(2 * messages * 10e-6, rel=0.01)


@pytest.mark.parametrize(("system", "packets"), [("atp", FRAGMENTS * 2), ("ring", 6 * 43 * 2)])
def test_hosts_handle_packets_one_after_another(system, packets, tmp_path):
    """This shows if handling takes longer than everything else. A ring's parts have 43 segments,
    and with them come more acknowledgements."""
    slow = [with_costs(tmp_path, system, packet_cost=cost) for cost in ("10us", "20us")]
    assert 1 <= (slow[1] - slow[0]) / (2 * packets * 10e-6) <= (1.01 if system == "atp" else 2)


@pytest.mark.parametrize("system", ["atp", "switchml", "netreduce"])
def test_their_sums_are_exact_where_packets_are_lost(system, tmp_path):
    changes = {"fabric__hosts_per_leaf": [36, 36], "jobs__0__workers": 70}
    changes |= {"jobs__0__system": system, "emulation__loss": 0.005}
    (row,) = run(tmp_path, emulation__scale="1/16384", **changes).results.itertuples()
    assert (row.error, row.verified) == ("", True)
    assert row.retransmitted > 0


def test_a_switch_with_more_children_than_a_bitmap_has_bits_is_refused_first(tmp_path):
    changes = {"fabric__hosts_per_leaf": [70, 2], "jobs__0__workers": 70}
    with pytest.raises(DeploymentError, match="found 70 children of t0 on a tree of atp"):
        run(tmp_path, **changes)


def chain_of_racks(racks):
    return {
        "fabric__leaves": racks,
        "fabric__hosts_per_leaf": 2,
        "jobs__0__system": "rina",
        "jobs__0__options": {"groups": "always"},
        "jobs__0__workers": 2 * racks,
    }


def test_sums_pass_more_switches_in_a_row_than_an_ip_packet_does(tmp_path):
    (row,) = run(tmp_path, emulation__scale="1/16384", **chain_of_racks(70)).results.itertuples()
    assert (row.error, row.verified, row.retransmitted) == ("", True, 0)


def test_a_switch_has_room_for_the_copies_of_as_many_trees_as_it_can_have(tmp_path):
    changes = {"fabric__hosts_per_leaf": [30, 30], "jobs__0__workers": 60, "fabric__spines": 40}
    changes |= {"fabric__ina_tier": "any", "jobs__0__system": "panama"}
    (row,) = run(tmp_path, emulation__scale="1/1024", **changes).results.itertuples()
    assert (row.error, row.verified) == ("", True)


def test_a_delay_of_links_is_added_at_every_hop(tmp_path):
    seconds = []
    for delay in ("0s", "100us"):
        changes = {"jobs__0__system": "ps", "fabric__link_delay": delay, "fabric__queue": "4MB"}
        (row,) = run(tmp_path, delay, **changes).results.itertuples()
        seconds.append(row.jct_s)
    # At least two hops up and two down in the server's rack, once.
    assert seconds[1] > seconds[0] + 4e-4


@pytest.mark.parametrize(
    ("system", "longer"), [("atp", 30), ("panama", 30), ("netreduce", 30), ("omnireduce", 200)]
)
def test_a_round_trip_longer_than_the_first_timeout_is_measured(system, longer, tmp_path):
    """Otherwise everything is retransmitted before its answer comes, again and again."""
    rows = [
        valid_row(
            tmp_path,
            f"{microseconds}",
            jobs__0__system=system,
            jobs__0__workload="synthetic/1MB",
            jobs__0__iterations=3,
            fabric__link_delay=f"{microseconds}us",
        )
        for microseconds in (100, 100 * longer)
    ]
    assert rows[0].retransmitted == 0
    assert rows[1].retransmitted < 6_500
    assert rows[1].jct_s < 1.1 * longer * rows[0].jct_s


@pytest.mark.parametrize("system", ["atp", "a2tp", "esa", "switchml", "netreduce", "panama"])
@pytest.mark.parametrize("rate", ["30Mbit", "10Mbit"])
def test_a_queue_that_takes_longer_than_all_timeouts_drains(system, rate, tmp_path):
    """Sixteen workers retransmitted faster than the link to one of them sent."""
    row = valid_row(
        tmp_path,
        "slow",
        fabric__leaves=4,
        fabric__hosts_per_leaf=5,
        fabric__host_rate=rate,
        jobs__0__system=system,
        jobs__0__workers=16,
        jobs__0__workload="synthetic/256KB",
        emulation__scale=1,
    )
    assert row.jct_s < 10 * row.expected_jct_s


def test_losses_that_others_repair_do_not_make_timeouts_longer(tmp_path):
    """A worker's round trip is long if the sum waits for another worker's retransmission."""
    asked = yaml.safe_load((EXPERIMENTS / "ladder-loss.yaml").read_text())
    asked["jobs"][0]["system"] = "atp"
    found = testbed.run(asked | {"backend": "packet", "sweep": None}, tmp_path).results
    # 1.15 s; 1.59 s if twice the smoothed round trip bounds timeouts, instead of the least.
    assert found.jct_s.mean() < 1.3


@pytest.mark.parametrize("rate", ["1Gbit", "100Mbit"])
def test_another_hosts_slow_link_changes_nothing(rate, tmp_path):
    switches = {"s": [f"h{number}" for number in range(5)]}
    jct = {
        each: valid_row(
            tmp_path,
            each,
            fabric={
                "kind": "graph",
                "host_rate": "10Gbit",
                "queue": "1MB",
                "switches": switches,
                "links": [{"ends": ["h4", "s"], "rate": each}],
            },
            jobs__0__system="atp",
            jobs__0__workers=["h0", "h1", "h2"],
            jobs__0__servers=["h3"],
        ).jct_s
        for each in ("10Gbit", rate)
    }
    assert jct[rate] == jct["10Gbit"]


@pytest.mark.parametrize("system", ["switchml", "rina", "netreduce", "ring", "ssp"])
def test_few_values_take_exactly_as_long_as_all(system, tmp_path):
    """Even with losses: every event is the same."""
    few, every = (
        run(
            tmp_path,
            carried,
            jobs__0__system=system,
            emulation__carried_values=carried,
            emulation__loss=0.01,
        )
        for carried in ("few", "all")
    )
    for table in ("iterations", "links"):
        left, right = (
            getattr(each, table).drop(columns=["run", "cell"], errors="ignore")
            for each in (few, every)
        )
        assert left.equals(right), table
    assert list(few.results.verified) == [True]


def test_each_repeat_draws_anew(tmp_path):
    found = run(tmp_path, jobs__0__system="ring", emulation__loss=0.01, emulation__repeats=3)
    assert len(set(found.results.jct_s)) == 3


def test_a_message_may_take_longer_than_ranks_may_be_silent_for(tmp_path):
    row = valid_row(
        tmp_path,
        fabric__host_rate="100Kbit",
        jobs__0__system="ring",
        jobs__0__workload="synthetic/32MB",
        jobs__0__workers=2,
        jobs__0__bucket="1GB",
        jobs__0__first_bucket="1GB",
        **ONE,
    )
    assert row.jct_s > 2000


def test_a_host_that_is_cut_off_is_an_error_in_bounded_time(tmp_path):
    (row,) = run(tmp_path, jobs__0__system="ring", emulation__loss=0.5).results.itertuples()
    assert "TCP gave up" in row.error


def test_dilated_timers_make_losses_cheap_for_the_hosts(tmp_path):
    """A timeout of 10 ms is 50 us of the network's time at a dilation of 200."""
    seconds = {}
    for timers in ("real", "dilated"):
        found = run(
            tmp_path,
            timers,
            jobs__0__system="ring",
            emulation__loss=0.02,
            emulation__timers=timers,
        )
        seconds[timers] = found.results.jct_s.item()
    assert seconds["dilated"] < seconds["real"] / 2


def test_the_same_file_gives_the_same_table_byte_for_byte(tmp_path):
    """Whatever the hash seed and the number of processes are."""
    asked = data(
        tmp_path,
        backend="packet",
        fabric__ina="all",
        emulation__loss=0.01,
        emulation__repeats=2,
        sweep={"jobs.0.system": ["rina", "ring"]},
    )
    file = tmp_path / "same.yaml"
    file.write_text(yaml.safe_dump(asked))
    tables = []
    every = [str(core) for core in sorted(os.sched_getaffinity(0))]
    for seed, cores in (("1", every[0]), ("2", ",".join(every))):
        folder = tmp_path / seed
        subprocess.run(
            [
                "taskset",
                "-c",
                cores,
                sys.executable,
                "-m",
                "testbed.cli",
                "run",
                file,
                "-o",
                folder,
            ],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
        # The journal of cells has the times of day at which they ran.
        paths = sorted(path for path in folder.rglob("*.csv") if path.name != "cells.csv")
        tables.append([path.read_bytes() for path in paths])
    assert len(tables[0]) >= 3
    assert tables[0] == tables[1]


@pytest.mark.parametrize("system", ["atp", "switchml", "netreduce"])
def test_a_switch_adds_no_faster_than_its_capacity(system, tmp_path):
    """A ToR gets three streams at the rate of a link: those of two workers, and the other rack's
    sums. Without a limit, NetReduce is a few percent slower than its link."""
    seconds = []
    for capacity in (None, "10Gbit"):
        changes = {"fabric__capacity": capacity} if capacity else {}
        found = run(
            tmp_path,
            str(capacity),
            jobs__0__system=system,
            jobs__0__workload="synthetic/8MB",
            jobs__0__placement="spread",
            emulation__scale="1",
            **changes,
        )
        assert found.results.verified.item()
        seconds.append(found.results.jct_s.item())
    assert seconds[1] / seconds[0] == pytest.approx(3, rel=0.07)


@pytest.mark.parametrize("values", [64, 256, 1024])
def test_a_capacity_is_one_of_gradients_without_headers(values, tmp_path):
    """In each of two iterations, a ToR adds three streams of 8 MB: those of two workers, and the
    other rack's sums."""
    found = run(
        tmp_path,
        jobs__0__system="atp",
        jobs__0__workload="synthetic/8MB",
        jobs__0__placement="spread",
        emulation__scale="1",
        fabric__capacity="10Gbit",
        fabric__values=values,
        fabric__mtu=9000,
    )
    assert found.results.jct_s.item() == pytest.approx(2 * 3 * 64e6 / 10e9, rel=0.01)

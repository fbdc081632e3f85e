"""Whole all-reduces over the emulated fabric are exact, and are summed in the right place."""

from __future__ import annotations

import os
import signal

import pytest
from jobs import reduce
from leftovers import assert_gone
from tiny import FRAGMENTS, experiment
from traffic import TARGETS

from testbed.hosts.launcher import RankFailed
from testbed.topology.framing import Framing

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("root_namespace")]

# BMv2 handles some ten thousand packets per second next to the other processes of a run.
DILATION = {"native": 200, "bmv2": 800}
INA = {"none": "none", "the workers' ToR": ["t0"], "the server's ToR": ["t1"], "all": "all"}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ina", INA.values(), ids=INA)
def test_atp_is_exact_and_sums_where_it_shall(target, ina, tmp_path):
    tiny = experiment(
        tmp_path, fabric__ina=ina, emulation__target=target, emulation__dilation=DILATION[target]
    )
    done = reduce(tiny, tmp_path)
    done.assert_exact()
    (tree,) = (each.tree for each in done.allocations)
    assert len(tree.switches) == {"none": 0, "all": 2}.get(str(ina), 1)
    # Every stream into the server carries every fragment once, plus retransmissions.
    (job,) = done.jobs
    fragments = 3 * job.gradient_bytes // 1024
    assert fragments == 3 * FRAGMENTS
    into_server = done.statistics.sent_bytes["t1-h4"] / Framing().frame
    again = sum(each.retransmitted for each in done.workers)
    assert tree.streams * fragments <= into_server
    assert into_server <= (tree.streams * fragments + again * 4) * 1.02


@pytest.mark.parametrize("system", ["ps", "ring"])
def test_systems_on_tcp_are_exact(system, tmp_path):
    done = reduce(experiment(tmp_path, jobs__0__system=system), tmp_path)
    done.assert_exact()
    assert not done.allocations


def two_jobs(folder, **options):
    """Both servers are in the first rack, so that its ToR sums for both jobs."""
    first = {
        "system": "atp", "workload": str(folder / "tiny.trace"), "iterations": 2,
        "bucket": "100KB", "first_bucket": "20KB", "options": options,
        "workers": ["h0", "h4"], "servers": ["h1"],
    }  # fmt: skip
    return [first, {**first, "workers": ["h2", "h5"], "servers": ["h3"]}]


@pytest.mark.parametrize("target", TARGETS)
def test_two_jobs_share_a_switch(target, tmp_path):
    tiny = experiment(
        tmp_path,
        jobs=two_jobs(tmp_path),
        fabric__ina="all",
        fabric__hosts_per_leaf=4,
        emulation__target=target,
        emulation__dilation=DILATION[target],
    )
    done = reduce(tiny, tmp_path)
    assert [each.tree.switches for each in done.allocations] == [("t0",), ("t0",)]
    done.assert_exact()


def test_jobs_that_fight_for_few_slots_stay_exact(tmp_path):
    jobs = two_jobs(tmp_path, window=8)
    tiny = experiment(
        tmp_path, jobs=jobs, fabric__ina="all", fabric__hosts_per_leaf=4, fabric__slots=8
    )
    done = reduce(tiny, tmp_path)
    done.assert_exact()
    assert sum(each.collisions for each in done.workers) > 0


@pytest.mark.parametrize("system", ["ps", "ring", "atp"])
def test_a_killed_worker_is_named_and_nothing_is_left(system, tmp_path):
    tiny = experiment(tmp_path, jobs__0__system=system, jobs__0__iterations=10_000)
    killed: list[int] = []
    inodes: set[int] = set()

    def kill_once(network, launcher):
        if not killed:
            inodes.update(os.stat(network.namespace(node)).st_ino for node in network.fabric.nodes)
            killed.append(launcher.pids[1])
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(RankFailed, match=r"worker rank 1 died \(exit code -9\)"):
        reduce(tiny, tmp_path, watch=kill_once)
    assert_gone(inodes)

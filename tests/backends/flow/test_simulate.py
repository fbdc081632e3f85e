"""The simulator compared with the closed form where that is exact, and effects that it ignores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated import SUMMING, expected, job, plan, trained

from testbed.backends.flow.scenario import Assumptions
from testbed.backends.flow.simulate import simulate
from testbed.backends.measurements import Stalled
from testbed.plan.program import Receive, Send
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.framing import Framing

EVEN = Assumptions(ecmp="even")
RACK = leaf_spine(1, 1, 9, 1e10, 1e10, 10**6)
RACKS = leaf_spine(2, 3, 3, 1e10, 1e10, 10**6)
FABRICS = [
    RACK.with_ina(RACK.tors),
    RACKS,
    RACKS.with_ina(RACKS.tors),
    RACKS.with_ina(RACKS.tors[:1]),
]


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: f"{fabric.name}, {len(fabric.ina)}")
@pytest.mark.parametrize("name", SUMMING)
def test_a_bucket_takes_what_the_closed_form_says(name, fabric):
    made = job(plan(name, fabric, 8))
    # The closed form is less exact if overlapping stages make chunks share links in turn. In a
    # mixed ring, it assumes that stages wait for one another.
    overlapping = name == "hierarchical-ring" and len(fabric.tors) > 1
    mixed = name == "rina" and 0 < len(fabric.ina) < len(fabric.tors)
    within = 0.17 if mixed else 0.06 if overlapping else 0.01
    assert simulate(fabric, [made], EVEN).jct_s(0) == pytest.approx(
        expected(made, fabric).iteration_s, rel=within
    )


@pytest.mark.parametrize(
    ("racks", "narrow"),
    [
        *(((4, 4, 4, 4), 1), ((4, 4, 4, 4), 2), ((4, 4, 4, 4), 8), ((2,) * 8, 2), ((8, 1), 1)),
        *(((5, 4, 2), 1), ((1, 5, 2, 7), 3), ((1, 5, 2, 7), 30), ((4, 4, 4, 3), 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("step_s", [0.0, 1e-3])
def test_a_hierarchy_of_rings_takes_what_the_closed_form_says(racks, narrow, step_s):
    fabric = leaf_spine(1, len(racks), racks, 1e10, max(racks) * 1e10 / narrow, 10**6)
    made = job(plan("hierarchical-ring", fabric, sum(racks)), step_s=step_s)
    found = simulate(fabric, [made], EVEN).jct_s(0)
    assert expected(made, fabric).iteration_s == pytest.approx(found, rel=0.09)


@pytest.mark.parametrize("workload", ["resnet50", "bert-base"])
@pytest.mark.parametrize("name", ["ps", "ring", "atp", "switchml", "netreduce", "rina", "osp"])
def test_an_iteration_of_a_workload(name, workload):
    fabric = FABRICS[2]
    made = trained(name, fabric, 8, workload)
    found = simulate(fabric, [made], EVEN)
    assert found.jct_s(0) == pytest.approx(expected(made, fabric).iteration_s, rel=0.01)


@pytest.mark.parametrize("name", ["ps", "ring", "atp", "rina", "switchml"])
def test_every_step_pays_its_latency(name):
    fabric = FABRICS[0]
    made = job(plan(name, fabric, 8), [1_024_000], step_s=0.01)
    assert simulate(fabric, [made], EVEN).jct_s(0) == pytest.approx(
        expected(made, fabric).iteration_s, rel=0.01
    )


def test_compute_hides_what_it_covers():
    ring = plan("ring", RACK, 4)
    pace = expected(job(ring), RACK).iteration_s / 64e6
    size = int(0.1 / pace)
    for ready, wanted in (((0.5, 0.8), 1.0), ((0.5, 1.0), 1.1), ((0.95, 1.0), 1.15)):
        made = job(ring, [size, size], ready, 1.0)
        assert simulate(RACK, [made], EVEN).jct_s(0) == pytest.approx(wanted, rel=0.005)


def test_iterations_follow_one_another_and_a_late_job_begins_late():
    made = job(plan("ring", RACK, 4), compute_s=0.5, ready=[0.5], iterations=3, start_s=2.0)
    found = simulate(RACK, [made])
    own = found.iterations[0][2]
    assert own[0].start == 2.0 and own[0].compute_end == 2.5
    assert [each.end for each in own[:-1]] == [each.start for each in own[1:]]
    lengths = [each.end - each.start for each in own]
    assert lengths == pytest.approx([lengths[0]] * 3)
    assert found.jct_s(0, warmup=1) == pytest.approx(2 * lengths[0])
    assert found.end_s == own[-1].end


def test_a_slow_link_does_not_make_few_iterations_seem_longer_than_many():
    # Workers end the warm-up one after another, and the last iteration in the same order.
    links = (replace(link, rate=2.5e9) if "h3" in (link.a, link.b) else link for link in RACK.links)
    slow = replace(RACK, links=tuple(links))
    for sizes in ([64_000_000], [32_000_000] * 3):
        for count in (2, 24):
            made = job(plan("ring", slow, 8), sizes, compute_s=0.05, iterations=1 + count)
            each = simulate(slow, [made], EVEN).jct_s(0, warmup=1) / count
            assert each == pytest.approx(expected(made, slow).iteration_s, rel=0.001)


@pytest.mark.parametrize("name", ["ps", "ring", "atp"])
def test_everyone_waits_for_a_straggler(name):
    fabric = FABRICS[0]
    made = job(
        plan(name, fabric, 4), [6_400_000], [0.1], 0.1, paces=((1.0,), (1.0,), (1.0,), (3.0,))
    )
    found = simulate(fabric, [made], EVEN)
    alone = simulate(fabric, [job(made.plan, [6_400_000])], EVEN).jct_s(0)
    ends = [own[0].end for own in found.iterations[0]]
    if name == "ps":  # the others have pushed already
        assert 0.3 + alone / 4 < min(ends) <= max(ends) < 0.3 + alone
    else:
        assert ends == pytest.approx([0.3 + alone] * 4, rel=0.005)


def test_credit_bounds_what_is_under_way():
    ps = plan("ps", RACK, 2)
    sizes = [4_000_000] * 12
    # With one piece in flight, push and pull alternate; with four, they overlap.
    alone = replace(ps, pipelining=replace(ps.pipelining, credit=1))
    one = simulate(RACK, [job(alone, sizes)]).jct_s(0)
    four = simulate(RACK, [job(ps, sizes)]).jct_s(0)
    assert one == pytest.approx(four * 24 / 13, rel=0.05)


def test_jobs_share_links():
    # Two rings share a spine link in both directions: half the rate for each while both run.
    fabric = leaf_spine(1, 2, 4, 1e10, 1e10, 10**6)
    hosts = fabric.hosts
    rings = [
        replace(plan("ring", fabric, 4), hosts=tuple(hosts[i] for i in ranks))
        for ranks in ((0, 1, 4, 5), (2, 3, 6, 7))
    ]
    alone = simulate(fabric, [job(rings[0])]).jct_s(0)
    both = simulate(fabric, [job(ring) for ring in rings])
    assert both.jct_s(0) == pytest.approx(2 * alone, rel=0.01)
    assert both.jct_s(1) == pytest.approx(2 * alone, rel=0.01)
    later = simulate(fabric, [job(rings[0]), job(rings[1], start_s=alone / 2)])
    # The first runs alone for half of its work, then both share until it has done the rest.
    assert later.jct_s(0) == pytest.approx(1.5 * alone, rel=0.02)


def test_a_tree_is_as_slow_as_its_slowest_member():
    fabric = leaf_spine(1, 1, 9, 1e10, 1e10, 10**6).with_ina(["t0"])
    links = tuple(replace(link, rate=2.5e9) if link.a == "h3" else link for link in fabric.links)
    slow = replace(fabric, links=links)
    made = job(plan("atp", fabric, 8))
    assert simulate(slow, [made]).jct_s(0) == pytest.approx(
        4 * simulate(fabric, [made]).jct_s(0), rel=0.01
    )


def test_a_window_lets_so_many_fragments_through_in_a_round_trip():
    fabric = FABRICS[0]
    atp = plan("atp", fabric, 8)
    made = job(atp, [10_240_000], window=4)
    round_trip = 2 * 2 * (Framing().frame * 8 / 1e10 + 50e-6)
    found = simulate(fabric, [made], Assumptions(hop_s=50e-6)).jct_s(0)
    assert found == pytest.approx(10_240_000 / (4 * 1024) * round_trip, rel=0.01)
    wide = simulate(fabric, [replace(made, window=4000)], Assumptions(hop_s=50e-6)).jct_s(0)
    assert wide == pytest.approx(expected(made, fabric).iteration_s, rel=0.05)


def test_a_switch_aggregates_no_more_than_its_capacity():
    # Eight workers' gradients at 2.5 Gbit/s each are 20 Gbit/s at the switch.
    fabric = replace(FABRICS[0], capacity={"t0": 20e9})
    made = job(plan("atp", fabric, 8))
    assert simulate(fabric, [made]).jct_s(0) == pytest.approx(64e6 * 8 / 2.5e9, rel=0.01)


def test_routed_flows_take_their_paths():
    fabric = leaf_spine(2, 2, 4, 1e10, 1e10, 10**6)
    ps = plan("ps", fabric, 2)
    server = ps.hosts[-1]
    routes = {(host, server): (host, "t0", "s0", "t1", server) for host in ("h0", "h1")} | {
        (server, host): (server, "t1", "s1", "t0", host) for host in ("h0", "h1")
    }
    found = simulate(fabric, [job(replace(ps, routes=routes))]).carried
    assert found["t0", "s0"] > 128e6 and found["s1", "t0"] > 128e6
    # Acknowledgements of flows that come down from s1 go up through s0, as their sender's flows do.
    assert ("t0", "s1") not in found and ("s0", "t0") not in found


def test_what_links_carry():
    made = job(plan("ring", RACK, 4))
    found = simulate(RACK, [made], EVEN)
    sent = 2 * 3 / 4 * 64e6
    assert found.carried["h0", "t0"] == pytest.approx(
        sent * (1 / Framing().tcp_efficiency + Framing().tcp_ack_share), rel=0.001
    )
    assert ("h7", "t0") not in found.carried


def test_the_seed_decides_where_flows_collide():
    fabric = fat_tree(4, 2, 1e10, 1e10, 10**6)
    made = job(plan("ring", fabric, 16, order="naive"), [16_000_000])
    jcts = {
        seed: simulate(fabric, [made], Assumptions(seed=seed, closed_from=0)).jct_s(0)
        for seed in range(5)
    }
    again = simulate(fabric, [made], Assumptions(seed=3, closed_from=0))
    assert again.jct_s(0) == jcts[3]
    assert len(set(jcts.values())) > 1
    assert min(jcts.values()) > simulate(fabric, [made], EVEN).jct_s(0)


def test_a_lone_worker_and_a_server_on_a_workers_host():
    alone = job(plan("ring", RACK, 1), compute_s=0.3, iterations=2)
    assert simulate(RACK, [alone]).jct_s(0) == pytest.approx(0.6)
    ps = plan("ps", RACK, 4)
    found = simulate(RACK, [job(replace(ps, hosts=(*ps.hosts[:4], ps.hosts[0])))])
    apart = simulate(RACK, [job(ps)])
    assert found.jct_s(0) == pytest.approx(apart.jct_s(0) * 3 / 4, rel=0.02)


def test_a_plan_that_waits_for_ever_is_told():
    made = plan("ps", RACK, 2)
    deaf = replace(made, programs=((Send(0, 2),), (Receive(0, 2, False),), ()))
    with pytest.raises(Stalled, match=r"job 0 \(ps\): its ranks wait for ever"):
        simulate(RACK, [job(deaf)])


def test_every_worker_has_its_paces():
    with pytest.raises(ValueError, match="paces of 1 workers for 2"):
        job(plan("ps", RACK, 2), paces=((1.0,),))


def test_latency_is_scaled_with_what_takes_time():
    fabric = leaf_spine(1, 2, 4, 1e10, 1e10, 256_000)
    whole = job(plan("ring", fabric, 8), sizes=(64_000_000,))
    part = job(plan("ring", fabric, 8), sizes=(640_000,))
    real = simulate(fabric, [whole], Assumptions(hop_s=1e-4)).jct_s(0)
    scaled = simulate(fabric, [part], Assumptions(hop_s=1e-4, scale=0.01)).jct_s(0)
    assert scaled / 0.01 == pytest.approx(real, rel=5e-3)
    assert simulate(fabric, [part], Assumptions(hop_s=1e-4)).jct_s(0) > 2 * scaled


def test_a_window_is_worth_as_much_at_any_scale():
    fabric = leaf_spine(1, 2, 4, 1e10, 1e10, 256_000).with_ina(["t0", "t1"])
    sized = [job(plan("switchml", fabric, 8), sizes=(size,), window=2) for size in (10**8, 10**6)]
    real, scaled = (
        simulate(fabric, [each], Assumptions(scale=scale)).jct_s(0)
        for each, scale in zip(sized, (1.0, 0.01), strict=True)
    )
    assert scaled / 0.01 == pytest.approx(real, rel=0.02)
    assert real > 1.5 * simulate(fabric, [replace(sized[0], window=None)]).jct_s(0)

"""The contract of every system: tests of one system, which is the fixture ``system``.

Its plans on odd shapes must sum each chunk exactly once. The closed form, the simulator, real
packets and a report are tested as well.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from fractions import Fraction

import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from shapes import TRACE, WORKERS, assignments, bare_fabrics, deployments, planned
from tiny import data

import testbed
from testbed.plan import chain
from testbed.plan import cost as model
from testbed.plan.program import TreeOperation
from testbed.plan.stages import Stages, stretches
from testbed.report import figures
from testbed.report.evaluated import evaluated
from testbed.studies.reporting import styles
from testbed.systems import Assignment
from testbed.topology.builders import fat_tree, leaf_spine

SHAPES = [
    (bare, workers)
    for bare in bare_fabrics()
    for workers in WORKERS
    if workers < len(bare.hosts)  # one is left as a server
]


@pytest.mark.parametrize(
    ("bare", "workers"), SHAPES, ids=lambda value: getattr(value, "name", str(value))
)
def test_every_plan_sums_exactly_once(system, bare, workers):
    proven = []
    for fabric in deployments(bare):
        for job in assignments(system, fabric, workers):
            planned(system, job, fabric, proven)


def test_a_tor_sums_its_only_worker_with_nothing_but_another_tors_stream(system):
    fabric = leaf_spine(2, 3, (4, 2, 2), 1e10, 1e10, 100_000).with_ina(["t0", "t1"])
    hosts = fabric.hosts
    servers = hosts[6 : 6 + system.servers[0]]
    plan = planned(system, Assignment(hosts[:5], servers, trace=TRACE), fabric, [])
    # h4 is alone in its rack.
    assert all(tree.children("t1") in ((), ("t0", "h4")) for tree in plan.trees)


def test_two_jobs_keep_to_their_own_hosts(system):
    fabric = fat_tree(4, (3, 2, 4, 1, 3, 2, 2, 4), 1e10, 1e10, 100_000)
    fabric = fabric.with_ina(fabric.tors[::2])
    first, second = fabric.hosts[::2], fabric.hosts[1::2]  # both have workers in shared racks
    least = system.servers[0]
    for hosts in (first, second):
        workers, servers = hosts[: len(hosts) - least], hosts[len(hosts) - least :]
        plan = planned(system, Assignment(workers, servers, trace=TRACE), fabric, [])
        endpoints = {end for tree in plan.trees for link in tree.parent.items() for end in link}
        assert endpoints <= set(hosts) | fabric.ina


def test_every_plan_has_a_closed_form(system):
    fabric = leaf_spine(2, 3, (4, 2, 2), 1e10, 1e10, 100_000).with_ina(["t0"])
    servers = fabric.hosts[7 : 7 + system.servers[0]]
    plan = system.plan(Assignment(fabric.hosts[:7], servers, trace=TRACE), fabric)
    assert 0.9 < model.seconds_per_byte(plan, fabric) * 1e10 / 8 < 10


@pytest.mark.parametrize("racks", [(4,), (2, 1), (3, 3), (5, 2, 1), (4, 4, 4, 4), (1, 1, 1, 3)])
def test_rounds_are_the_operations_in_short(system, racks):
    bare = leaf_spine(2, len(racks), racks, 1e10, 1e10, 100_000)
    for ina in ((), bare.tors[:1], bare.tors[::2], bare.tors):
        fabric = bare.with_ina(ina)
        least = system.servers[0]
        workers = len(fabric.hosts) - least
        options = system.settle(system.fallback)
        job = Assignment(fabric.hosts[:workers], fabric.hosts[workers:], options, TRACE)
        plan = system.plan(job, fabric)
        if isinstance(plan.programs, Stages):
            assert _in_rounds(plan) == _at_length(plan)
            rounds = sum(max(ring.rounds for ring in stage) for stage in plan.programs.stages)
            assert rounds >= chain.length(plan)
            assert rounds == chain.length(plan) or not plan.programs.in_step


def test_what_is_published_and_what_is_our_reading_are_both_said(system):
    assert system.citation
    assert system.published
    assert system.reading
    assert len(set(system.published + system.reading)) == len(system.published + system.reading)


def test_an_unknown_option_is_refused(system):
    with pytest.raises(ValueError, match=f"{system.name} knows no option speed"):
        system.settle({"speed": 1})


def test_every_option_has_a_default_that_will_do_and_refuses_nonsense(system):
    system.options.model_validate(system.settle({}))
    for name, option in system.options.model_fields.items():
        assert option.description
        assert option.examples
        system.options.model_validate({name: option.examples[0]})
        with pytest.raises(ValueError, match=f"option {name}: found .*, wanted "):
            system.settle({name: object()})


def test_what_is_declared_is_what_it_does_by_default(system):
    fabric = leaf_spine(2, 2, 3, 1e9, 1e9, 256_000)
    fabric = fabric.with_ina(fabric.switches)
    servers = ("h5",) if system.servers[1] else ()
    workers = ("h0", "h1", "h3", "h4")
    plan = system.plan(Assignment(workers, servers, system.settle({}), TRACE), fabric)
    assert system.aggregates == bool(plan.trees)
    assert system.waits == (plan.consistency is None)


def test_without_switches_it_runs_or_names_the_options_with_which_it_does(system):
    fabric = leaf_spine(2, 2, 3, 1e9, 1e9, 256_000)
    job = Assignment(fabric.hosts[:4], fabric.hosts[5:], system.settle({}), TRACE)
    if not system.fallback:
        system.plan(job, fabric)
        return
    for name, value in system.fallback.items():
        with pytest.raises(ValueError, match=f"not admitted: .* {name}: {value}"):
            system.plan(job, fabric)


def _at_length(plan):
    """The share of a bucket on each hop, from the operations."""
    total = defaultdict(Fraction)
    for step in chain.steps(plan):
        for what in step:
            tree = isinstance(what, TreeOperation)
            hop = (type(what), what.tree) if tree else (what.source, what.to)
            total[hop] += plan.share(what.chunk)
    return dict(total)


def _in_rounds(plan):
    """The same shares, from the rounds of the plan's stages."""
    total = defaultdict(Fraction)
    for ring in itertools.chain.from_iterable(stretches(plan)):
        for hop in ring.hops:
            key = hop if isinstance(hop, tuple) else (type(hop), hop.tree)
            total[key] += ring.rounds * ring.share
    return dict(total)


def _run(system, folder, **changes):
    """The only row of a run with four workers in two racks with INA."""
    asked = data(folder, jobs__0__system=system.name, fabric__ina="all", **changes)
    rows = testbed.run(asked, folder / "results").results
    assert len(rows) == 1
    return rows.iloc[0]


def test_it_is_simulated_as_the_closed_form_says_and_drawn_in_its_colour(system, tmp_path):
    # The gradient is so large that the first and last packets hardly matter. As the closed form
    # assumes, racks are equal, and flows do not share a link by chance.
    row = _run(
        system, tmp_path, backend="simulate", fabric__spines=1, jobs__0__placement="spread",
        jobs__0__workload="resnet50", jobs__0__bucket="25MB", jobs__0__iterations=4,
    )  # fmt: skip
    assert (row.error, row.verdict) == ("", "valid")
    assert row.jct_s == pytest.approx(row.expected_jct_s, rel=0.1)
    found = evaluated([row.run], styles())
    assert found.titles == {(system.name, ""): system.title}
    dots = figures.draw(found, [])["jct"].axes[0]
    assert [label.get_text() for label in dots.get_yticklabels()] == [system.title]
    assert {to_hex(dot.get_color()) for dot in dots.lines} == {system.colour}
    plt.close("all")


def test_it_sums_packets_exactly_in_virtual_time(system, tmp_path):
    row = _run(system, tmp_path, backend="packet", fabric__spines=1)
    assert row.error == ""
    assert row.verified
    assert system.aggregates == (row.switch_packets > 0)


@pytest.mark.root
def test_it_sums_real_packets_exactly(system, tmp_path):
    row = _run(system, tmp_path)
    assert row.error == ""
    assert row.verified
    assert system.aggregates == (row.switch_packets > 0)

"""Relations between simulations of any system: what must scale, add up or stay the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import SUMMING, UPDATING, expected, job, plan

from testbed.backends.flow.scenario import Assumptions
from testbed.backends.flow.simulate import simulate
from testbed.plan.cost import link_loads
from testbed.topology.builders import leaf_spine

RATE = 1e10
SERVERLESS = ("ring", "hierarchical-ring", "netreduce", "rina")


@st.composite
def cases(draw, systems=SUMMING):
    """A system, its racks and how many of them sum, the spines, its workers, and its units."""
    racks = draw(st.lists(st.integers(3, 4), min_size=1, max_size=3))
    return (
        draw(st.sampled_from(systems)),
        racks,
        draw(st.sampled_from([0, len(racks)])),
        draw(st.integers(1, 3)),
        draw(st.integers(2, sum(racks) - 1)),
        draw(st.lists(st.integers(10_000, 5_000_000), min_size=1, max_size=3)),
    )


def fabric_of(racks, ina, spines, rate=RATE):
    made = leaf_spine(spines, len(racks), racks, rate, rate / 2, 10**6)
    return made.with_ina(made.tors[:ina])


def near(value):
    return pytest.approx(value, rel=1e-6)


@settings(derandomize=True, max_examples=30)
@given(cases((*SUMMING, *UPDATING)))
def test_twice_the_rates_halve_the_time(case):
    name, racks, ina, spines, workers, sizes = case
    slow, fast = (fabric_of(racks, ina, spines, rate) for rate in (RATE, 2 * RATE))
    one, other = (job(plan(name, each, workers), sizes, window=64) for each in (slow, fast))
    found = simulate(fast, [other])
    assert simulate(slow, [one]).jct_s(0) == near(2 * found.jct_s(0))
    assert expected(one, slow).iteration_s == near(2 * expected(other, fast).iteration_s)


@settings(derandomize=True, max_examples=30)
@given(cases())
def test_a_rack_without_a_job_changes_nothing(case):
    name, racks, ina, spines, workers, sizes = case
    fabric, larger = (fabric_of(each, ina, spines) for each in (racks, [*racks, 3]))
    # The plan stays: its server is the last host of the smaller fabric.
    made = job(plan(name, fabric, workers), sizes, step_s=1e-5)
    found, again = (simulate(each, [made]) for each in (fabric, larger))
    assert again.jct_s(0) == near(found.jct_s(0))
    assert again.carried == near(dict(found.carried))


@settings(derandomize=True, max_examples=30)
@given(cases(SERVERLESS))
def test_jobs_without_a_common_link_do_not_slow_one_another(case):
    name, racks, ina, _, workers, sizes = case
    fabric = leaf_spine(1, 2 * len(racks), racks * 2, RATE, RATE, 10**6)
    fabric = fabric.with_ina(fabric.tors if ina else ())
    jobs = [job(plan(name, fabric, workers, first=at), sizes) for at in (0, sum(racks))]
    both = simulate(fabric, jobs)
    for number, each in enumerate(jobs):
        alone = simulate(fabric, [each])
        assert both.jct_s(number) == near(alone.jct_s(0)) == near(both.jct_s(0))


@settings(derandomize=True, max_examples=30)
@given(cases())
def test_links_carry_the_bytes_of_the_plan(case):
    name, racks, ina, spines, workers, sizes = case
    fabric = fabric_of(racks, ina, spines)
    made = job(plan(name, fabric, workers), sizes)
    sent = sum(4 * unit.elements for unit in made.units)
    loads = link_loads(made.plan, fabric)
    found = simulate(fabric, [made], Assumptions(ecmp="even")).carried
    assert dict(found) == near({link: load * sent for link, load in loads.items()})

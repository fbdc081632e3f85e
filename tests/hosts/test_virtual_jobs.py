"""Workers and servers of every system in virtual time: sums are exact, and all ranks end."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import virtual
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.hosts import worker
from testbed.hosts.task import RankOutcome, Task
from testbed.plan.program import Pipelining, Plan
from testbed.plan.units import cut
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.workload.buckets import Bucket
from testbed.workload.catalogue import load
from testbed.workload.gradients import Gradients
from testbed.workload.replay import Need

VALUES = 4
COMPUTE = 0.05
SYSTEMS = sorted(registry)


def planned(system: str, racks: Sequence[int], ina: int, **options: object) -> Plan:
    """A plan on racks with these numbers of hosts; the last hosts are servers."""
    fabric = leaf_spine(2, len(racks), racks, 1e10, 1e10, 10**6).with_ina([])
    fabric = fabric.with_ina(fabric.tors[:ina])
    chosen, hosts = registry[system], fabric.hosts
    workers = len(hosts) - chosen.servers[0]
    told = chosen.settle(chosen.fallback | options)
    return chosen.plan(Assignment(hosts[:workers], hosts[workers:], told, load("resnet50")), fabric)


def tasks(
    plan: Plan, sizes: Sequence[int], paces: Sequence[float] = (1.0,) * 3, **told
) -> list[Task]:
    """One task per rank, for buckets of ``sizes`` elements that become ready one after another."""
    ready = [COMPUTE * (number + 1) / len(sizes) for number in range(len(sizes))]
    buckets = [
        Bucket(number, (number,), 4 * size, at)
        for number, (size, at) in enumerate(zip(sizes, ready, strict=True))
    ]
    units = cut(buckets, plan, Fraction(1), VALUES)
    gradients = Gradients(5, plan.workers, sum(unit.elements for unit in units))
    return [
        Task(plan, rank, 0, (), units, COMPUTE, gradients, tuple(paces), values=VALUES, **told)
        for rank in plan.ranks
    ]


def check(outcomes: Sequence[RankOutcome], job: Sequence[Task]) -> None:
    workers = job[0].plan.workers
    assert [outcome.wrong for outcome in outcomes] == [0] * len(job)
    for outcome in outcomes[:workers]:
        assert outcome.checked == job[0].iterations * job[0].layout.elements
        assert len(outcome.iterations) == job[0].iterations
        for each in outcome.iterations:
            assert each.start <= each.compute_end <= each.end


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("racks", [(5,), (3, 1, 3)])
@pytest.mark.parametrize("step_s", [0.0, 0.003])
def test_every_system_sums_exactly(system, racks, step_s):
    job = tasks(planned(system, racks, ina=1), [1, 40, 333], step_s=step_s)
    check(virtual.run(job), job)


@st.composite
def jobs(draw) -> list[Task]:
    racks = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda r: sum(r) > 2))
    plan = planned(draw(st.sampled_from(SYSTEMS)), racks, draw(st.integers(0, len(racks))))
    partition, credit = draw(st.sampled_from([None, 16, 200])), draw(st.sampled_from([None, 1, 3]))
    plan = replace(plan, pipelining=Pipelining(partition, credit))
    sizes = draw(st.lists(st.integers(1, 120), min_size=1, max_size=5))
    paces = draw(st.lists(st.sampled_from([0.2, 1.0, 3.0]), min_size=1, max_size=3))
    gap_s = draw(st.sampled_from([0.0, 0.02]))
    job = tasks(plan, sizes, paces, step_s=draw(st.sampled_from([0.0, 0.004])))
    units, forward = job[0].units, job[0].forward
    if plan.consistency is None:
        late = draw(st.integers(0, len(sizes)))
        units = tuple(replace(unit, deferred=unit.bucket < late) for unit in units)
        needs = [Need(bucket, COMPUTE / 3 / len(sizes)) for bucket in range(len(sizes))]
        forward = tuple(needs) if draw(st.booleans()) else ()
    told = {"units": units, "forward": forward}
    job = [replace(task, start_s=gap_s * task.rank, **told) for task in job]
    # One worker keeps its pace, and the pace of the others changes.
    return [replace(job[0], paces=(1.0,) * len(paces)), *job[1:]]


@settings(deadline=None, max_examples=60)
@given(jobs(), st.integers(0, 10**6))
def test_any_sizes_in_any_order_are_summed_exactly_and_no_one_waits_for_ever(job, seed):
    check(virtual.run(job, seed), job)


@pytest.mark.parametrize("system", ["ring", "atp", "ssp", "rina"])
def test_the_same_chances_give_the_same_times(system):
    job = tasks(planned(system, (3, 3), ina=1), [40, 333])
    first, again, other = (virtual.run(job, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("system", SYSTEMS)
def test_who_adds_what_nobody_expects_is_noticed(system):
    job = tasks(planned(system, (3, 3), ina=1), [40, 333])
    assert job[1].gradients is not None
    gradients = Gradients(6, job[1].gradients.ranks, job[1].layout.elements)
    job[1] = replace(job[1], gradients=gradients)
    assert sum(outcome.wrong for outcome in virtual.run(job)) > 0


@pytest.mark.parametrize("system", SYSTEMS)
def test_without_gradients_nothing_is_checked_and_the_times_are_the_same(system):
    job = tasks(planned(system, (3, 3), ina=1), [40, 333])
    checked = virtual.run(job)
    free = virtual.run([replace(task, gradients=None) for task in job])
    assert [outcome.checked for outcome in free] == [0] * len(job)
    assert [each.iterations for each in free] == [each.iterations for each in checked]


def test_a_rank_without_a_peer_waits_for_ever_and_that_is_noticed():
    job = tasks(planned("ring", (4,), ina=0), [40])
    job[2] = replace(job[2], plan=replace(job[2].plan, programs=((),) * 4))
    with pytest.raises(AssertionError, match="wait for ever"):
        virtual.run(job)


STEPS = (
    "interpreter",
    "messages",
    "parameters",
    "rank",
    "server",
    "sum_check",
    "transport",
    "tree_queue",
    "worker",
)


@pytest.mark.parametrize("name", STEPS)
def test_no_rank_reads_a_clock_or_a_socket(name):
    path = Path(worker.__file__).with_name(f"{name}.py")
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module)
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    outside = {"time", "socket", "select", "selectors", "os", "threading", "multiprocessing"}
    driven_by = {f"testbed.hosts.{each}" for each in ("driver", "sockets", "stream", "aggregation")}
    assert not imported & (outside | driven_by)

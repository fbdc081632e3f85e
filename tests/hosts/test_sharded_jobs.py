"""Parameters in shards: what is gathered is exact, and computation waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
import virtual

from testbed.hosts import worker
from testbed.hosts.interpreter import Interpreter
from testbed.hosts.task import RankOutcome, Task
from testbed.plan.units import cut
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.workload.buckets import fill
from testbed.workload.gradients import Gradients
from testbed.workload.sharded import schedule
from testbed.workload.trace import Tensor, Trace

# Three groups of one tensor, each with 3 s of computation: 1 s forward, 2 s backward.
SIZES = (60, 7, 133)
TRACE = Trace("three", 1, tuple(Tensor(f"t{i}", size, 1.0, 2.0) for i, size in enumerate(SIZES)))
VALUES = 4


def tasks(collectives: str, reshard: bool = True, partition: int | None = None) -> list[Task]:
    fabric = leaf_spine(2, 2, (3, 2), 1e10, 1e10, 10**6)
    fabric = fabric.with_ina(fabric.tors)
    options = {"stage": 3, "collectives": collectives, "reshard_after_forward": reshard}
    system = registry["zero-dp"]
    plan = system.plan(Assignment(fabric.hosts, (), system.settle(options)), fabric)
    plan = replace(plan, pipelining=replace(plan.pipelining, partition=partition))
    buckets, parts = schedule(TRACE, fill(TRACE, 1, 1), reshard)
    units = cut(buckets, plan, Fraction(1), VALUES)
    gradients = Gradients(5, plan.workers, sum(SIZES))
    return [
        Task(
            plan, rank, 0, (), units, TRACE.compute_s, gradients, (1.0,) * 3, values=VALUES,
            parts=parts, times_units=True,
        )
        for rank in plan.ranks
    ]  # fmt: skip


def spans(outcome: RankOutcome, units: Sequence, iteration: int) -> dict:
    """When each group was gathered for a part, or (part None) summed: from the first beginning to
    the last end of its pieces."""
    found: dict[tuple[int, int | None], tuple[float, float]] = {}
    for each in outcome.units:
        if each.iteration == iteration:
            unit = units[each.unit]
            first, last = found.get((unit.bucket, unit.needed), (each.begun_s, each.ended_s))
            span = min(first, each.begun_s), max(last, each.ended_s)
            found[unit.bucket, unit.needed] = span
    return found


@pytest.mark.parametrize("collectives", ["trees", "ring", "hierarchical"])
@pytest.mark.parametrize("reshard", [True, False])
@pytest.mark.parametrize("partition", [None, 100])
def test_what_is_gathered_and_summed_is_exact(collectives, reshard, partition):
    job = tasks(collectives, reshard, partition)
    shards = 0
    for outcome in virtual.run(job):
        assert outcome.wrong == 0
        gathered = sum(SIZES) * (1 + reshard)
        assert outcome.checked == 3 * job[0].layout.compared(outcome.rank)
        assert outcome.checked >= 3 * gathered
        shards += outcome.checked - 3 * gathered
    assert shards == 3 * sum(SIZES)  # every sum is somebody's


@pytest.mark.parametrize("collectives", ["trees", "ring"])
@pytest.mark.parametrize("longest_s", [0.01, 2.0])
def test_computation_waits_for_what_is_gathered_one_group_ahead(collectives, longest_s):
    job = tasks(collectives)
    for outcome in virtual.run(job, longest_s=longest_s):
        for number, each in enumerate(outcome.iterations):
            its = spans(outcome, job[0].units, number)
            # Parts 0 to 2 are the forward passes of groups 2, 1, 0; 3 to 5 the backward passes.
            order = [its[group, part] for part, group in enumerate((2, 1, 0, 0, 1, 2))]
            begun = now = each.start
            for part, ((start, end), seconds) in enumerate(zip(order, job[0].parts, strict=True)):
                # Not before the previous part begins; after the forward pass, not before that ends.
                assert start == pytest.approx(now if part == 3 else begun, abs=1e-9)
                begun = max(now, end)
                now = begun + seconds
                if part >= 3:
                    assert its[part - 3, None][0] == pytest.approx(now, abs=1e-9)
            assert each.compute_end == pytest.approx(now)
            assert each.stalled == pytest.approx(now - each.start - TRACE.compute_s)
            assert each.end == max(now, *(end for _, end in its.values()))
            assert each.stalled > 0


def test_parameters_that_are_kept_instead_of_gathered_again_are_noticed(monkeypatch):
    job = tasks("ring")
    (again,) = (index for index, unit in enumerate(job[0].units) if unit.needed == 3)

    class Keeping(Interpreter):
        def begin(self, unit, values, gathers=False):
            if unit == again:
                self.before = values.copy()
            super().begin(unit, values, gathers)

        def arrived(self, source, message):
            if message.unit == again and self.has_begun(again):
                first, end = self._cuts(again)[message.chunk : message.chunk + 2]
                message = message._replace(values=self.before[first:end])
            super().arrived(source, message)

    monkeypatch.setattr(worker, "Interpreter", Keeping)
    assert sum(outcome.wrong for outcome in virtual.run(job)) > 0

"""Answers to updates arrive when `Consistency` allows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import UPDATING, expected, job, plan

from testbed.backends.flow.scenario import Assumptions
from testbed.backends.flow.simulate import simulate
from testbed.plan.program import Consistency
from testbed.protocols.parameters.gate import Gate
from testbed.topology.builders import leaf_spine

FABRIC = leaf_spine(2, 3, 3, 1e10, 1e10, 10**6)
EVEN = Assumptions(ecmp="even")


@given(st.sampled_from([None, 0, 1, 3]), st.integers(1, 5), st.data())
def test_a_gate_answers_as_its_consistency_would(staleness, workers, data):
    consistency = Consistency(staleness)
    gate = Gate(consistency, workers)
    counts, waiting = [0] * workers, []
    for _ in range(30):
        free = [worker for worker in range(workers) if worker not in waiting]
        if not free:
            break
        worker = data.draw(st.sampled_from(free))
        counts[worker] += 1
        waiting.append(worker)
        answered = [each for each in waiting if consistency.may_answer(counts, each)]
        waiting = [each for each in waiting if each not in answered]
        found = [each for _, now in gate.push(worker) for each in now]
        assert sorted(found) == sorted(answered)


@pytest.mark.parametrize("name", UPDATING)
@pytest.mark.parametrize("workers", [1, 3])
def test_evenly_spaced_workers_have_the_server_to_themselves_while_there_is_room(name, workers):
    made = job(plan(name, FABRIC, workers), [4_000_000] * 10, [0.01] * 10, 0.2, 4)
    wanted = expected(made, FABRIC)
    spaced = job(made.plan, [4_000_000] * 10, [0.01] * 10, 0.2, 4, gap_s=wanted.gap_s)
    assert simulate(FABRIC, [spaced], EVEN).iteration_s(0) == pytest.approx(
        wanted.iteration_s, rel=0.01
    )


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_in_turns_the_servers_links_are_always_busy_when_there_is_no_room(servers):
    made = plan("r2sp", FABRIC, 6, servers)
    sizes = [4_000_000] * 10
    wanted = expected(job(made, sizes), FABRIC)
    found = simulate(FABRIC, [job(made, sizes, iterations=6, gap_s=wanted.gap_s)], EVEN)
    lengths = [own[-1].end - own[-1].start for own in found.iterations[0]]
    assert max(lengths) == pytest.approx(wanted.iteration_s, rel=0.03)
    starts = sorted((each.end, rank) for rank, own in enumerate(found.iterations[0])
                    for each in own)  # fmt: skip
    assert [rank for _, rank in starts] == list(range(6)) * 6


def test_a_straggler_is_left_behind_by_no_more_than_the_staleness():
    def ends(name, **options):
        made = plan(name, FABRIC, 3, **options)
        paces = ((1.0,) * 8, (1.0,) * 8, (5.0,) * 8)
        found = simulate(FABRIC, [job(made, [400_000], [0.1], 0.1, paces=paces)])
        return found.iterations[0]

    free, bound = ends("asp"), ends("ssp", staleness=2)
    assert free[0][-1].end < 1.2 and free[2][-1].end > 4.0
    slow = bound[2]
    for own in bound[:2]:
        # Iteration i (from 0) ends when the answer contains update i - 2 of the slowest worker.
        assert all(own[i].end >= slow[i - 2].start + 0.5 for i in range(2, 8))
        assert own[-1].end == pytest.approx(slow[-3].end, rel=0.01)

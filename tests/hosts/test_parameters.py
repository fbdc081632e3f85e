"""Asynchronous jobs over loopback: every answer has the value that follows from its counts, and
keeps to the bound on staleness."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from multiprocessing import Pipe

import numpy as np
import pytest
import virtual
from hypothesis import given
from hypothesis import strategies as st
from ina_loopback import NET
from patience import PATIENCE_S

from testbed.hosts.driver import drive
from testbed.hosts.messages import Answer, Turn
from testbed.hosts.parameters import Shard, Worker, may_hold
from testbed.hosts.rank import make
from testbed.hosts.sockets import Sockets
from testbed.hosts.task import Task
from testbed.plan.program import Consistency
from testbed.plan.units import Unit
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.workload.gradients import Gradients

UNITS = (Unit(0, 3001, 0.002), Unit(0, 2000, 0.002), Unit(1, 777, 0.005))
ELEMENTS = 5778
COMPUTE = 0.006


def tasks(system, workers=3, servers=2, iterations=4, **options):
    fabric = leaf_spine(1, 1, workers + servers, 1e9, 1e9, 10**6)
    hosts = fabric.hosts
    chosen = registry[system]
    job = Assignment(hosts[:workers], hosts[workers:], chosen.settle(options))
    plan = chosen.plan(job, fabric)
    addresses = tuple(f"{NET}.{rank + 1}" for rank in plan.ranks)
    gradients = Gradients(5, workers, ELEMENTS)
    return [
        Task(plan, rank, 0, addresses, UNITS, COMPUTE, gradients, paces=(1.0,) * iterations)
        for rank in plan.ranks
    ]


def run(job):
    """Run the tasks side by side, and return their outcomes by rank."""
    sockets = [Sockets(task) for task in job]
    ranks = [make(task, own) for task, own in zip(job, sockets, strict=True)]
    orders = {task.rank: Pipe() for task in job if not task.is_worker}
    outcomes = {}

    def work(rank, start):
        told = orders[rank][1] if rank in orders else None
        drive(ranks[rank], sockets[rank], start, told)
        outcomes[rank] = ranks[rank].outcome()

    try:
        for rank, own in zip(ranks, sockets, strict=True):
            own.connect(rank.peers)
        start = time.monotonic() + 0.01
        threads = [
            threading.Thread(target=work, args=(task.rank, start), daemon=True) for task in job
        ]
        for thread in threads:
            thread.start()
        for task, thread in zip(job, threads, strict=True):
            if task.is_worker:
                thread.join(PATIENCE_S)
        for ours, _ in orders.values():
            ours.send("stop")
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(outcomes) == len(job), "not all ranks came to their end"
    finally:
        for own in sockets:
            own.close()
    return [outcomes[task.rank] for task in job]


ALL = [("asp", {}), ("ssp", {"staleness": 0}), ("ssp", {"staleness": 1}), ("r2sp", {})]


@pytest.mark.parametrize(("system", "options"), ALL)
@pytest.mark.parametrize("servers", [1, 2])
def test_every_answer_is_checked_and_right(system, options, servers):
    outcomes = run(tasks(system, servers=servers, **options))
    assert [outcome.wrong for outcome in outcomes] == [0] * len(outcomes)
    for worker in outcomes[:3]:
        assert worker.checked == 4 * ELEMENTS
        assert len(worker.iterations) == 4
        assert all(each.end >= each.compute_end >= each.start for each in worker.iterations)
    assert sum(server.checked for server in outcomes[3:]) == ELEMENTS


@pytest.mark.parametrize(("system", "options"), ALL)
def test_a_wrong_update_is_noticed_by_whoever_has_it(system, options):
    job = tasks(system, **options)
    job[1] = replace(job[1], gradients=Gradients(6, 3, ELEMENTS))
    outcomes = run(job)
    # The last worker to finish has pulled the wrong updates, and the servers have them, too.
    last = max(range(3), key=lambda rank: outcomes[rank].iterations[-1].end)
    assert outcomes[last].wrong > 0.7 * ELEMENTS
    assert sum(server.wrong for server in outcomes[3:]) > 0.9 * ELEMENTS


def test_a_server_that_breaks_the_barrier_is_found():
    job = tasks("ssp", staleness=0)
    loose = replace(job[0].plan, consistency=Consistency())
    job = [task if task.is_worker else replace(task, plan=loose) for task in job]
    job[2] = replace(job[2], paces=(5.0,) * 4)
    outcomes = run(job)
    assert outcomes[0].wrong > 0 and outcomes[1].wrong > 0
    assert all(server.wrong == 0 for server in outcomes[3:])


@pytest.mark.parametrize(("system", "options"), ALL)
@pytest.mark.parametrize("workers", [1, 3])
def test_units_smaller_than_there_are_servers_are_updated_too(system, options, workers):
    """With one worker, the answer to an empty chunk was once mistaken for a turn."""
    units = (Unit(0, 1, 0.0), Unit(0, 2, 0.0), Unit(1, 5, 0.002))
    job = tasks(system, workers, servers=3, **options)
    gradients = Gradients(5, workers, 8)
    outcomes = run([replace(task, units=units, gradients=gradients) for task in job])
    assert [outcome.wrong for outcome in outcomes] == [0] * len(job)
    assert [outcome.checked for outcome in outcomes[:workers]] == [4 * 8] * workers


SLOW = 0.08


def uneven(system, **options):
    """Iterations of each worker, in virtual time; the last worker computes for ``SLOW`` seconds."""
    job = tasks(system, iterations=6, servers=1, **options)
    job[2] = replace(job[2], paces=(SLOW / COMPUTE,) * 6)
    outcomes = virtual.run(job, longest_s=0.001)
    assert [outcome.wrong for outcome in outcomes] == [0] * 4
    return [outcome.iterations for outcome in outcomes[:3]]


def came_between(end, slow, iteration):
    """Whether ``end`` is after the slow worker's last push of ``iteration``, and before it has
    computed the next one."""
    pushed = slow[iteration].start + SLOW * UNITS[-1].ready_s / COMPUTE
    return pushed < end and (iteration == 5 or end < slow[iteration + 1].compute_end)


def test_without_a_bound_the_fast_ones_do_not_wait():
    fast, _, slow = uneven("asp")
    assert fast[-1].end < slow[1].compute_end


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_the_fast_ones_are_ahead_by_the_staleness_and_no_more(staleness):
    fast, _, slow = uneven("ssp", staleness=staleness)
    assert all(each.end < slow[0].compute_end for each in fast[:staleness])
    for iteration in range(staleness, 6):
        assert came_between(fast[iteration].end, slow, iteration - staleness)


def test_turns_go_round():
    fast, second, slow = uneven("r2sp")
    for turn in range(5):
        assert came_between(fast[turn + 1].end, slow, turn)
        assert came_between(second[turn + 1].end, slow, turn)


def test_in_turns_no_one_pushes_before_the_one_before_is_through(monkeypatch):
    arrived = []
    push = Shard.push

    def noted(shard, worker, gradient):
        arrived.append(worker)
        return push(shard, worker, gradient)

    monkeypatch.setattr(Shard, "push", noted)
    virtual.run(tasks("r2sp", servers=1, iterations=3))
    assert arrived == [0, 0, 0, 1, 1, 1, 2, 2, 2] * 3


def test_in_turns_one_server_after_another_gets_its_share(monkeypatch):
    """So each of several servers can serve another worker's share meanwhile."""
    pushed = []
    push = Worker._push

    def noted(worker, iteration, piece):
        (update,) = worker._pieces.updates(piece)
        pushed.append((worker._task.rank, iteration, update.server))
        push(worker, iteration, piece)

    monkeypatch.setattr(Worker, "_push", noted)
    virtual.run(tasks("r2sp", servers=2, iterations=3))
    for rank in range(3):
        own = [each[1:] for each in pushed if each[0] == rank]
        wanted = [(iteration, server) for iteration in range(3) for server in (3, 4)]
        assert own == [each for each in wanted for _ in UNITS]
    for server in (3, 4):
        turns = [rank for rank, _, to in pushed if to == server]
        assert turns == [rank for _ in range(3) for rank in range(3) for _ in UNITS]
    # Worker 2 begins with the first server before worker 1 has ended with the second.
    assert pushed.index((2, 0, 3)) < len(pushed) - pushed[::-1].index((1, 0, 4))


def test_a_turn_is_sent_before_the_answer(monkeypatch):
    """Or the next worker's push would wait behind the answer, in the server's queue."""
    sent = []
    send = virtual.Stream.send

    def noted(stream, to, message):
        sent.append((stream._rank, type(message)))
        send(stream, to, message)

    monkeypatch.setattr(virtual.Stream, "send", noted)
    virtual.run(tasks("r2sp", servers=1, iterations=1))
    by_server = [kind for rank, kind in sent if rank == 3]
    # The first worker has a turn at once; the next one's comes before the answer to the last unit.
    last = len(UNITS) - 1
    assert by_server[: len(UNITS) + 2] == [Turn, *[Answer] * last, Turn, Answer]


def test_workers_may_begin_one_after_the_other():
    outcomes = virtual.run([replace(task, start_s=0.02 * task.rank) for task in tasks("r2sp")])
    starts = [outcome.iterations[0].start for outcome in outcomes[:3]]
    assert starts[1] - starts[0] == pytest.approx(0.02)
    assert starts[2] - starts[0] == pytest.approx(0.04)
    assert [outcome.wrong for outcome in outcomes] == [0] * 5


def test_a_step_is_waited_for_before_each_push():
    job = [replace(task, step_s=0.05) for task in tasks("asp", iterations=2)]
    for worker in virtual.run(job)[:3]:
        assert all(0.055 < each.end - each.start < 0.3 for each in worker.iterations)
        assert worker.wrong == 0


consistencies = st.one_of(
    st.just(Consistency()),
    st.builds(Consistency, staleness=st.integers(0, 3)),
    st.just(Consistency(turns=True)),
)


@given(consistencies, st.integers(1, 5), st.integers(1, 5), st.randoms(use_true_random=False))
def test_any_order_of_pushes_ends_with_everything_and_each_answer_may_be(
    consistency, workers, iterations, random
):
    shard = Shard(np.zeros(3, np.int32), workers, consistency)
    pushed, idle = [0] * workers, set(range(workers))
    while idle:
        worker = random.choice(sorted(idle))
        idle.remove(worker)
        pushed[worker] += 1
        for _, answered in shard.push(worker, np.full(3, 10**worker, np.int32)):
            total = sum(count * 10**rank for rank, count in enumerate(shard.counts))
            assert shard.parameters.tolist() == [total] * 3
            for each in answered:
                assert may_hold(consistency, shard.counts, each, pushed[each])
                if pushed[each] < iterations:
                    idle.add(each)
    assert shard.counts == [iterations] * workers


def test_what_may_not_be_held_is_known():
    free, bound, turns = Consistency(), Consistency(staleness=1), Consistency(turns=True)
    assert may_hold(free, [4, 0, 9], 0, 4)
    assert not may_hold(free, [4, 0, 9], 0, 5)
    assert not may_hold(free, [4, -1, 9], 0, 4)
    assert may_hold(bound, [4, 3, 9], 0, 4)
    assert not may_hold(bound, [4, 2, 9], 0, 4)
    assert may_hold(turns, [4, 4, 3], 1, 4)
    assert not may_hold(turns, [4, 4, 4], 1, 4)
    assert not may_hold(turns, [3, 4, 3], 1, 4)


def test_sums_wrap_around():
    shard = Shard(np.array([2**31 - 1], np.int32), 1, Consistency())
    assert list(shard.push(0, np.array([1], np.int32))) == [(0, (0,))]
    assert shard.parameters.tolist() == [-(2**31)]

"""Whole jobs as processes over loopback: exact sums, and failures with their reason."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from ina_loopback import NET
from patience import PATIENCE_S, awaited

from testbed.deployment.tasks import role
from testbed.hosts.launcher import Launcher, RankFailed
from testbed.hosts.messages import Chunk
from testbed.hosts.task import Task
from testbed.plan.program import SwitchAllReduce
from testbed.plan.units import Unit
from testbed.protocols.allocation import Allocation, Window
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.workload.catalogue import load
from testbed.workload.gradients import LARGEST_CONSTANT, Gradients
from testbed.workload.quantise import BlockExponent, Factor
from testbed.workload.values import load as load_sample

ELEMENTS = 3 * 4 * 256
UNITS = (Unit(0, ELEMENTS, 0.01), Unit(1, ELEMENTS, 0.03))


def tasks(system: str, workers: int = 3, iterations: int = 3, seed: int = 5) -> list[Task]:
    fabric = leaf_spine(1, 1, workers + 1, 1e9, 1e9, 10**6)
    hosts = fabric.hosts
    least, _ = registry[system].servers
    servers = hosts[workers : workers + least]
    options = registry[system].settle(registry[system].fallback)  # no switch sums here
    placement = Assignment(hosts[:workers], servers, options, load("resnet50"))
    plan = registry[system].plan(placement, fabric)
    addresses = {host: f"{NET}.{rank + 1}" for rank, host in enumerate(plan.hosts)}
    allocations = [Allocation(i, 0, tree, 0, 4096) for i, tree in enumerate(plan.trees)]
    gradients = Gradients(seed, workers, 2 * ELEMENTS)
    return [
        Task(
            plan,
            rank,
            0,
            tuple(addresses[host] for host in plan.hosts),
            UNITS,
            0.04,
            gradients,
            (1.0,) * iterations,
            tuple(role(plan, rank, each, addresses, Window(8), fabric) for each in allocations),
        )
        for rank in plan.ranks
    ]


# test_parameters.py has the others, which use other endpoints.
SYNCHRONOUS = [name for name in registry if tasks(name)[0].plan.consistency is None]


@pytest.mark.parametrize("system", SYNCHRONOUS)
def test_every_sum_is_checked_and_right(system):
    job = tasks(system)
    with Launcher(job, [None] * len(job)) as launcher:
        outcomes = launcher.run(timeout=PATIENCE_S)
    workers = outcomes[:3]
    for outcome in workers:
        assert outcome.wrong == 0
        assert outcome.checked == 3 * 2 * ELEMENTS
        assert [each.end >= each.compute_end >= each.start for each in outcome.iterations] == [
            True
        ] * 3
        assert outcome.iterations[0].compute_end - outcome.iterations[0].start == pytest.approx(
            0.04
        )


@pytest.mark.parametrize("system", SYNCHRONOUS)
def test_a_wrong_contribution_is_noticed_by_every_worker(system):
    job = tasks(system)
    other = tasks(system, seed=6)
    job[1] = other[1]  # this one contributes wrong values
    with Launcher(job, [None] * len(job)) as launcher:
        outcomes = launcher.run(timeout=PATIENCE_S)
    for outcome in outcomes[:3]:
        assert outcome.wrong > 0.9 * outcome.checked


@pytest.mark.parametrize("system", SYNCHRONOUS)
def test_a_killed_worker_ends_the_run(system):
    job = tasks(system, iterations=10_000)
    killed = []

    def kill_once() -> None:
        if not killed:
            killed.append(launcher.pids[1])
            os.kill(launcher.pids[1], signal.SIGKILL)

    with (
        pytest.raises(RankFailed, match=r"job 0 worker rank 1 died \(exit code -9\)"),
        Launcher(job, [None] * len(job)) as launcher,
    ):
        launcher.run(kill_once, timeout=PATIENCE_S)  # else: no answer in time
    for pid in launcher.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_worker_that_dies_before_it_is_told_to_go_on_is_named():
    """Its pipe is broken when the launcher writes to it."""
    job = tasks("ring")
    with (
        pytest.raises(RankFailed, match=r"job 0 worker rank 1 died \(exit code -9\)"),
        Launcher(job, [None] * len(job)) as launcher,
    ):
        assert all(pipe.poll(PATIENCE_S) for pipe in launcher._pipes)  # all are listening
        os.kill(launcher.pids[1], signal.SIGKILL)
        launcher._processes[1].join(PATIENCE_S)
        launcher.run(timeout=PATIENCE_S)


def test_a_worker_that_dies_after_its_outcome_changes_nothing():
    job = tasks("ring")
    with Launcher(job, [None] * len(job)) as launcher:
        outcomes = launcher.run(timeout=PATIENCE_S)
        os.kill(launcher.pids[1], signal.SIGKILL)
        launcher._processes[1].join(PATIENCE_S)
    assert [each.wrong for each in outcomes] == [0] * 3


def test_actions_are_done_in_time_and_a_paused_rank_goes_on():
    job = tasks("ps")
    done = []
    with Launcher(job, [None] * len(job)) as launcher:
        paused = len(job) - 1  # a server, without which nobody ends

        def pause(is_paused: bool) -> None:
            launcher.pause(paused, is_paused)
            done.append(is_paused)

        def stopped() -> bool:
            stat = Path(f"/proc/{launcher.pids[paused]}/stat").read_text()
            return stat.rpartition(")")[2].split()[0] == "T"

        actions = [
            (0.3, lambda: pause(False)),
            (0.2, lambda: done.append(awaited(stopped))),
            (0.0, lambda: pause(True)),
            (1e6, lambda: done.append(None)),
        ]
        outcomes = launcher.run(timeout=PATIENCE_S, actions=actions)
    assert done == [True, True, False]
    assert [each.wrong for each in outcomes[:3]] == [0] * 3


def test_a_rank_killed_before_the_start_is_named():
    job = tasks("ring")
    with (
        pytest.raises(RankFailed, match=r"job 0 worker rank 1 died \(exit code -9\)"),
        Launcher(job, [None] * len(job)) as launcher,
    ):
        launcher.run(timeout=PATIENCE_S, actions=[(0.0, lambda: launcher.kill(1))])


def test_credit_that_comes_back_is_used_and_a_host_may_have_two_ranks():
    """More units than credit, all ready at once; three servers are on workers' hosts."""
    job = tasks("ps")
    units = tuple(Unit(i, 96, 0.0) for i in range(64))
    gradients = Gradients(5, 3, 64 * 96)
    job = [replace(each, units=units, gradients=gradients) for each in job]
    assert len({*job[0].addresses}) == 4 < len(job)
    with Launcher(job, [None] * len(job)) as launcher:
        outcomes = launcher.run(timeout=PATIENCE_S)
    assert [each.wrong for each in outcomes] == [0] * 7
    assert outcomes[0].checked == 3 * 64 * 96


def test_units_smaller_than_the_plan_has_chunks_are_summed_too():
    """Racks of 2 and 3 hosts: eight chunks of uneven shares, some of them empty."""
    fabric = leaf_spine(1, 2, (2, 3), 1e9, 1e9, 10**6)
    plan = registry["hierarchical-ring"].plan(Assignment(fabric.hosts, ()), fabric)
    units = (Unit(0, 7, 0.0), Unit(1, 1, 0.0), Unit(2, 1000, 0.01))
    assert len(set(plan.cuts(7, 1))) < len(plan.cuts(7, 1))
    addresses = tuple(f"{NET}.{rank + 1}" for rank in plan.ranks)
    gradients = Gradients(5, 5, 1008)
    job = [
        Task(plan, rank, 0, addresses, units, 0.02, gradients, (1.0,) * 3) for rank in plan.ranks
    ]
    with Launcher(job, [None] * len(job)) as launcher:
        outcomes = launcher.run(timeout=PATIENCE_S)
    assert [(each.wrong, each.checked) for each in outcomes] == [(0, 3 * 1008)] * 5


@pytest.mark.parametrize("system", ["atp", "switchml"])
def test_shares_of_no_fragments_are_summed_too(system):
    """GRID divides small units like this: one tree has all fragments, the other none."""
    plain = tasks(system)
    whole = plain[0].plan
    plan = replace(
        whole,
        chunks=2,
        shares=(Fraction(1, 10), Fraction(9, 10)),
        programs=((SwitchAllReduce(0, 0), SwitchAllReduce(1, 1)),) * len(whole.hosts),
        trees=whole.trees * 2,
    )
    sizes = (200, 2000, 256, 1)
    units = tuple(Unit(number, size, 0.0) for number, size in enumerate(sizes))
    gradients = Gradients(5, 3, sum(sizes))
    job = []
    for task in plain:
        (part,) = task.trees
        assert part is not None
        trees = (part, replace(part, tree=1))
        job.append(replace(task, plan=plan, units=units, gradients=gradients, trees=trees))
    with Launcher(job, [None] * len(job)) as launcher:
        outcomes = launcher.run(timeout=PATIENCE_S)
    assert [(each.wrong, each.checked) for each in outcomes[:3]] == [(0, 3 * 2457)] * 3


def test_the_last_chunk_is_sent_even_if_its_sender_has_all_it_needs():
    from testbed.hosts.stream import Mesh

    addresses = [f"{NET}.201", f"{NET}.202"]
    sender, receiver = (Mesh(rank, addresses) for rank in (0, 1))
    values = np.arange(8_000_000, dtype=np.int32)  # more than any socket buffers
    try:
        sender.connect([1])
        sender.send(1, Chunk(0, 0, values))
        arrived: list[np.ndarray] = []
        flushing = threading.Thread(target=sender.flush)
        flushing.start()
        awaited(lambda: arrived.extend(each.values for _, each in receiver.poll()) or arrived)
        flushing.join(PATIENCE_S)
        np.testing.assert_array_equal(arrived[0], values)
    finally:
        sender.close()
        receiver.close()


@pytest.mark.parametrize("system", ["ring", "switchml"])
def test_real_gradients_are_summed_and_the_error_of_what_came_is_told(system):
    job = tasks(system)
    sample = load_sample("resnet50")
    drawn = [sample.draw(5, rank, 2 * ELEMENTS) for rank in range(3)]
    schemes = [Factor(10.0), BlockExponent.agreed(drawn, 3, LARGEST_CONSTANT)]
    errors = []
    for quantiser in schemes:
        gradients = Gradients(5, 3, 2 * ELEMENTS, sample=sample, quantiser=quantiser)
        told = [replace(each, gradients=gradients) for each in job]
        with Launcher(told, [None] * len(told)) as launcher:
            outcomes = launcher.run(timeout=PATIENCE_S)
        assert [outcome.wrong for outcome in outcomes[:3]] == [0] * 3
        errors.append(outcomes[0].quantisation_error)
        truth = gradients.quantisation_error(gradients.expected_total().astype(float))
        assert errors[-1] == pytest.approx(truth, rel=1e-6)
    assert errors[0] > 1000 * errors[1]

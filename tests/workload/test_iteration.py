"""The time of a job from its workers' iterations."""

from __future__ import annotations

import pytest

from testbed.workload.iteration import IterationTimes, completion_s, paces


def worker(start: float, *ends: float) -> list[IterationTimes]:
    begins = (start, *ends[:-1])
    return [IterationTimes(begin, begin, end) for begin, end in zip(begins, ends, strict=True)]


def test_together_a_job_lasts_from_the_last_warm_up_to_the_last_end():
    workers = [worker(0, 1, 2, 3), worker(0, 1.5, 2.5, 3.5)]
    assert completion_s(workers, warmup=1) == 2.0
    assert completion_s(workers) == 3.5


def test_the_pace_counts_only_while_all_load_the_network():
    """Two workers share a link on which an iteration takes a second if one is alone. The first
    one's first iteration is alone, and so is the second one's last."""
    workers = [worker(0, 1, 3), worker(1, 3, 4)]
    assert paces(workers) == pytest.approx([0.5, 0.5])
    assert completion_s(workers, together=False) == pytest.approx(4.0)


def test_the_slowest_worker_counts_too():
    workers = [worker(0, 1, 2, 3, 4), worker(0, 2, 4, 6, 8)]
    assert paces(workers) == pytest.approx([1.0, 0.5])
    assert completion_s(workers, together=False) == pytest.approx(8.0)


def test_what_is_left_of_a_warm_up_counts_as_load():
    workers = [worker(0, 1, 2, 3), worker(0.5, 1.5, 2.5, 3.5)]
    assert paces(workers, warmup=1) == pytest.approx([1.0, 1.0])
    assert completion_s(workers, warmup=1, together=False) == pytest.approx(2.0)


def test_workers_that_are_never_there_together_take_turns():
    workers = [worker(0, 1), worker(1, 2)]
    assert paces(workers) == pytest.approx([0.5, 0.5])
    assert completion_s(workers, together=False) == pytest.approx(2.0)

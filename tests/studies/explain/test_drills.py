"""Hidden faults are named, and healthy runs are not accused."""

from __future__ import annotations

import pytest

from testbed.studies.explain import drills


def test_there_are_twenty_of_each():
    assert len(drills.FAULTS) == len(drills.HEALTHY) == 20


def test_at_least_eighteen_of_twenty_faults_are_named():
    found = {fault: drills.hidden(fault) for fault in drills.FAULTS}
    missed = {
        f"{fault.name} ({fault.intended})": signs
        for fault, signs in found.items()
        if not drills.is_named(fault, signs)
    }
    assert len(missed) <= len(drills.FAULTS) - drills.WANTED, missed


@pytest.mark.parametrize(("name", "seed"), drills.HEALTHY)
def test_nothing_is_said_of_a_healthy_run(name, seed):
    assert not drills.healthy(name, seed)


def test_the_seeds_of_drills_are_not_those_of_normal_runs():
    seeds = {drills.HIDDEN_SEED, *(seed for _, seed in drills.HEALTHY)}
    assert seeds.isdisjoint(drills.NORMAL_SEEDS)

"""One more system takes one file: a toy is put beside the others, and everything finds it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shapes import WORKERS, assignments, bare_fabrics, deployments, planned

import testbed.systems
from testbed.plan import chain
from testbed.plan import cost as model
from testbed.systems import Assignment, discover, registry
from testbed.topology.builders import leaf_spine

TOYS = Path(__file__).parent / "toys"


@pytest.fixture
def star(monkeypatch):
    """The toy, as if its file lay in testbed/systems."""
    monkeypatch.setattr(testbed.systems, "__path__", [*testbed.systems.__path__, str(TOYS)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = discover()
    assert found.keys() - registry.keys() == {"star"}
    yield found["star"]
    del sys.modules["testbed.systems.star"], testbed.systems.star


@pytest.mark.parametrize("workers", WORKERS)
def test_the_contract_proves_it(star, workers):
    for bare in bare_fabrics():
        if workers < len(bare.hosts):
            for fabric in deployments(bare):
                for job in assignments(star, fabric, workers):
                    planned(star, job, fabric, [])


def test_its_closed_form_follows_from_its_plan(star):
    fabric = leaf_spine(1, 1, 5, 8.0, 8.0, 10**6)  # a byte each second
    plan = star.plan(Assignment(fabric.hosts), fabric)
    assert chain.length(plan) == 2
    assert model.seconds_per_byte(plan, fabric) == pytest.approx(4, rel=0.1)


def test_its_options_are_checked(star):
    assert star.settle({}) == {"rays": 5}
    with pytest.raises(ValueError, match="star: option rays: found 'many', wanted a number"):
        star.settle({"rays": "many"})


def test_two_systems_of_one_name_are_refused(monkeypatch, tmp_path):
    (tmp_path / "again.py").write_text("from testbed.systems.ring import SYSTEM\n")
    monkeypatch.setattr(testbed.systems, "__path__", [*testbed.systems.__path__, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(ValueError, match="two systems are called ring"):
        discover()
    del sys.modules["testbed.systems.again"], testbed.systems.again

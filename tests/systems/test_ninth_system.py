"""A new system is one file: a toy that is put next to the others passes the contract."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from contract import *  # noqa: F403

import testbed.systems
from testbed.plan import chain
from testbed.plan import cost as model
from testbed.systems import Assignment, discover, registry
from testbed.topology.builders import leaf_spine

TOYS = Path(__file__).parent / "toys"


@pytest.fixture
def system(monkeypatch):
    """The toy, as if its file were in testbed/systems, for all tests of the contract."""
    monkeypatch.setattr(testbed.systems, "__path__", [*testbed.systems.__path__, str(TOYS)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = discover()
    assert found.keys() - registry.keys() == {"star"}
    monkeypatch.setitem(registry, "star", found["star"])
    yield found["star"]
    del sys.modules["testbed.systems.star"], testbed.systems.star


def test_its_closed_form_follows_from_its_plan(system):
    fabric = leaf_spine(1, 1, 5, 8.0, 8.0, 10**6)  # a byte per second
    plan = system.plan(Assignment(fabric.hosts), fabric)
    assert chain.length(plan) == 2
    assert model.seconds_per_byte(plan, fabric) == pytest.approx(4, rel=0.1)


def test_its_options_are_checked(system):
    assert system.settle({}) == {"rays": 5}
    with pytest.raises(ValueError, match="star: option rays: found 'many', wanted a number"):
        system.settle({"rays": "many"})


def test_two_systems_of_one_name_are_refused(monkeypatch, tmp_path):
    (tmp_path / "again.py").write_text("from testbed.systems.ring import SYSTEM\n")
    monkeypatch.setattr(testbed.systems, "__path__", [*testbed.systems.__path__, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(ValueError, match="found the name 'ring', which another system has"):
        discover()
    del sys.modules["testbed.systems.again"], testbed.systems.again

"""Programs are compiled before the first cell, even on a machine that has never run one."""

from __future__ import annotations

import shutil

import pytest

from testbed.backends.emulation import targets
from testbed.hosts import aggregation
from testbed.switches.compile import COMPILER, PROGRAM, SOURCES


@pytest.fixture
def new_machine(tmp_path, monkeypatch):
    """The folder of compiled programs, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    aggregation.load.cache_clear()
    yield tmp_path / "ina-testbed"
    aggregation.load.cache_clear()


def test_the_hosts_engine_is_compiled_before_any_run(new_machine):
    targets.prepare("bmv2")
    assert list(new_machine.glob("engine-*"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(COMPILER) is None, reason="p4c is not installed")
def test_the_example_of_an_own_program_compiles_and_fits(new_machine):
    made = targets.program(str(SOURCES / "examples" / "saturating.p4"))
    assert made.parent == new_machine
    assert made.read_bytes() != PROGRAM.read_bytes()

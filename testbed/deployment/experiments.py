"""Experiment files, checked against the known systems and workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testbed.deployment import users_code
from testbed.experiment.load import load, loads
from testbed.experiment.schema import Experiment
from testbed.systems import registry
from testbed.workload import catalogue


def read(path: Path) -> Experiment:
    """Load and validate an experiment file. Raises Invalid, which lists every problem with its
    place."""
    return load(path, **known())


def reads(text: str) -> Experiment:
    """Like `read`, from text."""
    return loads(text, "experiment", **known())


def known() -> dict[str, Any]:
    """The systems and workloads that an experiment may name. Raises Broken if a user's system or
    protocol is wrong."""
    users_code.check()
    return {"systems": registry, "workloads": (*catalogue.names(), *catalogue.trained())}

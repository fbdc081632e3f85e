"""Experiments that run quickly: a made-up workload of some hundred packets, and a file for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from testbed.experiment.load import loads
from testbed.experiment.schema import Experiment
from testbed.workload.synthetic import synthetic
from testbed.workload.trace_file import save

FRAGMENTS = 240


def trace_file(folder: Path, fragments: int = FRAGMENTS) -> Path:
    """A trace of ``fragments`` packets' worth of gradient in six tensors, and 0.2 ms of compute."""
    path = folder / "tiny.trace"
    save(synthetic(fragments * 1024, 2e-4, 6), path)
    return path


def data(folder: Path, **changes: Any) -> dict[str, Any]:
    """An experiment as plain data: four workers in two racks. Keys of ``changes`` are dotted paths
    with two underscores for each dot: ``jobs__0__system="ring"``."""
    experiment: dict[str, Any] = {
        "schema_version": 1,
        "name": "tiny",
        "fabric": {
            "kind": "leaf-spine",
            "spines": 2,
            "leaves": 2,
            "hosts_per_leaf": [3, 3],
            "host_rate": "10Gbit",
            "queue": "256KB",
        },
        "jobs": [
            {
                "system": "atp",
                "workload": str(folder / "tiny.trace"),
                "workers": 4,
                "iterations": 2,
                "warmup": 1,
                "bucket": "100KB",
                "first_bucket": "20KB",
            }
        ],
        "emulation": {"dilation": 200, "scale": 1, "target": "native"},
    }
    for path, value in changes.items():
        _put(experiment, path.split("__"), value)
    if not (folder / "tiny.trace").exists():
        trace_file(folder)
    return experiment


def experiment(folder: Path, **changes: Any) -> Experiment:
    return loads(yaml.safe_dump(data(folder, **changes)))


def file(folder: Path, **changes: Any) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(data(folder, **changes), sort_keys=False))
    return path


def _put(at: Any, keys: list[str], value: Any) -> None:
    *way, last = [int(key) if key.isdecimal() else key for key in keys]
    for key in way:
        at = at.setdefault(key, {}) if isinstance(at, dict) else at[key]
    at[last] = value

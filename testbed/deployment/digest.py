"""Digests of what a job sends, and when, and of everything that a back end takes from a deployment.

Jobs with the same digest do the same, even if their systems have different names: without INA, Rina
is a ring. A difference between their times is noise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from testbed.deployment.deploy import DeployedJob, Deployment
from testbed.deployment.tables import tables
from testbed.protocols import Protocol

_OF_A_SYSTEM = ("servers", "aggregates", "waits", "fallback", "sparse", "carries")
"""What the code that runs a job may ask of its system."""
_LATER = ("after", "needed")
"""Fields that count only if they are set, so that digests of older rows stay the same."""


def digest(job: DeployedJob) -> str:
    """Sixteen hexadecimal digits for a job's plan and timing, without the system's name."""
    made = job.plan
    content = [
        [
            made.hosts, made.workers, made.chunks, made.programs, made.trees, made.pipelining,
            made.shares, made.deferred, made.consistency, made.routes,
        ],
        [job.units, job.compute_s, job.paces, job.step_s, job.start_s, job.window],
        [job.job.iterations, job.job.warmup],
        *([made.sent] if made.sent != 1 else []),
        *([made.sharding, job.parts] if made.sharding is not None else []),
    ]  # fmt: skip
    return _hashed(content)


def whole(deployment: Deployment) -> str:
    """Sixteen hexadecimal digits for a deployment: fabric, jobs, and switches' tables."""
    jobs = [
        [
            digest(job),
            {name: getattr(job.system, name) for name in _OF_A_SYSTEM},
            [job.forward, job.buckets, job.parts],
            job.expected_jct_s,
        ]
        for job in deployment.jobs
    ]
    return _hashed([deployment.fabric, jobs, tables(deployment)])


def _hashed(content: Any) -> str:
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """A value as JSON data, in a fixed order, with reals rounded to nine digits."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Protocol):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        content = {
            each.name: _plain(getattr(value, each.name))
            for each in fields(value)
            if each.compare
            and (each.name not in _LATER or getattr(value, each.name) != each.default)
        }
        return [type(value).__name__, content]
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return sorted([_plain(key), _plain(each)] for key, each in value.items())
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value

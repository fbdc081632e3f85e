"""What a system is: a plan, a citation, and a look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testbed.plan.program import Plan
from testbed.topology.fabric import Fabric


@dataclass(frozen=True)
class Placement:
    """Where a job sits: the host of each worker in rank order, and of each parameter server."""

    workers: tuple[str, ...]
    servers: tuple[str, ...] = ()


@dataclass(frozen=True)
class System:
    """A registered system.

    Attributes:
        name: what experiment files call it.
        title: what figures call it.
        colour, marker: its look in every figure.
        citation: the paper, or the textbook source.
        published: rules that are taken from the source.
        reading: rules that are this project's own reading, where the source is silent.
        servers: how many parameter servers it takes, least and most.
        plan: turns a placement on a fabric into a plan; ValueError says what it cannot do.
        steps: length of the chain of dependent transfers in that plan, each of which pays the
            per-step latency once a bucket.
        options: names of the options that a job may give it.
    """

    name: str
    title: str
    colour: str
    marker: str
    citation: str
    published: tuple[str, ...]
    reading: tuple[str, ...]
    servers: tuple[int, int]
    plan: Callable[[Placement, Fabric], Plan]
    steps: Callable[[Plan], int]
    options: frozenset[str] = frozenset()

"""What a system is: a plan, a citation, and a look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.plan.program import Plan
from testbed.topology.fabric import Fabric
from testbed.workload.trace import Trace


@dataclass(frozen=True)
class Assignment:
    """A job as a system sees it.

    Attributes:
        workers: the host of each worker, in rank order.
        servers: the host of each parameter server.
        options: a value for every option of the system.
        trace: what is trained; None where the plan does not depend on it.
    """

    workers: tuple[str, ...]
    servers: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    trace: Trace | None = None


@dataclass(frozen=True)
class Option:
    """An option that a job may give its system.

    ``accepts`` tells whether a value will do; ``wanted`` says in words what would.
    """

    default: Any
    wanted: str
    accepts: Callable[[Any], bool]


WINDOW = Option(
    None,
    "a whole number of fragments, at least 1",
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1,
)
"""Fragments that a worker has in flight; None lets the deployment choose."""


def one_of(*names: str) -> Option:
    """An option that takes one of ``names``, the first by default."""
    return Option(names[0], "one of " + ", ".join(names), lambda value: value in names)


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
        plan: turns an assignment on a fabric into a plan; ValueError says what it cannot do.
        options: the options that a job may give it, by name.
    """

    name: str
    title: str
    colour: str
    marker: str
    citation: str
    published: tuple[str, ...]
    reading: tuple[str, ...]
    servers: tuple[int, int]
    plan: Callable[[Assignment, Fabric], Plan]
    options: Mapping[str, Option] = field(default_factory=dict)

    def settle(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A value for every option. ValueError lists all that is wrong with those ``given``."""
        problems = [
            f"{self.name} knows no option {name}; it takes: {', '.join(self.options) or 'none'}"
            for name in given
            if name not in self.options
        ]
        problems += [
            f"{self.name}: option {name}: found {given[name]!r}, wanted {option.wanted}"
            for name, option in self.options.items()
            if name in given and not option.accepts(given[name])
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return {name: given.get(name, option.default) for name, option in self.options.items()}

"""What a system is: a plan, a citation, and what other layers need to know about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from testbed.experiment import options
from testbed.experiment.options import Options
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
        trace: the training trace; None where the plan does not depend on it.
        seed: for what a plan draws at random; each repeat has its own.
        union: the share of packets or values (`System.sparse`) that are not zero at some worker.
    """

    workers: tuple[str, ...]
    servers: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    trace: Trace | None = None
    seed: int = 1
    union: float = 1.0


class WithWindow(Options):
    """The options of a system whose workers send through switches in a window of fragments."""

    window: int | None = Field(
        default=None,
        ge=1,
        description="the fragments that a worker has in flight, a whole number of fragments, at"
        " least 1; unset, what the queues on the way hold",
        examples=[64],
    )

    def least_slots(self) -> int:
        """The fewest slots that it needs: one for each fragment in flight; 0 if the window is not
        set."""
        return self.window or 0


@dataclass(frozen=True)
class System:
    """A registered system.

    Attributes:
        name: what experiment files call it.
        title: what figures call it.
        colour, marker: how every figure shows it.
        citation: the paper, or the textbook source.
        published: rules taken from the source.
        reading: rules that are this project's own reading, where the source is silent.
        servers: the fewest and the most parameter servers it takes.
        plan: turns an assignment on a fabric into a plan; ValueError says what it cannot do.
        options: the model of the options that a job may set. They appear in the JSON schema and
            are checked when an experiment file is read.
        baseline: its position among the baselines, which the report shows first; 0 for others.
        reference: whether the report gives speed-ups over it.
        aggregates: whether switches sum for it, by default and with INA everywhere.
        waits: whether, by default, every worker waits for all others' gradients in each iteration.
        fallback: the options that it needs to run even if no switch sums; empty if it always does.
        sparse: the unit in which a job's density counts and zeros are skipped: packets or values;
            empty if zeros are sent like all values.
        carries: whether OSP may use it for both its stages.
        calibrates: what `ina-testbed calibrate` measures with it: the TCP throughput of hosts, or
            the aggregation rate of switches.
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
    options: type[Options] = Options
    baseline: int = 0
    reference: bool = False
    aggregates: bool = False
    waits: bool = True
    fallback: Mapping[str, Any] = field(default_factory=dict)
    sparse: Literal["", "packets", "values"] = ""
    carries: bool = False
    calibrates: Literal["", "hosts", "switches"] = ""

    def settle(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A value for every option. Raises ValueError, which lists every problem with those
        ``given``."""
        problems = [
            f"{self.name} knows no option {finding.place[0]}: {finding.message}"
            if finding.at_key
            else f"{self.name}: option {finding.place[0]}: {finding.message}"
            for finding in options.check(self.name, self.options, given)
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return dict(self.options.model_validate(given))

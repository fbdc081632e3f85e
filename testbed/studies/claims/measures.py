"""The number for a claim: cells of an experiment, and the cells with which they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from testbed.experiment import sweep
from testbed.experiment.fields import Model, Name
from testbed.experiment.schema import Experiment
from testbed.report.settings import SEED
from testbed.run_tables import settings_key

Metric = Literal[
    "jct_s", "iteration_s", "throughput_samples_s", "algbw_gbit_s", "exposed_comm_s", "target_s",
    "target_iteration", "last", "best",
]  # fmt: skip
"""Columns of results.csv and, from `target_s` on, of training results."""
LEARNT: tuple[Metric, ...] = ("target_s", "target_iteration", "last", "best")
Summary = Literal["mean", "most", "least", "slope", "spread", "midway", "step"]
Reference = Literal["servers-apart", "servers-colocated", "servers-optimal"]
LEAST_POINTS: Mapping[str, int] = {"slope": 2, "spread": 2, "midway": 3, "step": 2}
_Job = Annotated[int, Field(ge=0)]
ALONG = ("slope", "midway", "step")
"""Numbers that need points along one path."""


class Bounds(Model):
    """A closed interval for a number."""

    at_least: float | None = Field(
        default=None, description="the least number allowed", examples=[1.5]
    )
    at_most: float | None = Field(
        default=None, description="the largest number allowed", examples=[2]
    )

    @model_validator(mode="after")
    def _some(self) -> Bounds:
        low, high = self.at_least, self.at_most
        if low is None and high is None:
            raise ValueError("found no bound, wanted at_least, at_most or both; add one")
        if low is not None and high is not None and low > high:
            raise ValueError(f"found at_least {low:g} above at_most {high:g}; swap them")
        return self

    def hold(self, value: float) -> bool:
        """Whether ``value`` is within."""
        return self.meet(value, value)

    def meet(self, low: float, high: float) -> bool:
        """Whether a part of the interval from ``low`` to ``high`` is within."""
        return (self.at_least is None or high >= self.at_least) and (
            self.at_most is None or low <= self.at_most
        )

    def __str__(self) -> str:
        if self.at_least is None:
            return f"at most {self.at_most:.4g}"
        if self.at_most is None:
            return f"at least {self.at_least:.4g}"
        return f"from {self.at_least:.4g} to {self.at_most:.4g}"


class Measure(Model):
    """The number that is measured for a claim.

    Each cell of ``of`` is a point, with the mean of its ``metric``. With ``over``, points are
    ratios to the cell of ``over`` that agrees in all other paths that both sweep; with
    ``reference``, ratios to that formula's value. ``number`` combines the points into one number.
    """

    experiment: Name = Field(
        description="the name of an experiment of this file", examples=["deployment"]
    )
    metric: Metric = Field(
        description="the column of each row: "
        + ", ".join(get_args(Metric))
        + "; the last four are of jobs that learn: seconds and iterations to the target, and the"
        " script's metric at the end and at its best",
        examples=["throughput_samples_s"],
    )
    job: _Job | Annotated[list[_Job], Field(min_length=1)] | None = Field(
        default=None,
        description="the job whose rows count, a whole number, or several in a list, whose mean"
        " counts; without it the mean of all jobs",
        examples=[0],
    )
    of: dict[str, Any] = Field(
        default_factory=dict,
        description="a mapping of swept paths to values",
        examples=[{"jobs.0.system": "rina"}],
    )
    over: dict[str, Any] | None = Field(
        default=None,
        description="a mapping of swept paths to values",
        examples=[{"jobs.0.system": "atp"}],
    )
    reference: Reference | None = Field(
        default=None,
        description="a formula, one of " + ", ".join(get_args(Reference)),
        examples=["servers-apart"],
    )
    where: dict[str, Any] = Field(
        default_factory=dict,
        description="a mapping of swept paths to the values of points, one or several",
        examples=[{"fabric.ina": "all"}],
    )
    along: str | None = Field(
        default=None,
        description="the swept path along which points lie, for " + ", ".join(ALONG),
        examples=["jobs.0.workers"],
    )
    number: Summary = Field(
        default="mean",
        description="how points are combined: mean; most; least; slope (the exponent of a power"
        " law); spread (the largest over the smallest); midway (the share of the whole change that"
        " is reached half-way); step (the least ratio of a point to the previous one)",
        examples=["mean"],
    )
    reads: str = Field(
        description="the meaning of the number", examples=["throughput of Rina over ATP's"]
    )

    @model_validator(mode="after")
    def _whole(self) -> Measure:
        if self.over is not None and self.reference is not None:
            raise ValueError("found both over and reference, wanted one at most; remove one")
        if self.number in ALONG and self.along is None:
            raise ValueError(
                f"found no along, wanted the path along which {self.number} is computed"
            )
        if self.reference is not None and self.metric != "algbw_gbit_s":
            raise ValueError(f"found metric {self.metric}, wanted algbw_gbit_s with reference")
        return self

    @property
    def jobs(self) -> list[int] | None:
        """The jobs whose rows count; None for all."""
        return [self.job] if isinstance(self.job, int) else self.job

    def at(self, path: str, value: Any) -> Measure:
        """The same measure for the cells that also have this setting."""
        return self.model_copy(update={"where": {**self.where, path: value}})

    def points(self, experiment: Experiment) -> list[Point]:
        """The points, in the order of the sweep. Raises ValueError if there are none, or if a cell
        to compare with is missing."""
        cells = list(sweep.settings(experiment.sweep))
        together = set() if experiment.sweep is None else set(experiment.sweep.zip)
        found: dict[str, Point] = {}
        for cell in cells:
            if not _agrees(cell, {**self.where, **self.of}):
                continue
            beside = None if self.over is None else self._partner(cell, cells, together)
            common = {path: value for path, value in cell.items() if path != SEED}
            at = None if self.along is None else cell[self.along]
            point = found.setdefault(settings_key(common), Point(common, at))
            point.pairs.append((cell, beside))
        if not found:
            raise ValueError("found no cell with these values, wanted at least one")
        return list(found.values())

    def _partner(
        self, cell: sweep.Settings, cells: list[sweep.Settings], together: set[str]
    ) -> sweep.Settings:
        """The cell with which to compare ``cell``; paths that are swept ``together`` differ
        together.

        The settings ``where`` and the place ``along`` a path are the same for both, except for
        paths in ``over``.
        """
        over = {**self.where, **(self.over or {})}
        chosen = {*self.of, *(self.over or {})}
        free = chosen | (together if chosen & together else set())
        free -= {self.along} - chosen
        fits = [
            other
            for other in cells
            if _agrees(other, over)
            and all(other[path] == cell[path] for path in other if path not in free)
        ]
        if len(fits) != 1:
            raise ValueError(
                f"found {len(fits)} cells that match over for {sweep.written(cell)}, wanted one;"
                " name more paths, or others, in over"
            )
        if fits[0] == cell:
            raise ValueError(
                "found a cell that is compared with itself, wanted another; change of or over"
            )
        return fits[0]


@dataclass(frozen=True)
class Point:
    """Cells that differ only in their seed, each with the cell with which it is compared.

    ``settings`` are their common settings; ``at`` is the point's value on the measure's path.
    """

    settings: sweep.Settings
    at: Any
    pairs: list[tuple[sweep.Settings, sweep.Settings | None]] = field(default_factory=list)


def _agrees(cell: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(path in cell and cell[path] in values(value) for path, value in wanted.items())


def values(wanted: Any) -> list[Any]:
    """The wanted values as a list: ``wanted`` is one value, or a list of alternatives."""
    return [*wanted, wanted] if isinstance(wanted, list) else [wanted]

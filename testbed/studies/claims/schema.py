"""The format of a claims file: published claims, and experiments that test them.

A file has ordinary experiments and, for each claim, the published figure and a number from their
results. The bounds of a verdict follow from the published figure by one rule for all claims
(`Published`); a verdict is always computed and cannot be written in a file. A claim may have a
break-even: one condition is varied, to see where the claim would hold. Numbers that no paper claims
are observations, which get no verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from testbed.experiment.fields import Model, Name, is_number, sequence
from testbed.experiment.findings import shown, suggestion
from testbed.experiment.schema import Experiment
from testbed.studies.claims.measures import Bounds, Measure, values

REPRODUCED, DIRECTION, NOT = "reproduced", "reproduced in direction", "not reproduced"
MORE, UNDECIDED = "much more than published", "undecided"
CANNOT, NOT_RUN = "cannot be tested here", "not run"
GAIN_FACTOR, DIRECTION_FACTOR, VALUE_FACTOR = 1.5, 4.0, 1.1
"""The factors by which a number may differ from the published figure: see `Published`."""


def _gain(value: Any) -> Any:
    """``1.5`` or ``[1.38, 1.66]`` as (lowest, highest)."""
    ends = [value] if not isinstance(value, (list, tuple)) else list(value)
    if not all(map(is_number, ends)) or len(ends) not in (1, 2) or not 1 < ends[0] <= ends[-1]:
        raise ValueError(
            f"found {shown(value)}, wanted a number above 1, or the lowest and the highest of"
            " several; write a time that is 20 % shorter as 1.25"
        )
    return (float(ends[0]), float(ends[-1]))


class Published(Model):
    """The published figure, of one of three kinds. The kind decides the bounds of the verdicts.

    ``gain``: how many times as much. The excess over 1 is compared with the published excess.
    Within a factor of ``GAIN_FACTOR`` either way, the claim is reproduced; within
    ``DIRECTION_FACTOR``, it is reproduced in direction. More than that is another finding than the
    published one. If a hardware set-up is only partly known, results rarely come closer, and a gain
    smaller than a quarter of the published one would not have been published.

    ``value``: a figure from a formula or a worked example, where no set-up can differ. It is
    reproduced within ``VALUE_FACTOR``, headers included.

    ``trend``: a statement without a figure, of which only the direction can be reproduced.
    """

    gain: Annotated[tuple[float, float], BeforeValidator(_gain)] | None = Field(
        default=None,
        description="how many times as much, a number above 1 or a list of two, for a range",
        examples=[1.5],
    )
    value: float | None = Field(
        default=None, gt=0, description="the published value, a number above 0", examples=[2.43]
    )
    trend: Bounds | None = Field(
        default=None,
        description="a mapping of at_least and at_most, for a statement without a figure",
        examples=[{"at_least": 1}],
    )
    because: str = Field(
        default="",
        description="how the figure, or the bounds of a trend, follow from the text",
        examples=["38.4 % less time is 1.62 times the rate."],
    )

    @model_validator(mode="after")
    def _one(self) -> Published:
        kinds = [each for each in (self.gain, self.value, self.trend) if each is not None]
        if len(kinds) != 1:
            raise ValueError(f"found {len(kinds)} of gain, value and trend, wanted one")
        if self.trend is not None and not self.because:
            raise ValueError(
                "found a trend without because, wanted the reason for its bounds; add for example"
                " `because: No loss is a ratio of 1.`"
            )
        return self

    @property
    def reproduced(self) -> Bounds | None:
        """The bounds within which the figure is reproduced; None for a trend."""
        if self.gain is not None:
            return _excess(self.gain, GAIN_FACTOR)
        if self.value is not None:
            low, high = self.value / VALUE_FACTOR, self.value * VALUE_FACTOR
            return Bounds(at_least=low, at_most=high)
        return None

    @property
    def direction(self) -> Bounds | None:
        """The bounds within which only the direction is reproduced; None for a value."""
        return self.trend if self.gain is None else _excess(self.gain, DIRECTION_FACTOR)

    @property
    def holds(self) -> Bounds:
        """The bounds of the strongest possible verdict."""
        bounds = self.reproduced or self.trend
        assert bounds is not None
        return bounds

    def __str__(self) -> str:
        if self.gain is not None:
            low, high = self.gain
            return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        return "no figure" if self.value is None else f"{self.value:.4g}"


def _excess(gain: tuple[float, float], factor: float) -> Bounds:
    """The bounds within a ``factor`` of a gain's excess over 1."""
    low, high = gain
    return Bounds(at_least=1 + (low - 1) / factor, at_most=1 + (high - 1) * factor)


class BreakEven(Model):
    """One condition is varied, to see from which value on the claim would hold."""

    varied: str = Field(description="a swept path", examples=["fabric.step_latency"])
    means: str = Field(description="what is varied, as text", examples=["latency of a step"])
    measure: Measure = Field(
        description="a mapping that defines the number at each value", examples=[{}]
    )

    def values(self, experiment: Experiment) -> list[Any]:
        """The swept values of ``varied``, or only those in the measure's ``where``, if it has
        any."""
        swept = experiment.sweep.values.get(self.varied, ()) if experiment.sweep else ()
        wanted = values(self.measure.where.get(self.varied, list(swept)))
        found: list[Any] = []
        for value in swept:  # a zip may have a value several times
            if value in wanted and value not in found:
                found.append(value)
        return found


class Observation(Model):
    """A finding of our own that no paper claims: a number without a verdict."""

    name: Name = Field(
        description="a name, unique among all claims and observations", examples=["rina-slow-steps"]
    )
    asked: str = Field(description="the question", examples=["Does NetReduce gain late?"])
    ours: str = Field(description="our set-up", examples=["a leaf-spine"])
    measure: Measure = Field(description="a mapping that defines the number", examples=[{}])
    explained: str = Field(
        default="", description="the cause of what was found", examples=["It is a ring then."]
    )

    @property
    def measures(self) -> list[Measure]:
        """What is measured for the observation."""
        return [self.measure]


def _figures(value: Any) -> Any:
    """``2`` or ``[2, null, 4]`` as a tuple; a place without a published value has None."""
    own = list(value) if isinstance(value, (list, tuple)) else [value]
    if not own or not all(each is None or (is_number(each) and each > 0) for each in own):
        raise ValueError(
            f"found {shown(value)}, wanted a number above 0, or a list with one for each value of"
            " at, null where none is published"
        )
    return tuple(None if each is None else float(each) for each in own)


def _places(value: Any) -> Any:
    """``[2, 4]`` or ``{two: [h0, h1]}`` as pairs of a label and a value of the path."""
    if isinstance(value, Mapping):
        return tuple((str(label), each) for label, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple((str(each), each) for each in value)
    raise ValueError(
        f"found {shown(value)}, wanted a list of values, or a mapping of labels to them"
    )


class Bar(Model):
    """One bar of a published figure; a line, if the figure has values along a path."""

    label: str = Field(description="what the paper calls it", examples=["Geryon"])
    published: Annotated[tuple[float | None, ...] | None, BeforeValidator(_figures)] = Field(
        default=None,
        description="the published value, or a list with one for each value of at; none if the"
        " paper's values are not known",
        examples=[1],
    )
    of: dict[str, Any] = Field(
        description="a mapping of swept paths to values: the cells for our bar",
        examples=[{"jobs.0.system": "ps"}],
    )
    job: int | None = Field(
        default=None,
        ge=0,
        description="the job whose rows count, if bars differ in it",
        examples=[0],
    )


class Drawn(Model):
    """A published figure or table with our values over the same axes."""

    name: Name = Field(description="a name, unique in the file", examples=["grid-figure-1"])
    title: str = Field(description="which one it is", examples=["Figure 1"])
    axis: str = Field(description="the axis of values, with its unit", examples=["Gbit/s"])
    ours: str = Field(description="our set-up", examples=["a triangle"])
    measure: Measure = Field(
        description="a mapping that defines the number of every bar", examples=[{}]
    )
    along: str = Field(
        default="", description="the swept path along the other axis", examples=["jobs.0.workers"]
    )
    at: Annotated[tuple[tuple[str, Any], ...], BeforeValidator(_places)] = Field(
        default=(),
        description="a list of values of along, or a mapping of labels to them",
        examples=[[2, 4]],
    )
    across: str = Field(
        default="", description="the label of the other axis", examples=["number of workers"]
    )
    bars: Annotated[tuple[Bar, ...], BeforeValidator(sequence)] = Field(
        description="a list of bars", examples=[[]], min_length=1
    )

    @model_validator(mode="after")
    def _whole(self) -> Drawn:
        if not bool(self.along) == bool(self.at) == bool(self.across):
            raise ValueError("found some of along, at and across, wanted all of them or none")
        for bar in self.bars:
            if bar.published is not None and len(bar.published) != len(self.places):
                raise ValueError(
                    f"found {len(bar.published)} published values of {bar.label}, wanted"
                    f" {len(self.places)}; add null where none is published"
                )
        return self

    @property
    def places(self) -> list[str]:
        """The labels along the other axis; one that is empty if there is no such axis."""
        return [label for label, _ in self.at] or [""]

    @property
    def measures(self) -> list[Measure]:
        """The measure of each bar at each place, bar by bar."""
        own = [
            self.measure.model_copy(
                update={
                    "of": {**self.measure.of, **bar.of},
                    "job": self.measure.job if bar.job is None else bar.job,
                }
            )
            for bar in self.bars
        ]
        if not self.along:
            return own
        return [each.at(self.along, value) for each in own for _, value in self.at]


class Claim(Model):
    """One published claim."""

    name: Name = Field(
        description="a name, unique among all claims and observations", examples=["rina-over-atp"]
    )
    claimed: str = Field(description="the claim as text", examples=["Over 50 % more throughput"])
    read: str = Field(description="the part of the source with the claim", examples=["abstract"])
    theirs: str = Field(description="the set-up as published", examples=["not known"])
    ours: str = Field(default="", description="the set-up as run", examples=["a leaf-spine"])
    differs: str = Field(
        default="", description="the differences between ours and theirs", examples=["no GPUs"]
    )
    published: Published | None = Field(
        default=None, description="a mapping of gain, value or trend", examples=[{"gain": 1.5}]
    )
    measure: Measure | None = Field(
        default=None, description="a mapping that defines the number", examples=[{}]
    )
    cannot: str | None = Field(
        default=None,
        description="why it cannot be tested here, instead of published and measure",
        examples=["It needs the authors' hardware."],
    )
    explained: dict[str, str] = Field(
        default_factory=dict,
        description="a mapping of verdicts to their explanations",
        examples=[{"not reproduced": "Links here have no latency."}],
    )
    break_even: BreakEven | None = Field(
        default=None,
        description="a mapping of varied, means and measure, to see where the claim would hold",
        examples=[{}],
    )

    @field_validator("explained")
    @classmethod
    def _words(cls, explained: dict[str, str]) -> dict[str, str]:
        words = (REPRODUCED, DIRECTION, MORE, UNDECIDED, NOT)
        for word in explained:
            if word not in words:
                fix = suggestion(word, words)
                raise ValueError(f"found {word!r}, wanted a verdict that has a number; {fix}")
        return explained

    @model_validator(mode="after")
    def _either(self) -> Claim:
        if (self.measure is None) != (self.published is None):
            raise ValueError("found one of published and measure, wanted both; add the other")
        if (self.measure is None) == (self.cannot is None):
            raise ValueError(
                "wanted either published and measure, or cannot; found neither or both"
            )
        if self.measure is None and self.break_even is not None:
            raise ValueError("found a break_even without a measure, wanted both; remove it")
        return self

    @property
    def measures(self) -> list[Measure]:
        """What is measured for it: its number and its break-even."""
        found = [self.measure, None if self.break_even is None else self.break_even.measure]
        return [measure for measure in found if measure is not None]


class ClaimsFile(Model):
    """A paper's claims. Experiments are written in the file, or named as ``file: PATH``."""

    schema_version: Literal[1] = Field(description="the version of this format, 1", examples=[1])
    title: str = Field(description="the system or paper", examples=["Rina"])
    source: str = Field(description="the citation", examples=["Chen et al., Rina, ICNP 2024"])
    experiments: Annotated[tuple[dict[str, Any], ...], BeforeValidator(sequence)] = Field(
        default=(), description="a list of experiments", examples=[[]]
    )
    claims: Annotated[tuple[Claim, ...], BeforeValidator(sequence)] = Field(
        description="a list of claims", examples=[[]]
    )
    observations: Annotated[tuple[Observation, ...], BeforeValidator(sequence)] = Field(
        default=(),
        description="a list of findings of our own, which no paper claims",
        examples=[[]],
    )

    figures: Annotated[tuple[Drawn, ...], BeforeValidator(sequence)] = Field(
        default=(), description="a list of published figures, to draw ours beside", examples=[[]]
    )

    @model_validator(mode="after")
    def _named_once(self) -> ClaimsFile:
        tested: list[Claim | Observation | Drawn] = [
            *self.claims,
            *self.observations,
            *self.figures,
        ]
        names = [each.name for each in tested]
        for at, name in enumerate(names):
            if name in names[:at]:
                raise ValueError(f"found the name {name!r} again, wanted each once; rename one")
        return self


@dataclass(frozen=True)
class Claims:
    """A claims file with its experiments by name.

    Attributes:
        name: the file's name without suffix.
        path: as the user gave it; empty for a file that ships with the testbed.
    """

    name: str
    title: str
    source: str
    experiments: Mapping[str, Experiment]
    claims: tuple[Claim, ...]
    observations: tuple[Observation, ...] = ()
    figures: tuple[Drawn, ...] = ()
    path: str = ""

    @property
    def tested(self) -> list[Claim | Observation | Drawn]:
        """Claims, observations and figures."""
        return [*self.claims, *self.observations, *self.figures]

    @property
    def names(self) -> list[str]:
        """The file's name, and those of its claims, observations and figures."""
        return [self.name, *(each.name for each in self.tested)]

    def needed(self, names: Collection[str]) -> set[str]:
        """The experiments of the claims, observations and figures in ``names``.

        Those of all if ``names`` has this file or is empty.
        """
        return {
            measure.experiment
            for each in self.tested
            if not names or self.name in names or each.name in names
            for measure in each.measures
        }

"""The format of a claims file: published claims, and experiments that test them.

A file has ordinary experiments and, for each claim, a number from their results and the bounds on
that number for each verdict. Bounds follow from the publication; a verdict is always computed and
cannot be written in a file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from testbed.experiment.fields import Model, Name, is_number, model_of, sequence
from testbed.experiment.findings import Finding, shown, suggestion
from testbed.experiment.load import build
from testbed.experiment.schema import Experiment
from testbed.located import Invalid, Located, Place, Problem, read
from testbed.studies.claims.measures import ALONG, LEAST_POINTS, Bounds, Measure

REPRODUCED, DIRECTION, NOT = "reproduced", "reproduced in direction", "not reproduced"
CANNOT, NOT_RUN = "cannot be tested here", "not run"


class Judgement(Model):
    """Bounds for the verdicts; a number within neither is not reproduced."""

    reproduced: Bounds = Field(
        description="a mapping of at_least and at_most", examples=[{"at_least": 1.5}]
    )
    direction: Bounds | None = Field(
        default=None,
        description="a mapping of at_least and at_most, for a weaker verdict",
        examples=[{"at_least": 1.05}],
    )
    because: str = Field(
        description="the reason for these bounds", examples=["The paper says more than 50 %."]
    )


class Claim(Model):
    """One published claim."""

    name: Name = Field(description="a name, unique among all claims", examples=["rina-over-atp"])
    claimed: str = Field(description="the claim as text", examples=["Over 50 % more throughput"])
    read: str = Field(description="the part of the source with the claim", examples=["abstract"])
    theirs: str = Field(description="the paper's set-up", examples=["not known"])
    ours: str = Field(default="", description="our set-up", examples=["a leaf-spine"])
    differs: str = Field(
        default="", description="the differences between ours and theirs", examples=["no GPUs"]
    )
    measure: Measure | None = Field(
        default=None, description="a mapping that defines the number", examples=[{}]
    )
    verdict: Judgement | None = Field(
        default=None, description="a mapping of bounds", examples=[{}]
    )
    cannot: str | None = Field(
        default=None,
        description="why it cannot be tested here, instead of measure and verdict",
        examples=["It needs the authors' hardware."],
    )
    explained: dict[str, str] = Field(
        default_factory=dict,
        description="a mapping of verdicts to their explanations",
        examples=[{"not reproduced": "Links here have no latency."}],
    )

    @field_validator("explained")
    @classmethod
    def _words(cls, explained: dict[str, str]) -> dict[str, str]:
        for word in explained:
            if word not in (REPRODUCED, DIRECTION, NOT):
                fix = suggestion(word, (REPRODUCED, DIRECTION, NOT))
                raise ValueError(f"found {word!r}, wanted a verdict that has a number; {fix}")
        return explained

    @model_validator(mode="after")
    def _either(self) -> Claim:
        if (self.measure is None) != (self.verdict is None):
            raise ValueError("found one of measure and verdict, wanted both; add the other")
        if (self.measure is None) == (self.cannot is None):
            raise ValueError("found neither or both, wanted either measure and verdict or cannot")
        return self


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

    @field_validator("claims")
    @classmethod
    def _named_once(cls, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
        names = [claim.name for claim in claims]
        for at, name in enumerate(names):
            if name in names[:at]:
                raise ValueError(f"found the name {name!r} again, wanted each once; rename one")
        return claims


@dataclass(frozen=True)
class Claims:
    """A claims file with its experiments by name; ``name`` is the file's name without suffix."""

    name: str
    title: str
    source: str
    experiments: Mapping[str, Experiment]
    claims: tuple[Claim, ...]

    def needed(self, names: Collection[str]) -> set[str]:
        """The experiments of the claims in ``names``.

        Those of all claims if ``names`` has this file or is empty.
        """
        return {
            claim.measure.experiment
            for claim in self.claims
            if claim.measure is not None
            and (not names or self.name in names or claim.name in names)
        }


def load(
    path: Path,
    *,
    systems: Collection[str] | None = None,
    workloads: Collection[str] | None = None,
) -> Claims:
    """Read a claims file; ``systems`` and ``workloads`` are those of `testbed.experiment.load`.

    Raises Invalid with every problem, each as file:line:column.
    """
    located = read(path)
    try:
        content = ClaimsFile.model_validate(located.data)
    except ValidationError as error:
        raise Invalid(_problems(located, error)) from None
    experiments: dict[str, Experiment] = {}
    problems: list[Problem] = []
    for at, data in enumerate(content.experiments):
        place: Place = ("experiments", at)
        try:
            experiment = _experiment(located, place, data, systems, workloads)
        except Invalid as invalid:
            problems += invalid.problems
            continue
        if experiment.name in experiments:
            message = f"found the experiment {experiment.name!r} again, wanted it once; rename one"
            problems.append(located.problem(place, message))
        experiments[experiment.name] = experiment
    if not problems:
        for at, claim in enumerate(content.claims):
            for finding in _unmeasurable(claim, experiments):
                where = ("claims", at, "measure", *finding.place)
                problems.append(located.problem(where, finding.message, at_key=finding.at_key))
    if problems:
        raise Invalid(problems)
    return Claims(path.stem, content.title, content.source, experiments, content.claims)


def _experiment(
    located: Located,
    place: Place,
    data: Mapping[str, Any],
    systems: Collection[str] | None,
    workloads: Collection[str] | None,
) -> Experiment:
    if set(data) == {"file"}:
        inner = read(Path(located.file).parent / str(data["file"]))
    else:
        inner = located.part(place)
    return build(inner, systems=systems, workloads=workloads)


def _unmeasurable(claim: Claim, experiments: Mapping[str, Experiment]) -> Iterator[Finding]:
    """The reasons why a claim's measure cannot be computed from its experiment's results."""
    measure = claim.measure
    if measure is None:
        return
    if measure.experiment not in experiments:
        fix = suggestion(measure.experiment, list(experiments))
        message = f"found {measure.experiment!r}, wanted an experiment of this file; {fix}"
        yield Finding(("experiment",), message)
        return
    experiment = experiments[measure.experiment]
    swept = experiment.sweep.values if experiment.sweep is not None else {}
    wrong = False
    for key in ("of", "over", "where"):
        for path, value in (getattr(measure, key) or {}).items():
            if path not in swept:
                fix = suggestion(path, list(swept))
                message = f"found {path!r}, wanted a path that the experiment sweeps; {fix}"
                yield Finding((key, path), message, at_key=True)
                wrong = True
            elif value not in swept[path]:
                several = value if isinstance(value, list) and value else [value]
                for each in several:
                    if each not in swept[path]:
                        fix = suggestion(each, [str(one) for one in swept[path]])
                        wanted = f"wanted a value of {path} in the sweep"
                        yield Finding((key, path), f"found {shown(each)}, {wanted}; {fix}")
                        wrong = True
    if measure.along is not None and measure.along not in swept:
        fix = suggestion(measure.along, list(swept))
        message = f"found {measure.along!r}, wanted a path that the experiment sweeps; {fix}"
        yield Finding(("along",), message)
        wrong = True
    elif measure.number in ALONG and not wrong:
        assert measure.along is not None
        values = swept[measure.along]
        if measure.number == "slope" and not all(is_number(each) and each > 0 for each in values):
            message = f"found {measure.along!r}, whose values are not all numbers above 0"
            yield Finding(("along",), f"{message}, wanted only such values; take another path")
            wrong = True
    if wrong:
        return
    try:
        points = measure.points(experiment)
    except ValueError as error:
        yield Finding((), str(error))
        return
    places = [point.at for point in points]
    if measure.number in ALONG and any(places.count(at) > 1 for at in places):
        message = f"found several points at one {measure.along}, wanted one; set more in where"
        yield Finding(("where",), message)
    least = LEAST_POINTS.get(measure.number, 1)
    if len(points) < least:
        message = f"found {len(points)} points, wanted at least {least} for {measure.number}"
        yield Finding(("number",), message)


def _problems(located: Located, error: ValidationError) -> Iterator[Problem]:
    """Pydantic's errors as "found X, wanted Y; how to fix it"."""
    for detail in error.errors(include_url=False):
        place: Place = detail["loc"]
        field, model = _field(place)
        if detail["type"] == "extra_forbidden":
            names = list(model.model_fields)
            fix = suggestion(place[-1], names)
            fix = fix if fix.startswith("did") else "remove it"
            message = f'found "{place[-1]}", wanted one of the keys {", ".join(names)}; {fix}'
            yield located.problem(place, message, at_key=True)
        elif detail["type"] == "value_error":
            yield located.problem(place, str(detail["ctx"]["error"]))
        elif detail["type"] == "missing":
            message = f"found no such key, wanted {field.description}; add it"
            yield located.problem(place, message)
        else:
            message = f"found {shown(detail['input'])}, wanted {field.description}"
            yield located.problem(place, message)


def _field(place: Place) -> tuple[FieldInfo, type[Model]]:
    """The innermost field on the way to ``place``, and the model that has, or lacks, its key."""
    field, model = FieldInfo(), ClaimsFile
    inner: type[Model] | None = ClaimsFile
    for part in place:
        if isinstance(part, str) and inner is not None:
            model = inner  # type: ignore[assignment]
            if part in inner.model_fields:
                field = inner.model_fields[part]
                inner = model_of(field.annotation)
    return field, model

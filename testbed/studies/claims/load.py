"""Reading a claims file, and every problem with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from testbed.experiment.fields import Model, is_number, model_of
from testbed.experiment.findings import Finding, shown, suggestion
from testbed.experiment.load import build
from testbed.experiment.schema import Experiment
from testbed.located import Invalid, Located, Place, Problem, read
from testbed.studies.claims.measures import ALONG, LEAST_POINTS, Measure
from testbed.studies.claims.schema import BreakEven, Claims, ClaimsFile


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
        # A figure has a measure for each bar and place, and several may have the same error.
        for found in dict.fromkeys(_placed(content, experiments)):
            problems.append(located.problem(found.place, found.message, at_key=found.at_key))
    if problems:
        raise Invalid(problems)
    return Claims(
        path.stem,
        content.title,
        content.source,
        experiments,
        content.claims,
        content.observations,
        content.figures,
    )


def _placed(content: ClaimsFile, experiments: Mapping[str, Experiment]) -> Iterator[Finding]:
    """Every error in the measures of claims, break-evens and observations, at its place."""
    for at, claim in enumerate(content.claims):
        if claim.measure is not None:
            yield from _below(("claims", at, "measure"), _unmeasurable(claim.measure, experiments))
        if claim.break_even is not None:
            place = ("claims", at, "break_even")
            yield from _below(place, _no_break_even(claim.break_even, experiments))
    for at, each in enumerate(content.observations):
        problems = _unmeasurable(each.measure, experiments)
        yield from _below(("observations", at, "measure"), problems)
    for at, figure in enumerate(content.figures):
        for number, measure in enumerate(figure.measures):
            bar = number // len(figure.places)
            for found in _unmeasurable(measure, experiments):
                in_bar = found.place[:1] == ("of",)
                in_bar |= found.place == ("job",) and figure.bars[bar].job is not None
                own = ("bars", bar) if in_bar else ("measure",)
                yield Finding(("figures", at, *own, *found.place), found.message, found.at_key)


def _below(place: Place, findings: Iterable[Finding]) -> Iterator[Finding]:
    for each in findings:
        yield Finding((*place, *each.place), each.message, each.at_key)


def _no_break_even(even: BreakEven, experiments: Mapping[str, Experiment]) -> Iterator[Finding]:
    """The reasons why a break-even has no number at some value; only those of the first such
    value."""
    experiment = experiments.get(even.measure.experiment)
    swept = experiment.sweep.values if experiment and experiment.sweep else {}
    if experiment is not None and even.varied not in swept:
        yield _unswept(even.varied, swept, ("varied",))
        return
    each = even.values(experiment) if experiment is not None else []
    for measure in [even.measure.at(even.varied, value) for value in each] or [even.measure]:
        if found := list(_unmeasurable(measure, experiments)):
            yield from _below(("measure",), found)
            return


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


def _unmeasurable(measure: Measure, experiments: Mapping[str, Experiment]) -> Iterator[Finding]:
    """The reasons why a measure cannot be computed from its experiment's results."""
    if measure.experiment not in experiments:
        fix = suggestion(measure.experiment, list(experiments))
        message = f"found {measure.experiment!r}, wanted an experiment of this file; {fix}"
        yield Finding(("experiment",), message)
        return
    experiment = experiments[measure.experiment]
    swept = experiment.sweep.values if experiment.sweep is not None else {}
    wrong = False
    for number, job in enumerate(measure.jobs or []):
        if job >= len(experiment.jobs):
            last = len(experiment.jobs) - 1
            wanted = f"0, the only job of {experiment.name}"
            if last:
                wanted = f"one of the jobs 0 to {last} of {experiment.name}"
            place: Place = ("job", number) if isinstance(measure.job, list) else ("job",)
            yield Finding(place, f"found {job}, wanted {wanted}")
    for key in ("of", "over", "where"):
        for path, value in (getattr(measure, key) or {}).items():
            if path not in swept:
                yield _unswept(path, swept, (key, path), at_key=True)
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
        yield _unswept(measure.along, swept, ("along",))
        wrong = True
    elif measure.number in ALONG and not wrong:
        assert measure.along is not None
        places = swept[measure.along]
        if measure.number == "slope" and not all(is_number(each) and each > 0 for each in places):
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
    at = [point.at for point in points]
    if measure.number in ALONG and any(at.count(each) > 1 for each in at):
        message = f"found several points at one {measure.along}, wanted one; set more in where"
        yield Finding(("where",), message)
    least = LEAST_POINTS.get(measure.number, 1)
    if len(points) < least:
        message = f"found {len(points)} points, wanted at least {least} for {measure.number}"
        yield Finding(("number",), message)


def _unswept(path: str, swept: Collection[str], place: Place, at_key: bool = False) -> Finding:
    fix = suggestion(path, list(swept))
    message = f"found {path!r}, wanted a path that the experiment sweeps; {fix}"
    return Finding(place, message, at_key)


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
    """The innermost field on the way to ``place``, and the model that has its key, or lacks it."""
    field, model = FieldInfo(), ClaimsFile
    inner: type[Model] | None = ClaimsFile
    for part in place:
        if isinstance(part, str) and inner is not None:
            model = inner  # type: ignore[assignment]
            if part in inner.model_fields:
                field = inner.model_fields[part]
                inner = model_of(field.annotation)
    return field, model

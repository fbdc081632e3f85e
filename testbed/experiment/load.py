"""From an experiment file to an `Experiment`, or to everything that is wrong with it at once."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from testbed.experiment import checks, sweep
from testbed.experiment.cells import distinct
from testbed.experiment.checks import Finding, Known
from testbed.experiment.fields import shown, suggestion
from testbed.experiment.schema import Experiment, Sweep, is_short_sweep
from testbed.located import Invalid, Located, Place, parse, read, write


def load(
    path: str | Path,
    *,
    systems: Collection[str] | None = None,
    workloads: Collection[str] | None = None,
) -> Experiment:
    """Read an experiment file.

    Args:
        systems: names that ``system`` may have; a mapping gives each one's least and most
            parameter servers. None lets every name through.
        workloads: names that ``workload`` may have, paths besides. None lets every name through.

    Raises:
        Invalid: with every problem of the file, each as ``file:line:column: path: found X,
            wanted Y; how to mend it``.
    """
    return _experiment(read(path), Known(systems, workloads))


def loads(
    text: str,
    file: str = "<text>",
    *,
    systems: Collection[str] | None = None,
    workloads: Collection[str] | None = None,
) -> Experiment:
    """As `load`, from text; ``file`` is the name that problems carry."""
    return _experiment(parse(text, file), Known(systems, workloads))


def dump(experiment: Experiment) -> str:
    """The experiment as YAML, all defaults filled in, so that ``loads(dump(e)) == e``."""
    return write(experiment.data())


def _experiment(located: Located, known: Known) -> Experiment:
    def fields(data: Mapping[str, Any]) -> list[Finding]:
        return _validate(data, known)[1]

    def between(data: Mapping[str, Any]) -> list[Finding]:
        return list(checks.check(data, known))

    data = located.data
    swept = _sweep(data.get("sweep"))
    if swept is None:
        experiment, findings = _validate(data, known)
        findings += between(data)
    else:
        wrong = sweep.check_values(data, swept, fields)
        # Without sound values there are no cells to check, only the file as it stands.
        between_fields = between(data) if wrong else sweep.check_cells(data, swept, between)
        filled = data if wrong else sweep.with_first_values(data, swept)
        experiment, findings = _validate(filled, known)
        if wrong:
            # What the file leaves out may be what is swept.
            places = [sweep.place_of(path) for path in swept.values]
            findings = [finding for finding in findings if finding.place not in places]
        findings += wrong + between_fields
    if experiment is not None and not findings:
        try:
            distinct(experiment)
        except ValueError as error:
            findings = [Finding(("sweep",), str(error), at_key=True)]
    if findings or experiment is None:
        raise Invalid(located.problem(f.place, f.message, at_key=f.at_key) for f in findings)
    return experiment


def _sweep(raw: object) -> Sweep | None:
    try:
        return Sweep.model_validate(raw) if raw is not None else None
    except ValidationError:
        return None


def _validate(data: Mapping[str, Any], known: Known) -> tuple[Experiment | None, list[Finding]]:
    """Check each field by itself; the experiment is None as soon as there are findings."""
    try:
        return Experiment.model_validate(data, context=known.context), []
    except ValidationError as error:
        errors = error.errors(include_url=False)
    findings, mistyped = [], set()
    for detail in errors:
        if detail["type"] == "extra_forbidden":
            *around, key = detail["loc"]
            names = list(_model(tuple(around)).model_fields)
            mend = suggestion(key, names)
            mistyped |= {(*around, name) for name in names if f'"{name}"' in mend}
            if not mend.startswith("did"):
                mend = "put it under product" if around == ["sweep"] else "remove it"
            message = f'found "{key}", wanted one of the keys {", ".join(names)}; {mend}'
            findings.append(Finding(detail["loc"], message, at_key=True))
    for detail in errors:
        place = detail["loc"]
        if place[:2] == ("sweep", "product") and is_short_sweep(data.get("sweep")):
            place = ("sweep", *place[2:])
        # A key that is mistyped is not also reported as missing.
        if detail["type"] == "missing" and place not in mistyped:
            findings.append(Finding(place, _missing(place)))
        elif detail["type"] == "value_error":
            findings.append(Finding(place, str(detail["ctx"]["error"])))
        elif detail["type"] not in ("missing", "extra_forbidden"):
            findings.append(Finding(place, _mistake(detail["loc"], detail["input"])))
    return None, findings


def _missing(place: Place) -> str:
    field = _field(place)
    mend = f"add for example `{_example(place[-1], field)}`"
    return f"found no such key, wanted {field.description}; {mend}"


def _mistake(place: Place, value: object) -> str:
    """For what pydantic itself refuses: a wrong type, a number out of range, no such choice."""
    field = _field(place)
    key = next(part for part in reversed(place) if isinstance(part, str))
    choices = [str(choice) for choice in _choices(field.annotation)]
    if choices and isinstance(value, str):
        mend = suggestion(value, choices)
    elif isinstance(value, str) and value.isdecimal():
        mend = "remove the quotes"
    else:
        mend = f"write for example `{_example(key, field)}`"
    return f"found {shown(value)}, wanted {field.description}; {mend}"


def _example(key: str | int, field: FieldInfo) -> str:
    """The key with its example, as a line of YAML."""
    (example,) = field.examples or [""]
    return f"{key}: {example if isinstance(example, str) else json.dumps(example)}"


def _field(place: Place) -> FieldInfo:
    """The innermost field of the schema on the way to ``place``."""
    model: type[BaseModel] | None = Experiment
    field = None
    for part in place:
        if isinstance(part, str) and model is not None and part in model.model_fields:
            field = model.model_fields[part]
            model = _inner(field.annotation)
    assert field is not None, place
    return field


def _model(place: Place) -> type[BaseModel]:
    """The model whose keys stand at ``place``."""
    model = _inner(_field(place).annotation) if place else Experiment
    assert model is not None, place
    return model


def _inner(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_inner(argument) for argument in get_args(annotation))
    return next((model for model in found if model is not None), None)


def _choices(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()

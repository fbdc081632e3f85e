"""Read an experiment file as an `Experiment`, or report all its errors at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from testbed.experiment import checks, sweep
from testbed.experiment.cells import distinct
from testbed.experiment.checks import Known
from testbed.experiment.fabrics import KINDS
from testbed.experiment.fields import model_of
from testbed.experiment.findings import (
    Finding,
    counted,
    example,
    missing,
    mistake,
    shown,
    suggestion,
)
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
        systems: the valid names of ``system``; a mapping also gives what each one takes (`Takes`).
            None accepts every name.
        workloads: the valid names of ``workload``, besides paths. None accepts every name.

    Raises:
        Invalid: with every problem of the file, each as ``file:line:column: path: found X,
            wanted Y; how to fix it``.
    """
    return build(read(path), systems=systems, workloads=workloads)


def loads(
    text: str,
    file: str = "<text>",
    *,
    systems: Collection[str] | None = None,
    workloads: Collection[str] | None = None,
) -> Experiment:
    """Like `load`, from text; ``file`` is its name in problems."""
    return build(parse(text, file), systems=systems, workloads=workloads)


def build(
    located: Located,
    *,
    systems: Collection[str] | None = None,
    workloads: Collection[str] | None = None,
) -> Experiment:
    """Like `load`, from the content of a file or of a part of it."""
    return _experiment(located, Known(systems, workloads), Path(located.file).parent)


def dump(experiment: Experiment) -> str:
    """The experiment as YAML with all defaults filled in, so that ``loads(dump(e)) == e``."""
    return write(experiment.data())


def _experiment(located: Located, known: Known, directory: Path) -> Experiment:
    def fields(data: Mapping[str, Any]) -> list[Finding]:
        return _validate(data, known)[1]

    def between(data: Mapping[str, Any]) -> list[Finding]:
        return list(checks.check(data, known))

    data = _anchored(located.data, directory)
    swept = _sweep(data.get("sweep"))
    if swept is None:
        experiment, findings = _validate(data, known)
        findings += between(data)
    else:
        wrong = sweep.check_values(data, swept, fields)
        # Without valid values there are no cells to check, only the file itself.
        between_fields = between(data) if wrong else sweep.check_cells(data, swept, between)
        filled = data if wrong else sweep.with_first_values(data, swept)
        experiment, findings = _validate(filled, known)
        if wrong:
            # Fields that the file lacks may be swept.
            places = [sweep.place_of(path) for path in swept.values]
            findings = [finding for finding in findings if finding.place not in places]
        findings += wrong + between_fields
    if experiment is not None and not findings:
        try:
            once, repeats = len(distinct(experiment)), experiment.emulation.repeats
        except ValidationError as error:
            # Each value is right, but not beside the others: a swept kind wants other keys.
            inner = _findings(error, data)
            said = "; ".join(f"{'.'.join(map(str, each.place))}: {each.message}" for each in inner)
            cell = f"the cell {_first_wrong(data, swept)}" if swept else "a cell"
            message = f"found wrong fields in {cell}: {said}; sweep whole mappings instead"
            findings = [Finding(("sweep",), message, at_key=True)]
        except ValueError as error:
            findings = [Finding(("sweep",), str(error), at_key=True)]
        else:
            if once * repeats > sweep.MOST_CELLS:
                message = (
                    f"found {repeats} repeats of {counted(once, 'cell')}, wanted at most"
                    f" {sweep.MOST_CELLS} runs; write fewer, or split the experiment"
                )
                findings = [Finding(("emulation", "repeats"), message)]
    if findings or experiment is None:
        raise Invalid(located.problem(f.place, f.message, at_key=f.at_key) for f in findings)
    return experiment


def _first_wrong(data: Mapping[str, Any], swept: Sweep) -> str:
    """The swept values of the first cell whose fields are wrong beside each other."""
    filled = sweep.with_first_values(data, swept)
    for values in sweep.settings(swept):
        try:
            Experiment.model_validate({**sweep.apply(filled, values), "sweep": None})
        except ValidationError:
            return sweep.written(values)
    return ""


def _anchored(data: Any, directory: Path) -> Any:
    """``data`` with absolute paths of P4 programs and training scripts, set or swept."""

    def absolute(path: Any) -> Any:
        if isinstance(path, list):
            return [absolute(each) for each in path]
        return os.path.abspath(directory / path) if isinstance(path, str) and path else path

    if isinstance(data, list):
        return [_anchored(value, directory) for value in data]
    if not isinstance(data, dict):
        return data
    return {
        key: absolute(value)
        if key in ("p4_program", "emulation.p4_program", "script")
        or str(key).endswith(".training.script")
        else _anchored(value, directory)
        for key, value in data.items()
    }


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
        return None, _findings(error, data)


def _findings(error: ValidationError, data: Mapping[str, Any]) -> list[Finding]:
    """What ``error`` says about ``data``, in the words of our own messages."""
    errors = error.errors(include_url=False)
    findings, mistyped = [], set()
    for detail in errors:
        if detail["type"] == "extra_forbidden":
            *around, key = detail["loc"]
            place, _, model = _resolved((*around, key))
            assert model is not None, place
            names = list(model.model_fields)
            fix = suggestion(key, names)
            mistyped |= {(*place[:-1], name) for name in names if f'"{name}"' in fix}
            if not fix.startswith("did"):
                fix = "put it under product" if around == ["sweep"] else "remove it"
            message = f'found "{key}", wanted one of the keys {", ".join(names)}; {fix}'
            findings.append(Finding(place, message, at_key=True))
    for detail in errors:
        place, field, _ = _resolved(detail["loc"])
        if place[:2] == ("sweep", "product") and is_short_sweep(data.get("sweep")):
            place = ("sweep", *place[2:])
        if detail["type"] == "union_tag_not_found":
            findings.append(Finding((*place, "kind"), missing("kind", _KIND)))
        elif detail["type"] == "union_tag_invalid":
            kind = detail["input"]["kind"]
            findings.append(Finding((*place, "kind"), mistake("kind", _KIND, kind, list(KINDS))))
        # The field of a mistyped key is not also reported as missing.
        elif detail["type"] == "missing" and place not in mistyped:
            findings.append(Finding(place, missing(str(place[-1]), field)))
        elif detail["type"] == "value_error":
            message = str(detail["ctx"]["error"])
            if place[0] == "sweep" and isinstance(detail["input"], dict):
                # A short sweep has paths as keys. A long one with a mistyped key looks the same.
                message += f"; or {suggestion(place[-1], list(Sweep.model_fields))}"
            findings.append(Finding(place, message))
        elif detail["type"] not in ("missing", "extra_forbidden"):
            key = next(part for part in reversed(place) if isinstance(part, str))
            if isinstance(place[-1], int) and detail["type"] == "model_type":
                message = f"found {shown(detail['input'])}, wanted a mapping"
                message += f"; write for example `{example(key, field)}`"
            else:
                message = mistake(key, field, detail["input"])
            findings.append(Finding(place, message))
    return findings


_KIND = FieldInfo(
    description=f"the fabric's kind, one of {', '.join(KINDS)}", examples=["leaf-spine"]
)


def _resolved(loc: Place) -> tuple[Place, FieldInfo, type[BaseModel] | None]:
    """The place in the file of pydantic's ``loc``, the innermost field, and the model around it.

    In a fabric, ``loc`` also contains the kind, which is not part of the place in the file.
    """
    place: list[str | int] = []
    model: type[BaseModel] | None = None
    inner: type[BaseModel] | None = Experiment
    field = None
    for part in loc:
        if place == ["fabric"] and model is Experiment:
            model = inner = KINDS[str(part)]
            continue
        place.append(part)
        model = inner if isinstance(part, str) and inner is not None else model
        if isinstance(part, str) and inner is not None and part in inner.model_fields:
            field = inner.model_fields[part]
            inner = model_of(field.annotation)
    return tuple(place), field or FieldInfo(), model

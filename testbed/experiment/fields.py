"""Types of the fields of an experiment file: what text they take, and what they say when refusing.

Messages read "found X, wanted Y; how to mend it".
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, TypeGuard, TypeVar

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema

from testbed import units

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LONGEST_NAME = 64
MOST_WORKERS = 64  # ATP's bitmap, and the P4 program's, has a bit for each worker
_T = TypeVar("_T")


def shown(value: object) -> str:
    """A value as a YAML file would have it, short enough for one line of a message."""
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"


def suggestion(found: object, known: Collection[str]) -> str:
    """``did you mean "atp"?``, or the names that there are when none is near."""
    nearest = difflib.get_close_matches(str(found), known, n=1, cutoff=0.6)
    if nearest:
        return f'did you mean "{nearest[0]}"?'
    return f"choose one of {listed(known)}" if known else "there is none"


def listed(names: Collection[str], most: int = 12) -> str:
    """``t0, t1, t2``; a long list is cut short in the middle."""
    all_names = list(names)
    if len(all_names) > most:
        all_names = [*all_names[: most - 2], "...", all_names[-1]]
    return ", ".join(all_names)


def _quantity(
    parse: Callable[[str], _T], wanted: str, zero: bool = False
) -> Callable[[object], _T]:
    """A validator for text with a unit; zero is refused unless it makes sense."""

    def validate(value: object) -> _T:
        if not isinstance(value, str):
            what = "without a unit" if _is_number(value) else ""
            raise ValueError(f"found {' '.join((shown(value), what)).strip()}, wanted {wanted}")
        parsed = parse(value)
        if not parsed and not zero:
            raise ValueError(f"found {value!r}, wanted more than zero; {wanted.split('; ')[-1]}")
        return parsed

    return validate


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_names(value: object) -> TypeGuard[Sequence[str]]:
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)


def _ratio(value: object) -> float:
    if isinstance(value, str):
        ratio = units.parse_ratio(value)
    elif _is_number(value):
        ratio = float(value)
    else:
        raise ValueError(f"found {shown(value)}, wanted a ratio; write for example 1/128 or 0.5")
    if not 0 < ratio < math.inf:
        raise ValueError(f"found {shown(value)}, wanted a ratio above 0; write for example 0.5")
    return ratio


def _scale(value: object) -> float:
    scale = _ratio(value)
    if scale > 1:
        wanted = "a ratio above 0 and at most 1, for it makes jobs smaller"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 1/128")
    return scale


def _dilation(value: object) -> float:
    if not _is_number(value) or not 1 <= value < math.inf:
        wanted = "a number of at least 1, by which rates are divided and times multiplied"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 200")
    return float(value)


def _ina(value: object) -> str | float | tuple[str, ...]:
    if isinstance(value, str) and value in ("all", "none"):
        return value
    if _is_names(value):
        return _distinct(value, "ToR")
    if _is_number(value) and 0 <= value <= 1:
        return float(value)
    wanted = "all, none, a list of ToRs or a fraction of them from 0 to 1"
    raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example [t0, t1] or 0.5")


def _hosts(what: str, least: int) -> Callable[[object], int | tuple[str, ...]]:
    def validate(value: object) -> int | tuple[str, ...]:
        hosts = _distinct(value, "host") if _is_names(value) else None
        count = len(hosts) if hosts is not None else value
        if not _is_count(count):
            wanted = f"a number of {what} or a list of host names"
            raise ValueError(
                f"found {shown(value)}, wanted {wanted}; write for example 1 or [h0, h1]"
            )
        if not least <= count <= MOST_WORKERS:
            wanted = f"from {least} to {MOST_WORKERS} {what}"
            mend = "add some" if count < least else "take fewer, or split the job"
            found = str(count) if hosts is None else f"{count} names"
            raise ValueError(f"found {found}, wanted {wanted}; {mend}")
        return count if hosts is None else hosts

    return validate


def _distinct(names: Collection[str], what: str) -> tuple[str, ...]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"found {name!r} twice, wanted each {what} once; remove one")
        seen.add(name)
    return tuple(names)


def _racks(value: object) -> int | tuple[int, ...]:
    if _is_count(value) and value >= 1:
        return value
    if isinstance(value, (list, tuple)) and value and all(_is_count(c) and c >= 1 for c in value):
        return tuple(value)
    wanted = "a whole number of at least 1, or a list of them with one for each leaf"
    raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 5 or [5, 3]")


def _name(value: object) -> str:
    wanted = "a name for a directory: letters, digits, dot, dash and underscore"
    if not isinstance(value, str):
        raise ValueError(f"found {shown(value)}, wanted {wanted}; put it in quotes")
    if len(value) > LONGEST_NAME:
        wanted = f"a name of at most {LONGEST_NAME} characters"
        raise ValueError(f"found {len(value)} characters, wanted {wanted}; shorten it")
    if not NAME.fullmatch(value):
        mended = re.sub(r"[^A-Za-z0-9._-]+", "-", value).strip("-._")
        mend = f'for example "{mended}"' if mended else 'for example "quick"'
        raise ValueError(f"found {value!r}, wanted {wanted}; write {mend}")
    return value


def _written_ratio(ratio: float) -> str | int:
    return int(ratio) if ratio.is_integer() else units.format_ratio(ratio)


def _schema(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


def _yaml(value: object) -> object:
    """As a YAML file has it: lists for tuples, no point in whole numbers."""
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


_NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
_RATIO: list[dict[str, Any]] = [
    {"type": "number", "exclusiveMinimum": 0},
    {"type": "string", "pattern": units.RATIO_PATTERN},
]

Rate = Annotated[
    float,
    BeforeValidator(
        _quantity(units.parse_rate, "a rate in bits per second; write for example 10Gbit")
    ),
    PlainSerializer(lambda rate: units.format_rate(rate, exact=True), return_type=str),
    _schema(units.RATE_PATTERN, "10Gbit"),
]
Size = Annotated[
    int,
    BeforeValidator(_quantity(units.parse_size, "a size in bytes; write for example 25MB")),
    PlainSerializer(lambda size: units.format_size(size, exact=True), return_type=str),
    _schema(units.SIZE_PATTERN, "25MB"),
]
Time = Annotated[
    float,
    BeforeValidator(_quantity(units.parse_time, "a time; write for example 150us", zero=True)),
    PlainSerializer(lambda time: units.format_time(time, exact=True), return_type=str),
    _schema(units.TIME_PATTERN, "150us"),
]
Ratio = Annotated[
    float,
    BeforeValidator(_ratio),
    PlainSerializer(_written_ratio),
    WithJsonSchema({"anyOf": _RATIO}),
]
Scale = Annotated[
    float,
    BeforeValidator(_scale),
    PlainSerializer(_written_ratio),
    WithJsonSchema({"anyOf": [{**_RATIO[0], "maximum": 1}, _RATIO[1]]}),
]
Dilation = Annotated[
    float,
    BeforeValidator(_dilation),
    PlainSerializer(_yaml),
    WithJsonSchema({"type": "number", "minimum": 1}),
]
Ina = Annotated[
    str | float | tuple[str, ...],
    PlainValidator(_ina),
    PlainSerializer(_yaml),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["all", "none"]},
                {"type": "number", "minimum": 0, "maximum": 1},
                _NAMES,
            ]
        }
    ),
]
Racks = Annotated[
    int | tuple[int, ...],
    PlainValidator(_racks),
    PlainSerializer(_yaml),
    WithJsonSchema({"anyOf": [_COUNT, {"type": "array", "items": _COUNT, "minItems": 1}]}),
]
Workers = Annotated[
    int | tuple[str, ...],
    PlainValidator(_hosts("workers", 1)),
    PlainSerializer(_yaml),
    WithJsonSchema({"anyOf": [{**_COUNT, "maximum": MOST_WORKERS}, {**_NAMES, "minItems": 1}]}),
]
Servers = Annotated[
    int | tuple[str, ...],
    PlainValidator(_hosts("parameter servers", 0)),
    PlainSerializer(_yaml),
    WithJsonSchema({"anyOf": [{**_COUNT, "minimum": 0, "maximum": MOST_WORKERS}, _NAMES]}),
]
Name = Annotated[
    str,
    BeforeValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME.pattern}$", "maxLength": LONGEST_NAME}),
]

"""Types of the fields of an experiment file: the text they accept, and their error messages.

Messages read "found X, wanted Y; how to fix it".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Annotated, Any, TypeGuard, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)

from testbed import units
from testbed.experiment.findings import shown

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LONGEST_NAME = 64
_LEAST_SCALE = 1e-6
_MOST_DILATION = 10_000_000
_MOST_RATIO = 1e12
_MOST_FACTOR = 1_000_000
AUTO = math.inf
"""Stands for a dilation that is still to be chosen; nothing can run with it."""

_T = TypeVar("_T", float, int)
_RATES = "1kbit", "1000Tbit"
_SIZES = "1B", "1000TB"
_TIMES = "0s", "1000h"


class Model(BaseModel):
    """A mapping of an experiment file. Unknown keys and values of other types are errors."""

    # Validators are built when first used, because most belong to options that no job has.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def model_of(annotation: Any) -> type[Model] | None:
    """The model that a field of this type holds, by itself or in a list; None if it holds none."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    found = (model_of(argument) for argument in get_args(annotation))
    return next((model for model in found if model is not None), None)


def count(description: str, example: int, least: int = 1, most: int | None = None) -> Any:
    """A field that is a whole number."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    whole = f"{description}, a whole number {bounds}"
    return Field(ge=least, le=most, description=whole, examples=[example])


def sequence(value: Any) -> Any:
    """A list as a tuple: strict mode accepts no lists for tuples, and YAML has only lists."""
    return tuple(value) if isinstance(value, list) else value


def _quantity(
    parse: Callable[[str], _T], wanted: str, least: str, most: str
) -> Callable[[object], _T]:
    """A validator for text with a unit, from ``least`` to ``most``."""
    lowest, highest = parse(least), parse(most)

    def validate(value: object) -> _T:
        if not isinstance(value, str):
            what = "without a unit" if is_number(value) else ""
            raise ValueError(f"found {' '.join((shown(value), what)).strip()}, wanted {wanted}")
        parsed = parse(value)
        if not lowest <= parsed <= highest:
            bounds = f"from {least} to {most}" if parsed else "more than zero"
            raise ValueError(f"found {value!r}, wanted {bounds}; {wanted.split('; ')[-1]}")
        return parsed

    return validate


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_names(value: object) -> TypeGuard[Sequence[str]]:
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)


def _ratio(value: object) -> float:
    if isinstance(value, str):
        ratio = units.parse_ratio(value)
    elif is_number(value):
        ratio = float(value)
    else:
        raise ValueError(f"found {shown(value)}, wanted a ratio; write for example 1/128 or 0.5")
    if not 0 < ratio <= _MOST_RATIO:
        wanted = f"a ratio above 0, at most {_MOST_RATIO:g}"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 0.5")
    return ratio


def _scale(value: object) -> float:
    scale = _ratio(value)
    if not _LEAST_SCALE <= scale <= 1:
        wanted = f"a ratio from {_LEAST_SCALE:g} to 1, as it makes jobs smaller"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 1/128")
    return scale


def _dilation(value: object) -> float:
    if value == "auto":
        return AUTO
    if not is_number(value) or not 1 <= value <= _MOST_DILATION:
        wanted = (
            f"auto or a number from 1 to {_MOST_DILATION}, by which rates are divided and times"
            " multiplied"
        )
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 200")
    return float(value)


def _share(most: float) -> Callable[[object], float]:
    """A validator for a ratio from 0 to ``most``."""

    def validate(value: object) -> float:
        try:
            share = units.parse_ratio(value) if isinstance(value, str) else value
        except ValueError:
            share = None
        if not is_number(share) or not 0 <= share <= most:
            wanted = f"a ratio from 0 to {most:g}"
            raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 0.01")
        return float(share)

    return validate


_link_share = _share(0.5)


def _density(value: object) -> float | str:
    if value == "recorded":
        return value
    try:
        share = units.parse_ratio(value) if isinstance(value, str) else value
    except ValueError:
        share = None
    if not is_number(share) or not 0 < share <= 1:
        wanted = "a ratio above 0, at most 1, or recorded"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 0.1")
    return float(share)


def _link_shares(value: object) -> float | dict[str, float]:
    if isinstance(value, dict) and value and all(isinstance(name, str) for name in value):
        return {name: _link_share(each) for name, each in value.items()}
    if isinstance(value, (dict, list, tuple)):
        wanted = "a ratio from 0 to 0.5 or a mapping of links to such ratios"
        fix = "write for example 0.01 or {all: 0.01, t0-s0: 0.1}"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; {fix}")
    return _link_share(value)


def _rates(value: object) -> float | dict[str, float]:
    rate = _quantity(
        units.parse_rate,
        "a rate in bits per second or a mapping of switches to such rates; write for example"
        " 100Gbit or {t0: 100Gbit, t1: 50Gbit}",
        *_RATES,
    )
    if isinstance(value, dict) and value and all(isinstance(name, str) for name in value):
        return {name: rate(each) for name, each in value.items()}
    return rate(value)


def _factors(value: object) -> float | tuple[float, ...]:
    several = value if isinstance(value, (list, tuple)) else (value,)
    if several and all(is_number(each) and 0 < each <= _MOST_FACTOR for each in several):
        factors = tuple(map(float, several))
        return factors if isinstance(value, (list, tuple)) else factors[0]
    wanted = f"a number above 0, at most {_MOST_FACTOR}, or a list of them with one for each worker"
    raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 1.5 or [1, 1, 2]")


def _program(value: object) -> str:
    if not isinstance(value, str) or PurePath(value).suffix not in (".p4", ".json"):
        wanted = "the path of a .p4 file or of a .json that p4c made of one"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example mine.p4")
    return value


def _script(value: object) -> str:
    if not isinstance(value, str) or PurePath(value).suffix != ".py":
        wanted = "the path of a Python file"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example mine.py")
    return value


def _name(value: object) -> str:
    wanted = "a name for a directory: letters, digits, dot, dash and underscore"
    if not isinstance(value, str):
        raise ValueError(f"found {shown(value)}, wanted {wanted}; put it in quotes")
    if len(value) > LONGEST_NAME:
        wanted = f"a name of at most {LONGEST_NAME} characters"
        raise ValueError(f"found {len(value)} characters, wanted {wanted}; shorten it")
    if not NAME.fullmatch(value):
        fixed = re.sub(r"[^A-Za-z0-9._-]+", "-", value).strip("-._")
        fix = f'for example "{fixed}"' if fixed else 'for example "quick"'
        raise ValueError(f"found {value!r}, wanted {wanted}; write {fix}")
    return value


def _written_ratio(ratio: float) -> str | int:
    return int(ratio) if ratio.is_integer() else units.format_ratio(ratio)


def _schema(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


def as_yaml(value: object) -> object:
    """A value as written in a YAML file: lists for tuples, no decimal point in whole numbers."""
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


_RATE: dict[str, Any] = {"type": "string", "pattern": units.RATE_PATTERN}
_RATIO: list[dict[str, Any]] = [
    {"type": "number", "exclusiveMinimum": 0, "maximum": _MOST_RATIO},
    {"type": "string", "pattern": units.RATIO_PATTERN},
]
_FACTOR = {"type": "number", "exclusiveMinimum": 0, "maximum": _MOST_FACTOR}

Rate = Annotated[
    float,
    BeforeValidator(
        _quantity(units.parse_rate, "a rate in bits per second; write for example 10Gbit", *_RATES)
    ),
    PlainSerializer(lambda rate: units.format_rate(rate, exact=True), return_type=str),
    _schema(units.RATE_PATTERN, "10Gbit"),
]
Size = Annotated[
    int,
    BeforeValidator(
        _quantity(units.parse_size, "a size in bytes; write for example 25MB", *_SIZES)
    ),
    PlainSerializer(lambda size: units.format_size(size, exact=True), return_type=str),
    _schema(units.SIZE_PATTERN, "25MB"),
]
Time = Annotated[
    float,
    BeforeValidator(_quantity(units.parse_time, "a time; write for example 150us", *_TIMES)),
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
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": _LEAST_SCALE, "maximum": 1}, _RATIO[1]]}
    ),
]
Dilation = Annotated[
    float,
    BeforeValidator(_dilation),
    PlainSerializer(lambda dilation: "auto" if dilation == AUTO else as_yaml(dilation)),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 1, "maximum": _MOST_DILATION}, {"const": "auto"}]}
    ),
]
Slowdown = Annotated[
    float,
    Field(ge=1, le=_MOST_FACTOR),
    PlainSerializer(as_yaml),
    WithJsonSchema({"type": "number", "minimum": 1, "maximum": _MOST_FACTOR}),
]
Rates = Annotated[
    float | dict[str, float],
    PlainValidator(_rates),
    PlainSerializer(
        lambda rates: (
            {name: units.format_rate(rate, exact=True) for name, rate in rates.items()}
            if isinstance(rates, dict)
            else units.format_rate(rates, exact=True)
        )
    ),
    WithJsonSchema(
        {"anyOf": [_RATE, {"type": "object", "minProperties": 1, "additionalProperties": _RATE}]}
    ),
]
_LINK_SHARE: list[dict[str, Any]] = [{"type": "number", "minimum": 0, "maximum": 0.5}, _RATIO[1]]
LinkShares = Annotated[
    float | dict[str, float],
    PlainValidator(_link_shares),
    PlainSerializer(
        lambda shares: (
            {name: _written_ratio(share) for name, share in shares.items()}
            if isinstance(shares, dict)
            else _written_ratio(shares)
        )
    ),
    WithJsonSchema(
        {
            "anyOf": [
                *_LINK_SHARE,
                {
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": {"anyOf": _LINK_SHARE},
                },
            ]
        }
    ),
]
"""A share of packets: one for all hosts' links, or one for each link by its name (t0-s0), for
``hosts`` or for ``all``. The first key of these that fits a link counts."""
Share = Annotated[
    float,
    BeforeValidator(_share(1)),
    PlainSerializer(_written_ratio),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, _RATIO[1]]}),
]
Density = Annotated[
    float | str,
    PlainValidator(_density),
    PlainSerializer(lambda share: share if isinstance(share, str) else _written_ratio(share)),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                _RATIO[1],
                {"const": "recorded"},
            ]
        }
    ),
]
Factors = Annotated[
    float | tuple[float, ...],
    PlainValidator(_factors),
    PlainSerializer(as_yaml),
    WithJsonSchema({"anyOf": [_FACTOR, {"type": "array", "items": _FACTOR, "minItems": 1}]}),
]
Program = Annotated[
    str,
    BeforeValidator(_program),
    WithJsonSchema({"type": "string", "pattern": r"\.(p4|json)$"}),
]
Script = Annotated[
    str,
    BeforeValidator(_script),
    WithJsonSchema({"type": "string", "pattern": r"\.py$"}),
]
Name = Annotated[
    str,
    BeforeValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME.pattern}$", "maxLength": LONGEST_NAME}),
]

"""Types like those in ``fields``, for fields that name or count hosts and switches."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Annotated, Any, TypeVar

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from testbed.experiment.fields import as_yaml, is_count, is_names, is_number
from testbed.experiment.findings import counted, shown

NODE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_T = TypeVar("_T")


def _ina(value: object) -> str | int | float | tuple[str, ...]:
    if isinstance(value, str) and value in ("all", "none"):
        return value
    if is_names(value):
        return _distinct(value, "switch")
    if (is_count(value) and value >= 0) or (is_number(value) and 0 <= value <= 1):
        return value
    wanted = "all, none, a list of switches, their number or a fraction from 0.0 to 1.0"
    fix = "write for example [t0, t1] or 0.5"
    if isinstance(value, str) and (word := value.casefold()) in ("all", "none"):
        fix = f'did you mean "{word}"?'
    raise ValueError(f"found {shown(value)}, wanted {wanted}; {fix}")


def _hosts(what: str, least: int) -> Callable[[object], int | tuple[str, ...]]:
    def validate(value: object) -> int | tuple[str, ...]:
        hosts = _distinct(value, "host") if is_names(value) else None
        count = len(hosts) if hosts is not None else value
        if not is_count(count):
            wanted = f"a whole number of {what} or a list of host names"
            raise ValueError(
                f"found {shown(value)}, wanted {wanted}; write for example 1 or [h0, h1]"
            )
        if count < least:
            found = str(count) if hosts is None else counted(count, "name")
            raise ValueError(f"found {found}, wanted at least {least} {what}; add some")
        return count if hosts is None else hosts

    return validate


def _distinct(names: Collection[_T], what: str) -> tuple[_T, ...]:
    seen: set[_T] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"found {name!r} twice, wanted each {what} once; remove one")
        seen.add(name)
    return tuple(names)


def _racks(value: object) -> int | tuple[int, ...]:
    if is_count(value) and value >= 1:
        return value
    if isinstance(value, (list, tuple)) and value and all(is_count(c) and c >= 1 for c in value):
        return tuple(value)
    wanted = "a whole number of at least 1, or a list of them with one for each rack"
    raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 5 or [5, 3]")


def _switches(value: object) -> dict[str, tuple[str, ...]]:
    example = "{S1: [W1, W2], S2: [PS]}"
    wanted = "a mapping of every switch to a list of the hosts on it"
    if not isinstance(value, dict) or not all(map(is_names, value.values())):
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example {example}")
    hosts = [host for own in value.values() for host in own]
    if not hosts:
        raise ValueError(f"found no host, wanted {wanted}; write for example {example}")
    for name in _distinct([*value, *hosts], "name"):
        if not NODE.fullmatch(name):
            wanted = "a name of letters, digits and underscore that begins with a letter"
            raise ValueError(f"found {name!r}, wanted {wanted}; rename it")
    return {switch: tuple(own) for switch, own in value.items()}


def _ends(value: object) -> tuple[str, str]:
    if not is_names(value) or len(value) != 2 or value[0] == value[1]:
        wanted = "a list of two different nodes"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example [S1, S2]")
    return value[0], value[1]


def _ranks(value: object) -> int | tuple[int, ...]:
    if is_count(value) and value >= 0:
        return value
    if isinstance(value, (list, tuple)) and all(is_count(rank) and rank >= 0 for rank in value):
        return tuple(_distinct(value, "rank"))
    wanted = "a number of workers or a list of their ranks, which count from 0"
    raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 1 or [0, 3]")


_NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}

Ina = Annotated[
    str | int | float | tuple[str, ...],
    PlainValidator(_ina),
    # 1 is a count and 1.0 a fraction, so neither may be written as the other.
    PlainSerializer(lambda ina: list(ina) if isinstance(ina, tuple) else ina),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["all", "none"]},
                {"type": "integer", "minimum": 0},
                {"type": "number", "minimum": 0, "maximum": 1},
                _NAMES,
            ]
        }
    ),
]
Racks = Annotated[
    int | tuple[int, ...],
    PlainValidator(_racks),
    PlainSerializer(as_yaml),
    WithJsonSchema({"anyOf": [_COUNT, {"type": "array", "items": _COUNT, "minItems": 1}]}),
]
Workers = Annotated[
    int | tuple[str, ...],
    PlainValidator(_hosts("workers", 2)),
    PlainSerializer(as_yaml),
    WithJsonSchema({"anyOf": [{**_COUNT, "minimum": 2}, {**_NAMES, "minItems": 2}]}),
]
Servers = Annotated[
    int | tuple[str, ...],
    PlainValidator(_hosts("parameter servers", 0)),
    PlainSerializer(as_yaml),
    WithJsonSchema({"anyOf": [{**_COUNT, "minimum": 0}, _NAMES]}),
]
Switches = Annotated[
    dict[str, tuple[str, ...]],
    PlainValidator(_switches),
    PlainSerializer(lambda switches: {name: list(hosts) for name, hosts in switches.items()}),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": f"^{NODE.pattern}$"},
            "additionalProperties": _NAMES,
        }
    ),
]
Ends = Annotated[
    tuple[str, str],
    PlainValidator(_ends),
    PlainSerializer(as_yaml),
    WithJsonSchema({**_NAMES, "minItems": 2, "maxItems": 2}),
]
Ranks = Annotated[
    int | tuple[int, ...],
    PlainValidator(_ranks),
    PlainSerializer(as_yaml),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": True},
            ]
        }
    ),
]

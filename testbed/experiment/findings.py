"""Errors in an experiment, with messages like "found X, wanted Y; how to fix it"."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from testbed.located import Place

_MOST_NAMES = 1000  # among more names, similar ones are not searched


@dataclass(frozen=True)
class Finding:
    """An error at a place in the data, before its line in the file is known."""

    place: Place
    message: str
    at_key: bool = False


def shown(value: object) -> str:
    """A value as written in YAML, short enough for one line of a message."""
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"


def suggestion(found: object, known: Collection[str]) -> str:
    """``did you mean "atp"?``, or the known names if none is similar."""
    folded = {str(name).casefold(): name for name in known}
    nearest = difflib.get_close_matches(str(found).casefold(), folded, n=1, cutoff=0.6)
    if nearest:
        return f'did you mean "{folded[nearest[0]]}"?'
    return f"choose one of {listed(known)}" if known else "there is none"


def listed(names: Collection[str], most: int = 12) -> str:
    """``t0, t1, t2``; a long list is shortened in the middle."""
    all_names = list(names)
    if len(all_names) > most:
        all_names = [*all_names[: most - 2], "...", all_names[-1]]
    return ", ".join(all_names)


def counted(count: int, what: str) -> str:
    """``1 host``, ``2 hosts``."""
    return f"{count} {what if count == 1 else _plural(what)}"


def _plural(what: str) -> str:
    return f"{what}es" if what.endswith("ch") else f"{what}s"


def no_such(name: str, what: str, names: Sequence[str]) -> str:
    """The message for a ``name`` that is not one of ``names``."""
    fix = suggestion(name, names[:_MOST_NAMES])
    if not fix.startswith("did"):
        fix = f"rename it, or enlarge the fabric to have more {_plural(what)}"
    return f'found "{name}", wanted an existing {what} ({listed(names, most=8)}); {fix}'


def missing(key: str, field: FieldInfo) -> str:
    """The message for a required key that is not there."""
    fix = f"add for example `{example(key, field)}`"
    return f"found no such key, wanted {field.description}; {fix}"


def mistake(key: str, field: FieldInfo, value: object, choices: Sequence[str] = ()) -> str:
    """The message for pydantic's own errors: a wrong type, a value out of range, no such choice."""
    literals = get_args(field.annotation) if get_origin(field.annotation) is Literal else choices
    words = any(isinstance(literal, str) for literal in literals)
    if isinstance(value, str) and value.isdecimal() and not words:
        fix = "remove the quotes"
    elif literals and isinstance(value, str):
        fix = suggestion(value, [str(literal) for literal in literals])
    else:
        fix = f"write for example `{example(key, field)}`"
    return f"found {shown(value)}, wanted {field.description or 'another value'}; {fix}"


def example(key: str, field: FieldInfo) -> str:
    """The key with its example, as a line of YAML."""
    example = (field.examples or [""])[0]
    return f"{key}: {example if isinstance(example, str) else json.dumps(example)}"

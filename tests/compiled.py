"""Compiled P4 programs, without what differs between versions of p4c."""

from __future__ import annotations

import json
from typing import Any


def what_it_does(compiled: bytes) -> Any:
    """A program's JSON without the compiler's version and its quotations of the source, which end
    and begin at other characters in other versions."""
    return json.loads(compiled, object_pairs_hook=_without_its_origin)


def _without_its_origin(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if key not in ("source_info", "__meta__")}

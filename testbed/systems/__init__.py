"""The systems, one file each. A module of this folder that defines SYSTEM is registered."""

from __future__ import annotations

import importlib
import pkgutil

from testbed.systems.system import Assignment, Option, System

__all__ = ["Assignment", "Option", "System", "registry"]


def _discover() -> dict[str, System]:
    found = {}
    for module in pkgutil.iter_modules(__path__):
        system = getattr(importlib.import_module(f"{__name__}.{module.name}"), "SYSTEM", None)
        if system is not None:
            found[system.name] = system
    return found


registry: dict[str, System] = _discover()

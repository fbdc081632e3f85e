"""The systems, one file each. A module of this folder that defines SYSTEM is registered."""

from __future__ import annotations

import importlib
import pkgutil

from testbed.systems.system import Assignment, System

__all__ = ["Assignment", "System", "discover", "registry"]


def discover() -> dict[str, System]:
    """The systems by name. ValueError if two have the same name."""
    found: dict[str, System] = {}
    for module in pkgutil.iter_modules(__path__):
        system = getattr(importlib.import_module(f"{__name__}.{module.name}"), "SYSTEM", None)
        if system is not None:
            if system.name in found:
                raise ValueError(f"{module.name}.py: two systems are called {system.name}")
            found[system.name] = system
    return found


registry: dict[str, System] = discover()

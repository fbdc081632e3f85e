"""The systems, one file each. A module of this folder that defines SYSTEM is registered.

Users' own systems are in folders of extensions (`testbed.extensions`).
"""

from __future__ import annotations

import pkgutil
import sys
from pathlib import Path

from testbed import extensions
from testbed.systems.system import Assignment, System

__path__ += extensions.homes("systems")

__all__ = ["Assignment", "System", "discover", "home", "registry"]


def discover() -> dict[str, System]:
    """The systems by name. Raises Broken if two have the same name, or if a user's file is
    wrong."""
    found: dict[str, System] = {}
    extensions.check(Path(__file__).parent, __path__)
    for module in pkgutil.iter_modules(__path__):
        system = getattr(extensions.load(f"{__name__}.{module.name}"), "SYSTEM", None)
        if system is not None:
            if not isinstance(system, System):
                raise extensions.Broken(
                    f"{module.name}.py: found SYSTEM = {system!r}, wanted a System"
                )
            if system.name in found:
                raise extensions.Broken(
                    f"{module.name}.py: found the name {system.name!r}, which another system has,"
                    " wanted a name of its own"
                )
            found[system.name] = system
    return found


registry: dict[str, System] = discover()


def home(name: str) -> Path | None:
    """The file that defines a system; None for one that was registered by hand."""
    for module in pkgutil.iter_modules(__path__):
        loaded = sys.modules[f"{__name__}.{module.name}"]
        if loaded.__file__ and getattr(loaded, "SYSTEM", None) is registry[name]:
            return Path(loaded.__file__)
    return None

"""The protocols, one folder each: ``<name>/protocol.py`` defines PROTOCOL, which is registered."""

from __future__ import annotations

import importlib
import pkgutil

from testbed.protocols.protocol import Protocol, TreeProtocol, protocol_of

__all__ = ["Protocol", "TreeProtocol", "discover", "on_trees", "protocol_of", "registry"]


def discover() -> dict[str, Protocol]:
    """The protocols by name, those on trees first, by number. ValueError if two have the same."""
    found: list[Protocol] = []
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            home = f"{__name__}.{module.name}"
            found.append(importlib.import_module(f"{home}.protocol").PROTOCOL)
    for key in ("name", "number"):
        keys = [getattr(each, key, None) for each in found]
        if twice := {str(each) for each in keys if each is not None and keys.count(each) > 1}:
            raise ValueError(f"testbed/protocols: two protocols have the {key} {min(twice)}")
    found.sort(key=lambda each: getattr(each, "number", 1 << 8))
    return {each.name: each for each in found}


registry: dict[str, Protocol] = discover()


def on_trees() -> dict[str, TreeProtocol]:
    """The registered protocols whose switches sum, by name."""
    return {name: each for name, each in registry.items() if isinstance(each, TreeProtocol)}

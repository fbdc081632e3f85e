"""The protocols, one folder each: ``<name>/protocol.py`` defines PROTOCOL, which is registered.

Users' own protocols are in folders of extensions (`testbed.extensions`).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from pathlib import Path

from testbed import extensions
from testbed.protocols.protocol import Protocol, TreeProtocol, protocol_of

__path__ += extensions.homes("protocols")

__all__ = ["Protocol", "TreeProtocol", "discover", "folders", "on_trees", "protocol_of", "registry"]


def discover() -> dict[str, Protocol]:
    """The protocols by name: those on trees by number, then the others. Raises Broken if two have
    the same name or number."""
    found: list[Protocol] = []
    extensions.check(Path(__file__).parent, __path__)
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            home = f"{__name__}.{module.name}"
            found.append(extensions.load(f"{home}.protocol").PROTOCOL)
    for key in ("name", "number"):
        keys = [getattr(each, key, None) for each in found]
        if twice := {str(each) for each in keys if each is not None and keys.count(each) > 1}:
            raise extensions.Broken(f"two protocols have the {key} {min(twice)}")
    found.sort(key=lambda each: getattr(each, "number", 1 << 8))
    return {each.name: each for each in found}


registry: dict[str, Protocol] = discover()


def on_trees() -> dict[str, TreeProtocol]:
    """The registered protocols whose switches sum, by name."""
    return {name: each for name, each in registry.items() if isinstance(each, TreeProtocol)}


def folders() -> Iterator[Path]:
    """The folder of each protocol, in the order of their names."""
    for home in map(Path, __path__):
        yield from sorted(each for each in home.iterdir() if (each / "protocol.py").exists())

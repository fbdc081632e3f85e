"""Gradient synchronisation and in-network aggregation, compared on one machine.

``testbed.run``, ``testbed.read`` and the other names below come from `testbed.api`.
"""

from __future__ import annotations

__version__ = "0.2.0"

TYPE_CHECKING = False  # importing typing takes longer than all else here
if TYPE_CHECKING:
    from testbed.api import (
        DeploymentError,
        EmulationError,
        Experiment,
        Invalid,
        Tables,
        cells,
        read,
        resume,
        run,
        validate,
        write_report,
    )

__all__ = [
    "DeploymentError", "EmulationError", "Experiment", "Invalid", "Tables", "cells", "read",
    "resume", "run", "validate", "write_report",
]  # fmt: skip


def __getattr__(name: str) -> object:
    # Loaded on first use: pandas and the rest take long to import.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from testbed import api as library

    found: object = getattr(library, name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

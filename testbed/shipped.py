"""Files that come with the code: compiled P4, workloads, experiments.

They are beside the package in a checkout, and inside it when it is installed.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def folder(name: str) -> Path:
    """Where ``p4``, ``workloads``, ``experiments`` or ``reports`` is."""
    package = Path(str(files("testbed")))
    installed = package / "shipped" / name
    return installed if installed.is_dir() else package.parent / name

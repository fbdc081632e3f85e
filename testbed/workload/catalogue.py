"""Workloads by name: those that ship with the testbed, and synthetic ones."""

from __future__ import annotations

from pathlib import Path

from testbed.shipped import folder
from testbed.workload import synthetic, trace_file
from testbed.workload.synthetic import SYNTHETIC
from testbed.workload.trace import Trace, TraceError
from testbed.workload.trace_file import SUFFIX

WORKLOADS = folder("workloads")


def names() -> tuple[str, ...]:
    """Names of the workloads that ship with the testbed, sorted."""
    return tuple(sorted(path.stem for path in WORKLOADS.glob(f"*{SUFFIX}")))


def load(name_or_path: str | Path) -> Trace:
    """Read a shipped workload by name, or any trace file by path, or make a synthetic one.

    A string without ``/`` that does not end in ``.trace`` is a name, and one that begins with
    ``synthetic/`` describes a synthetic workload (`testbed.workload.synthetic`).

    Raises TraceError with every problem found, each as ``file:line: found, wanted``.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str) and text.startswith(SYNTHETIC):
        try:
            return synthetic.named(text)
        except ValueError as error:
            raise TraceError([str(error)]) from error
    if isinstance(name_or_path, str) and "/" not in text and not text.endswith(SUFFIX):
        if text not in names():
            raise TraceError(
                [f"no workload {text!r}; shipped are {', '.join(names())}, or give a file's path"]
            )
        return trace_file.load(WORKLOADS / f"{text}{SUFFIX}")
    return trace_file.load(Path(name_or_path))

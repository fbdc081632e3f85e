"""Workloads by name: those that ship with the testbed, and synthetic ones."""

from __future__ import annotations

from pathlib import Path

from testbed.shipped import folder
from testbed.workload import synthetic, trace_file
from testbed.workload.synthetic import SYNTHETIC
from testbed.workload.trace import Trace, TraceError
from testbed.workload.trace_file import SUFFIX

WORKLOADS = folder("workloads")
FAMILIES = {
    "resnet18": "resnet50",
    "resnet50": "resnet50",
    "resnet101": "resnet50",
    "resnet152": "resnet50",
    "vgg16": "vgg16",
    "bert-base": "bert-base",
    "bert-large": "bert-base",
    "gpt2": "gpt2",
}
"""The sample of each workload. There is one for each family of models."""
TITLES = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "resnet101": "ResNet-101",
    "resnet152": "ResNet-152",
    "vgg16": "VGG-16",
    "bert-base": "BERT-base",
    "bert-large": "BERT-large",
    "gpt2": "GPT-2",
}
"""The models' names for readers."""


def title(workload: str) -> str:
    """What figures and tables call a workload: its model's name, or the last part of a path."""
    if workload.startswith(SYNTHETIC):
        return workload
    return TITLES.get(workload, Path(workload).stem)


def names() -> tuple[str, ...]:
    """Names of the workloads that ship with the testbed, sorted."""
    return tuple(sorted(path.stem for path in WORKLOADS.glob(f"*{SUFFIX}")))


def trained() -> tuple[str, ...]:
    """Names of the shipped workloads that have a training script beside their trace, sorted."""
    traces = (WORKLOADS / "training").glob(f"*{SUFFIX}")
    return tuple(sorted(f"training/{path.stem}" for path in traces))


def path_of(name_or_path: str | Path) -> Path:
    """The trace file of a shipped workload, or of a path."""
    text = str(name_or_path)
    shipped = WORKLOADS / f"{text}{SUFFIX}"
    return shipped if text in names() or text in trained() else Path(text)


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
    if text in trained():
        return trace_file.load(path_of(text))
    if isinstance(name_or_path, str) and "/" not in text and not text.endswith(SUFFIX):
        if text not in names() and Path(text).is_file():
            raise TraceError([f"{text}: found another end of its name, wanted {SUFFIX}"])
        if text not in names():
            raise TraceError(
                [f"no workload {text!r}; shipped are {', '.join(names())}, or give a file's path"]
            )
        return trace_file.load(WORKLOADS / f"{text}{SUFFIX}")
    return trace_file.load(Path(name_or_path))

"""Makes a failing case shorter as long as it still fails: removes faults one by one, then jobs,
iterations, workers, bytes and options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Case = dict[str, Any]
_MOST_RUNS = 400
_WORKLOAD = re.compile(r"synthetic/(\d+)x(\d+)KB/(.*)")
_IMPAIRMENTS = ("duplication", "corruption", "reordering", "loss")


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The shortest case found that fails, too. ``fails`` runs a case."""
    runs = 0
    progress = True
    while progress and runs < _MOST_RUNS:
        progress = False
        for shorter in _shorter(case):
            runs += 1
            if fails(shorter):
                case, progress = shorter, True
                break
            if runs == _MOST_RUNS:
                break
    return case


def _shorter(case: Case) -> Iterator[Case]:
    """Cases in which one thing of ``case`` is missing or smaller; the largest such things come
    first."""
    faults = case["emulation"]["faults"]
    if len(faults) > 3:
        for half in (faults[: len(faults) // 2], faults[len(faults) // 2 :]):
            yield _with(case, half, "emulation", "faults")
    for index in range(len(faults)):
        yield _without(case, "emulation", "faults", index)
    for index in range(len(case["jobs"]) if len(case["jobs"]) > 1 else 0):
        yield _without(case, "jobs", index)
    for part, keys in (
        ("emulation", ("loss", "duplication")),
        ("fabric", ("capacity", "link_delay", "slots")),
    ):
        for key in keys:
            if key in case[part]:
                yield _without(case, part, key)
    for index, fault in enumerate(faults):
        found = [each for each in _IMPAIRMENTS if each in fault]
        for each in found if len(found) > 1 else ():
            yield _without(case, "emulation", "faults", index, each)
    for index in range(len(case["jobs"])):
        yield from _smaller(case, index)


def _smaller(case: Case, index: int) -> Iterator[Case]:
    """Cases with a smaller job number ``index``."""
    job, place = case["jobs"][index], ("jobs", index)
    for key in ("compute", "order"):
        if key in job:
            yield _without(case, *place, key)
    for option in job["options"]:
        yield _without(case, *place, "options", option)
    if job["iterations"] > 1:
        yield _with(case, job["iterations"] - 1, *place, "iterations")
    if job["warmup"]:
        yield _with(case, 0, *place, "warmup")
    for key, least in (("workers", 2), ("servers", 1)):
        for number in range(len(job.get(key, ())) if len(job.get(key, ())) > least else 0):
            yield _without(case, *place, key, number)
    if found := _WORKLOAD.fullmatch(job["workload"]):
        tensors, kilobytes, compute = int(found[1]), int(found[2]), found[3]
        for fewer, less, time in (
            (tensors // 2, kilobytes, compute),
            (tensors - 1, kilobytes, compute),
            (tensors, kilobytes // 2, compute),
            (tensors, kilobytes - 1, compute),
            (tensors, kilobytes, "0us"),
        ):
            if fewer and less and (fewer, less, time) != (tensors, kilobytes, compute):
                yield _with(case, f"synthetic/{fewer}x{less}KB/{time}", *place, "workload")


def _with(case: Case, value: object, *path: str | int) -> Case:
    new, parent = _copied(case, path)
    parent[path[-1]] = value
    return new


def _without(case: Case, *path: str | int) -> Case:
    new, parent = _copied(case, path)
    del parent[path[-1]]
    return new


def _copied(case: Case, path: tuple[str | int, ...]) -> tuple[Case, Any]:
    """A copy of ``case``, and the part of it that has the last key of ``path``."""
    new: Any = deepcopy(case)
    parent = new
    for key in path[:-1]:
        parent = parent[key]
    return new, parent

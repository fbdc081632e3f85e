"""Makes a failing case shorter as long as it fails: faults are removed one by one, then jobs,
iterations, workers, bytes and options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Case = dict[str, Any]
_MOST_RUNS = 400
_WORKLOAD = re.compile(r"synthetic/(\d+)x(\d+)KB/(.*)")


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The shortest case that was found to fail, too; ``fails`` runs one."""
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
    """Cases that differ from ``case`` in one thing that is gone or smaller, the largest first."""
    faults = case["emulation"]["faults"]
    if len(faults) > 3:
        for half in (faults[: len(faults) // 2], faults[len(faults) // 2 :]):
            yield _with(case, lambda new, half=half: new["emulation"].update(faults=half))
    for index in range(len(faults)):
        yield _with(case, lambda new, index=index: new["emulation"]["faults"].pop(index))
    for index in range(len(case["jobs"]) if len(case["jobs"]) > 1 else 0):
        yield _with(case, lambda new, index=index: new["jobs"].pop(index))
    for what in ("loss", "duplication"):
        if what in case["emulation"]:
            yield _with(case, lambda new, what=what: new["emulation"].pop(what))
    for what in ("capacity", "link_delay", "slots"):
        if what in case["fabric"]:
            yield _with(case, lambda new, what=what: new["fabric"].pop(what))
    for index, fault in enumerate(faults):
        for what in ("duplication", "corruption", "reordering", "loss"):
            if what in fault and sum(each in fault for each in _SHARES) > 1:
                yield _with(
                    case, lambda new, i=index, w=what: new["emulation"]["faults"][i].pop(w)
                )
    for index, job in enumerate(case["jobs"]):
        for change in _smaller(job):
            yield _with(case, lambda new, i=index, change=change: change(new["jobs"][i]))


_SHARES = ("duplication", "corruption", "reordering", "loss")


def _smaller(job: Case) -> Iterator[Callable[[Case], object]]:
    for what in ("compute", "order"):
        if what in job:
            yield lambda new, what=what: new.pop(what)
    for what in job["options"]:
        yield lambda new, what=what: new["options"].pop(what)
    if job["iterations"] > 1:
        yield lambda new: new.update(iterations=new["iterations"] - 1)
    if job["warmup"]:
        yield lambda new: new.update(warmup=0)
    if len(job["workers"]) > 2:
        for index in range(len(job["workers"])):
            yield lambda new, index=index: new["workers"].pop(index)
    if len(job.get("servers", ())) > 1:
        yield lambda new: new["servers"].pop()
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
                name = f"synthetic/{fewer}x{less}KB/{time}"
                yield lambda new, name=name: new.update(workload=name)


def _with(case: Case, change: Callable[[Case], object]) -> Case:
    new = deepcopy(case)
    change(new)
    return new

"""Max-min fair rates by water-filling (Bertsekas and Gallager, Data Networks, 6.5.2)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from testbed.compiler import BuildError, compiled, declare

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

_EQUAL = 1 + 1e-9


def max_min(
    capacity: Floats, flow: Integers, link: Integers, amount: Floats, cap: Floats
) -> Floats:
    """The rate of each flow, in the shape of ``cap``. No rate can rise unless a lower one falls.

    Entry i says that each unit of the rate of ``flow[i]`` puts ``amount[i]`` on ``link[i]``, whose
    capacity is ``capacity[link[i]]``. Entries are sorted by flow. No flow exceeds its ``cap``,
    which must be finite for a flow without entries.

    Each round settles all flows that are the slowest on each of their links, so the number of
    rounds is the longest chain of dependent bottlenecks, not the number of bottlenecks.

    This runs in compiled C or, without a compiler, in numpy, with the same results some ten times
    slower.
    """
    return (_compiled() or in_numpy)(capacity, flow, link, amount, cap)


def in_numpy(
    capacity: Floats, flow: Integers, link: Integers, amount: Floats, cap: Floats
) -> Floats:
    """`max_min` without a compiler."""
    rate = cap.astype(float)
    left = capacity.astype(float)
    nearest = np.empty(len(left))
    while len(link):
        begins = np.ones(len(flow), bool)
        np.not_equal(flow[1:], flow[:-1], out=begins[1:])
        first, among = np.flatnonzero(begins), np.cumsum(begins) - 1
        load = np.bincount(link, amount, len(left))
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.where(load > 0, left / load, np.inf)
        fair = np.minimum(np.minimum.reduceat(level[link], first), cap[flow[first]])
        nearest.fill(np.inf)
        np.minimum.at(nearest, link, fair[among])
        settled = fair <= np.minimum.reduceat(nearest[link], first) * _EQUAL
        rate[flow[first][settled]] = fair[settled]
        over = settled[among]
        left -= np.bincount(link[over], (amount * fair[among])[over], len(left))
        np.maximum(left, 0.0, out=left)
        flow, link, amount = flow[~over], link[~over], amount[~over]
    return rate


@cache
def _compiled() -> Callable[[Floats, Integers, Integers, Floats, Floats], Floats] | None:
    """`max_min` in C, or None without a compiler."""
    source = Path(__file__).with_suffix(".c")
    flags = ["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-shared", "-fPIC"]
    try:
        library = ctypes.CDLL(str(compiled("fairness", {source.name: source.read_text()}, flags)))
    except BuildError:
        return None
    pointers = [ctypes.c_void_p] * 10
    declare(library, {"max_min": (None, *[ctypes.c_int64] * 2, ctypes.c_double, *pointers)})

    def in_c(
        capacity: Floats, flow: Integers, link: Integers, amount: Floats, cap: Floats
    ) -> Floats:
        rate = cap.astype(float)
        left = capacity.astype(float)
        entries = [flow.astype(np.int64), link.astype(np.int64), amount.astype(float)]
        load, nearest = np.empty((2, len(left)))
        fair, worst = np.empty((2, len(rate)))
        caps = np.ascontiguousarray(cap, float)
        arrays = [*entries, caps, rate, left, load, nearest, fair, worst]
        library.max_min(len(left), len(flow), _EQUAL, *(each.ctypes.data for each in arrays))
        return rate

    return in_c

"""Max-min fair rates by water-filling (Bertsekas and Gallager, Data Networks, 6.5.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

_EQUAL = 1 + 1e-9


def max_min(
    capacity: Floats, flow: Integers, link: Integers, amount: Floats, cap: Floats
) -> Floats:
    """The rate of each flow, in the shape of ``cap``: none can rise without a lower one falling.

    Entry i says that a unit of rate of flow ``flow[i]`` puts ``amount[i]`` on ``link[i]``, of
    ``capacity[link[i]]``. Entries are sorted by flow. No flow exceeds its ``cap``, which is finite
    for a flow without entries.

    Each round settles all flows that are the slowest on each of their links, so the number of
    rounds is the longest chain of dependent bottlenecks, not the number of bottlenecks.
    """
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

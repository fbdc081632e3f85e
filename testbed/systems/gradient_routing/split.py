"""A model split over several servers, and the routes of every worker's part for each of them.

Each server is a problem of its own; they share the fabric's links and switches. The relaxation of
the split and of all routes together is one linear programme. Routes are then drawn from it, and for
given routes the best split is a linear programme in the shares alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from testbed.systems.gradient_routing.problem import Problem, Routing, Vector
from testbed.systems.gradient_routing.solvers import drawn_from, to_nearest


@dataclass(frozen=True)
class Split:
    """A solution: each server's share of the model and the routing of that part.

    ``rate`` is the gradient that every worker can send, all servers' parts together (bit/s).
    """

    shares: tuple[float, ...]
    routings: tuple[Routing, ...]
    rate: float


def rounded(problems: Sequence[Problem], seed: int, draws: int, equal: bool = False) -> Split:
    """The best of several draws of routes, each with its best split, or with ``equal`` shares.

    It also tries that every rack sends to its nearest switch, which is taken if it is faster than
    all draws.
    """
    joint = _Joint(problems)
    dice = random.Random(seed)
    weights, relaxed = joint.relaxed(equal)
    tried = [
        [drawn_from(*each, dice) for each in zip(problems, weights, strict=True)]
        for _ in range(draws)
    ]
    tried.append([to_nearest(problem) for problem in problems])
    found = []
    # A routing that is drawn again has the same split.
    for counts in {b"".join(each.tobytes() for each in one): one for one in tried}.values():
        loads = joint.loads(counts)
        shares = relaxed if equal else _split(loads)
        found.append((max(1.0, round(float((loads @ shares).max()), 9)), shares, counts))
    time, shares, best = min(found, key=lambda each: each[0])
    routings = [problem.routing(each, time) for problem, each in zip(problems, best, strict=True)]
    return Split(tuple(shares.tolist()), tuple(routings), joint.unit / time)


def _split(loads: Vector) -> Vector:
    """The shares that minimise the time of the busiest limit. ``loads`` has the shape (limits,
    servers)."""
    count = loads.shape[1]
    if count == 1:
        return np.ones(1)
    found = linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=np.hstack([loads, -np.ones((len(loads), 1))]),
        b_ub=np.zeros(len(loads)),
        A_eq=np.append(np.ones(count), 0.0)[None, :],
        b_eq=[1.0],
        bounds=(0, None),
        method="highs",
    )
    return np.asarray(found.x[:count])


class _Joint:
    """The servers' problems on common limits, in a common unit of time."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems
        self.unit = min(problem.unit for problem in problems)
        names = dict.fromkeys(name for problem in problems for name in problem.names)
        rows = {name: row for row, name in enumerate(names)}
        self._limits = []
        for problem in problems:
            own = problem.limits.tocoo()
            places = np.array([rows[name] for name in problem.names])[own.row]
            self._limits.append(
                sparse.csr_array(
                    (own.data * self.unit / problem.unit, (places, own.col)),
                    shape=(len(rows), own.shape[1]),
                )
            )

    def loads(self, counts: Sequence[Vector]) -> Vector:
        """The time of each limit if a server had the whole model, (limits, servers)."""
        return np.column_stack(
            [
                limits @ np.append(each, problem.sums @ each > 0)
                for problem, limits, each in zip(self._problems, self._limits, counts, strict=True)
            ]
        )

    def relaxed(self, equal: bool) -> tuple[list[Vector], Vector]:
        """Fractional counts on the columns of each problem, and the shares.

        Variables: each problem's counts and how far its switches are in use; all shares; the time.
        """
        servers = len(self._problems)
        summed, complete = [], []
        for problem in self._problems:
            size = np.array([problem.sizes[tor] for tor, _ in problem.columns], dtype=float)
            # The part of its rack that a column has is at most the extent to which its switch is in
            # use.
            to_switch = np.flatnonzero(problem.sums.any(axis=0))
            used = -(size * problem.sums).T[to_switch]
            summed.append(np.hstack([np.eye(len(size))[to_switch], used]))
            everyone = [
                [float(tor == rack) for tor, _ in problem.columns] for rack in problem.sizes
            ]
            complete.append(np.hstack([everyone, np.zeros((len(everyone), used.shape[1]))]))
        racks = np.array(list(self._problems[0].sizes.values()), dtype=float)[:, None]
        ends = np.cumsum([each.shape[1] for each in complete]).tolist()
        starts, width = [0, *ends[:-1]], ends[-1] + servers + 1
        timely = sparse.hstack(
            [*self._limits, sparse.csr_array((self._limits[0].shape[0], servers))]
        )
        bounded = sparse.block_diag(summed)
        found = linprog(
            np.eye(1, width, width - 1).ravel(),
            A_ub=sparse.vstack(
                [
                    sparse.hstack([timely, -np.ones((timely.shape[0], 1))]),
                    sparse.hstack([bounded, sparse.csr_array((bounded.shape[0], servers + 1))]),
                ]
            ).tocsr(),
            b_ub=np.zeros(timely.shape[0] + bounded.shape[0]),
            A_eq=sparse.vstack(
                [
                    sparse.hstack(
                        [
                            sparse.block_diag(complete),
                            -sparse.block_diag([racks] * servers),
                            sparse.csr_array((servers * len(racks), 1)),
                        ]
                    ),
                    np.append(np.append(np.zeros(ends[-1]), np.ones(servers)), 0.0)[None, :],
                ]
            ).tocsr(),
            b_eq=np.append(np.zeros(servers * len(racks)), 1.0),
            bounds=[
                *[(0, None)] * ends[-1],
                *[(1 / servers, 1 / servers) if equal else (0, 1)] * servers,
                (0, None),
            ],
            method="highs",
        )
        if not found.success:
            raise ValueError(f"the split over {servers} servers was not solved: {found.message}")
        counts = [
            np.asarray(found.x[start : start + len(problem.columns)])
            for start, problem in zip(starts, self._problems, strict=True)
        ]
        return counts, np.asarray(found.x[ends[-1] : -1])

"""Solves gradient routing problems: exactly, by randomised rounding, by search, and greedily."""

from __future__ import annotations

import random

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from testbed.systems.gradient_routing.problem import Problem, Routing, Vector

DRAWS, KEPT = 32, 8

TRIALS = 1000
"""About how many removals of a switch are tried in all if there are many switches."""

TIME_LIMIT_S = 60.0
"""Time limit of the exact solver."""

TOLERANCE = 1e-6
"""Tolerance of the solver, in units of a bit's time on the slowest host's link."""


def exact(problem: Problem) -> Routing:
    """The best way of each worker, by mixed-integer programming.

    Among equally good solutions, it takes one with the least total load, because ECMP's hash may
    put needless streams on one link. Raises ValueError if it takes too long.
    """
    if len(problem.columns) == len(problem.own):
        return problem.routing(np.array([float(problem.sizes[tor]) for tor, _ in problem.columns]))
    fastest, _ = problem.cost(np.rint(_solve(problem, whole=True)))
    return problem.routing(np.rint(_solve(problem, whole=True, within=fastest)))


def rounded(problem: Problem, seed: int, draws: int) -> Routing:
    """The relaxation, with one way per worker drawn in proportion to its rates (§4.1).

    It takes the best of several draws; the paper draws once.
    """
    return problem.routing(min(_drawn(problem, seed, draws), key=problem.cost))


def searched(problem: Problem, seed: int) -> Routing:
    """This project's own method: draws as in `rounded`, and each rack's nearest switch, of which it
    then removes switches one at a time.

    The relaxation does not see that every switch in use costs a stream to the server. The result is
    the best solution found on the way.
    """
    draws = sorted(_drawn(problem, seed, DRAWS), key=problem.cost)
    several = TRIALS // max(1, len(problem.switches))
    best = [
        _with_fewer(problem, counts, tries)
        for counts in (*draws[: max(1, min(KEPT, several))], to_nearest(problem))
        for tries in sorted({1, max(1, min(len(problem.switches), several // KEPT))})
    ]
    return problem.routing(min(best, key=problem.cost))


def _drawn(problem: Problem, seed: int, draws: int) -> list[Vector]:
    """Counts, drawn ``draws`` times from the relaxation's solution."""
    relaxed, dice = _solve(problem, whole=False), random.Random(seed)
    return [drawn_from(problem, relaxed, dice) for _ in range(draws)]


def drawn_from(problem: Problem, relaxed: Vector, dice: random.Random) -> Vector:
    """A way for each worker, in proportion to ``relaxed``; the first one where that is 0."""
    counts = np.zeros(len(problem.columns))
    for tor, own in problem.own.items():
        weights = relaxed[own].clip(0)
        if not weights.any():
            weights[0] = 1.0
        for column in dice.choices(own, weights.tolist(), k=problem.sizes[tor]):
            counts[column] += 1
    return problem.without_lone(counts)


def to_nearest(problem: Problem) -> Vector:
    """All workers of a rack take its way of least load to a switch."""
    counts = np.zeros(len(problem.columns))
    for tor, own in problem.own.items():
        nearest = min(own[1:] or own, key=lambda column: float(problem.per_worker[:, column].sum()))
        counts[nearest] = problem.sizes[tor]
    return problem.without_lone(counts)


def greedy(problem: Problem) -> Routing:
    """Each rack uses its last way up to the capacity of its switch, and its first way for the rest.

    All workers of a switch send it the same part of their gradients.
    """
    counts = np.zeros(len(problem.columns))
    for tor, own in problem.own.items():
        counts[own[-1]] = problem.sizes[tor]
    counts = problem.without_lone(counts)
    members = problem.sums @ counts

    def summed(time: float) -> Vector:
        """The part that each switch can add if a bit may take ``time``."""
        part: Vector = np.minimum(1.0, problem.capacity * time / np.maximum(members, 1))
        return part

    def needed(time: float) -> float:
        split = counts.copy()
        for tor, own in problem.own.items():
            if own[-1] != own[0] and counts[own[-1]]:
                split[own[-1]] *= summed(time) @ problem.sums[:, own[-1]]
                split[own[0]] = problem.sizes[tor] - split[own[-1]]
        sums = summed(time) * (members > 0)
        return float((problem.limits @ np.append(split, sums)).max())

    low = high = 1.0
    while needed(high) > high:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle) > middle else (low, middle)
    parts = dict(zip(problem.switches, summed(high).tolist(), strict=True))
    return problem.routing(counts, high, parts)


def _with_fewer(problem: Problem, counts: Vector, tries: int) -> Vector:
    """Remove switches one by one: each time the best to remove among the ``tries`` with the fewest
    workers."""
    best = counts
    while (members := problem.sums @ counts).any():
        used = sorted(np.flatnonzero(members).tolist(), key=members.__getitem__)
        counts = min((_giving_up(problem, each, counts) for each in used[:tries]), key=problem.cost)
        best = min(best, counts, key=problem.cost)
    return best


def _giving_up(problem: Problem, switch: int, counts: Vector) -> Vector:
    """Move the workers of ``switch`` one by one to another switch in use, or let them bypass
    all."""
    others = (problem.sums @ counts > 0) & (np.arange(len(problem.switches)) != switch)
    is_open = (others @ problem.sums > 0) | ~problem.sums.any(axis=0)
    left = np.where(problem.sums[switch] > 0, 0.0, counts)
    times = problem.times(left)
    for column in np.flatnonzero(problem.sums[switch] * counts):
        own = [other for other in problem.own[problem.columns[column][0]] if is_open[other]]
        more = problem.per_worker[:, own]
        for _ in range(int(counts[column])):
            # Only the busiest limit on the worker's own way matters: nothing changes elsewhere.
            busiest = np.where(more > 0, times[:, None] + more, 0.0).max(axis=0)
            choice = int(busiest.argmin())
            left[own[choice]] += 1
            times = times + more[:, choice]
    return problem.without_lone(left)


def _solve(problem: Problem, whole: bool, within: float | None = None) -> Vector:
    """Counts that take the least time or, ``within`` a time, have the least total load.

    Fractional unless ``whole``. Variables: the counts, how far each switch is in use, and the time.
    """
    count, switches = len(problem.columns), len(problem.switches)
    sizes = np.array([problem.sizes[tor] for tor, _ in problem.columns], dtype=float)
    everyone = np.array([[tor == of for of, _ in problem.columns] for tor in problem.own])
    by_switch = np.flatnonzero(problem.sums.any(axis=0))
    rows = [
        (problem.per_worker, problem.per_sum, -1.0),
        (everyone, np.zeros((len(everyone), switches)), 0.0),
        # A switch with workers is in use. A switch in use needs two workers, or it would sum
        # nothing.
        (np.eye(count)[by_switch], -(sizes * problem.sums).T[by_switch], 0.0),
        (-problem.sums, 2 * np.eye(switches), 0.0),
    ]
    matrix = sparse.vstack(
        [
            sparse.csr_array(np.hstack([workers, sums, np.full((len(workers), 1), time)]))
            for workers, sums, time in rows
        ]
    )
    most = np.zeros(matrix.shape[0])
    least = np.full(matrix.shape[0], -np.inf)
    racks = slice(len(problem.per_worker), len(problem.per_worker) + len(everyone))
    most[racks] = least[racks] = list(problem.sizes.values())
    width = count + switches + 1
    time = np.eye(1, width, width - 1).ravel()
    total = np.append(np.append(problem.per_worker.sum(axis=0), problem.per_sum.sum(axis=0)), 0.0)
    latest = np.inf if within is None else within + TOLERANCE
    found = milp(
        time if within is None else total,
        constraints=LinearConstraint(matrix, least, most),
        integrality=[int(whole)] * (width - 1) + [0],
        bounds=Bounds(np.append(np.zeros(width - 1), 1.0), [*sizes, *[1.0] * switches, latest]),
        options={"time_limit": TIME_LIMIT_S},
    )
    if not found.success:
        raise ValueError(
            f"the routing of {sum(problem.sizes.values())} workers over {count} ways was not "
            f"solved within {TIME_LIMIT_S:g} s; take the solver rounding"
        )
    counts: Vector = found.x[:count]
    return counts

"""Verdicts from results: each claim's number, its interval, and the resulting verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from testbed.experiment import sweep
from testbed.experiment.findings import counted, shown
from testbed.experiment.schema import Experiment
from testbed.report.backends import SIMULATED
from testbed.report.data import is_valid
from testbed.report.statistics import LEAST, draws
from testbed.run_tables import by_settings, settings_key
from testbed.studies.claims.measures import Measure, Point
from testbed.studies.claims.schema import (
    CANNOT,
    DIRECTION,
    DIRECTION_FACTOR,
    GAIN_FACTOR,
    MORE,
    NOT,
    NOT_RUN,
    REPRODUCED,
    UNDECIDED,
    VALUE_FACTOR,
    BreakEven,
    Claim,
    Published,
)

Floats = npt.NDArray[np.float64]
LEAST_CHANGE = 0.05
"""The smallest change for which `midway` is meaningful."""
_BACKENDS = {SIMULATED: "flow simulation", "emulate": "emulation", "packet": "packets"}


@dataclass(frozen=True)
class Number:
    """The result of a measure.

    Attributes:
        value: the number.
        low, high: its 95 % bootstrap interval over repeats or seeds; None if there is none.
        basis: the results behind the number, as text.
        points: each point's settings as text, and its value.
    """

    value: float
    low: float | None
    high: float | None
    basis: str
    points: tuple[tuple[str, float], ...]

    @property
    def ends(self) -> list[float]:
        """The number and the ends of its interval."""
        return [each for each in (self.value, self.low, self.high) if each is not None]


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim: one of the words of `testbed.studies.claims.schema`, and why.

    ``number`` is None if nothing could be measured.
    """

    word: str
    reason: str
    number: Number | None = None


class Lacking(Exception):
    """The results lack data that a measure needs; ``word`` is the resulting verdict."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(reason)
        self.word = word


def judge(claim: Claim, experiment: Experiment | None, rows: pd.DataFrame | str) -> Verdict:
    """The verdict on ``claim`` from its experiment's ``rows``, which may be the reason why there
    are none."""
    if claim.measure is None or claim.published is None or experiment is None:
        return Verdict(CANNOT, claim.cannot or "")
    try:
        number = measured(claim.measure, experiment, rows)
    except Lacking as lacking:
        return Verdict(lacking.word, str(lacking))
    word = verdict_of(claim.published, number.ends)
    why = [_reason(claim.published, number), claim.published.because]
    return Verdict(word, " ".join(filter(None, [*why, claim.explained.get(word, "")])), number)


def measured(measure: Measure, experiment: Experiment, rows: pd.DataFrame | str) -> Number:
    """The number from ``rows``. Raises Lacking, with the reason, if it cannot be computed."""
    if isinstance(rows, str):
        raise Lacking(NOT_RUN, rows)
    points = measure.points(experiment)
    of_cell = by_settings(rows)
    samples = [_sample(measure, experiment, point, of_cell, at) for at, point in enumerate(points)]
    along = [point.at for point in points]
    first, last = samples[0].value, samples[-1].value
    if measure.number == "midway" and first and abs(change := last / first - 1) < LEAST_CHANGE:
        raise Lacking(CANNOT, f"The whole change is {change:+.1%}, too small to divide.")
    return Number(
        summary(measure.number, along, [sample.value for sample in samples]),
        *_interval(measure.number, along, samples),
        _basis(samples, rows),
        tuple(zip(_titles(points, measure.along), (each.value for each in samples), strict=True)),
    )


@dataclass(frozen=True)
class Crossing:
    """A break-even's number at each value of its condition, and where the claim would hold.

    ``where`` is empty if it would hold nowhere. ``numbers`` has each value as text, with its Number
    or the reason why there is none.
    """

    where: str
    numbers: tuple[tuple[str, Number | str], ...]


def crossing(
    even: BreakEven, published: Published, experiment: Experiment, rows: pd.DataFrame | str
) -> Crossing:
    """The values of ``even``'s condition at which a claim of ``published`` would hold."""
    found: list[tuple[str, Number | str]] = []
    for value in even.values(experiment):
        text = _plain(value)
        try:
            found.append((text, measured(even.measure.at(even.varied, value), experiment, rows)))
        except Lacking as lacking:
            found.append((text, str(lacking)))
    held = [
        isinstance(number, Number) and all(map(published.holds.hold, number.ends))
        for _, number in found
    ]
    return Crossing(_where([text for text, _ in found], held), tuple(found))


def _plain(value: Any) -> str:
    """``jitter 0.1, stragglers (workers 8, slowdown 2)`` for a mapping; others as in a file."""
    if isinstance(value, dict):
        inner = {
            key: f"({_plain(each)})" if isinstance(each, dict) else _plain(each)
            for key, each in value.items()
        }
        return ", ".join(f"{key} {text}" for key, text in inner.items())
    return value if isinstance(value, str) else shown(value)


def _where(values: Sequence[str], held: Sequence[bool]) -> str:
    """``from 40us to 200us``: the values at which something holds, as far as they were tried; empty
    if at none."""
    true = [at for at, holds in enumerate(held) if holds]
    if not true:
        return ""
    first, last = true[0], true[-1]
    if len(true) == len(values):
        return f"everywhere from {values[0]} to {values[-1]}"
    if len(true) <= last - first:  # not all of one piece
        return f"at {', '.join(values[at] for at in true)}"
    return f"at {values[first]}" if first == last else f"from {values[first]} to {values[last]}"


def _titles(points: Sequence[Point], along: str | None) -> list[str]:
    """For each point, the settings in which points differ. If all have different places ``along`` a
    path, only that place."""
    if along is not None and len({str(point.at) for point in points}) == len(points) > 1:
        return [f"{along.rpartition('.')[2]}={point.at}" for point in points]
    first = points[0].settings
    differ = [path for path in first if any(p.settings[path] != first[path] for p in points)]
    return [
        ", ".join(f"{path.rpartition('.')[2]}={_brief(point.settings[path])}" for path in differ)
        for point in points
    ]


def _brief(value: Any) -> str:
    """A long list, of hosts for example, as its length."""
    return f"{len(value)} named" if isinstance(value, list) and len(value) > 4 else str(value)


def summary(name: str, along: Sequence[Any], values: Sequence[float]) -> float:
    """One number from the points' ``values`` at places ``along``; see `measures.Measure`.

    Raises Lacking if it would divide by 0.
    """
    found = np.array(values)
    possible = {
        "slope": found > 0,
        "midway": found[-1:] != found[:1],
        "step": found[:-1] != 0,
        "spread": found != 0,
    }
    if not np.all(possible.get(name, True)):
        points = ", ".join(f"{each:.3g}" for each in found)
        why = "take the logarithm of 0" if name == "slope" else "divide by 0"
        raise Lacking(CANNOT, f"No {name} of the points {points}: it would {why}.")
    if name == "slope":
        exponent, _ = np.polyfit(np.log(np.array(along, float)), np.log(found), 1)
        return float(exponent)
    if name == "midway":
        half = np.interp((len(found) - 1) / 2, range(len(found)), found)
        return float((half - found[0]) / (found[-1] - found[0]))
    if name == "step":
        return float((found[1:] / found[:-1]).min())
    if name == "spread":
        return float(found.max() / found.min())
    if name == "mean":
        return float(found.mean())
    return float(found.max() if name == "most" else found.min())


def verdict_of(published: Published, values: Sequence[float]) -> str:
    """The strongest verdict whose bounds contain the number and both ends of its interval.

    A gain is "much more than published" if its whole interval is above the bounds of the direction.
    If only a part of the interval is within the widest bounds, the claim is undecided.
    """
    reproduced, direction = published.reproduced, published.direction
    if reproduced is not None and all(map(reproduced.hold, values)):
        return REPRODUCED
    if direction is not None and all(map(direction.hold, values)):
        return DIRECTION
    low, high = min(values), max(values)
    widest = direction or reproduced
    assert widest is not None
    if published.gain is not None and low > (widest.at_most or 0):
        return MORE
    return UNDECIDED if widest.meet(low, high) else NOT


def _reason(published: Published, number: Number) -> str:
    """The bounds as a sentence, and how they follow from the figure."""
    what = "the number" if number.low is None else "the number with its interval"
    if published.trend is not None:
        return f"Wanted: {what} {published.trend}. No figure is published."
    if published.gain is None:
        return f"Wanted: {what} {published.reproduced}, within {VALUE_FACTOR - 1:.0%}."
    return (
        f"Wanted: {what} {published.reproduced}, a gain within a factor of {GAIN_FACTOR:g} of the"
        f" published gain; for the direction {published.direction}, a factor of"
        f" {DIRECTION_FACTOR:g}."
    )


def _basis(samples: Sequence[_Sample], rows: pd.DataFrame) -> str:
    """The results behind a number, as text."""
    backends = sorted({_BACKENDS.get(name, name) for name in rows["backend"]})
    of_what = sorted({sample.of_what for sample in samples})
    points = f"{len(samples)} points of " if len(samples) > 1 else ""
    return f"{' and '.join(backends)}, {points}{' or '.join(of_what)}"


@dataclass(frozen=True)
class _Sample:
    """A point's value, and bootstrap values of it if there are enough repeats.

    ``of_what`` are the repeats as text.
    """

    value: float
    resampled: Floats | None
    of_what: str


def _sample(
    measure: Measure,
    experiment: Experiment,
    point: Point,
    rows: pd.api.typing.DataFrameGroupBy,
    number: int,
) -> _Sample:
    """The sample of a point; ``rows`` are grouped by their cells' `settings_key`."""
    pairs = [
        (
            _metric(measure, cell, rows),
            np.ones(LEAST) if beside is None else _metric(measure, beside, rows),
            1.0 if measure.reference is None else _formula(measure, experiment, cell),
        )
        for cell, beside in point.pairs
    ]
    ratios = np.array([_divided(of.mean(), over.mean() * formula) for of, over, formula in pairs])
    resampled = None
    if len(pairs) > 1:
        if len(pairs) >= LEAST:
            # All points have the same seeds, so seeds are resampled together.
            resampled = _means(ratios, 0)
        return _Sample(float(ratios.mean()), resampled, f"{len(pairs)} seeds")
    of, over, formula = pairs[0]
    if min(len(of), len(over)) >= LEAST:
        resampled = _divided(_means(of, 2 * number), _means(over, 2 * number + 1) * formula)
    return _Sample(float(ratios[0]), resampled, counted(len(of), "repeat"))


def _divided(of: Floats, over: Floats) -> Floats:
    """The ratio of two means, or of as many. Raises Lacking if one is not finite."""
    with np.errstate(all="ignore"):
        found: Floats = of / over
    if not np.isfinite(found).all():
        raise Lacking(CANNOT, "No ratio: what it divides by is 0, or too close to 0.")
    return found


def _metric(measure: Measure, cell: sweep.Settings, rows: pd.api.typing.DataFrameGroupBy) -> Floats:
    """The metric in each valid repeat of a cell, as the mean over its jobs."""
    title = sweep.written(cell) or "the experiment"
    key = settings_key(cell)
    if key not in rows.indices:
        raise Lacking(NOT_RUN, f"There are no results of {title}.")
    own = rows.obj.iloc[rows.indices[key]]  # get_group refuses a table of one row
    if measure.jobs is not None:
        own = own[own["job"].isin(measure.jobs)]
    whole = own[~own["repeat"].isin(own.loc[~is_valid(own), "repeat"])]
    if not len(whole):
        why = next(filter(None, [*own["error"], *own["verdict"]]), "not verified")
        raise Lacking(CANNOT, f"No repeat of {title} is valid here: {why}.")
    values = whole.groupby("repeat")[measure.metric].agg(lambda each: each.mean(skipna=False))
    if values.isna().any():
        none = f"{values.isna().sum()} of {counted(len(values), 'repeat')} of {title}"
        raise Lacking(
            CANNOT, f"No {measure.metric} in {none}: nothing learnt, or no target reached."
        )
    means: Floats = values.to_numpy(float)
    return means


def _formula(measure: Measure, experiment: Experiment, cell: sweep.Settings) -> float:
    """Gbit/s of gradients by the measure's formula."""
    resolved = Experiment.model_validate(sweep.apply(experiment.data(), cell))
    job = resolved.jobs[(measure.jobs or [0])[0]]
    workers, servers = (
        each if isinstance(each, int) else len(each) for each in (job.workers, job.servers)
    )
    # BytePS, OSDI 2020, section 2: max(M/B, n M/(k B)); 2 (n-1) M/(n B) if the machines of all n
    # workers are servers; 2 n (n-1) M/((n^2+k n-2 k) B) if all machines are, with k <= n.
    of_rate = {
        "servers-apart": min(1.0, servers / workers),
        "servers-colocated": workers / (2 * (workers - 1)),
        "servers-optimal": (workers**2 + servers * workers - 2 * servers)
        / (2 * workers * (workers - 1)),
    }
    return of_rate[measure.reference or ""] * resolved.fabric.host_rate / 1e9


def _interval(
    name: str, along: Sequence[Any], samples: Sequence[_Sample]
) -> tuple[float | None, float | None]:
    columns = [sample.resampled for sample in samples if sample.resampled is not None]
    if len(columns) < len(samples):
        return None, None
    numbers = [summary(name, along, values) for values in np.transpose(columns)]
    low, high = np.quantile(numbers, [0.025, 0.975])
    return float(low), float(high)


def _means(sample: Floats, stream: int) -> Floats:
    """Means of samples drawn with replacement (bootstrap)."""
    means: Floats = sample[draws(len(sample), stream)].mean(axis=1)
    return means

"""Verdicts from results: each claim's number, its interval, and the resulting verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from testbed.experiment import sweep
from testbed.experiment.findings import counted
from testbed.experiment.schema import Experiment
from testbed.report.data import SIMULATED, is_valid
from testbed.report.statistics import LEAST
from testbed.studies.claims.measures import Measure, Point
from testbed.studies.claims.schema import (
    CANNOT,
    DIRECTION,
    NOT,
    NOT_RUN,
    REPRODUCED,
    Claim,
    Judgement,
)

Floats = npt.NDArray[np.float64]
LEAST_CHANGE = 0.05
"""The least change for which `midway` has a meaning."""
_RESAMPLES = 2000
_BACKENDS = {SIMULATED: "simulated", "emulate": "emulated"}


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Attributes:
        word: one of the words of `testbed.studies.claims.schema`.
        reason: the reason for it.
        number: None if nothing could be measured.
        low, high: its 95 % bootstrap interval over repeats or seeds; None where there is none.
        basis: the results behind the number, as text.
        points: each point's settings as text, and its value.
    """

    word: str
    reason: str
    number: float | None = None
    low: float | None = None
    high: float | None = None
    basis: str = ""
    points: tuple[tuple[str, float], ...] = ()


class Lacking(Exception):
    """The results lack data that a measure needs; ``word`` is the resulting verdict."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(reason)
        self.word = word


def judge(claim: Claim, experiment: Experiment | None, rows: pd.DataFrame | str) -> Verdict:
    """The verdict on ``claim`` from its experiment's ``rows``, or from the reason for no rows."""
    if claim.measure is None or claim.verdict is None or experiment is None:
        return Verdict(CANNOT, claim.cannot or "")
    if isinstance(rows, str):
        return Verdict(NOT_RUN, rows)
    measure = claim.measure
    points = measure.points(experiment)
    try:
        samples = [
            _sample(measure, experiment, point, rows, number) for number, point in enumerate(points)
        ]
    except Lacking as lacking:
        return Verdict(lacking.word, str(lacking))
    along = [point.at for point in points]
    change = samples[-1].value / samples[0].value - 1
    if measure.number == "midway" and abs(change) < LEAST_CHANGE:
        return Verdict(CANNOT, f"The whole change is {change:+.1%}, too small to divide.")
    number = summary(measure.number, along, [sample.value for sample in samples])
    low, high = _interval(measure.number, along, samples)
    word = _word(claim.verdict, [each for each in (number, low, high) if each is not None])
    return Verdict(
        word,
        " ".join(filter(None, [_reason(claim.verdict, word, low), claim.explained.get(word, "")])),
        number,
        low,
        high,
        _basis(samples, rows),
        tuple(zip(_titles(points), (sample.value for sample in samples), strict=True)),
    )


def _titles(points: Sequence[Point]) -> list[str]:
    """The settings in which each point differs from the others."""
    first = points[0].settings
    differ = [path for path in first if any(p.settings[path] != first[path] for p in points)]
    return [
        ", ".join(f"{path.rpartition('.')[2]}={point.settings[path]}" for path in differ)
        for point in points
    ]


def summary(name: str, along: Sequence[Any], values: Sequence[float]) -> float:
    """One number from points' ``values`` at places ``along``; see `measures.Measure`."""
    found = np.array(values)
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


def _word(verdict: Judgement, values: list[float]) -> str:
    """The strongest verdict whose bounds contain the number and both ends of its interval."""
    if all(map(verdict.reproduced.hold, values)):
        return REPRODUCED
    if verdict.direction is not None and all(map(verdict.direction.hold, values)):
        return DIRECTION
    return NOT


def _reason(verdict: Judgement, word: str, low: float | None) -> str:
    what = "the number" if low is None else "the number with its interval"
    bounds = {REPRODUCED: verdict.reproduced, DIRECTION: verdict.direction}.get(word)
    if bounds is not None:
        said = f"{what[0].upper()}{what[1:]} is {bounds}."
        if word == DIRECTION:
            said = f"{said[:-1]}, but not {verdict.reproduced}."
    else:
        also = f" or, for the direction, {verdict.direction}" if verdict.direction else ""
        said = f"Required: {what} {verdict.reproduced}{also}."
    return f"{said} {verdict.because}"


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
    measure: Measure, experiment: Experiment, point: Point, rows: pd.DataFrame, number: int
) -> _Sample:
    pairs = [
        (
            _metric(measure, cell, rows),
            np.ones(LEAST) if beside is None else _metric(measure, beside, rows),
            1.0 if measure.reference is None else _formula(measure, experiment, cell),
        )
        for cell, beside in point.pairs
    ]
    ratios = np.array([of.mean() / over.mean() / formula for of, over, formula in pairs])
    resampled = None
    if len(pairs) > 1:
        if len(pairs) >= LEAST:
            # All points have the same seeds, which are resampled together.
            resampled = _means(ratios, 0)
        return _Sample(float(ratios.mean()), resampled, f"{len(pairs)} seeds")
    of, over, formula = pairs[0]
    if min(len(of), len(over)) >= LEAST:
        resampled = _means(of, 2 * number) / _means(over, 2 * number + 1) / formula
    return _Sample(float(ratios[0]), resampled, counted(len(of), "repeat"))


def _metric(measure: Measure, cell: sweep.Settings, rows: pd.DataFrame) -> Floats:
    """The metric in each valid repeat of a cell, as the mean over its jobs."""
    wanted = json.loads(json.dumps(cell))
    own = rows[[json.loads(settings) == wanted for settings in rows["settings"]]]
    if measure.job is not None:
        own = own[own["job"] == measure.job]
    title = sweep.written(cell) or "the experiment"
    if not len(own):
        raise Lacking(NOT_RUN, f"There are no results of {title}.")
    whole = own.assign(good=is_valid(own)).groupby("repeat").filter(lambda each: each["good"].all())
    if not len(whole):
        why = next(filter(None, [*own["error"], *own["verdict"]]), "not verified")
        raise Lacking(CANNOT, f"No repeat of {title} is valid here: {why}.")
    means: Floats = whole.groupby("repeat")[measure.metric].mean().to_numpy(float)
    return means


def _formula(measure: Measure, experiment: Experiment, cell: sweep.Settings) -> float:
    """Gbit/s of gradients by the measure's formula."""
    resolved = Experiment.model_validate(sweep.apply(experiment.data(), cell))
    job = resolved.jobs[measure.job or 0]
    workers, servers = (
        each if isinstance(each, int) else len(each) for each in (job.workers, job.servers)
    )
    # BytePS, OSDI 2020, section 2: max(M/B, n M/(k B)), and 2 (n-1) M/(n B) where all n workers'
    # machines are servers.
    of_rate = {
        "servers-apart": min(1.0, servers / workers),
        "servers-colocated": workers / (2 * (workers - 1)),
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
    draws = np.random.default_rng(stream).integers(0, len(sample), (_RESAMPLES, len(sample)))
    means: Floats = sample[draws].mean(axis=1)
    return means

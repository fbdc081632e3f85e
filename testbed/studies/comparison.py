"""Whether results moved: ratios between systems, and how far each is from the closed form.

Seconds of two machines, or of two days, do not compare; what one system takes over what another
takes in the same setting does, and so does its time over the closed form's. Both are held against
a tolerance. Rows that are not valid are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from testbed.experiment.findings import counted
from testbed.machine.verdict import is_needless
from testbed.report import data
from testbed.report.settings import PLACE, SERIES, SETTING, label
from testbed.results import Unreadable
from testbed.studies.baseline import Outcome
from testbed.systems import registry

if TYPE_CHECKING:
    import pandas as pd

BASE, NEW = "BASE", "NEW"
BACKENDS = ("simulate", "packet", "emulate")
TOLERANCE = ("simulate=1%", "packet=1%", "emulate=10%")
"""In virtual time runs are exact, but for the last digits of the libraries that they call."""

_PLACE = [*SETTING, *PLACE, "beside"]
_KEYS = [*_PLACE, *SERIES]
Key = tuple[Any, ...]
"""The labels in _KEYS."""


@dataclass(frozen=True)
class Quantity:
    """What is compared in a setting; it moved if it changed by a factor above 1 + ``tolerance``."""

    setting: str
    name: str
    base: float
    new: float
    tolerance: float

    @property
    def change(self) -> float:
        """0.1 if it grew by a tenth."""
        return self.new / self.base - 1

    @property
    def moved(self) -> bool:
        # A third more and a quarter less are as far: the same factor.
        return max(self.new / self.base, self.base / self.new) > 1 + self.tolerance


@dataclass(frozen=True)
class Comparison:
    """What was compared, and what could not be.

    Attributes:
        failed: (setting, system, reason) of what is valid in BASE and failed in NEW: it counts as
            moved.
        needless: (setting, system, reason) of what sent packets again without loss in every
            repeat of NEW, whatever BASE holds: it counts as moved.
        left_out: (side, setting, system, reason) of rows that are not valid.
        only: (side, setting, system) of what the other side has no row of.
    """

    quantities: Sequence[Quantity]
    failed: Sequence[tuple[str, str, str]]
    needless: Sequence[tuple[str, str, str]]
    left_out: Sequence[tuple[str, str, str, str]]
    only: Sequence[tuple[str, str, str]]

    @property
    def moved(self) -> list[Quantity]:
        return [each for each in self.quantities if each.moved]

    @property
    def passed(self) -> bool:
        return not (self.moved or self.failed or self.needless)

    @property
    def verdict(self) -> str:
        said = f"{len(self.moved)} of {counted(len(self.quantities), 'figure')} moved"
        if self.failed:
            said += f"; {counted(len(self.failed), 'system')} failed that did not before"
        if self.needless:
            said += f"; {counted(len(self.needless), 'system')} sent packets again without loss"
        return said


def tolerances(texts: Iterable[str]) -> dict[str, float]:
    """``simulate=1%`` or, for both back ends, ``0.2``; later ones count. ValueError if it is none.

    Returns: of each back end the share by which quantities may grow.
    """
    found: dict[str, float] = {}
    for text in (*TOLERANCE, *texts):
        backend, _, share = text.rpartition("=")
        try:
            value = float(share.removesuffix("%")) / (100 if share.endswith("%") else 1)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf") or backend not in ("", *BACKENDS):
            raise ValueError(
                f"found {text!r}, wanted a share such as 0.1 or 10%, or simulate=1% or emulate=10%"
                " for one back end alone"
            )
        found |= dict.fromkeys([backend] if backend else BACKENDS, value)
    return found


def compare(base: Outcome, new: Outcome, tolerance: Mapping[str, float]) -> Comparison:
    """Compare what both sides hold valid rows of, in the same setting.

    A setting is the fabric, where INA is, the workload, the workers, the job's conditions, the
    jobs beside it and the back end; ``tolerance`` has a share for each back end. In a setting all
    systems are compared with one: the first baseline that ran (`System.baseline`), else the first.

    Raises Unreadable if nothing was found valid in BASE, or nothing of it is in NEW.
    """
    rows = _together(base, new)
    valid = data.is_valid(rows)
    means = {
        side: rows[valid & (rows["side"] == side)]
        .groupby(_KEYS)[["jct_s", "expected_jct_s"]]
        .mean()
        .to_dict("index")
        for side in (BASE, NEW)
    }
    there = {side: set(_keys(rows[rows["side"] == side])) for side in (BASE, NEW)}
    if not means[BASE]:
        raise Unreadable(f"found no valid row in {BASE}, wanted some to compare with")
    if not there[NEW]:
        raise Unreadable(f"found no row in {NEW}, wanted some to compare")
    if not there[BASE] & there[NEW]:
        raise Unreadable(
            f"found nothing of {BASE} in {NEW}, wanted the same settings: fabric, workload,"
            " workers, back end and system; run the same experiment"
        )
    failed, needless, left_out = [], [], []
    for side in (BASE, NEW):
        bad = data.problems(rows[rows["side"] == side])
        for key, own in bad.groupby(_KEYS):
            reason = str(own["reason"].iloc[0])
            error = (own["error"].fillna("") != "").any()
            if side == NEW and error and key not in means[NEW] and key in means[BASE]:
                failed.append((*_words(key), reason))
            elif side == NEW and key not in means[NEW] and own["verdict"].map(is_needless).all():
                needless.append((*_words(key), reason))
            else:
                left_out.append((side, *_words(key), reason))
    only = [
        (side, *_words(key))
        for side, other in ((BASE, NEW), (NEW, BASE))
        for key in sorted(there[side] - there[other])
    ]
    quantities = list(_quantities(means[BASE], means[NEW], tolerance))
    if not (quantities or failed or needless):
        raise Unreadable(
            f"found no valid row in {NEW} of what {BASE} holds, wanted some to compare; see"
            " the verdicts in its report"
        )
    return Comparison(quantities, failed, needless, left_out, only)


def _together(base: Outcome, new: Outcome) -> pd.DataFrame:
    """Both sides' rows with labels that mean the same on both."""
    import pandas as pd

    tables: list[pd.DataFrame] = []
    experiments: dict[str, Mapping[str, Any]] = {}
    for side, outcome in ((BASE, base), (NEW, new)):
        tables.append(outcome.rows.assign(side=side, run=f"{side} " + outcome.rows["run"]))
        experiments |= {f"{side} {run}": each for run, each in outcome.experiments.items()}
    return label(pd.concat(tables, ignore_index=True), experiments)


def _keys(rows: pd.DataFrame) -> Iterator[Key]:
    yield from rows[_KEYS].itertuples(index=False, name=None)


def _words(key: Key) -> tuple[str, str]:
    """A setting and a system."""
    named = dict(zip(_KEYS, key, strict=True))
    setting = data.where(named) + (f", beside {named['beside']}" if named["beside"] else "")
    return setting, named["system"] + (f" ({named['variant']})" if named["variant"] else "")


def _baseline(system: str) -> float:
    """Where a system stands among the baselines; after all of them if it is none."""
    known = registry.get(system)
    return known.baseline or inf if known else inf


def _quantities(
    base: Mapping[Key, Mapping[str, float]],
    new: Mapping[Key, Mapping[str, float]],
    tolerance: Mapping[str, float],
) -> Iterator[Quantity]:
    places: dict[Key, list[Key]] = {}
    for key in base:
        if key in new:
            places.setdefault(key[: len(_PLACE)], []).append(key)
    for place, keys in places.items():
        keys.sort(key=lambda key: (_baseline(key[len(_PLACE)]), key))
        allowed = tolerance[dict(zip(_PLACE, place, strict=True))["backend"]]
        first = keys[0]
        for key in keys:
            setting, name = _words(key)
            before, now = (side[key]["jct_s"] / side[key]["expected_jct_s"] for side in (base, new))
            yield Quantity(setting, f"{name} / closed form", before, now, allowed)
            if key != first:
                before, now = (side[key]["jct_s"] / side[first]["jct_s"] for side in (base, new))
                yield Quantity(setting, f"{name} / {_words(first)[1]}", before, now, allowed)


def lines(comparison: Comparison, everything: bool = False) -> Iterator[str]:
    """The comparison as text: what moved, or all that was compared, and what was not."""
    shown = comparison.quantities if everything else comparison.moved
    width = max((len(each.name) for each in shown), default=0)
    setting = None
    for each in shown:
        if each.setting != setting:
            setting = each.setting
            yield setting
        mark = f"  moved, more than {each.tolerance:.3g}" if each.moved else ""
        figures = f"{each.base:8.4f} -> {each.new:8.4f}  {each.change:+8.1%}"
        yield f"  {each.name:{width}}  {figures}{mark}"
    for place, system, reason in comparison.failed:
        yield f"failed in {NEW}: {place}: {system}: {reason}"
    for place, system, reason in comparison.needless:
        yield f"sent again without loss in {NEW}: {place}: {system}: {reason}"
    for (side, place), own in _by_setting(comparison.left_out):
        systems = ", ".join(system for system, _ in own)
        yield f"left out of {side}, not valid: {place}: {systems}: {own[0][1]}"
    for (side, place), own in _by_setting(comparison.only):
        yield f"only in {side}: {place}: {', '.join(system for (system,) in own)}"
    yield comparison.verdict


def _by_setting(
    records: Iterable[tuple[str, ...]],
) -> Iterator[tuple[tuple[str, str], list[tuple[str, ...]]]]:
    found: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for side, place, *rest in records:
        found.setdefault((side, place), []).append(tuple(rest))
    yield from found.items()

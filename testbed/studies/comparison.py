"""Changes between results: in the ratios between systems, in each system's distance from the closed
form, and in virtual time also in seconds.

An emulator's seconds of two machines, or of two days, are not comparable. But the ratio of two
systems' times in the same setting is comparable, and so is the ratio of a time to the closed
form's. All are compared with a tolerance. Rows that are not valid are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from testbed.experiment.findings import counted
from testbed.machine.verdict import is_needless
from testbed.report import data
from testbed.report.settings import PLACE, SERIES, SETTING, label
from testbed.run_tables import Unreadable
from testbed.studies import divergence
from testbed.studies.baseline import Outcome
from testbed.studies.divergence import Record
from testbed.systems import registry

if TYPE_CHECKING:
    import pandas as pd

BASE, NEW = "BASE", "NEW"
VIRTUAL = ("simulate", "packet")
BACKENDS = (*VIRTUAL, "emulate")
TOLERANCE = ("simulate=1%", "packet=0.001%", "emulate=10%")
"""In virtual time runs are exact; CSV files round their last digits."""

MOST_RERUN = 8
"""The most cells that a comparison runs again."""

_PLACE = [*SETTING, *PLACE, "beside", "others"]
_KEYS = [*_PLACE, *SERIES]
_TOLD = {*SETTING, "ina", "beside", "others", *SERIES}
"""Those that a message names if they differ; the others say the same in numbers."""
Key = tuple[Any, ...]
"""The labels in _KEYS."""


@dataclass(frozen=True)
class Quantity:
    """A ratio in a setting. It has moved if it changed by a factor above 1 + ``tolerance``."""

    setting: str
    name: str
    base: float
    new: float
    tolerance: float

    @property
    def change(self) -> float:
        """The relative change: 0.1 if it grew by a tenth."""
        return self.new / self.base - 1

    @property
    def moved(self) -> bool:
        # A third more and a quarter less count as the same factor. What is not a number has moved.
        most = 1 + self.tolerance
        return not 1 / most <= self.new / self.base <= most


@dataclass(frozen=True)
class Comparison:
    """The ratios compared, and the rows that could not be compared.

    Attributes:
        failed: (setting, system, reason) of systems that were valid in BASE and failed in NEW. They
            count as moved.
        needless: (setting, system, reason) of systems that retransmitted without loss in every
            repeat of NEW, whatever BASE has. They count as moved.
        left_out: (side, setting, system, reason) of rows that are not valid.
        only: (side, setting, system) of systems without a row on the other side. Those of BASE
            count as moved, unless NEW may be ``partial``.
        parted: (setting, system, difference) of runs in virtual time that are not the same event by
            event, for the first repeat that differs. They count as moved only if their figures did.
        unpaired: how many valid rows in virtual time do not count, because the other side does not
            have their seed or repeat.
    """

    quantities: Sequence[Quantity]
    failed: Sequence[tuple[str, str, str]]
    needless: Sequence[tuple[str, str, str]]
    left_out: Sequence[tuple[str, str, str, str]]
    only: Sequence[tuple[str, str, str]]
    parted: Sequence[tuple[str, str, str]] = ()
    partial: bool = False
    unpaired: int = 0

    @property
    def moved(self) -> list[Quantity]:
        return [each for each in self.quantities if each.moved]

    @property
    def gone(self) -> int:
        """How many rows of BASE have none in NEW, although that may not be partial."""
        return 0 if self.partial else sum(side == BASE for side, *_ in self.only)

    @property
    def passed(self) -> bool:
        return not (self.moved or self.failed or self.needless or self.gone)

    @property
    def verdict(self) -> str:
        said = f"{len(self.moved)} of {counted(len(self.quantities), 'figure')} moved"
        if self.failed:
            said += f"; {counted(len(self.failed), 'system')} failed that did not before"
        if self.needless:
            said += f"; {counted(len(self.needless), 'system')} retransmitted without loss"
        if self.gone:
            said += f"; {counted(self.gone, 'system')} of {BASE} not in {NEW} (see --partial)"
        return said


def tolerances(texts: Iterable[str]) -> dict[str, float]:
    """Parse ``simulate=1%`` or, for all back ends, ``0.2``; later texts override earlier ones.

    Returns, for each back end, the share by which quantities may change. Raises ValueError for
    other texts.
    """
    found: dict[str, float] = {}
    for text in (*TOLERANCE, *texts):
        backend, _, share = text.rpartition("=")
        try:
            value = float(share.removesuffix("%")) / (100 if share.endswith("%") else 1)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1 or backend not in ("", *BACKENDS):
            raise ValueError(
                f"found {text!r}, wanted a share up to 1 such as 0.1 or 10%, or emulate=10% for"
                f" one back end alone ({', '.join(BACKENDS)})"
            )
        found |= dict.fromkeys([backend] if backend else BACKENDS, value)
    return found


def compare(
    base: Outcome, new: Outcome, tolerance: Mapping[str, float], partial: bool = False
) -> Comparison:
    """Compare systems with valid rows on both sides, in the same setting. NEW may lack rows of BASE
    if it is ``partial``.

    A setting is the fabric, the place of INA, the workload, the workers, the job's conditions, the
    jobs beside it and the back end; ``tolerance`` has a share for each back end. In a setting, all
    systems are compared with one: the first baseline that ran (`System.baseline`) or, without a
    baseline, the first system.

    Raises Unreadable if BASE has no valid row, or NEW has nothing in common with it.
    """
    rows = _together(base, new)
    valid, unpaired = _paired(rows[data.is_valid(rows)])
    means = {
        side: valid[valid["side"] == side]
        .groupby(_KEYS)[["jct_s", "expected_jct_s"]]
        .mean()
        .to_dict("index")
        for side in (BASE, NEW)
    }
    there = {side: set(_keys(rows[rows["side"] == side])) for side in (BASE, NEW)}
    if not means[BASE]:
        raise Unreadable(f"found no valid row in {BASE}, wanted at least one to compare with")
    if not there[NEW]:
        raise Unreadable(f"found no row in {NEW}, wanted at least one to compare")
    if not there[BASE] & there[NEW]:
        raise Unreadable(
            f"found nothing of {BASE} in {NEW}{_apart(there)}, wanted the same fabric, workload,"
            " workers, back end and system; run the same experiment"
        )
    failed, needless, left_out = [], [], []
    for side in (BASE, NEW):
        bad = data.problems(rows[rows["side"] == side])
        for key, own in bad.groupby(_KEYS):
            errors = own[own["error"].fillna("") != ""]
            reason = str((own if errors.empty else errors)["reason"].iloc[0])
            if side == NEW and len(errors) and key not in means[NEW] and key in means[BASE]:
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
            f"found no valid row in {NEW} that is also in {BASE}, wanted at least one to compare;"
            " see the verdicts in its report"
        )
    parted = list(_parted(rows, {BASE: base.records, NEW: new.records}, new.experiments))
    return Comparison(quantities, failed, needless, left_out, only, parted, partial, unpaired)


def _parted(
    rows: pd.DataFrame,
    records: Mapping[str, Mapping[divergence.Key, Record]],
    experiments: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, str, str]]:
    """The runs that diverge, as in `Comparison.parted`. ``experiments`` are those of NEW: the first
    cells that diverge are run again, to see their packets."""
    found: dict[tuple[Key, str, int, int], Record] = {}
    told: set[Key] = set()
    packets = rows[rows["backend"] == "packet"]
    for side in (BASE, NEW):
        own = packets[packets["side"] == side].sort_values("repeat")
        for key, row in zip(_keys(own), own.itertuples(), strict=True):
            run = row.run.removeprefix(f"{side} ")
            record = records[side].get((run, row.cell, row.repeat, row.job))
            if record is None:
                continue
            before = found.setdefault((key, row.seed, row.repeat, row.job), record)
            if side == NEW and key not in told and (said := divergence.first(before, record)):
                told.add(key)
                among = divergence.packets(before, record)
                if among and record.digests and len(told) <= MOST_RERUN:
                    from testbed.studies import rerun  # slow to import, with all back ends

                    again = (experiments[run], row.cell, row.repeat, record.digests, among)
                    said += f"; {rerun.packets(*again)}"
                yield *_words(key), f"seed {row.seed}, repeat {row.repeat + 1}: {said}"


def _together(base: Outcome, new: Outcome) -> pd.DataFrame:
    """The rows of both sides, labelled together so that their labels agree."""
    import pandas as pd

    tables: list[pd.DataFrame] = []
    experiments: dict[str, Mapping[str, Any]] = {}
    for side, outcome in ((BASE, base), (NEW, new)):
        tables.append(outcome.rows.assign(side=side, run=f"{side} " + outcome.rows["run"]))
        experiments |= {f"{side} {run}": each for run, each in outcome.experiments.items()}
    return label(pd.concat(tables, ignore_index=True), experiments)


def _paired(rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The valid ``rows`` to compare, and how many are left out because the other side lacks their
    seed or repeat. That concerns virtual time: these differ by their draws, so the same ones
    count."""
    sides = rows.groupby([*_KEYS, "seed", "repeat"])["side"].transform("nunique")
    paired = sides.groupby([rows[name] for name in _KEYS]).transform("max") > 1
    alone = rows["backend"].isin(VIRTUAL) & paired & (sides < 2)
    return rows[~alone], int(alone.sum())


def _keys(rows: pd.DataFrame) -> Iterator[Key]:
    yield from rows[_KEYS].itertuples(index=False, name=None)


def _apart(there: Mapping[str, Collection[Key]]) -> str:
    """In which labels the two sides have no value in common, as text; empty if in none."""
    found = []
    for at, named in enumerate(_KEYS):
        if named in _TOLD:
            base, new = (sorted({str(key[at]) or "none" for key in there[side]}) for side in there)
            if set(base).isdisjoint(new):
                found.append(f"{named} {', '.join(base)} and not {', '.join(new)}")
    return f" ({'; '.join(found)})" if found else ""


def _words(key: Key) -> tuple[str, str]:
    """A setting and a system as text."""
    named = dict(zip(_KEYS, key, strict=True))
    setting = data.where(named) + (f", beside {named['beside']}" if named["beside"] else "")
    setting += f", {named['others']}" if named["others"] else ""
    return setting, named["system"] + (f" ({named['variant']})" if named["variant"] else "")


def _baseline(system: str) -> float:
    """A system's place among the baselines; a place after all of them if it is not one."""
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
        backend = dict(zip(_PLACE, place, strict=True))["backend"]
        allowed = tolerance[backend]
        first = keys[0]
        for key in keys:
            setting, name = _words(key)
            before, now = (side[key]["jct_s"] / side[key]["expected_jct_s"] for side in (base, new))
            yield Quantity(setting, f"{name} / closed form", before, now, allowed)
            if backend in VIRTUAL:
                before, now = (side[key]["jct_s"] for side in (base, new))
                yield Quantity(setting, f"{name}, JCT (s)", before, now, allowed)
            if key != first:
                before, now = (side[key]["jct_s"] / side[first]["jct_s"] for side in (base, new))
                yield Quantity(setting, f"{name} / {_words(first)[1]}", before, now, allowed)


def lines(comparison: Comparison, everything: bool = False) -> Iterator[str]:
    """The comparison as text: what moved, or all ratios, and the rows that were left out."""
    shown = comparison.quantities if everything else comparison.moved
    width = max((len(each.name) for each in shown), default=0)
    setting = None
    for each in shown:
        if each.setting != setting:
            setting = each.setting
            yield setting
        mark = f"  moved, more than {each.tolerance:.3g}" if each.moved else ""
        figures = f"{each.base:#8.4g} -> {each.new:#8.4g}  {each.change:+8.1%}"
        yield f"  {each.name:{width}}  {figures}{mark}"
    for place, system, difference in comparison.parted:
        yield f"differs from {BASE}: {place}: {system}: {difference}"
    for place, system, reason in comparison.failed:
        yield f"failed in {NEW}: {place}: {system}: {reason}"
    for place, system, reason in comparison.needless:
        yield f"retransmitted without loss in {NEW}: {place}: {system}: {reason}"
    for (side, place), own in _by_setting(comparison.left_out):
        for reason in dict.fromkeys(reason for _, reason in own):
            systems = ", ".join(system for system, why in own if why == reason)
            yield f"left out of {side}, not valid: {place}: {systems}: {reason}"
    for (side, place), own in _by_setting(comparison.only):
        yield f"only in {side}: {place}: {', '.join(system for (system,) in own)}"
    if comparison.unpaired:
        rows = counted(comparison.unpaired, "valid row")
        yield f"not compared: {rows} of repeats or seeds that only {BASE} or only {NEW} has"
    yield comparison.verdict


def _by_setting(
    records: Iterable[tuple[str, ...]],
) -> Iterator[tuple[tuple[str, str], list[tuple[str, ...]]]]:
    found: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for side, place, *rest in records:
        found.setdefault((side, place), []).append(tuple(rest))
    yield from found.items()

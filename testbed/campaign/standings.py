"""The systems of each setting so far, ranked by mean JCT, for those who watch a run.

The report decides which system is fastest and which differences count; nothing is tested here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from testbed.experiment.findings import counted
from testbed.machine.verdict import VALID
from testbed.report.backends import SIMULATED, mark
from testbed.report.names import of_any, variant
from testbed.report.statistics import mean_interval
from testbed.results import RESULTS
from testbed.run_tables import MOST, Unreadable, read_text
from testbed.workload.catalogue import title

Record: TypeAlias = Mapping[str, str]
"""A row of results.csv as text."""

Setting: TypeAlias = tuple[str, ...]

_READ = (
    "cell", "repeat", "job", "system", "workload", "topology", "workers", "tors", "ina_tors",
    "backend", "settings", "jct_s", "verdict", "verified", "error",
)  # fmt: skip


def records(run: Path) -> Iterator[Record]:
    """The complete rows of a run's results.csv. Raises Unreadable if that is not such a table."""
    path = run / RESULTS
    for line, row in enumerate(read_text(path, _READ), 2):
        if row["verdict"] == VALID and not _is_time(row["jct_s"]):
            found = repr(row["jct_s"][:40])
            wanted = f"seconds above 0 and below {MOST:g}"
            raise Unreadable(f"{path}:{line}: found {found} as jct_s, wanted {wanted}")
        yield row


def _is_time(text: str) -> bool:
    try:
        return 0 < float(text) < MOST
    except ValueError:
        return False


@dataclass(frozen=True)
class Standing:
    """A system in a setting, by the JCTs of its repeats (s)."""

    name: str
    times: tuple[float, ...]

    @property
    def jct_s(self) -> float:
        """The mean of the JCTs."""
        return fmean(self.times)

    @property
    def interval(self) -> tuple[float, float]:
        """The mean's 95 % interval; nan with fewer than 3 repeats."""
        return mean_interval(self.times)

    @property
    def repeats(self) -> int:
        return len(self.times)

    def __str__(self) -> str:
        low, high = (f"{each:.3g}" for each in self.interval)
        between = "" if low == high else f" ({low} to {high})"
        return f"{self.name} {self.jct_s:.3g} s{between}"


class Standings:
    """Rows by setting, added as they come. Only valid rows are ranked.

    Attributes:
        valid, invalid, failed: the number of rows.
        problems: why rows are not valid or failed, in the order in which the rows came.
    """

    def __init__(self, titles: Mapping[str, str]) -> None:
        """``titles`` has the names of systems for readers."""
        self._titles = titles
        self._times: dict[Setting, dict[str, list[float]]] = {}
        self._jobs: set[str] = set()
        self._workloads: set[str] = set()
        self.valid = self.invalid = self.failed = 0
        self.problems: list[str] = []

    def add(self, row: Record) -> None:
        """Take note of a row."""
        name = self._name(row)
        self._jobs.add(row["job"])
        self._workloads.add(row["workload"])
        if row["error"]:
            self.failed += 1
            self.problems.append(f"{name}, {self._said(_setting(row))}: {row['error']}")
        elif row["verdict"] == VALID and (row["verified"] == "True" or row["backend"] == SIMULATED):
            self.valid += 1
            own = self._times.setdefault(_setting(row), {})
            own.setdefault(name, []).append(float(row["jct_s"]))
        else:
            self.invalid += 1
            self.problems.append(f"{name}, {self._said(_setting(row))}: {row['verdict']}")

    def of(self, row: Record) -> list[Standing]:
        """The systems in the setting of a row, the fastest first."""
        return self._ranked(_setting(row))

    def __iter__(self) -> Iterator[tuple[str, list[Standing]]]:
        """Each setting as text, with its systems."""
        for setting in self._times:
            yield self._said(setting), self._ranked(setting)

    @property
    def counts(self) -> str:
        """``5 rows valid, 1 not valid``"""
        said = [f"{counted(self.valid, 'row')} valid"]
        said += [f"{self.invalid} not valid"] if self.invalid else []
        said += [f"{self.failed} failed"] if self.failed else []
        return ", ".join(said)

    def _ranked(self, setting: Setting) -> list[Standing]:
        found = [
            Standing(name, tuple(times)) for name, times in self._times.get(setting, {}).items()
        ]
        return sorted(found, key=lambda each: each.jct_s)

    def _said(self, setting: Setting) -> str:
        job, workload, *others = setting
        named = [_told_apart(workload, self._workloads), *others]
        return ", ".join([*([f"job {job}"] if len(self._jobs) > 1 else []), *named])

    def _name(self, row: Record) -> str:
        """A system with the options that the sweep gave it."""
        given = [
            (
                path.rpartition(".")[2],
                counted(len(value), "host") if isinstance(value, list) else value,
            )
            for path, value in _swept(row).items()
            if _is_of_series(path, row) and not path.endswith(".system") and value
        ]
        options = [
            f"{key}={one}"
            for name, value in given
            for key, one in (value.items() if isinstance(value, dict) else [(name, value)])
        ]
        return variant(self._titles.get(row["system"], row["system"]), ", ".join(options))


def _swept(row: Record) -> dict[str, object]:
    try:
        found = json.loads(row["settings"] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_of_series(path: str, row: Record) -> bool:
    """Whether a swept path tells systems apart, rather than settings."""
    own = f"jobs.{row['job']}."
    return path.startswith((f"{own}system", f"{own}options", f"{own}servers"))


def _named(path: str, row: Record) -> str:
    """``loss``, or ``job 1 workload`` for a field of another job."""
    if path.startswith("jobs.") and not path.startswith(f"jobs.{row['job']}."):
        return of_any(path)
    return path.rpartition(".")[2]


def _told_apart(workload: str, among: Iterable[str]) -> str:
    """A workload's title, or as much of its path as tells it apart from others with this title."""
    same = {each for each in among if title(each) == title(workload)} - {workload}
    own = _parts(workload)
    for most in range(1, len(own) + 1) if same else ():
        if all(_parts(each)[-most:] != own[-most:] for each in same):
            return "/".join(own[-most:])
    return workload if same else title(workload)


def _parts(workload: str) -> tuple[str, ...]:
    path = Path(workload)
    return (*path.parent.parts, path.stem)


def _setting(row: Record) -> Setting:
    """Everything in which rows must agree to be compared; the job's number and workload first."""
    told = {f"jobs.{row['job']}.workload", "backend"}
    ina = _swept(row).get("fabric.ina")
    told |= {"fabric.ina"} if ina in ("none", "all") or isinstance(ina, int) else set()
    conditions = [
        f"{_named(path, row)}={value if isinstance(value, str) else json.dumps(value)}"
        for path, value in _swept(row).items()
        if path not in told and not _is_of_series(path, row)
    ]
    switches = row.get("ina_switches") or "0"
    place = f"{row['ina_tors']}/{row['tors']} ToRs"
    if switches not in ("0", row["ina_tors"]):
        place = f"{switches}/{row['switches']} switches"
    return (
        row["job"], row["workload"], f"{row['workers']} workers",
        row["topology"] + mark(row["backend"]), f"INA at {place}", *conditions,
    )  # fmt: skip

"""Each run's experiment and provenance, read from its directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import located, results, run_tables

if TYPE_CHECKING:
    import pandas as pd

_FACTS = {
    "command": "command",
    "started_at": "started",
    "finished_at": "finished",
    "git_commit": "commit",
    "git_dirty": "uncommitted changes",
    "python": "Python",
    "kernel": "kernel",
    "cpu": "processor",
    "cores": "cores",
    "memory_bytes": "memory (bytes)",
    "compiler": "C compiler",
    "bmv2": "BMv2",
    "p4c": "p4c",
}


@dataclass(frozen=True)
class Run:
    """One run's directory: its experiment as data and as text, and facts as (title, text).

    ``started`` says when its latest session began, as text that sorts by time; it is empty if that
    is unknown.
    """

    directory: str
    started: str
    experiment: Mapping[str, Any]
    text: str
    facts: tuple[tuple[str, str], ...]

    @property
    def description(self) -> str:
        return str(self.experiment.get("description") or "")

    @property
    def machine(self) -> tuple[str, ...]:
        """Its processor and number of cores, as far as they are known."""
        return tuple(text for title, text in self.facts if title in ("processor", "cores"))

    @property
    def fabric(self) -> str:
        fabric = self.experiment.get("fabric")
        if not isinstance(fabric, dict):
            return ""
        from testbed.report import drawing  # slow to import, and comparisons do not need it

        varied = not swept(self.experiment).keys().isdisjoint(("fabric", "fabric.ina"))
        return drawing.words(fabric, varied)

    @property
    def conditions(self) -> str:
        """Its impairments, faults, uneven workers and hosts' costs in a sentence; empty if all are
        the default."""
        from testbed.report import settings  # slow to import, too

        found = settings.conditions(self.experiment, swept(self.experiment))
        return f"Conditions that are not the default: {'; '.join(found)}." if found else ""


def swept(experiment: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The values of each path that an experiment's sweep varies, in the sweep's order; what is
    damaged is left out."""
    sweep = experiment.get("sweep")
    parts = (sweep.get("product"), sweep.get("zip")) if isinstance(sweep, dict) else ()
    return {path: own for part in parts if isinstance(part, dict) for path, own in part.items()}


def of(rows: pd.DataFrame) -> dict[str, Run]:
    """The runs that made ``rows``, by their directories."""
    return {str(run): read(Path(run)) for run in rows["run"].unique()}


def read(directory: Path) -> Run:
    """Read ``experiment.yaml`` and ``run.json``. What is missing or unreadable is empty."""
    path = directory / results.EXPERIMENT
    text = path.read_text(errors="replace") if path.exists() else ""
    try:
        experiment = located.parse(text).data
    except located.Invalid:
        experiment = {}
    metadata = run_tables.read_metadata(directory)
    facts = [
        (title, str(metadata[key]))
        for key, title in _FACTS.items()
        if metadata.get(key) is not None
    ]
    for title in ("versions", "seeds"):
        if isinstance(found := metadata.get(title), dict):
            named = ", ".join(f"{k} {v}" for k, v in found.items() if v is not None)
            facts.append((title, named))
    if (taken := seconds(metadata)) is not None:
        facts.append(("took", duration(taken)))
    later = _later(metadata)
    if later:
        often = f"{len(later)} times, all in {results.METADATA}; last " if len(later) > 1 else ""
        facts.append(("continued", often + _session(later[-1])))
    began = [each.get("started_at") for each in (metadata, *later)]
    return Run(
        directory=f"{directory.parent.name}/{directory.name}",
        started=max((each for each in began if isinstance(each, str)), default=""),
        experiment=experiment,
        text=text,
        facts=tuple((title, fact) for title, fact in facts if fact),
    )


def _later(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sessions that resumed a run."""
    later = metadata.get("resumed")
    return [each for each in later if isinstance(each, dict)] if isinstance(later, list) else []


def seconds(metadata: Mapping[str, Any]) -> int | None:
    """How long a run took, without the time between its sessions, in s; None if it did not finish,
    or if the end of a session is unknown."""
    later = metadata.get("resumed") or []
    finished = metadata.get("finished_at")
    total = 0
    try:
        for session in (metadata, *later):
            ended = session.get("ended_at", None if later else finished)
            if not (finished and ended):
                return None
            total += round((_instant(ended) - _instant(session["started_at"])).total_seconds())
    except (AttributeError, KeyError, TypeError, ValueError):  # not as `run` wrote it
        return None
    return total


def _instant(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float) -> str:
    """As a person writes it: ``5 min 41 s``, or ``2 h 05 min``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _session(called: Mapping[str, Any]) -> str:
    """When a run was resumed, and at which commit."""
    commit = f"commit {called.get('git_commit') or 'unknown'}"
    changed = " with uncommitted changes" if called.get("git_dirty") else ""
    found = []
    if kept := called.get("unchanged"):
        found.append(f"{kept} cells that a run of this code would repeat")
    if kept := called.get("adopted"):
        found.append(f"{kept} rows, after one of each cell's came out the same")
    how = f" (keeping {', and '.join(found)})" if found else ""
    return f"{called.get('started_at', 'unknown')} at {commit}{changed}{how}"

"""All-reduces of growing size, one after another, as nccl-tests runs them on real machines.

Here, a collective is an iteration of an ordinary job whose workload is one tensor without
computation, so that its time is only communication.
"""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from testbed import results
from testbed.backends.links import shares
from testbed.backends.recording import NOTHING
from testbed.campaign.cell import CellResult
from testbed.campaign.local import Local
from testbed.campaign.planning import Planned, plan
from testbed.deployment import experiments
from testbed.experiment.cells import distinct
from testbed.experiment.findings import counted
from testbed.experiment.schema import Experiment
from testbed.located import Invalid, write
from testbed.systems import registry
from testbed.units import format_rate, format_size
from testbed.workload.synthetic import SYNTHETIC

VALUE = 4
"""Bytes of a value (int32 on the wire, float32 in the workload)."""

CLUSTER: dict[str, Any] = {
    "schema_version": 1,
    "name": "bench",
    "fabric": {
        "kind": "leaf-spine",
        "spines": 2,
        "leaves": 2,
        "hosts_per_leaf": 5,
        "host_rate": "10Gbit",
        "ina": "all",
    },
    "jobs": [{"workers": 8}],
}
"""The experiment if none is given; its system is the one over which reports give speed-ups."""

_BACKENDS = {"flow": "simulate", "packet": "packet"}
_KEPT = ("workers", "placement", "servers", "colocated")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True)
class Measured:
    """An all-reduce of one size by one system.

    Attributes:
        size_bytes: what each worker contributes, and receives as the sum.
        time_s: mean time of an all-reduce. If the run failed, this and all other figures are None.
        algbw_gbyte_s: ``size_bytes`` over ``time_s``.
        ring_busbw_gbyte_s: the bus bandwidth of nccl-tests: algbw times 2(n-1)/n for n workers, the
            rate at which a ring's links would have to run for this time. With sums in the network,
            less is sent, so it may exceed the rate of a link.
        busiest_link: the directed link that needs the longest time for its bytes, as from>to.
        busiest_bytes: the bytes on it for one all-reduce, headers included.
        wrong: 0 where all sums were checked: a wrong one makes the run fail. None if nothing is
            summed.
        error: why the run failed, or empty.
    """

    system: str
    workers: int
    size_bytes: int
    count: int
    time_s: float | None = None
    algbw_gbyte_s: float | None = None
    ring_busbw_gbyte_s: float | None = None
    busiest_link: str = ""
    busiest_bytes: float | None = None
    wrong: int | None = None
    error: str = ""


def parse(text: str) -> int:
    """A size as nccl-tests writes it: a whole number of bytes, or of K, M or G (powers of 1024)."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "")
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or len(number) > 12:
        wanted = "a whole number of bytes, or of K, M or G (powers of 1024)"
        raise ValueError(f"found {text!r}, wanted {wanted}; write for example 64K or 1G")
    return int(number) * _UNITS[unit]


def sizes(first: int, last: int, factor: int) -> list[int]:
    """The sizes from ``first`` to ``last`` bytes, each ``factor`` times the previous one, in whole
    values."""
    if not VALUE <= first <= last:
        raise ValueError(
            f"found sizes from {first} to {last} bytes, wanted at least {VALUE} bytes, and an end"
            " that is not below the beginning"
        )
    found = []
    while first <= last:
        found.append(first // VALUE * VALUE)
        first *= factor
    return found


def experiment(
    base: Experiment | None,
    systems: Sequence[str],
    wanted: Sequence[int],
    backend: str | None = None,
    *,
    workers: int | None = None,
    iterations: int = 1,
    warmup: int = 1,
) -> Experiment:
    """Each of ``systems`` with each of the ``wanted`` sizes, at full scale.

    The fabric, the first job's hosts and options, and the losses are those of ``base``. So is the
    back end, if it has packets and no other is asked for. If ``base`` has a sweep, first values
    count. Raises ValueError, which says what is impossible.
    """
    if base is not None:
        base = distinct(base)[0].experiment
    data = CLUSTER if base is None else base.data()
    job = data["jobs"][0]
    usual = next(name for name, system in registry.items() if system.reference)
    own = job.get("system", usual)
    systems = systems or [own]
    for name in systems:
        if name in registry and not registry[name].waits:
            raise ValueError(
                f"found {name}, wanted a system that all-reduces: its workers do not wait for one"
                " another's gradients"
            )
    job = {
        **{key: job[key] for key in _KEPT if key in job},
        **({} if workers is None else {"workers": workers}),
        "system": systems[0],
        "options": job.get("options", {}) if own in systems else {},
        "workload": f"{SYNTHETIC}{wanted[0]}B",
        "iterations": iterations,
        "warmup": warmup,
    }
    swept: dict[str, Any] = {
        "zip": {"jobs.0.system": list(systems)},
        "product": {"jobs.0.workload": [f"{SYNTHETIC}{size}B" for size in wanted]},
    }
    if job["options"]:
        swept["zip"]["jobs.0.options"] = [job["options"] if name == own else {} for name in systems]
    asked = {
        "schema_version": 1,
        "name": "bench",
        "fabric": data["fabric"],
        "backend": _BACKENDS.get(backend or data.get("backend", ""), "simulate"),
        "jobs": [job],
        "emulation": {**data.get("emulation", {}), "scale": 1, "repeats": 1},
        "sweep": swept,
    }
    try:
        return experiments.reads(write(asked))
    except Invalid as invalid:  # its places are in no file of the user's
        said = dict.fromkeys(f"{each.path}: {each.message}" for each in invalid.problems)
        raise ValueError("\n".join(said)) from None


def planned(asked: Experiment) -> list[Planned]:
    """The cells of an `experiment`, system by system. Raises DeploymentError if one cannot be set
    up."""
    assert asked.sweep is not None
    order = asked.sweep.zip["jobs.0.system"]
    return plan(
        sorted(distinct(asked), key=lambda cell: order.index(cell.settings["jobs.0.system"]))
    )


def run(cells: Sequence[Planned]) -> Iterator[Measured]:
    """Each cell's measurement, in order, as soon as it is available."""
    where = Local()
    where.prepare(cells, NOTHING)
    ended: dict[str, object] = {}
    waiting = deque(cells)
    with TemporaryDirectory() as logs:
        for cell, outcome in where.outcomes(cells, Path(logs), NOTHING, lambda _: None):
            ended[cell.cell.id] = outcome
            while waiting and waiting[0].cell.id in ended:
                first = waiting.popleft()
                yield _measured(first, ended.pop(first.cell.id))


def _measured(cell: Planned, outcome: object) -> Measured:
    (job,) = cell.deployment.jobs
    size, workers = job.trace.bytes, job.plan.workers
    about = (job.system.name, workers, size, size // VALUE)
    if not isinstance(outcome, CellResult):
        return Measured(*about, error=str(outcome))
    (row,) = outcome.jobs
    assert row.iteration_s is not None
    busiest = max(
        outcome.links, key=lambda link: round(link.bytes) / link.rate_gbit_s, default=None
    )
    return Measured(
        *about,
        time_s=row.iteration_s,
        algbw_gbyte_s=results.algbw(size, row.iteration_s) / 8e9,
        ring_busbw_gbyte_s=results.busbw(size, row.iteration_s, workers) / 8e9,
        busiest_link=f"{busiest.source}>{busiest.target}" if busiest else "",
        busiest_bytes=busiest.bytes / (job.job.iterations + job.job.warmup) if busiest else None,
        wrong=0 if row.verified else None,
    )


_HEADS = (
    ("size", "count", "type", "redop", "time", "algbw", "busbw", "busiest", "bytes", "#wrong"),
    ("(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "link", "on it", ""),
)
_WIDTHS = (12, 12, 6, 6, 11, 8, 8, 12, 14, 7)


def head(cells: Sequence[Planned]) -> list[str]:
    """What is measured, as comments above the table."""
    deployment = cells[0].deployment
    (job,) = deployment.jobs
    backend = deployment.experiment.backend
    rates = sorted({link.rate for link in deployment.fabric.links})
    links = f"links of {' and '.join(format_rate(rate) for rate in rates)}/s"
    emulation = deployment.experiment.emulation
    for what, asked in (("loss", emulation.loss), ("duplication", emulation.duplication)):
        if found := shares(asked, deployment.fabric):
            links += f", {what} of up to {max(found.values()):.3g} on {counted(len(found), 'link')}"
    if emulation.faults:
        links += f", {counted(len(emulation.faults), 'fault')} in each run"
    lines = [
        f"{job.plan.workers} workers on {deployment.fabric.name}, {links}; back end:"
        f" {next(name for name, each in _BACKENDS.items() if each == backend)}",
        f"time: mean of {job.job.iterations} after {job.job.warmup} to warm up",
        "busbw: ring-equivalent, algbw x 2(n-1)/n; sums in the network may exceed the line rate",
        "bytes: of one all-reduce on the busiest direction of a link, headers included",
    ]
    return [f"# {line}" for line in lines]


def heads() -> list[str]:
    """The two lines above a system's rows."""
    return ["#" + _line(each)[1:].rstrip() for each in _HEADS]


def line(row: Measured) -> str:
    """A row in the columns of nccl-tests."""
    if row.time_s is None or row.algbw_gbyte_s is None or row.ring_busbw_gbyte_s is None:
        return f"# {row.system}, {format_size(row.size_bytes)}: FAILED: {row.error}"
    return _line(
        (
            str(row.size_bytes),
            str(row.count),
            "float",
            "sum",
            f"{row.time_s * 1e6:.2f}",
            f"{row.algbw_gbyte_s:.3f}",
            f"{row.ring_busbw_gbyte_s:.3f}",
            row.busiest_link,
            "" if row.busiest_bytes is None else f"{row.busiest_bytes:.0f}",
            "N/A" if row.wrong is None else str(row.wrong),
        )
    )


def _line(cells: Sequence[str]) -> str:
    return " ".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))


def save(rows: Sequence[Measured], path: Path) -> None:
    """Write the rows as a table (.csv) or a list of objects (.json)."""
    with path.open("w", newline="") as file:
        if path.suffix == ".json":
            file.write(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
            return
        names = [field.name for field in fields(Measured)]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)

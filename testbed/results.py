"""The results of runs: a directory for each run of an experiment.

``results/<experiment>/<YYYYmmdd-HHMMSS>/`` holds

- ``results.csv``: a `Row` for each cell, repeat and job;
- ``iterations.csv``: an `Iteration` for each rank and measured iteration;
- ``training.csv``: a `Progress` for each evaluation of a job that learns;
- ``links.csv``: a `LinkLoad` for each cell, repeat and direction of a link, where the back end
  measures it;
- ``cells.csv``: a `CellEvent` for each cell that is planned, begins or ends;
- ``digests.csv``: a `PacketDigests` for each cell and repeat of packets in virtual time;
- ``run.json``: what it ran on; ``experiment.yaml``: what was run, with all defaults filled in;
- ``logs/``.

All rates and times are those of the real cluster: dilation and scale are undone. `run_tables` reads
them again.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from testbed.replaced import replacing

SCHEMA_VERSION = 1
RESULTS, ITERATIONS, LINKS = "results.csv", "iterations.csv", "links.csv"
DIGESTS = "digests.csv"
TRAINING = "training.csv"
CELLS = "cells.csv"
METADATA = "run.json"
EXPERIMENT, LOGS = "experiment.yaml", "logs"
TIMELINE = "timeline.json"
"""In a cell's logs: when its ranks, links and switches were busy, for Perfetto."""


@dataclass(frozen=True)
class Row:
    """The results of one job in one repeat of one cell; figures are None if the cell failed.

    Attributes:
        job: index of the job in the experiment.
        topology: the fabric's name.
        tors, ina_tors: how many ToRs there are, and how many of them aggregate.
        switches, ina_switches: the same for all switches, ToRs included; 0 if not known.
        backend: what ran the plan, ``emulate`` for Mininet.
        iterations: measured ones, warm-up excluded.
        jct_s: from the job's start to its last worker's end, warm-up excluded.
        iteration_s: mean time of an iteration.
        throughput_samples_s: samples of all workers per second.
        algbw_gbit_s: see `algbw`, over the time in which the job communicated.
        exposed_comm_s: mean time per iteration in which communication was not hidden by
            computation.
        retransmitted, collisions: packets, in all iterations, warm-up included.
        overflows: fragments whose sum left the range of int32.
        switch_packets, switch_sums, switch_duplicates, switch_collisions, switch_refused:
            gradient packets that P4 switches received, sums that they sent, packets that were
            duplicates, packets whose slot another fragment held, packets that they dropped.
        verified: whether every sum that any worker received was right, bit for bit; None where
            nothing is summed, as in the simulator.
        verdict: "valid", or the reason why the machine could not sustain the run.
        expected_jct_s: the closed form's JCT.
        routed_jct_s: the closed form's JCT if the busiest link carries the bytes measured on it.
            ``expected_jct_s`` assumes that traffic is spread evenly over the next hops. This figure
            is larger if ECMP's hash put several streams on one link, or if much was retransmitted.
            None for jobs that ran side by side.
        error: empty, or why the cell failed.
        started_at: UTC; empty for runs in virtual time, whose rows are always the same.
        settings: what the sweep set in this cell, path to value, as a JSON object; together with
            ``experiment.yaml`` it determines what was run.
        quantisation: how real gradients became integers; empty for others.
        quantisation_error: relative L2 distance of the sums that the workers received from the
            exact sums of the real gradients.
        notes: windows that a switch's memory limited; in virtual time also what happened in the
            network: queues that overflowed, TCP timeouts.
        plan: digest of what the job sends, and when; rows with the same digest differ only by
            noise.
        version: digest of the code and of the files that the cell names, such as its workloads.
        deployed: digest of the same files, of what the code made of them (plans, timings, switches'
            tables), and of the code that ran this.
    """

    experiment: str
    cell: str
    repeat: int
    job: int
    system: str
    workload: str
    topology: str
    workers: int
    servers: int
    ina_tors: int
    tors: int
    backend: str
    switch_target: str
    dilation: float
    scale: float
    iterations: int
    jct_s: float | None = None
    iteration_s: float | None = None
    throughput_samples_s: float | None = None
    algbw_gbit_s: float | None = None
    exposed_comm_s: float | None = None
    retransmitted: int | None = None
    collisions: int | None = None
    overflows: int | None = None
    switch_packets: int | None = None
    switch_sums: int | None = None
    switch_duplicates: int | None = None
    switch_collisions: int | None = None
    switch_refused: int | None = None
    verified: bool | None = None
    verdict: str = ""
    expected_jct_s: float | None = None
    error: str = ""
    started_at: str = ""
    switches: int = 0
    ina_switches: int = 0
    settings: str = "{}"
    routed_jct_s: float | None = None
    version: str = ""
    quantisation: str = ""
    quantisation_error: float | None = None
    notes: str = ""
    plan: str = ""
    deployed: str = ""


@dataclass(frozen=True)
class Iteration:
    """One measured iteration of one rank: seconds of the real cluster from the job's start.

    Attributes:
        start_s, compute_end_s: the start of the forward pass and the end of the backward pass.
        end_s: when the last sum arrived, which may be during the next iteration.
        stalled_s: how long the forward pass waited for sums of the iteration before.
        stalls: when it waited: [from, to] of each wait, as a JSON list; empty if not recorded.
    """

    cell: str
    repeat: int
    job: int
    system: str
    workload: str
    rank: int
    iteration: int
    start_s: float
    compute_end_s: float
    end_s: float
    stalled_s: float = 0.0
    stalls: str = "[]"


@dataclass(frozen=True)
class LinkLoad:
    """The load of all jobs in a cell's repeat, warm-up included, on one direction of a link.

    Links that carried nothing have rows, too, so that means cover a whole tier.

    Attributes:
        source, target: the nodes at its ends.
        source_kind, target_kind: their tiers: host, tor, aggregation, core or spine.
        rate_gbit_s: the rate of the link.
        bytes: the bytes that it carried, headers included.
        busy: the time that these bytes take at full rate, as a share of the time from the first
            start to the last end of an iteration.
    """

    cell: str
    repeat: int
    source: str
    target: str
    source_kind: str
    target_kind: str
    rate_gbit_s: float
    bytes: float
    busy: float


@dataclass(frozen=True)
class PacketDigests:
    """Digests of all packets on the links in one repeat of a cell; see `testbed.backends.digests`.

    Attributes:
        packets: how many packets were put on links.
        every: after each ``every`` packets there is a digest of all packets so far.
        digests: the digests as text (`Digests.text`).
    """

    cell: str
    repeat: int
    packets: int
    every: int
    digests: str


@dataclass(frozen=True)
class Progress:
    """An evaluation of the parameters of a job that learns.

    Attributes:
        iteration: iterations before it, warm-up included. Workers that do not wait for one another
            may be in different iterations: then it is their mean, possibly a fraction.
        time_s: seconds of the real cluster since the job began.
        metric: the name of ``value``; higher_is_better says which way it improves.
        target_value: the value that the experiment wants to reach; None if it gives none.
        loss: mean training loss since the evaluation before; None for the first.
        staleness: mean number of updates by other workers that a gradient's parameters lacked.
        quantisation_error: mean relative L2 distance of sums from those of float gradients.
        weights: digest of the parameters; if two digests are equal, so is every bit of the
            parameters.
    """

    cell: str
    repeat: int
    job: int
    system: str
    workload: str
    iteration: float
    time_s: float
    metric: str
    higher_is_better: bool
    value: float
    target_value: float | None = None
    loss: float | None = None
    staleness: float = 0.0
    quantisation_error: float = 0.0
    weights: str = ""


@dataclass(frozen=True)
class CellEvent:
    """An event in a cell's run. It is for ``ina-testbed watch`` only, and is not a result.

    Attributes:
        at: seconds since the epoch.
        event: ``planned``, ``started`` or ``finished``; ``session`` belongs to no cell, and begins
            a run or its resumption.
        expected_s: how long it should take here.
        title: the cell's name for readers.
    """

    at: float
    event: str
    cell: str = ""
    repeat: int = 0
    expected_s: float = 0.0
    title: str = ""


COLUMNS = tuple(field.name for field in fields(Row))
ITERATION_COLUMNS = tuple(field.name for field in fields(Iteration))
LINK_COLUMNS = tuple(field.name for field in fields(LinkLoad))
DIGEST_COLUMNS = tuple(field.name for field in fields(PacketDigests))
EVENT_COLUMNS = tuple(field.name for field in fields(CellEvent))
PROGRESS_COLUMNS = tuple(field.name for field in fields(Progress))


class RunDirectory:
    """The directory of one run. One process writes it, and others may read it meanwhile."""

    def __init__(self, path: str | Path) -> None:
        """Open an existing directory. Raises FileNotFoundError if it holds no run."""
        self.path = Path(path)
        for name in (RESULTS, ITERATIONS, LINKS, DIGESTS, TRAINING, CELLS):
            if name in (RESULTS, ITERATIONS) or (self.path / name).exists():
                _drop_torn_line(self.path / name)

    @classmethod
    def create(cls, root: str | Path, experiment: str, now: datetime | None = None) -> RunDirectory:
        """Make ``root/experiment/<UTC time>``, with a number appended if that exists."""
        stamp = (now or datetime.now(timezone.utc)).strftime("%Y%m%d-%H%M%S")
        parent = Path(root) / experiment
        parent.mkdir(parents=True, exist_ok=True)
        path, number = parent / stamp, 1
        while True:
            try:
                path.mkdir()  # succeeds for only one of several concurrent runs
                break
            except FileExistsError:
                number += 1
                path = parent / f"{stamp}-{number}"
        (path / LOGS).mkdir()
        _replace(path / RESULTS, _lines([COLUMNS]))
        _replace(path / ITERATIONS, _lines([ITERATION_COLUMNS]))
        _replace(path / LINKS, _lines([LINK_COLUMNS]))
        _replace(path / DIGESTS, _lines([DIGEST_COLUMNS]))
        return cls(path)

    @property
    def logs(self) -> Path:
        return self.path / LOGS

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows to ``results.csv``; they are on the disk when this returns."""
        _append(self.path / RESULTS, rows)

    def append_iterations(self, rows: Iterable[Iteration]) -> None:
        """Add rows to ``iterations.csv``; they are on the disk when this returns."""
        _append(self.path / ITERATIONS, rows)

    def append_links(self, rows: Iterable[LinkLoad]) -> None:
        """Add rows to ``links.csv``; they are on the disk when this returns."""
        _append(self.path / LINKS, rows)

    def append_digests(self, rows: Iterable[PacketDigests]) -> None:
        """Add rows to ``digests.csv``; they are on the disk when this returns."""
        _append(self.path / DIGESTS, rows)

    def append_progress(self, rows: Iterable[Progress]) -> None:
        """Add rows to ``training.csv``, made if there is none; they are on the disk on return."""
        rows = list(rows)
        if rows and not (self.path / TRAINING).exists():
            _replace(self.path / TRAINING, _lines([PROGRESS_COLUMNS]))
        if rows:
            _append(self.path / TRAINING, rows)

    def append_events(self, rows: Iterable[CellEvent]) -> None:
        """Add rows to ``cells.csv``, made if there is none; they need not survive a crash."""
        if not (self.path / CELLS).exists():
            _replace(self.path / CELLS, _lines([EVENT_COLUMNS]))
        _append(self.path / CELLS, rows, durable=False)

    def write_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Replace ``run.json`` as a whole; its ``schema_version`` is added."""
        content = {"schema_version": SCHEMA_VERSION, **metadata}
        self.write(METADATA, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def write(self, name: str, text: str) -> None:
        """Write a file of the directory as a whole: readers see the old one or the new one."""
        _replace(self.path / name, text.encode())


def log_name(cell: str, repeat: int) -> str:
    """The directory of a cell's logs, in that of its run's logs."""
    return f"{cell}-{repeat}"


def algbw(size: float, time: float) -> float:
    """Algorithm bandwidth in bit/s: ``size`` bytes to reduce, over ``time`` seconds.

    Defined as in nccl-tests (doc/PERFORMANCE.md): it depends on how long a buffer takes, not on how
    many bytes the algorithm sends.
    """
    return 8 * size / time


def busbw(size: float, time: float, ranks: int) -> float:
    """Bus bandwidth in bit/s of an all-reduce of ``size`` bytes in ``time`` seconds.

    Defined as in nccl-tests (doc/PERFORMANCE.md): algbw times 2 (n - 1) / n, which is the share of
    the buffer that each of n ranks must send if only ranks can add. So a value above the link's
    rate shows that the network added, too.
    """
    return algbw(size, time) * 2 * (ranks - 1) / ranks


def _lines(rows: Iterable[Iterable[object]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([_cell(value) for value in r] for r in rows)
    return buffer.getvalue().encode()


def _cell(value: object) -> object:
    # A row is one line of the file, so that incomplete rows can be recognised.
    return " ".join(value.split()) if isinstance(value, str) else value


def as_text(row: Row) -> dict[str, str]:
    """A row as text by column, as in ``results.csv``."""
    values = zip(COLUMNS, map(_cell, astuple(row)), strict=True)
    return {column: "" if value is None else str(value) for column, value in values}


def _append(
    path: Path,
    rows: Iterable[Row | Iteration | LinkLoad | PacketDigests | Progress | CellEvent],
    durable: bool = True,
) -> None:
    content = _lines(astuple(row) for row in rows)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        with _named(path):
            while content:
                content = content[os.write(descriptor, content) :]
            if durable:
                os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the file's name to the OSError of a failed write, as ``open`` does."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _drop_torn_line(path: Path) -> None:
    """Cut off the incomplete row of a killed writer, so that the next row is not joined to it."""
    whole = path.read_bytes().rpartition(b"\n")
    if whole[2]:
        os.truncate(path, len(whole[0]) + len(whole[1]))


def _replace(path: Path, content: bytes) -> None:
    with replacing(path) as beside, beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())

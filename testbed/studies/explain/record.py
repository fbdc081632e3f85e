"""What a run in packets shows: counters, rates, queues, windows, slots and times."""

from __future__ import annotations

import csv
import json
import struct
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from testbed.backends.measurements import Measurements, PortCounts
from testbed.backends.packet import backend
from testbed.backends.packet.recorder import SERIES
from testbed.backends.recording import Recording
from testbed.deployment.deploy import Deployment
from testbed.protocols.events import Event
from testbed.results import TIMELINE
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric
from testbed.topology.paths import EvenPaths, Flow, Link
from testbed.workload.iteration import IterationTimes, begun_s, completion_s

SAMPLES = 150
"""The number of times that queues, windows and slots are read in the time that a run should
take."""

_FILE_HEADER, _PACKET_HEADER = 24, 16
_ADDRESSES = _PACKET_HEADER + 14 + 12
"""The offset in bytes from a packet's header in the capture to its IPv4 addresses."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Job:
    """A job's times, in seconds of the real cluster.

    Attributes:
        computed: the compute time of each rank's measured iterations.
        last: the rank that ended last.
        exposed: when that rank waited for sums without computing, from the start of the run.
        retransmitted: the number of retransmitted packets, warm-up included.
    """

    jct_s: float
    computed: Sequence[Sequence[float]]
    last: int
    exposed: Sequence[Interval]
    retransmitted: int


@dataclass(frozen=True)
class Unit:
    """When a rank synchronised a bucket or a piece of one, in seconds from the start of the run."""

    rank: int
    name: str
    begun_s: float
    ended_s: float


@dataclass(frozen=True)
class Record:
    """What operators of a cluster could see of a run. It does not name any fault.

    Attributes:
        jobs: the times of each job, by its number.
        carried: the bytes on each directed link, scaled.
        ports: the counters of each directed link.
        busy: the periods in which each directed link sent, and how much of each it was busy.
        rates: the rate of each directed link while it sent, in bit/s.
        events: what each switch with the P4 program counted.
        waited: see `testbed.backends.measurements.Measurements`.
        slots: the most slots that were taken in each switch.
        in_flight: the most fragments that a host had in flight in a tree.
        units: the units of the first job.
        shared: the bytes of each flow, by its ends, on the directed link that was watched.
    """

    jobs: Mapping[int, Job]
    carried: Mapping[Link, float]
    ports: Mapping[Link, PortCounts]
    busy: Mapping[Link, Sequence[tuple[float, float, float]]]
    rates: Mapping[Link, float]
    events: Mapping[str, Counter[Event]]
    waited: Mapping[str, int]
    slots: Mapping[str, int]
    in_flight: Mapping[str, int]
    units: Sequence[Unit]
    shared: Mapping[Flow, int]


def observe(
    deployment: Deployment, jobs: Sequence[int] = (0,), watched: Link | None = None
) -> Record:
    """Run a deployment in packets, and keep what can be seen of it, of these ``jobs``, and of the
    packets on the directed link that is ``watched``.

    Raises what the back end raises.
    """
    scale = float(deployment.experiment.emulation.scale)
    length = max(job.expected_end_s for job in deployment.jobs)
    name = "-".join(watched or ())
    recording = Recording((name,) * bool(name), max(1e-7, length / SAMPLES), timeline=True)
    with TemporaryDirectory() as folder:
        measured = backend.run(deployment, Path(folder), recording)
        highest = _highest(Path(folder) / SERIES)
        timeline = json.loads((Path(folder) / TIMELINE).read_text())["traceEvents"]
        shared = (
            _flows(Path(folder) / f"{name}.pcap", deployment.fabric, watched) if watched else {}
        )
    busy, rates = _busy(timeline, scale)
    return Record(
        jobs={number: times(deployment, measured, number) for number in jobs},
        carried=measured.carried,
        ports=measured.ports,
        busy=busy,
        rates=rates,
        events=measured.events,
        waited=measured.waited,
        slots={
            place: round(most) for (what, place), most in highest.items() if what == "slots_taken"
        },
        in_flight={
            place: round(most) for (what, place), most in highest.items() if what == "ina_in_flight"
        },
        units=_units(timeline, scale),
        shared=shared,
    )


def times(deployment: Deployment, measured: Measurements, number: int) -> Job:
    """The times of job ``number`` of a run, or of the only one."""
    place = number if len(deployment.jobs) > 1 else 0
    job, found = deployment.jobs[place], measured.jobs[place]
    scale = float(deployment.experiment.emulation.scale)
    warmup = job.job.warmup
    last = max(range(job.plan.workers), key=lambda rank: found.iterations[rank][-1].end)
    jct = completion_s(found.iterations, warmup, together=job.plan.consistency is None)
    return Job(
        jct_s=jct / scale,
        computed=[
            [(each.compute_end - each.start - each.stalled) / scale for each in own[warmup:]]
            for own in found.iterations
        ],
        last=last,
        exposed=[
            (start / scale, end / scale) for start, end in _exposed(found.iterations[last], warmup)
        ],
        retransmitted=found.retransmitted or 0,
    )


def _exposed(own: Sequence[IterationTimes], warmup: int) -> list[Interval]:
    """When a worker waited without computing, in its measured iterations."""
    found, before = [], begun_s(own, warmup)
    for each in own[warmup:]:
        found += [(stall.start_s, stall.end_s) for stall in each.stalls]
        found.append((max(before, each.compute_end), each.end))
        before = each.end
    return [(start, end) for start, end in found if end > start]


def _highest(path: Path) -> dict[tuple[str, str], float]:
    """The largest value of each quantity at each place."""
    found: dict[tuple[str, str], float] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            key = row["quantity"], row["place"]
            found[key] = max(found.get(key, 0.0), float(row["value"]))
    return found


def _busy(
    timeline: Sequence[dict[str, Any]], scale: float
) -> tuple[dict[Link, list[tuple[float, float, float]]], dict[Link, float]]:
    """The spells of each link, and its rate in them."""
    names = {
        (each["pid"], each["tid"]): each["args"]["name"]
        for each in timeline
        if each["name"] == "thread_name"
    }
    spells: defaultdict[Link, list[tuple[float, float, float]]] = defaultdict(list)
    sent: Counter[Link] = Counter()
    took: defaultdict[Link, float] = defaultdict(float)
    for each in timeline:
        if each["ph"] != "X" or not each["name"].startswith("sends"):
            continue
        source, _, target = names[each["pid"], each["tid"]].partition(">")
        link = source, target
        start, length = each["ts"] / 1e6 / scale, each["dur"] / 1e6 / scale
        share = each["args"].get("busy", 1.0)
        spells[link].append((start, start + length, share))
        sent[link] += each["args"]["bytes"]
        took[link] += length * share * scale
    return dict(spells), {link: 8 * sent[link] / took[link] for link in sent if took[link]}


def _flows(path: Path, fabric: Fabric, link: Link) -> Counter[Flow]:
    """The bytes of each flow in a capture of a link, in one direction of it."""
    addressing, paths = Addressing(fabric), EvenPaths(fabric)
    node = {addressing.ip_number(name): name for name in fabric.nodes}
    found: Counter[tuple[int, int]] = Counter()
    content = path.read_bytes()
    at = _FILE_HEADER
    while at < len(content):
        _, _, kept, length = struct.unpack_from("<4I", content, at)
        found[struct.unpack_from("!2I", content, at + _ADDRESSES)] += length
        at += _PACKET_HEADER + kept
    flows = {(node[source], node[to]): size for (source, to), size in found.items()}
    # A flow between two nodes takes a link in one direction only.
    return Counter({flow: size for flow, size in flows.items() if paths.shares(*flow).get(link)})


def _units(timeline: Sequence[dict[str, Any]], scale: float) -> list[Unit]:
    begun: dict[int, float] = {}
    found = []
    first = min((each["pid"] for each in timeline), default=1)
    for each in timeline:
        if each["pid"] != first or each["ph"] not in "be":
            continue
        if each["ph"] == "b":
            begun[each["id"]] = each["ts"] / 1e6 / scale
        else:
            rank = int(each["cat"].partition(" ")[2])
            found.append(Unit(rank, each["name"], begun[each["id"]], each["ts"] / 1e6 / scale))
    return found

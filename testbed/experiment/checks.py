"""Checks across the fields of an experiment, such as names that must exist, and enough hosts."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pydantic import ValidationError

from testbed.experiment import fabric_checks, options
from testbed.experiment.fabrics import KINDS, Fabric
from testbed.experiment.fields import Model
from testbed.experiment.findings import Finding, counted, listed, no_such
from testbed.experiment.options import Takes
from testbed.experiment.schema import Emulation, Job
from testbed.located import Place
from testbed.workload.catalogue import FAMILIES, path_of, trained

MOST_EMULATED = 64
"""The most workers, and the most servers, of an emulated job: each is a process in a network
namespace of its own."""

MOST_ITERATIONS = 1_000_000
"""The most iterations of all workers of a job together: they are recorded one by one."""


class Declared(Takes, Protocol):
    """What a system declares that checks need to know."""

    @property
    def aggregates(self) -> bool:
        """Whether switches sum for it by default."""


@dataclass(frozen=True)
class Known:
    """Names of systems and workloads, from higher layers; None accepts every name.

    ``systems`` may map each name to the options and servers that the system takes.
    """

    systems: Collection[str] | Mapping[str, Declared] | None = None
    workloads: Collection[str] | None = None

    @property
    def context(self) -> dict[str, Any]:
        """The known names, for the validators of the schema's fields."""
        return {"systems": self.systems, "workloads": self.workloads}

    def servers(self, system: str) -> tuple[int, int] | None:
        """The fewest and the most parameter servers of a system; None if that is not known."""
        if isinstance(self.systems, Mapping):
            # An unknown system is reported already; its servers need no message.
            return self.systems[system].servers if system in self.systems else (0, 0)
        return None

    def sparse(self, system: str) -> str:
        """The unit in which a system skips zeros, packets or values; packets if that is not
        known."""
        known = self.systems.get(system) if isinstance(self.systems, Mapping) else None
        return "packets" if known is None else known.sparse

    @property
    def sparse_systems(self) -> list[str]:
        known = self.systems if isinstance(self.systems, Mapping) else {}
        return sorted(name for name, each in known.items() if each.sparse)

    def options(self, system: str) -> type[options.Options] | None:
        """The model of a system's options; None if that is not known."""
        known = self.systems.get(system) if isinstance(self.systems, Mapping) else None
        return known.options if known is not None else None

    def may_use_slots(self, system: str) -> bool:
        """Whether switches may sum for a system, by default or with an option; true if that is not
        known."""
        known = self.systems.get(system) if isinstance(self.systems, Mapping) else None
        # Only systems that can send through switches have a window that needs slots.
        return (
            known is None
            or known.aggregates
            or known.options.least_slots is not options.Options.least_slots
        )


def check(data: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """Check fields against one another, as far as each of them is valid by itself."""
    backend = data.get("backend", "emulate")  # a wrong one is reported elsewhere
    emulated = backend == "emulate"
    raw_jobs = data.get("jobs")
    jobs: dict[int, Job] = {}
    for index, raw in enumerate(raw_jobs if isinstance(raw_jobs, list) else []):
        job, doubtful = _sound(Job, raw)
        if job is not None and not doubtful & {"system", "workers", "servers", "colocated"}:
            jobs[index] = job
            yield from _servers(index, job, known)
            yield from _options(index, job, known)
            yield from _iterations(index, job)
            yield from _compute(index, job)
            yield from _gradients(index, job)
            yield from _density(index, job, known)
            yield from _training(index, job)
            yield from _emulated(index, job) if emulated else ()
    raw_fabric = data.get("fabric")
    kind = raw_fabric.get("kind") if isinstance(raw_fabric, Mapping) else None
    model = KINDS.get(kind) if isinstance(kind, str) else None
    fabric, doubtful = _sound(model, raw_fabric) if model else (None, frozenset())
    if fabric is not None:
        # Nodes cannot be named or counted in a fabric with a wrong shape.
        sound = not doubtful & fabric.shape
        findings = [*fabric_checks.rates(fabric), *fabric_checks.packets(fabric)]
        if sound:
            misshapen = list(fabric_checks.shape(fabric, emulated or backend == "packet"))
            sound = not misshapen
            findings += misshapen
        if sound:
            findings += fabric_checks.names(fabric)
        yield from (found for found in findings if not doubtful & set(found.place[1:2]))
        if sound:
            yield from _on_fabric(jobs, fabric, known)
            yield from _windows(jobs, fabric, known)
            yield from _priorities(jobs, fabric, known)
    emulation, wrong = _sound(Emulation, data.get("emulation"))
    if emulation is not None:
        yield from _program(emulation)
        yield from _at_full_size(jobs, emulation)
        if fabric is not None and sound:
            places = (*_impaired(emulation, fabric), *_failing(emulation, fabric))
            yield from (found for found in places if found.place[1] not in wrong)
    if backend == "packet":
        yield from _compiled_to_c(emulation) if emulation is not None else ()
        few = emulation is None or emulation.carried_values == "few"
        yield from _in_whole_packets(jobs, known) if few else ()
    elif backend in ("simulate", "emulate"):
        yield from _without_packets(fabric, emulation, emulated)


def _sound(model: type[Model], raw: object) -> tuple[Any, frozenset[str]]:
    """``raw`` with valid values in place of its wrong fields, and the names of those.

    So a wrong field does not hide errors between the others. None if ``raw`` is not a mapping: then
    there is nothing to check.
    """
    try:
        return model.model_validate(raw), frozenset()
    except ValidationError as error:
        if not isinstance(raw, Mapping):
            return None, frozenset()
        wrong = frozenset(str(detail["loc"][0]) for detail in error.errors(include_url=False))
    kept = {key: value for key, value in raw.items() if key not in wrong}
    for name, field in model.model_fields.items():
        if name in wrong and field.is_required():
            (kept[name],) = field.examples or []
    return model.model_validate(kept), wrong


def _on_fabric(jobs: Mapping[int, Job], fabric: Fabric, known: Known) -> Iterator[Finding]:
    names = fabric.host_names
    exists = frozenset(names)
    for index, job in jobs.items():
        for role, hosts in (("workers", job.workers), ("servers", job.servers)):
            for position, host in enumerate(hosts if isinstance(hosts, tuple) else ()):
                if host not in exists:
                    place = ("jobs", index, role, position)
                    yield Finding(place, no_such(host, "host", names))
    yield from _shared_hosts(jobs)
    yield from _host_count(jobs, fabric, known)


def _program(emulation: Emulation) -> Iterator[Finding]:
    program = emulation.p4_program
    if program is not None and not os.path.isfile(program):
        yield Finding(
            ("emulation", "p4_program"),
            f"found {program!r}, wanted an existing file; correct the path, which is relative to"
            " the experiment file's directory",
        )


def _impaired(emulation: Emulation, fabric: Fabric) -> Iterator[Finding]:
    """Links that lose or copy packets must exist."""
    for what in ("loss", "duplication"):
        asked = getattr(emulation, what)
        for name in asked if isinstance(asked, Mapping) else ():
            if name not in ("all", "hosts"):
                yield from _link(("emulation", what, name), name, fabric, at_key=True)


def _failing(emulation: Emulation, fabric: Fabric) -> Iterator[Finding]:
    """The links, switches and hosts of faults must exist."""
    for index, fault in enumerate(emulation.faults):
        place: Place = ("emulation", "faults", index)
        if fault.link is not None:
            yield from _link((*place, "link"), fault.link, fabric)
        if fault.switch is not None and fault.switch not in fabric.switch_names:
            yield Finding((*place, "switch"), no_such(fault.switch, "switch", fabric.switch_names))
        if fault.host is not None and fault.host not in fabric.host_names:
            yield Finding((*place, "host"), no_such(fault.host, "host", fabric.host_names))
        nodes = (*fabric.switch_names, *fabric.host_names)
        if fault.to is not None and fault.to not in nodes:
            yield Finding((*place, "to"), no_such(fault.to, "node", nodes))


def _link(place: Place, name: str, fabric: Fabric, at_key: bool = False) -> Iterator[Finding]:
    """The name of a link has its two ends, in either order."""
    names = [f"{one}-{other}" for one, other in fabric.link_ends]
    if name not in names and name not in (f"{b}-{a}" for a, b in fabric.link_ends):
        ends = name.split("-")
        of_host = [
            link
            for link, (one, _) in zip(names, fabric.link_ends, strict=True)
            if one in fabric.host_names and one in ends
        ]
        yield Finding(place, no_such(name, "link", of_host or names), at_key)


def _compiled_to_c(emulation: Emulation) -> Iterator[Finding]:
    if emulation.target == "bmv2":
        yield Finding(
            ("emulation", "target"),
            "found bmv2, wanted native or auto with backend: packet, which runs the program"
            " compiled to C; write native, or backend: emulate",
        )


def _without_packets(
    fabric: Fabric | None, emulation: Emulation | None, emulated: bool
) -> Iterator[Finding]:
    """Some fields are valid only for packets in virtual time."""
    if emulation is not None and emulation.faults:
        if emulated:
            yield from _not_emulated(emulation)
        else:
            yield Finding(
                ("emulation", "faults"),
                "found faults at given times, wanted none; write backend: packet or emulate, or"
                " remove them",
            )
    if emulation is not None and not emulated:
        yield from _not_simulated(emulation)
    for what, names in (
        ("a delay of single packets", ("link_delay", "pipeline_latency")),
        ("a cost of hosts", ("packet_cost", "message_cost")),
    ):
        for name in names:
            if fabric is not None and getattr(fabric, name):
                yield Finding(
                    ("fabric", name),
                    f"found {what}, wanted none; write backend: packet, or remove it",
                )


def _not_simulated(emulation: Emulation) -> Iterator[Finding]:
    """The simulator has no packets to lose or to copy."""
    for what in ("loss", "duplication"):
        asked = getattr(emulation, what)
        by_link = asked.items() if isinstance(asked, Mapping) else [(None, asked)]
        for link, share in by_link:
            if share:
                yield Finding(
                    ("emulation", what) if link is None else ("emulation", what, link),
                    f"found {share:g}, wanted 0 with backend: simulate, where there are no packets;"
                    " write backend: packet or emulate, or remove it",
                )


def _not_emulated(emulation: Emulation) -> Iterator[Finding]:
    for index, fault in enumerate(emulation.faults):
        for name in fault.not_emulated:
            yield Finding(
                ("emulation", "faults", index, name),
                f"found {name}, wanted a fault that the emulator can cause (a link down or with"
                " loss or duplication, a switch restarted, a host paused or dead); write"
                " backend: packet, or remove it",
            )


def _iterations(index: int, job: Job) -> Iterator[Finding]:
    workers, iterations = _size(job.workers), job.warmup + job.iterations
    if workers * iterations > MOST_ITERATIONS:
        yield Finding(
            ("jobs", index, "warmup" if job.warmup > job.iterations else "iterations"),
            f"found {iterations} iterations of {counted(workers, 'worker')}, with the warm-up,"
            f" wanted at most {MOST_ITERATIONS} of all workers together; write fewer",
        )


def _compute(index: int, job: Job) -> Iterator[Finding]:
    """Factors and ranks must fit the number of workers."""
    workers = _size(job.workers)
    if job.compute is None:
        return
    factor, stragglers = job.compute.factor, job.compute.stragglers
    if isinstance(factor, tuple) and len(factor) != workers:
        yield Finding(
            ("jobs", index, "compute", "factor"),
            f"found {counted(len(factor), 'number')}, wanted one for each of"
            f" {counted(workers, 'worker')}; write {workers}, or a single one for all",
        )
    if stragglers is None:
        return
    ranks = stragglers.workers
    if isinstance(ranks, int) and ranks > workers:
        yield Finding(
            ("jobs", index, "compute", "stragglers", "workers"),
            f"found {ranks}, wanted at most the job's {counted(workers, 'worker')}; write fewer",
        )
    for position, rank in enumerate(ranks if isinstance(ranks, tuple) else ()):
        if rank >= workers:
            yield Finding(
                ("jobs", index, "compute", "stragglers", "workers", position),
                f"found the rank {rank}, wanted one from 0 to {workers - 1}; write a smaller one",
            )


def _gradients(index: int, job: Job) -> Iterator[Finding]:
    """The source of gradients, and how they become integers, must fit together and fit the
    workload."""
    trains = job.training is not None
    if job.gradients == "normal" and not trains and job.quantisation != "fixed_point":
        yield Finding(
            ("jobs", index, "quantisation"),
            f"found {job.quantisation}, wanted fixed_point for normal gradients;"
            " write gradients: real",
        )
    if job.gradients == "real" and trains:
        yield Finding(
            ("jobs", index, "gradients"),
            "found real, wanted normal, or none: a job that learns sums its own gradients; remove"
            " it",
        )
    elif job.gradients == "real" and job.workload not in FAMILIES:
        yield Finding(
            ("jobs", index, "gradients"),
            f"found real, wanted normal for {job.workload}: no gradients of it were recorded; write"
            f" gradients: normal, or take a workload of {listed(sorted(FAMILIES))}",
        )


def _density(index: int, job: Job, known: Known) -> Iterator[Finding]:
    """Only a sparse system makes use of zeros, and only in gradients that are drawn."""
    place: Place = ("jobs", index, "density")
    if job.density == 1:
        return
    found = f"found {job.density if isinstance(job.density, str) else format(job.density, 'g')}"
    if not known.sparse(job.system):
        yield Finding(
            place,
            f"{found} with the system {job.system}, which sends zeros like all values, wanted a"
            f" sparse system; write density: 1, or take {listed(known.sparse_systems)}",
        )
    elif job.training is not None:
        yield Finding(
            place,
            f"{found}, wanted none: a job that learns sums its own gradients; remove it",
        )
    elif job.density == "recorded" and job.gradients != "real":
        yield Finding(place, f"{found}, wanted real gradients with it; write gradients: real")
    elif job.density == "recorded" and known.sparse(job.system) == "values":
        yield Finding(
            place,
            f"{found} with the system {job.system}, which skips single values, wanted a ratio;"
            " write one above 0, at most 1",
        )
    elif job.quantisation == "block_exponent":
        yield Finding(
            ("jobs", index, "quantisation"),
            "found block_exponent with a density, wanted fixed_point or factor; write one of them",
        )


def _in_whole_packets(jobs: Mapping[int, Job], known: Known) -> Iterator[Finding]:
    """Some densities need whole packets: packets that carry few values have zeros elsewhere."""
    for index, job in jobs.items():
        by_value = job.density != 1 and known.sparse(job.system) == "values"
        if job.density == "recorded" or by_value:
            shown = job.density if isinstance(job.density, str) else format(job.density, "g")
            yield Finding(
                ("jobs", index, "density"),
                f"found {shown} with packets that carry few of their values, wanted whole packets;"
                " write emulation.carried_values: all",
            )


def _training(index: int, job: Job) -> Iterator[Finding]:
    """The script of a job that learns must exist."""
    if job.training is None:
        return
    script, trace = job.training.script, path_of(job.workload)
    if script is not None and not os.path.isfile(script):
        yield Finding(
            ("jobs", index, "training", "script"),
            f"found {script!r}, wanted an existing file; correct the path, which is relative to"
            " the experiment file's directory",
        )
    elif script is None and not os.path.isfile(trace.with_suffix(".py")):
        yield Finding(
            ("jobs", index, "training"),
            f"found no script for the workload {job.workload}, wanted one; name it with script, or"
            f" take a workload of {listed(trained())}",
        )


def _at_full_size(jobs: Mapping[int, Job], emulation: Emulation) -> Iterator[Finding]:
    """Jobs that learn sum whole gradients, so they must not be scaled."""
    if emulation.scale != 1 and any(job.training is not None for job in jobs.values()):
        yield Finding(
            ("emulation", "scale"),
            f"found {emulation.scale:g}, wanted 1 for jobs that learn, as they sum whole gradients;"
            " write scale: 1",
        )


def _options(index: int, job: Job, known: Known) -> Iterator[Finding]:
    model = known.options(job.system)
    for finding in options.check(job.system, model, job.options) if model else ():
        yield replace(finding, place=("jobs", index, "options", *finding.place))


def _windows(jobs: Mapping[int, Job], fabric: Fabric, known: Known) -> Iterator[Finding]:
    """The windows that options set must fit into the switches' memory, if any aggregate."""
    for index, job in jobs.items() if fabric_checks.sums(fabric) else ():
        model = known.options(job.system)
        if model is None or not job.options or any(options.check(job.system, model, job.options)):
            continue
        needed = model.model_validate(job.options).least_slots()
        if not isinstance(needed, int):
            yield Finding(
                ("jobs", index, "options"),
                f"found {needed!r} from least_slots() of {job.system}'s options, wanted a whole"
                f" number; correct it in {model.__module__}",
            )
        elif needed > fabric.slots:
            asked = next(name for name in model.model_fields if name in job.options)
            yield Finding(
                ("jobs", index, "options", asked),
                f"found a window that needs {needed} slots of a switch, wanted at most the"
                f" {fabric.slots} that it has; lower it, or write fabric.slots: {needed}",
            )


def _priorities(jobs: Mapping[int, Job], fabric: Fabric, known: Known) -> Iterator[Finding]:
    """Priorities of jobs need several jobs whose memory in switches they share."""
    sums = fabric_checks.sums(fabric)
    sharing = {index for index, job in jobs.items() if known.may_use_slots(job.system)}
    for index, job in jobs.items():
        model = known.options(job.system)
        if model is None or any(options.check(job.system, model, job.options)):
            continue
        if sums and sharing - {index}:
            continue
        missing, fix = "no switch that sums", "give switches INA (fabric.ina)"
        if len(jobs) == 1:
            missing, fix = "a single job", "add a job"
        elif sums:
            missing, fix = "no other job that switches sum for", "add one"
        for name in model.model_validate(job.options).ranks_jobs():
            yield Finding(
                ("jobs", index, "options", name),
                f"found it with {missing}, wanted jobs that share switches' memory; remove it, or"
                f" {fix}",
                at_key=True,
            )


def _emulated(index: int, job: Job) -> Iterator[Finding]:
    """Limits of the emulator that the simulator does not have."""
    for role, hosts, what in (
        ("workers", job.workers, "worker"),
        ("servers", job.servers, "parameter server"),
    ):
        if _size(hosts) > MOST_EMULATED:
            yield Finding(
                ("jobs", index, role),
                f"found {counted(_size(hosts), what)}, wanted at most {MOST_EMULATED} in emulation;"
                " take fewer, or write backend: simulate",
            )


def _servers(index: int, job: Job, known: Known) -> Iterator[Finding]:
    limits = known.servers(job.system)
    count = _size(job.servers)
    if limits is not None and limits[1] > 0 and not limits[0] <= count <= limits[1]:
        least, most = limits
        wanted = str(least) if least == most else f"from {least} to {most}"
        fix = f"write servers: {least}" if count < least or least == most else "lower it"
        yield Finding(
            ("jobs", index, "servers"),
            f"found {counted(count, 'parameter server')}, wanted {wanted} for the system"
            f' "{job.system}"; {fix}',
        )
    if job.colocated and isinstance(job.servers, int) and count > _size(job.workers):
        yield Finding(
            ("jobs", index, "servers"),
            f"found {counted(count, 'colocated parameter server')}, wanted at most one for each"
            f" of {counted(_size(job.workers), 'worker')}; take fewer, or name hosts",
        )
    if isinstance(job.workers, tuple) and isinstance(job.servers, tuple) and not job.colocated:
        for position, host in enumerate(job.servers):
            if host in job.workers:
                yield Finding(
                    ("jobs", index, "servers", position),
                    f'found "{host}", which is a worker too, wanted a separate host;'
                    " name another host, or write colocated: true",
                )


def _shared_hosts(jobs: Mapping[int, Job]) -> Iterator[Finding]:
    """Two jobs must not share a host, and with it a link and a CPU."""
    owner: dict[str, int] = {}
    for index, job in jobs.items():
        for role, hosts in (("workers", job.workers), ("servers", job.servers)):
            for position, host in enumerate(hosts if isinstance(hosts, tuple) else ()):
                if owner.setdefault(host, index) != index:
                    yield Finding(
                        ("jobs", index, role, position),
                        f'found "{host}", which job {owner[host]} uses, wanted a host that no'
                        " other job uses; name another host",
                    )


def _host_count(jobs: Mapping[int, Job], fabric: Fabric, known: Known) -> Iterator[Finding]:
    available = len(fabric.host_names)
    needed = 0
    for index, job in jobs.items():
        before = needed
        limits = known.servers(job.system)
        workers, servers = _size(job.workers), _extra_servers(job, limits)
        needed += workers + servers
        if limits is not None and servers > limits[1]:  # reported already
            needed -= servers
        if needed > available >= before:
            found, fewer = counted(workers, "worker"), "fewer workers"
            if servers:
                found += f" and {counted(servers, 'parameter server')}"
                fewer = "fewer of them"
                if isinstance(job.servers, int):
                    fewer += ", write colocated: true"
            if before:
                found += f" besides {counted(before, 'host')} of earlier jobs"
            yield Finding(
                ("jobs", index, "workers"),
                f"found {found}, wanted at most {counted(available, 'host')}, all that the"
                f" fabric has; take {fewer}, or {fabric.room}",
            )


def _extra_servers(job: Job, limits: tuple[int, int] | None) -> int:
    """Hosts that a job's parameter servers need besides those of its workers.

    ``limits`` are the least and most servers of its system, if that is known; a system without
    servers needs none.
    """
    if limits is not None and limits[1] == 0:
        return 0
    if isinstance(job.servers, int):
        return 0 if job.colocated else job.servers
    if job.colocated and isinstance(job.workers, tuple):
        return len(set(job.servers) - set(job.workers))
    return len(job.servers)  # workers given as a number avoid hosts that are named


def _size(hosts: int | tuple[str, ...]) -> int:
    return hosts if isinstance(hosts, int) else len(hosts)

"""What no field of an experiment can know alone: names that must exist, hosts that must suffice."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from testbed.experiment.fields import listed, suggestion
from testbed.experiment.schema import Fabric, Job
from testbed.located import Place

INTERFACE_LIMIT = 15  # characters, Linux's IFNAMSIZ less the final zero
_MOST_NAMES = 1000  # no need to look for near names among more


@dataclass(frozen=True)
class Finding:
    """What is wrong at a place of the data, before it is known where in the file that is."""

    place: Place
    message: str
    at_key: bool = False


@dataclass(frozen=True)
class Known:
    """What lies on higher floors: names of systems and workloads; None lets every name through.

    ``systems`` may map each name to the least and most parameter servers that it takes.
    """

    systems: Collection[str] | None = None
    workloads: Collection[str] | None = None

    @property
    def context(self) -> dict[str, Any]:
        """For the field validators of the schema."""
        return {"systems": self.systems, "workloads": self.workloads}

    def servers(self, system: str) -> tuple[int, int] | None:
        """Least and most parameter servers of a system, None where that is not known."""
        if isinstance(self.systems, Mapping):
            # A system that does not exist is complaint enough, without any about its servers.
            limits: tuple[int, int] = self.systems.get(system, (0, 0))
            return limits
        return None


def check(data: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """Check what holds between fields, as far as the parts involved are valid in themselves."""
    raw_jobs = data.get("jobs")
    jobs = {
        index: job
        for index, raw in enumerate(raw_jobs if isinstance(raw_jobs, list) else [])
        if (job := _valid(Job, raw)) is not None
    }
    fabric = _valid(Fabric, data.get("fabric"))
    wrong = list(_fabric(fabric)) if fabric else []
    yield from wrong
    for index, job in jobs.items():
        yield from _servers(index, job, known)
    # Hosts cannot be counted in a fabric whose shape is in doubt.
    if fabric and not any(f.place[-1] in ("hosts_per_leaf", "leaves", "spines") for f in wrong):
        for index, job in jobs.items():
            yield from _host_names(index, job, fabric)
        yield from _shared_hosts(jobs)
        yield from _host_count(jobs, fabric, known)


def _valid(model: Any, raw: object) -> Any:
    try:
        return model.model_validate(raw)
    except ValidationError:
        return None


def _fabric(fabric: Fabric) -> Iterator[Finding]:
    if fabric.fabric_rate is not None and fabric.oversubscription is not None:
        yield Finding(
            ("fabric", "oversubscription"),
            "found fabric_rate and oversubscription, wanted one of them, for each follows from"
            " the other; remove one",
            at_key=True,
        )
    if len(fabric.racks) != fabric.leaves:
        yield Finding(
            ("fabric", "hosts_per_leaf"),
            f"found {_counted(len(fabric.racks), 'number')}, wanted one for each of the"
            f" {fabric.leaves} leaves; write {fabric.leaves} of them, or a single one for all",
        )
        return
    ports = fabric.spines + max(fabric.racks)
    for field, interface in [
        ("hosts_per_leaf", f"h{sum(fabric.racks) - 1}-eth0"),
        ("leaves", f"t{fabric.leaves - 1}-eth{ports}"),
        ("spines", f"s{fabric.spines - 1}-eth{fabric.leaves}"),
    ]:
        if len(interface) > INTERFACE_LIMIT:
            yield Finding(
                ("fabric", field),
                f"found a fabric so large that it has an interface {interface!r}, wanted names"
                f" of at most {INTERFACE_LIMIT} characters (Linux's limit); make it smaller",
            )
    if isinstance(fabric.ina, tuple):
        for position, name in enumerate(fabric.ina):
            if not _exists(name, "t", fabric.leaves):
                place = ("fabric", "ina", position)
                yield Finding(place, _no_such(name, "ToR", "t", fabric.leaves))


def _servers(index: int, job: Job, known: Known) -> Iterator[Finding]:
    limits = known.servers(job.system)
    count = _size(job.servers)
    if limits is not None and limits[1] > 0 and not limits[0] <= count <= limits[1]:
        least, most = limits
        wanted = str(least) if least == most else f"from {least} to {most}"
        yield Finding(
            ("jobs", index, "servers"),
            f"found {_counted(count, 'parameter server')}, wanted {wanted} for the system"
            f' "{job.system}"; write servers: {least if count < least else most}',
        )
    if job.colocated and isinstance(job.servers, int) and count > _size(job.workers):
        yield Finding(
            ("jobs", index, "servers"),
            f"found {_counted(count, 'colocated parameter server')}, wanted at most one for each"
            f" of {_counted(_size(job.workers), 'worker')}; take fewer, or name hosts",
        )
    if isinstance(job.workers, tuple) and isinstance(job.servers, tuple) and not job.colocated:
        for position, host in enumerate(job.servers):
            if host in job.workers:
                yield Finding(
                    ("jobs", index, "servers", position),
                    f'found "{host}", which is a worker too, wanted a host of its own;'
                    " name another host, or write colocated: true",
                )


def _host_names(index: int, job: Job, fabric: Fabric) -> Iterator[Finding]:
    for role, hosts in (("workers", job.workers), ("servers", job.servers)):
        for position, host in enumerate(hosts if isinstance(hosts, tuple) else ()):
            if not _exists(host, "h", sum(fabric.racks)):
                place = ("jobs", index, role, position)
                yield Finding(place, _no_such(host, "host", "h", sum(fabric.racks)))


def _shared_hosts(jobs: Mapping[int, Job]) -> Iterator[Finding]:
    """Two jobs on one host would share its link and its CPU unasked."""
    owner: dict[str, int] = {}
    for index, job in jobs.items():
        for role, hosts in (("workers", job.workers), ("servers", job.servers)):
            for position, host in enumerate(hosts if isinstance(hosts, tuple) else ()):
                if owner.setdefault(host, index) != index:
                    yield Finding(
                        ("jobs", index, role, position),
                        f'found "{host}", which job {owner[host]} uses, wanted a host of no'
                        " other job; name another host",
                    )


def _host_count(jobs: Mapping[int, Job], fabric: Fabric, known: Known) -> Iterator[Finding]:
    available = sum(fabric.racks)
    needed = 0
    for index, job in jobs.items():
        before = needed
        workers, servers = _size(job.workers), extra_servers(job, known.servers(job.system))
        needed += workers + servers
        if needed > available >= before:
            found = _counted(workers, "worker")
            if servers:
                found += f" and {_counted(servers, 'parameter server')}"
            if before:
                found += f" besides {_counted(before, 'host')} of the jobs before"
            yield Finding(
                ("jobs", index, "workers"),
                f"found {found}, wanted at most {_counted(available, 'host')}, all that the"
                " fabric has; take fewer workers, or raise fabric.hosts_per_leaf",
            )


def extra_servers(job: Job, limits: tuple[int, int] | None = None) -> int:
    """Hosts that a job's parameter servers need besides those of its workers.

    ``limits`` are the least and most servers of its system; one that takes none ignores them.
    """
    if limits is not None and limits[1] == 0:
        return 0
    if isinstance(job.servers, int):
        return 0 if job.colocated else job.servers
    if job.colocated and isinstance(job.workers, tuple):
        return len(set(job.servers) - set(job.workers))
    return len(job.servers)  # counted workers are placed beside hosts that are named


def _size(hosts: int | tuple[str, ...]) -> int:
    return hosts if isinstance(hosts, int) else len(hosts)


def _exists(name: str, letter: str, count: int) -> bool:
    match = re.fullmatch(rf"{letter}(0|[1-9][0-9]*)", name)
    return match is not None and int(match[1]) < count


def _no_such(name: str, what: str, letter: str, count: int) -> str:
    names = [f"{letter}{number}" for number in range(min(count, _MOST_NAMES))]
    mend = suggestion(name, names)
    if not mend.startswith("did"):
        mend = f"rename it, or enlarge the fabric to have more {what}s"
    existing = listed(names, most=8) if count <= 8 else f"{letter}0 to {letter}{count - 1}"
    return f'found "{name}", wanted a {what} that there is ({existing}); {mend}'


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

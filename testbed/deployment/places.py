"""The hosts of each job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from testbed import extensions
from testbed.deployment.errors import DeploymentError
from testbed.experiment.findings import suggestion
from testbed.experiment.schema import Job
from testbed.systems import Assignment, registry
from testbed.topology.fabric import Fabric
from testbed.topology.placement import place


def places(jobs: Sequence[Job], fabric: Fabric, seed: int) -> list[Assignment]:
    """The hosts of each job. Raises DeploymentError if there are too few."""
    taken = {
        host
        for job in jobs
        for named in (job.workers, job.servers)
        if isinstance(named, tuple)
        for host in named
    }
    # Workers first, so that a job's workers have the same hosts whether other jobs need servers or
    # not.
    workers = []
    for number, job in enumerate(jobs):
        if job.system not in registry:  # in a resumed run of another version
            near = suggestion(job.system, registry)
            message = f"found {job.system!r}, wanted a known system; {near}"
            message += f"; {extensions.searched('systems')}"
            raise DeploymentError(message, ("jobs", number, "system"))
        with _named(number, job):
            chosen = (
                job.workers
                if isinstance(job.workers, tuple)
                else place(fabric, job.placement, job.workers, taken, seed + number)
            )
        taken |= set(chosen)
        workers.append(chosen)
    found = []
    # Ranks are numbered rack by rack, whatever the order in the file, so that rings enter a rack
    # once.
    order = {host: index for index, host in enumerate(fabric.hosts)}
    for number, (job, chosen) in enumerate(zip(jobs, workers, strict=True)):
        _, most_servers = registry[job.system].servers
        with _named(number, job):
            if most_servers == 0:
                servers: tuple[str, ...] = ()
            elif isinstance(job.servers, tuple):
                servers = job.servers
            elif job.colocated:
                servers = chosen[: job.servers]
            else:
                servers = place(fabric, job.placement, job.servers, taken, seed + number)
        taken |= set(servers)
        found.append(Assignment(tuple(sorted(chosen, key=order.__getitem__)), servers))
    return found


@contextmanager
def _named(number: int, job: Job) -> Iterator[None]:
    """Say of which job a lack of hosts is."""
    try:
        yield
    except ValueError as error:
        message = f"{job.system} on {job.workload}: {error}"
        raise DeploymentError(message, ("jobs", number)) from error

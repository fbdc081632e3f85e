"""The hosts of each job."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.deployment.errors import DeploymentError
from testbed.experiment.findings import suggestion
from testbed.experiment.schema import Job
from testbed.systems import Assignment, registry
from testbed.topology.fabric import Fabric
from testbed.topology.placement import place


def places(jobs: Sequence[Job], fabric: Fabric, seed: int) -> list[Assignment]:
    taken = {
        host
        for job in jobs
        for named in (job.workers, job.servers)
        if isinstance(named, tuple)
        for host in named
    }
    found = []
    for number, job in enumerate(jobs):
        if job.system not in registry:  # in a resumed run of another version
            near = suggestion(job.system, registry)
            message = f"found {job.system!r}, wanted a known system; {near}"
            raise DeploymentError(message, ("jobs", number, "system"))
        _, most_servers = registry[job.system].servers
        try:
            workers = (
                job.workers
                if isinstance(job.workers, tuple)
                else place(fabric, job.placement, job.workers, taken, seed + number)
            )
            taken |= set(workers)
            if most_servers == 0:
                servers: tuple[str, ...] = ()
            elif isinstance(job.servers, tuple):
                servers = job.servers
            elif job.colocated:
                servers = workers[: job.servers]
            else:
                servers = place(fabric, job.placement, job.servers, taken, seed + number)
        except ValueError as error:
            message = f"{job.system} on {job.workload}: {error}"
            raise DeploymentError(message, ("jobs", number)) from error
        taken |= set(servers)
        # Ranks are numbered rack by rack, whatever the order in the file, so that rings enter a
        # rack once.
        order = {host: index for index, host in enumerate(fabric.hosts)}
        found.append(Assignment(tuple(sorted(workers, key=order.__getitem__)), servers))
    return found

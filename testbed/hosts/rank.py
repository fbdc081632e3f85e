"""Makes the rank that runs a task."""

from __future__ import annotations

from testbed.hosts import parameters
from testbed.hosts.server import Server
from testbed.hosts.task import Task
from testbed.hosts.transport import Rank, Transport
from testbed.hosts.worker import Worker


def make(task: Task, transport: Transport) -> Rank:
    """The rank that runs ``task``: a worker or a server, of sums or of parameters."""
    if task.plan.consistency is None:
        return Worker(task, transport) if task.is_worker else Server(task, transport)
    if task.is_worker:
        return parameters.Worker(task, transport)
    return parameters.Server(task, transport)

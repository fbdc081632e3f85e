"""The devices of PyTorch's that jobs compute on, each tried before the first cell runs."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.campaign.isolation import Call, Failed
from testbed.deployment.deploy import Deployment
from testbed.deployment.errors import DeploymentError, Undeployable
from testbed.training import device
from testbed.training.errors import TrainingError


def fault(name: str) -> str | None:
    """Why PyTorch cannot use the device ``name`` here; None if it can.

    Another process tries it: this one forks the cells, and after its first use of a GPU they could
    not use one.
    """
    if name == device.CPU:
        return None
    try:
        Call(device.check, name, expected=(TrainingError,)).result()
    except Failed as failure:
        return str(failure)
    return None


def check(deployments: Iterable[Deployment]) -> None:
    """Raise Undeployable unless PyTorch can use the devices of all jobs that learn."""
    wanted = {
        (job.number, job.job.training.device)
        for deployment in deployments
        for job in deployment.jobs
        if job.job.training is not None and job.job.training.device is not None
    }
    faults = {name: fault(name) for name in {name for _, name in wanted}}
    problems = [
        DeploymentError(said, ("jobs", number, "training", "device"))
        for number, name in sorted(wanted)
        if (said := faults[name]) is not None
    ]
    if problems:
        raise Undeployable(problems)

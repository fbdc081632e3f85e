"""The error of a job that cannot learn."""

from __future__ import annotations

from testbed.deployment.errors import DeploymentError
from testbed.workload.gradients import NoGradient


class TrainingError(DeploymentError, NoGradient):
    """A script that cannot be used, or gradients that cannot be summed; one line says why."""


def require_torch() -> None:
    """Raise TrainingError if PyTorch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise TrainingError(
            f"training needs PyTorch, which cannot be imported ({error}); install it, for example"
            " with: pip install 'ina-testbed[train]'"
        ) from error

"""Deployments of an experiment's cells; cells that share one have it made once."""

from __future__ import annotations

from dataclasses import replace

from testbed.deployment.deploy import Deployment, deploy
from testbed.deployment.digest import whole
from testbed.deployment.errors import DeploymentError
from testbed.experiment.schema import Experiment
from testbed.placement.fabric import build_fabric, what_matters


class Deployments:
    """Makes deployments, and keeps them, because some plans take long, GRID's up to a minute.

    Cells share a deployment if they do not differ in anything that a plan depends on: repeats, and
    cells that differ only in dilation or back end.
    """

    def __init__(self) -> None:
        self._known: dict[str, Deployment | DeploymentError] = {}
        self._digests: dict[tuple[str, int], str] = {}

    def of(self, experiment: Experiment) -> Deployment:
        """The deployment of a resolved experiment. If there is none, every call raises
        DeploymentError."""
        key = what_matters(experiment)
        if key not in self._known:
            try:
                self._known[key] = deploy(experiment, build_fabric(experiment))
            except DeploymentError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, DeploymentError):
            raise DeploymentError(str(found), found.place)
        return replace(found, experiment=experiment)

    def digest(self, experiment: Experiment) -> str:
        """The digest of its deployment (`testbed.deployment.digest.whole`). Raises
        DeploymentError if there is none."""
        key = what_matters(experiment), experiment.emulation.seed
        if key not in self._digests:
            self._digests[key] = whole(self.of(experiment))
        return self._digests[key]

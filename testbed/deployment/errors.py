"""The error of a valid experiment that cannot be deployed."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.located import Place


class DeploymentError(Exception):
    """The experiment cannot be set up; the message says why and how to fix it. ``place`` is the
    place in the experiment, as far as it is known."""

    def __init__(self, message: str, place: Place = ()) -> None:
        super().__init__(message)
        self.place = place


class Undeployable(DeploymentError):
    """All ``problems`` of an experiment's cells."""

    def __init__(self, problems: Sequence[DeploymentError]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)

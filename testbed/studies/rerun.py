"""Runs a cell in virtual time again, to see the packets that differ from an older run."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from testbed.backends.digests import Digests
from testbed.backends.measurements import BrokenConnection, Stalled, SumMismatch
from testbed.backends.packet.recorder import PACKETS
from testbed.backends.recording import Recording
from testbed.campaign.cell import run_cell
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import expand
from testbed.experiment.schema import Experiment
from testbed.placement.deployments import Deployments

_SHOWN = 3


def packets(
    experiment: Mapping[str, Any],
    cell: str,
    repeat: int,
    wanted: Digests,
    among: tuple[int, int],
) -> str:
    """The first of the packets with numbers ``among``, or why they are unknown.

    ``experiment``: the run's experiment, as data. ``wanted``: the run's digests, to be sure that
    the new run is the same.
    """
    try:
        asked = Experiment.model_validate(experiment)
    except ValidationError:
        return "not run again: this version cannot read its experiment"
    found = [each for each in expand(asked) if (each.id, each.repeat) == (cell, repeat)]
    if not found:
        return "not run again: its experiment has no such cell"
    with TemporaryDirectory() as name:
        folder = Path(name)
        try:
            deployment = Deployments().of(found[0].experiment)
            result = run_cell(found[0], deployment, folder, Recording(packets=among))
        except (DeploymentError, SumMismatch, Stalled, BrokenConnection, OSError) as error:
            return f"not reproduced: {error}"
        (again,) = result.digests
        if (again.packets, again.every, again.digests) != (
            wanted.packets, wanted.every, wanted.text(),
        ):  # fmt: skip
            return "not reproduced: this code runs the cell differently; run it again"
        with (folder / PACKETS).open(newline="") as file:
            listed = list(csv.DictReader(file))
    if not listed:
        return "none of them is left"
    said = ", then ".join(
        "{packet} at {time_s} s on {link} ({bytes} bytes, {protocol} {flow})".format(**each)
        for each in listed[:_SHOWN]
    )
    return f"now {said}"

"""A run of some cells of an experiment, by their ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.campaign.evaluation import New
from testbed.campaign.planning import NoCell
from testbed.deployment.experiments import read
from testbed.experiment.cells import expand
from testbed.shipped import folder


def test_only_the_cells_asked_for_are_planned_in_all_their_repeats(tmp_path: Path) -> None:
    experiment = read(folder("experiments") / "inside.yaml")
    (only,) = {cell.id for cell in expand(experiment)}
    planned = New(experiment, tmp_path, [only[:6]]).planned
    assert [each.cell.id for each in planned] == [only] * experiment.emulation.repeats
    with pytest.raises(NoCell, match=f"--cell: found 'zz', wanted one of {only}"):
        New(experiment, tmp_path, [only, "zz"])

"""How busy the machine is in its busiest second, compared with the calibration's prediction.

    sudo .venv/bin/python -m benchmarks.capacity experiments/quick.yaml [--dilation 400 …]

Runs every cell of an experiment once at each dilation. ``seen`` is the share of all processors that
was busy; the verdict allows 65 %. ``foretold`` is the prediction, either for all processors or for
the core of a rank or a switch. Other load on the machine appears in ``seen`` only.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from testbed.backends.emulation import targets
from testbed.backends.emulation.backend import observe
from testbed.campaign.planning import title
from testbed.deployment.deploy import deploy
from testbed.deployment.experiments import read
from testbed.experiment.cells import distinct
from testbed.machine import calibration, capacity
from testbed.machine.verdict import IDLE_FLOOR
from testbed.placement.fabric import build_fabric


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--dilation", type=float, action="append")
    arguments = parser.parse_args()
    known = calibration.load()
    print(f"calibration: {known.measured_at or 'none, defaults'}")
    print(f"{'dilation':>8} {'foretold':>9} {'seen':>6}  cell")
    for cell in distinct(read(arguments.experiment)):
        experiment = cell.experiment
        targets.prepare(targets.choose(experiment.emulation.target))
        fabric = build_fabric(experiment)
        for dilation in arguments.dilation or [experiment.emulation.dilation]:
            emulation = experiment.emulation.model_copy(update={"dilation": dilation})
            slowed = experiment.model_copy(update={"emulation": emulation})
            deployment = deploy(slowed, fabric)
            foretold = capacity.demand(deployment, known).strain(dilation)
            with tempfile.TemporaryDirectory() as logs:
                seen = 1 - min(observe(deployment, Path(logs)).machine.idle)
            busy = foretold * (1 - IDLE_FLOOR)
            print(f"{dilation:8g} {busy:9.0%} {seen:6.0%}  {title(cell)}", flush=True)


if __name__ == "__main__":
    main()

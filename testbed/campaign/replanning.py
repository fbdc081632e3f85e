"""Plans of users' systems, made again by other interpreters and for other repeats: a plan that
depends on the order of a set, or draws random numbers, is another one there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from testbed.deployment.digest import digest
from testbed.deployment.errors import DeploymentError
from testbed.experiment.schema import Experiment
from testbed.placement.deployments import Deployments
from testbed.placement.fabric import what_matters

HASH_SEEDS = ("1", "2")
"""An interpreter for each; two, because the order of a small set is the same by chance."""

Digests = list[list[str]]
"""The digest of each job of each experiment."""


def digests(experiments: Sequence[Experiment]) -> Digests:
    """The digests of the plans that this interpreter makes. Raises DeploymentError."""
    made = Deployments()
    return [[digest(job) for job in made.of(each).jobs] for each in experiments]


def elsewhere(experiments: Sequence[Experiment]) -> list[Digests]:
    """The same from other interpreters, with another seed if repeats share the plan. Raises
    DeploymentError if one cannot make the plans."""
    with TemporaryDirectory() as folder:
        asked = Path(folder) / "experiments.json"
        asked.write_text(json.dumps([_of_another_repeat(each).data() for each in experiments]))
        running = [
            subprocess.Popen(
                [sys.executable, "-m", __name__, asked],
                env=os.environ | {"PYTHONHASHSEED": seed},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for seed in HASH_SEEDS
        ]
        try:
            said = [each.communicate() for each in running]
        finally:
            for each in running:
                each.kill()
                each.wait()
    if failed := [told for each, (_, told) in zip(running, said, strict=True) if each.returncode]:
        reason = (failed[0].decode(errors="replace").splitlines() or ["it died"])[-1]
        raise DeploymentError(f"found plans here, and none in another interpreter: {reason}")
    return [json.loads(made.splitlines()[-1]) for made, _ in said]


def _of_another_repeat(experiment: Experiment) -> Experiment:
    """The experiment with another seed; as it is if its plans may depend on the seed."""
    emulation = experiment.emulation
    emulation = emulation.model_copy(update={"seed": emulation.seed + 1})
    other = experiment.model_copy(update={"emulation": emulation})
    return other if what_matters(other) == what_matters(experiment) else experiment


def main(asked: Path) -> None:
    """Answer `elsewhere`. What a user's system prints comes before the answer."""
    found = digests([Experiment.model_validate(each) for each in json.loads(asked.read_text())])
    print()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Published claims: their experiments are run, and a page says what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import pandas as pd

from testbed import results
from testbed.emulation.network import EmulationError
from testbed.experiment import claims
from testbed.experiment.cells import distinct
from testbed.experiment.claims import Claims
from testbed.experiment.findings import listed, suggestion
from testbed.experiment.schema import Experiment
from testbed.harness.errors import DeploymentError
from testbed.harness.evaluation import Evaluation, New, Resumed
from testbed.harness.executors import Local
from testbed.harness.resume import Rules
from testbed.located import Invalid, Problem
from testbed.report import claims_page
from testbed.report.claims import judge
from testbed.report.claims_page import Judged
from testbed.results import RESULTS
from testbed.systems import registry
from testbed.workload import trace

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "claims"


def read(names: Sequence[str] = (), folder: Path = FOLDER) -> list[Claims]:
    """The claims files of ``folder``; of these what ``names`` names, files or single claims.

    Raises Invalid with every problem of every file, and ValueError for a name that there is not.
    """
    files: list[Claims] = []
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            files.append(
                claims.load(
                    path,
                    systems={name: system.servers for name, system in registry.items()},
                    workloads=trace.names(),
                )
            )
        except Invalid as invalid:
            problems += invalid.problems
    if problems:
        raise Invalid(problems)
    known = [name for file in files for name in (file.name, *(each.name for each in file.claims))]
    for name in known:
        if known.count(name) > 1:
            raise ValueError(f"found the name {name!r} twice in {folder}, wanted it once")
    for name in names:
        if name not in known:
            mend = suggestion(name, known)
            mend = mend if mend.startswith("did") else f"choose of {listed(known, most=60)}"
            raise ValueError(f"found {name!r}, wanted a claim or a file of claims; {mend}")
    return [only for file in files if (only := file.only(names)).claims]


def run(
    files: Sequence[Claims], root: Path, simulate_only: bool = False, any_version: bool = False
) -> list[Judged]:
    """Run what is missing below ``root``, and judge.

    Each experiment has a directory of its own there, which goes on where it was left. Those that
    are emulated are left out if asked; what was measured of them before counts. Rows that other
    code made count only if ``any_version``.
    """
    judged = []
    for file in files:
        rows = {
            name: _rows(experiment, root, simulate_only, Rules(any_version=any_version))
            for name, experiment in file.experiments.items()
        }
        for claim in file.claims:
            name = claim.measure.experiment if claim.measure is not None else ""
            verdict = judge(claim, file.experiments.get(name), rows.get(name, ""))
            judged.append(Judged(file, claim, verdict))
    return judged


def write(judged: Sequence[Judged], root: Path) -> Path:
    """Write the page, as HTML, Markdown and CSV, into ``root``; the path of the HTML."""
    root.mkdir(parents=True, exist_ok=True)
    return claims_page.write(judged, root)


def _rows(
    experiment: Experiment, root: Path, simulate_only: bool, rules: Rules
) -> pd.DataFrame | str:
    """What there is in the end of an experiment's results, or why there is nothing."""
    runs = sorted(path.parent for path in (root / experiment.name).glob(f"*/{RESULTS}"))
    try:
        if simulate_only and any(
            cell.experiment.backend == "emulate" for cell in distinct(experiment)
        ):
            return results.read(runs[-1]).results if runs else "It is emulated, and was not asked."
        evaluation: Evaluation = (
            Resumed(runs[-1], experiment, rules) if runs else New(experiment, root)
        )
        directory = runs[-1] if runs and not evaluation.planned else None
        if directory is None:
            click.echo(f"{experiment.name}: {len(evaluation.planned)} cells", err=True)
            directory, _ = evaluation.run((), Local())
    except (DeploymentError, EmulationError) as error:
        return f"It cannot be run here: {error}"
    return results.read(directory).results

"""Published claims: run their experiments, and write a page with the verdicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import click
import pandas as pd

from testbed import results
from testbed.backends.emulation.network import EmulationError
from testbed.campaign.evaluation import Evaluation, New, Resumed
from testbed.campaign.local import Local
from testbed.campaign.resume import Rules
from testbed.campaign.version import version
from testbed.deployment.errors import DeploymentError
from testbed.deployment.experiments import known
from testbed.experiment.cells import distinct
from testbed.experiment.findings import counted, listed, suggestion
from testbed.experiment.schema import Experiment
from testbed.located import Invalid, Problem
from testbed.results import RESULTS
from testbed.shipped import folder
from testbed.studies.claims import page as claims_page
from testbed.studies.claims import schema as claims
from testbed.studies.claims.page import Judged
from testbed.studies.claims.schema import Claims
from testbed.studies.claims.verdict import judge

FOLDER = folder("experiments") / "claims"


def read(folder: Path = FOLDER) -> list[Claims]:
    """The claims files of ``folder``.

    Raises Invalid with every problem of every file, also if there is no file, or if two claims
    or files have the same name.
    """
    files: list[Claims] = []
    problems: list[Problem] = []
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        message = "found no claims file in it, wanted at least one that ends in .yaml"
        problems.append(Problem(str(folder), 0, 0, "", message))
    for path in paths:
        try:
            files.append(claims.load(path, **known()))
        except Invalid as invalid:
            problems += invalid.problems
    given = names(files)
    for name in sorted({name for name in given if given.count(name) > 1}):
        message = f"found the name {name!r} of a file or claim twice, wanted it once; rename one"
        problems.append(Problem(str(folder), 0, 0, "", message))
    if problems:
        raise Invalid(problems)
    return files


def names(files: Sequence[Claims]) -> list[str]:
    """The names of files and claims that can be tested."""
    return [name for file in files for name in (file.name, *(each.name for each in file.claims))]


def run(
    files: Sequence[Claims],
    root: Path,
    asked: Collection[str] = (),
    simulate_only: bool = False,
    rules: Rules = Rules(),  # noqa: B008
) -> list[Judged]:
    """Run below ``root`` missing cells of the claims in ``asked``, and judge all of ``files``.

    Each experiment has its own directory there, and is resumed. Claims that are not in ``asked``,
    and with ``simulate_only`` emulated ones, are judged from earlier results. ValueError for an
    unknown name in ``asked``.
    """
    given = names(files)
    for name in asked:
        if name not in given:
            fix = suggestion(name, given)
            fix = fix if fix.startswith("did") else f"choose of {listed(given, most=80)}"
            raise ValueError(f"found {name!r}, wanted a claim or a file of claims; {fix}")
    judged = []
    for file in files:
        needed = file.needed(asked)
        rows = {}
        for name, experiment in file.experiments.items():
            may_run = name in needed and not (simulate_only and _is_emulated(experiment))
            rows[name] = _rows(experiment, root, rules if may_run else None)
        for claim in file.claims:
            name = claim.measure.experiment if claim.measure is not None else ""
            verdict = judge(claim, file.experiments.get(name), rows.get(name, ""))
            by_others = name in rows and _is_old(file.experiments[name], rows[name])
            judged.append(Judged(file, claim, verdict, by_others))
    return judged


def _is_old(experiment: Experiment, rows: pd.DataFrame | str) -> bool:
    """Whether any of the rows was made by other code."""
    now = {version(cell.experiment) for cell in distinct(experiment)}
    return not isinstance(rows, str) and not now.issuperset(rows["version"])


def write(judged: Sequence[Judged], root: Path) -> Path:
    """Write the page, as HTML, Markdown and CSV, into ``root``; the path of the HTML."""
    root.mkdir(parents=True, exist_ok=True)
    return claims_page.write(judged, root)


def _is_emulated(experiment: Experiment) -> bool:
    return any(cell.experiment.backend == "emulate" for cell in distinct(experiment))


def _rows(experiment: Experiment, root: Path, rules: Rules | None) -> pd.DataFrame | str:
    """An experiment's results, or the reason for having none; without ``rules`` nothing is run."""
    runs = sorted(path.parent for path in (root / experiment.name).glob(f"*/{RESULTS}"))
    if rules is None:
        return results.read(runs[-1]).results if runs else "It was not requested."
    try:
        evaluation: Evaluation = (
            Resumed(runs[-1], experiment, rules) if runs else New(experiment, root)
        )
        if not evaluation.planned:
            return results.read(runs[-1]).results
        click.echo(f"{experiment.name}: {counted(len(evaluation.planned), 'cell')}", err=True)
        directory, _ = evaluation.run((), Local())
    except (DeploymentError, EmulationError) as error:
        return f"It cannot be run here: {error}"
    return results.read(directory).results

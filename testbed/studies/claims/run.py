"""Published claims: run their experiments, and write a page with the verdicts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import click
import pandas as pd

from testbed import run_tables
from testbed.backends.emulation.network import EmulationError
from testbed.backends.recording import NOTHING
from testbed.campaign.evaluation import Evaluation, New, Resumed
from testbed.campaign.local import Local
from testbed.campaign.resume import Busy, Rules
from testbed.campaign.version import version
from testbed.deployment.errors import DeploymentError
from testbed.deployment.experiments import known
from testbed.experiment.cells import distinct
from testbed.experiment.findings import counted, listed, suggestion
from testbed.experiment.schema import Experiment
from testbed.located import Invalid, Problem
from testbed.report.settings import ROW
from testbed.report.training import reached
from testbed.results import RESULTS
from testbed.shipped import folder
from testbed.studies.claims import page as claims_page
from testbed.studies.claims.load import load
from testbed.studies.claims.measures import LEARNT, Measure
from testbed.studies.claims.page import Beside, Judged, Observed, Page
from testbed.studies.claims.schema import Claim, Claims, Observation
from testbed.studies.claims.verdict import Lacking, Number, crossing, judge, measured

_Rows: TypeAlias = pd.DataFrame | str
"""An experiment's results, or the reason for having none."""
FOLDER = folder("experiments") / "claims"


def read(folder: Path = FOLDER, own: Sequence[Path] = ()) -> list[Claims]:
    """The claims files of ``folder``, or instead those of a user's ``own``.

    Raises Invalid with every problem of every file. It is also raised if there is no file, or if
    two claims or files have the same name.
    """
    files: list[Claims] = []
    problems: list[Problem] = []
    paths = own or sorted(folder.glob("*.yaml"))
    if not paths:
        message = "found no claims file in it, wanted at least one that ends in .yaml"
        problems.append(Problem(str(folder), 0, 0, "", message))
    for path in paths:
        try:
            files.append(replace(load(path, **known()), path=str(path) if own else ""))
        except Invalid as invalid:
            problems += invalid.problems
    experiments = [name for file in files for name in file.experiments]
    for what, given in (("of a file or claim", names(files)), ("of an experiment", experiments)):
        for name in sorted({name for name in given if given.count(name) > 1}):
            message = f"found the name {name!r} {what} twice, wanted it once; rename one"
            problems.append(Problem(str(paths[-1] if own else folder), 0, 0, "", message))
    if problems:
        raise Invalid(problems)
    return files


def names(files: Sequence[Claims]) -> list[str]:
    """The names of files, claims and observations."""
    return [name for file in files for name in file.names]


def run(
    files: Sequence[Claims],
    root: Path,
    asked: Collection[str] = (),
    rules: Rules = Rules(),  # noqa: B008
) -> Page:
    """Run the missing cells of the claims in ``asked``, below ``root``, and judge all of ``files``.

    Each experiment has its own directory there, and is resumed. Claims that are not in ``asked``
    are judged from earlier results. Raises ValueError for an unknown name in ``asked``.
    """
    given = names(files)
    for name in asked:
        if name not in given:
            fix = suggestion(name, given)
            fix = fix if fix.startswith("did") else f"choose one of {listed(given, most=80)}"
            raise ValueError(f"found {name!r}, wanted a claim or a file of claims; {fix}")
    page = Page()
    for file in files:
        needed = file.needed(asked)
        rows = {
            name: _rows(experiment, root, rules if name in needed else None)
            for name, experiment in file.experiments.items()
        }
        old = {name for name in rows if _is_old(file.experiments[name], rows[name])}
        for each in file.tested:
            is_old = any(measure.experiment in old for measure in each.measures)
            if isinstance(each, Claim):
                page.judged.append(_judged(file, each, rows, is_old))
                continue
            found = [_number(file, measure, rows) for measure in each.measures]
            if isinstance(each, Observation):
                page.observed.append(Observed(file, each, found[0], is_old))
            else:
                page.beside.append(Beside(file, each, found, is_old))
        for name in file.experiments:
            page.made.add(_runs(root, name)[-1:])
    return page


def _judged(file: Claims, claim: Claim, rows: Mapping[str, _Rows], is_old: bool) -> Judged:
    name = claim.measure.experiment if claim.measure is not None else ""
    verdict = judge(claim, file.experiments.get(name), rows.get(name, ""))
    even, found = claim.break_even, None
    if even is not None and claim.published is not None:
        name = even.measure.experiment
        found = crossing(even, claim.published, file.experiments[name], rows[name])
    return Judged(file, claim, verdict, found, is_old)


def _number(file: Claims, measure: Measure, rows: Mapping[str, _Rows]) -> Number | str:
    """The number, or the reason for having none."""
    try:
        return measured(measure, file.experiments[measure.experiment], rows[measure.experiment])
    except Lacking as lacking:
        return str(lacking)


def _is_old(experiment: Experiment, rows: _Rows) -> bool:
    """Whether another version of the code made any of the rows."""
    now = {version(cell.experiment) for cell in distinct(experiment)}
    return not isinstance(rows, str) and not now.issuperset(rows["version"])


def write(page: Page, root: Path) -> Path:
    """Write the page as HTML, Markdown and CSV into ``root``; returns the path of the HTML."""
    root.mkdir(parents=True, exist_ok=True)
    return claims_page.write(page, root)


def _runs(root: Path, name: str) -> list[Path]:
    return sorted(path.parent for path in (root / name).glob(f"*/{RESULTS}"))


def _rows(experiment: Experiment, root: Path, rules: Rules | None) -> _Rows:
    """An experiment's results, or the reason for having none; without ``rules`` nothing is run."""
    runs = _runs(root, experiment.name)
    if rules is None:
        return _read(runs[-1]) if runs else "It was not requested."
    try:
        evaluation: Evaluation = (
            Resumed(runs[-1], experiment, rules) if runs else New(experiment, root)
        )
        if evaluation.planned:
            click.echo(f"{experiment.name}: {counted(len(evaluation.planned), 'cell')}", err=True)
        # With nothing to run, this tells rows of the same deployments that they are current.
        directory, _ = evaluation.run(NOTHING, Local())
    except Busy:
        raise
    except (DeploymentError, EmulationError) as error:
        return f"It cannot be run here: {error}"
    return _read(directory)


def _read(run: Path) -> pd.DataFrame:
    """A run's rows with the columns `LEARNT`, which are nan if nothing was learnt or the target was
    not reached."""
    rows, training = run_tables.read_results(run), run_tables.read_training(run)
    if not len(training):
        return rows.assign(**dict.fromkeys(LEARNT, float("nan")))
    found: pd.DataFrame = rows.merge(reached(training)[[*ROW, *LEARNT]], how="left", on=ROW)
    return found

"""The reference evaluation: files kept from runs, and whether they are up to date with the code.

``ina-testbed reference RUN...`` makes ``reports/reference/`` from results directories:

- ``README.md``: the summary; ``report.html``, ``report.md`` and ``figures/`` (of the
  matrix: `testbed.report.answer.Parts`);
- ``<experiment>/``: each run's ``results.csv``, ``iterations.csv``, ``run.json`` and
  ``experiment.yaml``, and of the matrix ``links.csv``. ``./run_all.sh --reference`` resumes these
  runs: only rows that became stale are made again;
- ``claims.*``, if the claims page was made, with digests of the claims files and of the code that
  runs their experiments.

A row becomes stale when code changes on which it may depend (`testbed.campaign.version`), unless
it runs the same deployment with the same code.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from testbed import located, results, run_tables
from testbed.campaign.resume import experiment_of, is_unchanged
from testbed.campaign.version import version
from testbed.deployment.digest import digest
from testbed.deployment.errors import DeploymentError
from testbed.deployment.experiments import read
from testbed.experiment import sweep
from testbed.experiment.cells import distinct, expand
from testbed.experiment.findings import counted
from testbed.experiment.schema import Experiment
from testbed.placement.deployments import Deployments
from testbed.report import answer
from testbed.report.quote import REFERENCE
from testbed.shipped import folder
from testbed.studies import reporting
from testbed.studies.claims import page as claims_page
from testbed.studies.claims.run import FOLDER
from testbed.studies.claims.run import read as read_claims

CLAIMS = "claims.json"
KEPT = (results.RESULTS, results.ITERATIONS, results.METADATA, results.EXPERIMENT)

_ENDS = ("html", "md", "csv")


def keep(runs: Sequence[Path], claims: Path | None, out: Path) -> Path:
    """Make a reference from ``runs`` and the page in ``claims``; returns the path of its first
    page.

    Raises FileNotFoundError if a directory has no results, and Unreadable if it has no row, if a
    file is absent, or if two runs are of one experiment. Nothing is written then.
    """
    for run in runs:
        if not len(run_tables.read_results(run)):
            raise run_tables.Unreadable(f"{run}: found no row, wanted at least one to keep")
    names = [experiment_of(run).name for run in runs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise run_tables.Unreadable(f"found two runs of {twice[0]}, wanted one of each experiment")
    for run, name in zip(runs, names, strict=True):
        if run.resolve() == (out / name).resolve():
            message = (
                f"found {run} in the reference itself, wanted a run to keep; copy it elsewhere"
            )
            raise run_tables.Unreadable(message)
    matrix = answer.parted(runs).matrix
    needed = [run / file for run in runs for file in KEPT]
    needed += [run / results.LINKS for run in matrix]
    needed += [claims / f"{claims_page.PAGE}.{end}" for end in _ENDS] if claims else []
    if absent := [path for path in needed if not path.exists()]:
        listed = ", ".join(map(str, absent))
        raise run_tables.Unreadable(f"found no {listed}; wanted all files that are to be kept")
    out.mkdir(parents=True, exist_ok=True)
    for run, name in zip(runs, names, strict=True):
        folder = out / name
        folder.mkdir(exist_ok=True)
        # The page has a figure of the matrix's links. They are large.
        for file in (*KEPT, *((results.LINKS,) if run in matrix else ())):
            shutil.copyfile(run / file, folder / file)
    kept = {run: out / name for run, name in zip(runs, names, strict=True) if run in matrix}
    reporting.report(matrix, out, kept=kept)
    if claims is not None:
        for end in _ENDS:
            name = f"{claims_page.PAGE}.{end}"
            shutil.copyfile(claims / name, out / name)
        images = (claims.glob(f"{claims_page.PAGE}-*.{end}") for end in ("pdf", "svg"))
        for image in sorted(chain(*images)):
            shutil.copyfile(image, out / image.name)
        (out / CLAIMS).write_text(json.dumps(_asked(), indent=1) + "\n")
    return answer.write([out / name for name in names], out, reporting.styles(), claims is not None)


def stale(reference: Path = REFERENCE) -> Iterator[str]:
    """The differences between a reference and the current code, one sentence for each."""
    kept = [path.parent for path in sorted(reference.glob(f"*/{results.RESULTS}"))]
    if not kept:
        yield f"{reference}: found no run, wanted at least one"
    for run in kept:
        try:
            yield from (f"{run.name}: {said}" for said in _changes(run))
        except run_tables.Unreadable as error:
            yield f"{run.name}: cannot be read: {error}"
        except (OSError, DeploymentError, ValueError) as error:
            yield f"{run.name}: this version can no longer deploy it: {error}"
    path = reference / CLAIMS
    if path.exists():
        try:
            known, asked = dict(json.loads(path.read_text())), _asked()
        except located.Invalid as error:
            yield f"{claims_page.PAGE}: {error}"
            return
        except (TypeError, ValueError):
            yield f"{path}: cannot be read"
            return
        if known != asked:
            changed = [name for name in {**known, **asked} if known.get(name) != asked.get(name)]
            yield f"{claims_page.PAGE}: {', '.join(changed)} changed since the page was made"


def _changes(run: Path) -> Iterator[str]:
    rows = run_tables.read(run).results
    first = rows[rows["repeat"] == 0].sort_values("job")
    had = dict(iter(run_tables.by_settings(first)))
    experiment = experiment_of(run)
    cells = {run_tables.settings_key(cell.settings): cell for cell in distinct(experiment)}
    if missing := [sweep.written(cell.settings) for key, cell in cells.items() if key not in had]:
        yield f"{counted(len(missing), 'cell')} without a row: {'; '.join(missing[:3])}"
    deployments = Deployments()
    old = {
        key: cell
        for key, cell in cells.items()
        if key in had
        and {*had[key]["version"]} != {version(cell.experiment)}
        and not is_unchanged(list(had[key]["deployed"]), cell, deployments)
    }
    if old:
        plans = [
            sweep.written(cell.settings)
            for key, cell in old.items()
            if list(had[key]["plan"]) != _plans(cell.experiment, deployments)
        ]
        some = f": {'; '.join(plans[:3])}" if plans else ""
        yield (
            f"the code has changed since {counted(len(old), 'cell')} ran;"
            f" {len(plans)} of them now have a different plan{some}"
        )
    if not run_tables.read_metadata(run).get("finished_at"):
        yield "its run was not finished"
    shipped = folder("experiments") / f"{run.name}.yaml"
    if shipped.exists() and _ids(read(shipped)) != _ids(experiment):
        yield f"{shipped.name} has changed since it ran"


def _ids(experiment: Experiment) -> set[tuple[str, int]]:
    return {(cell.id, cell.repeat) for cell in expand(experiment)}


def _plans(experiment: Experiment, deployments: Deployments) -> list[str]:
    """The digest of each job's plan and timing. Raises DeploymentError if the cell cannot be set
    up."""
    return [digest(job) for job in deployments.of(experiment).jobs]


def _asked() -> dict[str, str]:
    """A digest of each claims file without its comments, and one of all cells of their experiments
    and of the code that these run. Raises Invalid."""
    cells = sorted(
        {
            (cell.id, version(cell.experiment))
            for file in read_claims(FOLDER)
            for experiment in file.experiments.values()
            for cell in distinct(experiment)
        }
    )
    texts = {path.stem: located.read(path).data for path in sorted(FOLDER.glob("*.yaml"))}
    return {
        name: hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]
        for name, data in {"code": cells, **texts}.items()
    }

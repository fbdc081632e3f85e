"""The reference evaluation: files kept from runs, and whether the code still does the same.

``ina-testbed reference RUN...`` makes ``reports/reference/`` from results directories:

- ``README.md``: the summary; ``report.html``, ``report.md`` and ``figures/``;
- ``<experiment>/``: each run's ``results.csv``, ``run.json`` and ``experiment.yaml``;
- ``claims.*``, if the page on claims was made, with a digest of the files that it answers;
- ``plans.json``: a digest of every cell's plan and timing, by experiment and settings.

The reference becomes stale when a cell's plan or timing changes, not when only code changes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from testbed import located, results
from testbed.deployment.deploy import DeployedJob, deploy
from testbed.deployment.errors import DeploymentError
from testbed.experiment import cells, sweep
from testbed.experiment.findings import counted
from testbed.experiment.schema import Experiment
from testbed.placement.fabric import build_fabric
from testbed.protocols import Protocol
from testbed.report import answer
from testbed.shipped import folder
from testbed.studies import reporting
from testbed.studies.claims import page as claims_page
from testbed.studies.claims.run import FOLDER

REFERENCE = folder("reports") / "reference"
PLANS, CLAIMS = "plans.json", "claims.json"
_KEPT_AS = {"protocol": "style"}
"""Fields that have another name in digests."""
KEPT = (results.RESULTS, results.METADATA, results.EXPERIMENT)


def keep(runs: Sequence[Path], claims: Path | None, out: Path) -> Path:
    """Make a reference from ``runs`` and the page in ``claims``; the path of its first page.

    FileNotFoundError if a directory has no results or no page.
    """
    out.mkdir(parents=True, exist_ok=True)
    reporting.report(runs, out)
    digests = {}
    for run in runs:
        experiment = _experiment(run)
        folder = out / experiment.name
        folder.mkdir(exist_ok=True)
        for name in KEPT:
            shutil.copyfile(run / name, folder / name)
        digests[experiment.name] = plans(experiment)
    if claims is not None:
        for end in ("html", "md", "csv"):
            name = f"{claims_page.PAGE}.{end}"
            shutil.copyfile(claims / name, out / name)
        (out / CLAIMS).write_text(json.dumps(_asked(), indent=1) + "\n")
    (out / PLANS).write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n")
    return answer.write(
        [out / name for name in digests], out, reporting.styles(), claims is not None
    )


def stale(reference: Path = REFERENCE) -> Iterator[str]:
    """The differences between a reference and the current code, a sentence each."""
    try:
        kept = json.loads((reference / PLANS).read_text())
    except (OSError, ValueError) as error:
        yield f"{reference / PLANS}: {error}"
        return
    for name, digests in kept.items():
        folder = reference / name
        try:
            experiment = _experiment(folder)
            now = plans(experiment)
            rows = results.read(folder).results
        except (OSError, located.Invalid, ValidationError, DeploymentError, ValueError) as error:
            yield f"{name}: this version can no longer deploy it: {error}"
            continue
        changed = [cell for cell in digests if now.get(cell) != digests[cell]]
        if changed:
            some = "; ".join(changed[:3])
            yield f"{name}: {len(changed)} of {len(digests)} cells have changed: {some}"
        had = {sweep.written(json.loads(settings)) for settings in rows["settings"]}
        if missing := [cell for cell in now if cell not in had]:
            yield f"{name}: {counted(len(missing), 'cell')} without a row: {'; '.join(missing[:3])}"
        if not results.read_metadata(folder).get("finished_at"):
            yield f"{name}: its run was not finished"
    path = reference / CLAIMS
    if path.exists() and json.loads(path.read_text()) != (asked := _asked()):
        kept = json.loads(path.read_text())
        changed = [name for name in {**kept, **asked} if kept.get(name) != asked.get(name)]
        yield f"{claims_page.PAGE}: {', '.join(changed)} changed since the page was made"


def _asked() -> dict[str, str]:
    """A digest of each claims file, without its comments."""
    return {path.stem: _digest(located.read(path).data) for path in sorted(FOLDER.glob("*.yaml"))}


def plans(experiment: Experiment) -> dict[str, str]:
    """A digest of each cell's plan and timing, by settings.

    DeploymentError if a cell cannot be set up. Settings are the key because cells' ids change with
    every new key of experiment files.
    """
    return {
        sweep.written(cell.settings): digest(cell.experiment) for cell in cells.distinct(experiment)
    }


def digest(experiment: Experiment) -> str:
    """Sixteen hexadecimal digits for plans, timing and fabric of a resolved experiment's jobs."""
    fabric = build_fabric(experiment)
    content = [
        [_plain(node) for node in fabric.nodes.values()],
        [_plain(link) for link in fabric.links],
        _plain(fabric.ina),
        [_job(job) for job in deploy(experiment, fabric).jobs],
    ]
    return _digest(content)


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _job(job: DeployedJob) -> Any:
    """The data of a job that determine what is sent, and when."""
    made = job.plan
    # Names are those of the first references: renaming a field must not change digests.
    plan = dict(
        hosts=made.hosts,
        workers=made.workers,
        chunks=made.chunks,
        programs=made.programs,
        trees=made.trees,
        partition=made.partition,
        credit=made.credit,
        shares=made.shares,
        deferred=made.deferred,
        consistency=made.consistency,
        pins=made.pins,
    )
    timing = (job.units, job.compute_s, job.paces, job.step_s, job.start_s, job.window)
    return [
        {name: _plain(said) for name, said in plan.items()},
        _plain(timing),
        job.job.iterations,
        job.job.warmup,
    ]


def _plain(value: Any) -> Any:
    """As JSON data, in a fixed order; reals to nine digits."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Protocol):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        content = {
            _KEPT_AS.get(field.name, field.name): _plain(getattr(value, field.name))
            for field in fields(value)
        }
        return [type(value).__name__, content]
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return sorted([_plain(key), _plain(each)] for key, each in value.items())
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value


def _experiment(run: Path) -> Experiment:
    return Experiment.model_validate(located.read(run / results.EXPERIMENT).data)

"""The testbed from Python: the command line's functions, with tables instead of files::

    import testbed

    found = testbed.run("experiments/quick.yaml")
    found.results.groupby("system").jct_s.mean()

Functions that take an experiment accept a file, its content as a mapping, or an `Experiment`, and
raise `Invalid` with every problem and its place. `DeploymentError` means that something cannot be
set up, and `EmulationError` that this machine lacks something that emulation needs. A cell that
fails raises nothing: its row has the reason in ``error``. A cell that will probably fail, be
invalid or have times that its scale distorts gives a UserWarning before it runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from testbed import run_tables
from testbed.backends.emulation.network import EmulationError
from testbed.backends.recording import Recording, recorded
from testbed.campaign import evaluation, executors, planning
from testbed.campaign.resume import Rules
from testbed.deployment import experiments
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import expand
from testbed.experiment.load import dump
from testbed.experiment.schema import Experiment
from testbed.located import Invalid, Problem, write
from testbed.run_tables import Tables

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DeploymentError", "EmulationError", "Experiment", "Invalid", "Tables", "cells", "read",
    "resume", "run", "validate", "write_report",
]  # fmt: skip

File: TypeAlias = "str | PathLike[str]"
AnyExperiment: TypeAlias = "File | Mapping[str, Any] | Experiment"


def validate(experiment: AnyExperiment) -> Experiment:
    """The checked experiment, with all defaults filled in."""
    if experiment == "":  # for Path, the current folder
        raise Invalid([Problem("", 0, 0, "", "found an empty name, wanted a YAML file")])
    if isinstance(experiment, (str, PathLike)):
        return experiments.read(Path(experiment))
    if isinstance(experiment, Experiment):
        return experiments.reads(dump(experiment))
    if isinstance(experiment, Mapping):
        return experiments.reads(write(_plain(experiment)))
    raise TypeError(f"found {experiment!r}, wanted a file, a mapping or an Experiment")


def _plain(value: Any, path: str = "") -> Any:
    """``value`` as YAML has it: numpy's numbers and arrays, paths, tuples and mappings, too."""
    if isinstance(value, Mapping):
        return {key: _plain(each, f"{path}.{key}".strip(".")) for key, each in value.items()}
    if isinstance(value, PathLike):
        return fspath(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple, range)):
        return [_plain(each, f"{path}.{at}") for at, each in enumerate(value)]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    wanted = "a number, a text, a path, a list or a mapping"
    raise TypeError(f"{path}: found {value!r}, wanted {wanted}")


def cells(experiment: AnyExperiment) -> pd.DataFrame:
    """The cells that `run` would run, in this order, without running them.

    Returns:
        A row for each cell and repeat: ``cell`` and ``repeat`` as in results, a column for each
        swept path, the expected ``seconds`` on this machine, and a ``warning`` if it will probably
        fail, be invalid or have times that its scale distorts.
    """
    import pandas as pd

    planned = planning.plan(expand(validate(experiment)))
    return pd.DataFrame(
        {
            "cell": each.cell.id,
            "repeat": each.cell.repeat,
            **each.cell.settings,
            "seconds": each.seconds,
            "warning": each.warning or "",
        }
        for each in planned
    )


def run(
    experiment: AnyExperiment,
    output: File = "results",
    *,
    executor: str = "local",
    captures: str | Collection[str] = (),
    series: str | None = None,
    timeline: bool = False,
    force: bool = False,
    progress: bool = False,
) -> Tables:
    """Run every cell of an experiment, each in its own process.

    Args:
        output: where the results directory is made; the column ``run`` of the tables names it.
        executor: "local", or "dask:ADDRESS" for the machines of a Dask scheduler.
        captures: a link such as "h0-t0", or several, whose packets are stored in the cells' logs.
        series: an interval of simulated time such as "10us", at which the state of queues, windows
            and slots is stored in the cells' logs.
        timeline: whether to store in the cells' logs when ranks, links and switches were busy.
        force: whether to run even if the calibration says that this machine cannot handle a cell.
        progress: whether to report on stderr which cell runs, and its result.
    """
    evaluated = evaluation.New(validate(experiment), Path(output))
    return _run(evaluated, recorded(_links(captures), series, timeline), executor, force, progress)


def resume(
    directory: File,
    experiment: AnyExperiment | None = None,
    *,
    retry: Collection[str] = (),
    any_version: bool = False,
    adopt: bool = False,
    executor: str = "local",
    captures: str | Collection[str] = (),
    series: str | None = None,
    timeline: bool = False,
    force: bool = False,
    progress: bool = False,
) -> Tables:
    """Run the missing cells of a run's directory, and read all of it.

    Args:
        experiment: replaces the one in the directory.
        retry: "failed", "invalid" or both: cells with such rows are run again.
        any_version: whether to keep rows that another version of the code made.
        adopt: whether to keep them in virtual time if one repeat of their cell, run again, comes
            out the same.
        executor, captures, series, timeline, force, progress: as for `run`.
    """
    rules = Rules([retry] if isinstance(retry, str) else retry, any_version, adopt)
    asked = None if experiment is None else validate(experiment)
    evaluated = evaluation.Resumed(Path(directory), asked, rules)
    return _run(evaluated, recorded(_links(captures), series, timeline), executor, force, progress)


def _links(captures: Any) -> list[str]:
    """The links in ``captures``, which may be a single one."""
    links = [captures] if isinstance(captures, str) else captures
    if isinstance(links, Collection) and all(isinstance(each, str) for each in links):
        return [*links]
    raise TypeError(f'captures: found {captures!r}, wanted a link such as "h0-t0", or a list')


def _run(
    evaluated: evaluation.Evaluation,
    recording: Recording,
    executor: str,
    force: bool,
    progress: bool,
) -> Tables:
    where = executors.named(executor)
    if executor == "local" and not force:
        planning.refuse(evaluated.planned)
    for warning in planning.warned(evaluated.planned):
        warnings.warn(warning, stacklevel=3)
    directory, _ = evaluated.run(recording, where, quiet=not progress)
    return read(directory)


def read(*directories: File) -> Tables:
    """The tables of results directories, or of all those below the given ones.

    Raises FileNotFoundError if one has no results, and ValueError if none is given. See
    `testbed.results` for the columns.
    """
    return run_tables.read(_paths(directories))


def _paths(directories: tuple[File, ...]) -> list[Path]:
    if not directories:
        raise ValueError("found no directory, wanted at least one")
    if not all(isinstance(each, (str, PathLike)) for each in directories):
        raise TypeError(f"found {directories!r}, wanted paths, each as an argument of its own")
    return [Path(each) for each in directories]


def write_report(*directories: File, output: File | None = None) -> Path:
    """Write the report on results directories into ``output``, or into the last directory.

    Returns the path of its page. Raises ValueError if no directory is given.
    """
    paths = _paths(directories)
    import matplotlib

    before = matplotlib.get_backend()
    matplotlib.use("Agg")  # otherwise a notebook would show every figure
    try:
        from testbed.studies.reporting import report

        return report(paths, paths[-1] if output is None else Path(output))
    finally:
        matplotlib.use(before)

"""``torture``: random cases with faults, from seeds."""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from testbed.cli.arguments import FILE, Seconds, experiments
from testbed.cli.failures import running

if TYPE_CHECKING:
    from testbed.studies.torture.hunt import Hunt
    from testbed.studies.torture.trial import Verdict

_SEEDS = 160


@click.command()
@click.option(
    "--seeds", type=click.IntRange(1), help=f"schedules of each system  [default: {_SEEDS}]"
)
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="first seed")
@click.option(
    "--system", "systems", multiple=True, help="a system; may be repeated  [default: all]"
)
@click.option("--seconds", type=Seconds(0, min_open=True), help="stop after this time")
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="processes, at most 1024  [default: one for each core]",
)
@click.option(
    "--case", "cases", multiple=True, type=FILE, help="run an experiment file with faults instead"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results/torture"),
    show_default=True,
    help="where to write schedules that fail",
)
def torture(
    seeds: int | None,
    first: int,
    systems: tuple[str, ...],
    seconds: float | None,
    jobs: int | None,
    cases: tuple[Path, ...],
    output: Path,
) -> None:
    """Run random small jobs with faults, in virtual time, and check every sum.

    Each seed gives a fabric, its jobs and a schedule of faults. Every sum must be exact; if a fault
    is permanent, the run may end with a named error instead. Exits with 1 if a seed fails, or if
    none of a system's schedules can be deployed.
    """
    from testbed.systems import registry

    if cases:
        context = click.get_current_context()
        for option in context.command.params:
            source = context.get_parameter_source(option.name or "")
            if option.name != "cases" and source is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--case cannot be used with {option.opts[-1]}")
        with running():
            sys.exit(_judge(cases))
    for name in systems:
        if name not in registry:
            raise click.UsageError(f"found {name!r}, wanted one of {', '.join(registry)}")
    if seeds is None and seconds is None:
        seeds = _SEEDS
    chosen = list(dict.fromkeys(systems)) or list(registry)
    with running():
        from testbed.backends.packet.simulation import library
        from testbed.studies.torture.cases import check_own_protocols
        from testbed.studies.torture.hunt import Hunt, failing

        library()  # without a compiler, no case fails for a reason of its own
        check_own_protocols(chosen)
        hunt = Hunt(chosen, first, seeds)
        began, spent = time.monotonic(), _processor_s()
        try:
            hunt.run(seconds, jobs or len(os.sched_getaffinity(0)), _failed)
        finally:  # also after Ctrl-C: hours of schedules count
            took, spent = time.monotonic() - began, _processor_s() - spent
            _tell(hunt, took, spent)
        for failure in hunt.failures:
            click.echo("\n" + failing(*failure, output))
    unused = [name for name, count in hunt.counts.items() if count.undeployed and not count.ran]
    for name in unused:
        click.echo(f"{name}: {hunt.refused[name]}", err=True)
    sys.exit(1 if hunt.failures or unused else 0)


def _failed(system: str, seed: int, verdict: Verdict) -> None:
    click.echo(f"{system}, seed {seed}: {verdict.failure}", err=True)


def _tell(hunt: Hunt, took: float, spent: float) -> None:
    for name, count in hunt.counts.items():
        click.echo(f"{name:<18} {count}")
    total = sum(count.ran for count in hunt.counts.values())
    rate = total / spent if spent else 0.0
    click.echo(f"{total} schedules in {took:.1f} s, {rate:.0f} per second of processor time")
    if hunt.next is not None:
        click.echo(f"--first {hunt.next} goes on from here")


def _processor_s() -> float:
    """Processor time, in seconds, of the judging processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _judge(paths: tuple[Path, ...]) -> int:
    from testbed.studies.torture.judges import one_by_one

    verdict_on, status = one_by_one(), 0
    for path, experiment in zip(paths, experiments(paths), strict=True):
        if experiment.sweep:
            raise click.UsageError(f"{path}: found a sweep, wanted a single cell; remove it")
        verdict = verdict_on(experiment.data())
        said = verdict.failure or (f"ended with {verdict.error}" if verdict.error else "exact")
        click.echo(f"{path}: {said}")
        status |= bool(verdict.failure)
    return status

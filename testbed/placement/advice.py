"""Where an experiment's programmable switches should be, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from statistics import fmean

from testbed.experiment.cells import Cell, distinct
from testbed.experiment.findings import counted
from testbed.experiment.schema import Experiment
from testbed.placement.best import best_switches
from testbed.placement.fabric import what_matters, without_ina
from testbed.placement.search import Placed
from testbed.units import format_time

_CHOICE = {"ina", "ina_policy"}
"""Keys of a fabric that the result sets; their values in the input are ignored."""


def advice(experiment: Experiment, budget: int) -> Iterator[str]:
    """The best choice of at most ``budget`` switches for each cell: a table, and lines to paste.

    Cells that differ only in their choice of INA switches, or in the back end, count as one.
    DeploymentError if jobs cannot run with any choice of switches.
    """
    asked: dict[str, Cell] = {}
    for cell in distinct(experiment):
        matters = json.loads(what_matters(cell.experiment))
        for key in _CHOICE:
            matters["fabric"].pop(key, None)
        asked.setdefault(json.dumps(matters), cell)
    for cell in asked.values():
        varied = {
            path: value
            for path, value in cell.settings.items()
            if path != "backend" and path.removeprefix("fabric.") not in _CHOICE
        }
        heading = ", ".join(f"{path}: {value}" for path, value in varied.items())
        fabric = without_ina(cell.experiment)
        yield _text(cell.experiment, heading, best_switches(cell.experiment, fabric, budget))


def _text(experiment: Experiment, heading: str, placed: Placed) -> str:
    """The answer for one cell, in the real cluster's time."""
    count = len(placed.switches)
    lines = [heading] if heading else []
    lines.append(
        f"{'job':>4} {'system':18} {'workload':14} {'no INA':>9} {f'INA at {count}':>9}"
        f" {'INA at all':>10} {'speed-up':>8} {'above all':>9}"
    )
    times = (placed.without_s, placed.jct_s, placed.with_all_s)
    for number, job in enumerate(experiment.jobs):
        own = [each[number] if each else None for each in times]
        lines.append(_line(str(number), job.system, job.workload, own, experiment))
    if len(experiment.jobs) > 1:
        means = [fmean(each) if each else None for each in times]
        lines.append(_line("mean", "", "", means, experiment))
    choices = counted(placed.simulated, "choice")
    if placed.is_exact:
        lines.append(f"exact: all different choices were compared ({choices})")
    else:
        lines.append(
            f"greedy, then exchanged one for one ({choices} compared);"
            f" at most {placed.gap:.1%} above the best"
        )
    if not placed.switches:
        lines.append("no programmable switch makes these jobs faster")
    lines.append(f"ina: {'[' + ', '.join(placed.switches) + ']' if placed.switches else 'none'}")
    return "\n".join(lines)


def _line(
    job: str, system: str, workload: str, times: list[float | None], experiment: Experiment
) -> str:
    without, chosen, everywhere = times
    assert chosen is not None
    said = [
        "-" if each is None else format_time(each / experiment.emulation.scale) for each in times
    ]
    speed_up = f"{without / chosen:.2f}x" if without is not None else "-"
    above = f"{chosen / everywhere - 1:+.1%}" if everywhere is not None else "-"
    return (
        f"{job:>4} {system:18} {workload:14} {said[0]:>9} {said[1]:>9} {said[2]:>10}"
        f" {speed_up:>8} {above:>9}"
    )

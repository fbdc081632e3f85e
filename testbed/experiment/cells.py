"""Expand an experiment into its runs."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass, replace
from typing import Any

from testbed.experiment import sweep
from testbed.experiment.schema import Experiment

_LATER = {"routing": "ecmp"}
"""Keys of a fabric that count only with another value, so that older cells keep their ids."""


@dataclass(frozen=True)
class Cell:
    """One run: an experiment without a sweep, and the number of its repeat.

    Attributes:
        id: the same for the same fabric, jobs, backend and emulation, whatever the experiment's
            name and number of repeats.
        experiment: resolved, with ``sweep`` None. Its seed is the repeat's own, so that each repeat
            has its own random draws (ECMP, losses, jitter, random placement).
        settings: the values from the sweep, path to value; empty without a sweep.
        repeat: from 0.
    """

    id: str
    experiment: Experiment
    settings: dict[str, Any]
    repeat: int


def expand(experiment: Experiment) -> list[Cell]:
    """Every run of an experiment, in the order in which to run them.

    All cells run once before any is repeated. Each time they run in another order, drawn with the
    experiment's seed, so that no drift of the machine favours a system.
    """
    once = distinct(experiment)
    cells = []
    for repeat in range(experiment.emulation.repeats):
        order = once.copy()
        random.Random(f"{experiment.emulation.seed}/{repeat}").shuffle(order)
        cells += [_repeated(cell, repeat) for cell in order]
    return cells


def _repeated(cell: Cell, repeat: int) -> Cell:
    """The cell's repeat with its own seed; the first repeat has the experiment's seed."""
    if not repeat:
        return cell
    emulation = cell.experiment.emulation
    drawn = hashlib.sha256(f"{emulation.seed}/{repeat}".encode()).digest()
    emulation = emulation.model_copy(update={"seed": int.from_bytes(drawn[:4], "big")})
    experiment = cell.experiment.model_copy(update={"emulation": emulation})
    return replace(cell, experiment=experiment, repeat=repeat)


def distinct(experiment: Experiment) -> list[Cell]:
    """Every cell once, in the order of the sweep.

    Raises ValueError if the sweep makes invalid or duplicate cells: `load` rejects such an
    experiment.
    """
    data = experiment.data()
    cells: dict[str, Cell] = {}
    for settings in sweep.settings(experiment.sweep):
        resolved = Experiment.model_validate(sweep.apply(data, settings))
        cell = Cell(cell_id(resolved), resolved, settings, repeat=0)
        if cell.id in cells:
            first, second = sweep.written(cells[cell.id].settings), sweep.written(settings)
            raise ValueError(
                f"found the same cell twice, with {first} and with {second}, wanted it once;"
                " remove one value from the sweep"
            )
        cells[cell.id] = cell
    return list(cells.values())


def cell_id(experiment: Experiment) -> str:
    """Ten hexadecimal digits for what is run: for all fields except names, sweep and repeats."""
    data = experiment.data()
    del data["emulation"]["repeats"]
    for key, default in _LATER.items():
        if data["fabric"][key] == default:
            del data["fabric"][key]
    run = {key: data[key] for key in ("schema_version", "fabric", "jobs", "backend", "emulation")}
    text = json.dumps(run, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]

"""The data of all figures and tables, computed once from the results of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from testbed import run_tables
from testbed.report import again, backends, data, links, runs, settings, sharing, training
from testbed.report.drawing import Picture
from testbed.report.ranking import Ranking, rankings
from testbed.report.system_style import Series, Styles, SystemStyle, references, series_styles

Pictured = Callable[[Path, str], Picture | None]
"""The fabric of a run's cell, given its settings, if it can be drawn."""


@dataclass(frozen=True)
class Evaluated:
    """Results, labelled and summarised.

    Attributes:
        about: each run's experiment and provenance, by its directory.
        rows: every row that counts, with its labels (`settings.label`). A later run replaces rows,
            and identical runs in virtual time count once (`again`).
        replaced: how many rows do not count.
        counted: the rows over which ``means`` are taken.
        means: one row for each setting, place of INA, system and variant (`data.summary`).
        ratios: speed-ups over ``references`` (`data.speed_ups`).
        rankings: the systems of each setting and place of INA, fastest first. Jobs that ran side by
            side are compared if only one of them had another system.
        jobs: jobs that ran side by side (`sharing.together`).
        iterations: every worker's iterations.
        training: evaluations of jobs that learn, with labels (`training.labelled`).
        loads: how busy each link was, with labels (`links.labelled`).
        styles: each system's style; ``series`` has that of each of its variants.
        references: the systems over which speed-ups are given.
    """

    about: Mapping[str, runs.Run]
    rows: pd.DataFrame
    replaced: int
    counted: pd.DataFrame
    means: pd.DataFrame
    ratios: pd.DataFrame
    rankings: Sequence[Ranking]
    jobs: pd.DataFrame
    iterations: pd.DataFrame
    loads: pd.DataFrame
    training: pd.DataFrame
    styles: Styles
    series: Mapping[Series, SystemStyle]
    references: Sequence[str]

    @property
    def titles(self) -> dict[Series, str]:
        """The title of each series."""
        return {key: style.title for key, style in self.series.items()}

    def pictures(self, pictured: Pictured) -> list[tuple[str, str, Picture]]:
        """Each fabric with its labels, with INA where most of its switches aggregate."""
        found = []
        for fabric, own in self.rows.groupby("fabric", sort=True):
            share = own["ina_count"] / own["ina_total"]
            row = own.loc[share.idxmax()]
            picture = pictured(Path(row["run"]), row["settings"])
            if picture is not None:
                found.append((str(fabric), str(row["ina"]), picture))
        return found


def evaluated(run_dirs: Sequence[Path], styles: Styles) -> Evaluated:
    """Read runs. Raises FileNotFoundError if a directory holds no results, and Unreadable if they
    are damaged."""
    found = run_tables.read(run_dirs)
    about = runs.of(found.results)
    backends.check(found.results["backend"])
    current = again.latest(found.results, about)
    labelled = settings.label(current, {run: each.experiment for run, each in about.items()})
    rows = again.once(labelled)
    shared = settings.in_company(rows)
    means = data.summary(rows, styles)
    return Evaluated(
        about=about,
        rows=rows,
        replaced=len(found.results) - len(rows),
        counted=data.counted(rows),
        means=means,
        ratios=data.speed_ups(means, styles),
        rankings=_rankings(shared, means, styles),
        jobs=sharing.together(rows, means),
        iterations=found.iterations,
        loads=links.labelled(found.links, rows),
        training=training.labelled(
            run_tables.read_training(run_dirs),
            data.counted(pd.concat([rows, shared])),
        ),
        styles=styles,
        series=series_styles(list(zip(rows["system"], rows["variant"], strict=True)), styles),
        references=references(styles),
    )


def _rankings(shared: pd.DataFrame, means: pd.DataFrame, styles: Styles) -> list[Ranking]:
    run = [shared[name] for name in ("run", "cell", "repeat")]
    shared = shared[data.is_valid(shared).groupby(run).transform("all")]
    if not len(data.finished(shared)):
        return rankings(means, styles)
    beside = data.summary(shared, styles)
    company = set(beside["conditions"])
    found = rankings(pd.concat([means, beside]) if len(means) else beside, styles)
    return [each for each in found if each.behind or each.place["conditions"] not in company]

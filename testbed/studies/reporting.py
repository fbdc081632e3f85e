"""Reports on results, with the declarations of systems and the fabrics of experiments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed import results
from testbed.deployment.errors import DeploymentError
from testbed.experiment import sweep
from testbed.experiment.schema import Experiment
from testbed.located import Invalid, read
from testbed.placement.fabric import build_fabric
from testbed.report.drawing import Picture
from testbed.report.page import build
from testbed.report.system_style import SystemStyle
from testbed.systems import registry


def report(
    directories: Sequence[Path],
    output: Path,
    kept: Mapping[Path, Path] | None = None,
) -> Path:
    """Write the report on ``directories`` into ``output``; returns the path of its page.

    ``kept`` has the directories to which the page links instead of these. Raises FileNotFoundError
    if a directory has no results.
    """
    return build(directories, output, styles(), picture, kept)


def styles() -> dict[str, SystemStyle]:
    """The style of each registered system."""
    return {
        name: SystemStyle(
            title=system.title,
            colour=system.colour,
            marker=system.marker,
            citation=system.citation,
            published=system.published,
            reading=system.reading,
            baseline=system.baseline,
            reference=system.reference,
            aggregates=system.aggregates,
            waits=system.waits,
        )
        for name, system in registry.items()
    }


def picture(run: Path, settings: str) -> Picture | None:
    """The fabric of a run's cell; None if this version cannot read its experiment."""
    try:
        data = read(run / results.EXPERIMENT).data
        cell = sweep.apply(data, json.loads(settings))
        fabric = build_fabric(Experiment.model_validate(cell))
    except (OSError, ValueError, Invalid, DeploymentError):
        return None
    return Picture(
        name=fabric.name,
        kinds={node.name: node.kind.value for node in fabric.nodes.values()},
        links=tuple((link.a, link.b) for link in fabric.links),
        ina=fabric.ina,
    )

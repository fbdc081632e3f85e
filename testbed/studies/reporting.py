"""Joins results, which know no systems, with the systems' looks and sources, and with fabrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from testbed import results
from testbed.deployment.errors import DeploymentError
from testbed.experiment import sweep
from testbed.experiment.schema import Experiment
from testbed.located import Invalid, read
from testbed.placement.fabric import build_fabric
from testbed.plan.program import Plan
from testbed.report import Look, Picture, build
from testbed.systems import Assignment, System, registry
from testbed.topology.builders import leaf_spine
from testbed.workload.catalogue import load


def report(directories: Sequence[Path], output: Path, include_invalid: bool = False) -> Path:
    """Write the report over ``directories`` into ``output``; the path of its page.

    ``include_invalid`` lets rows that are not valid count. FileNotFoundError if a directory holds
    no results.
    """
    return build(directories, output, looks(), picture, include_invalid)


def looks() -> dict[str, Look]:
    """How each registered system appears."""
    return {name: _look(system) for name, system in registry.items()}


def _look(system: System) -> Look:
    plan = _sample(system)
    return Look(
        title=system.title,
        colour=system.colour,
        marker=system.marker,
        citation=system.citation,
        published=system.published,
        reading=system.reading,
        aggregates=plan is None or bool(plan.trees),
        waits=plan is None or plan.consistency is None,
    )


def _sample(system: System) -> Plan | None:
    """What the system does by default with INA everywhere; None if it cannot say."""
    fabric = leaf_spine(2, 2, 3, 1e9, 1e9, 256_000)
    fabric = fabric.with_ina(fabric.switches)
    servers = ("h5",) if system.servers[1] else ()
    try:
        options = system.settle({})
        assignment = Assignment(("h0", "h1", "h3", "h4"), servers, options, load("resnet50"))
        return system.plan(assignment, fabric)
    except ValueError:
        return None


def picture(run: Path, settings: str) -> Picture | None:
    """The fabric of a run's cell; None if its experiment is one that this version cannot read."""
    try:
        data = read(run / results.EXPERIMENT).data
        cell = sweep.apply(data, json.loads(settings or "{}"))
        fabric = build_fabric(Experiment.model_validate(cell))
    except (OSError, ValueError, Invalid, DeploymentError):
        return None
    return Picture(
        name=fabric.name,
        kinds={node.name: node.kind.value for node in fabric.nodes.values()},
        links=tuple((link.a, link.b) for link in fabric.links),
        ina=fabric.ina,
    )

"""Paths that a controller chooses for all flows of an experiment."""

from __future__ import annotations

from itertools import pairwise

import pytest
import yaml

from testbed.deployment.deploy import deploy
from testbed.deployment.experiments import reads
from testbed.placement.fabric import build_fabric
from testbed.plan.cost import flows
from testbed.systems import registry


def deployed(system, routing="spread"):
    job = {"system": system, "workload": "resnet50", "workers": 5, "iterations": 1}
    fabric = {"kind": "fat-tree", "k": 4, "host_rate": "10Gbit", "routing": routing}
    content = {"schema_version": 1, "name": "routed", "fabric": fabric, "jobs": [job, job]}
    asked = reads(yaml.safe_dump(content, sort_keys=False))
    return deploy(asked, build_fabric(asked))


@pytest.mark.parametrize("system", [name for name in registry if name != "topoopt"])
def test_every_flow_with_a_choice_has_one_shortest_path(system):
    made = deployed(system)
    fabric = made.fabric
    for job in made.jobs:
        asked = flows(job.plan)
        for source, to in asked:
            route = job.plan.routes.get((source, to))
            if route is None:
                at = source
                while at != to:
                    (at,) = fabric.next_hops(at, to)
            else:
                assert (route[0], route[-1]) == (source, to)
                assert all(there in fabric.next_hops(at, to) for at, there in pairwise(route))
        assert set(job.plan.routes) <= set(asked)


def test_hashes_choose_by_default():
    assert not any(job.plan.routes for job in deployed("ps", "ecmp").jobs)


def test_a_system_keeps_the_paths_of_its_own_plan():
    by_hash, spread = deployed("grid", "ecmp"), deployed("grid")
    assert by_hash.jobs[0].plan.routes.items() <= spread.jobs[0].plan.routes.items()

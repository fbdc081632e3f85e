"""Paths that a controller chooses for all flows of an experiment."""

from __future__ import annotations

from itertools import pairwise

import pytest
import yaml

from testbed.deployment.deploy import deploy
from testbed.deployment.experiments import reads
from testbed.placement.fabric import build_fabric
from testbed.plan.cost import flows, link_loads
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
        others = {flow for other in made.jobs if other is not job for flow in flows(other.plan)}
        for source, to in asked:
            if source in fabric.switches and (source, to) in others:
                assert (source, to) not in job.plan.routes
                continue
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


def test_streams_of_several_jobs_between_two_switches_keep_their_trees_links():
    job = {"system": "switchml", "workload": "resnet50", "iterations": 1}
    workers = [["h0", "h1", "h5", "h6"], ["h2", "h3", "h7", "h8"]]
    fabric = {"kind": "leaf-spine", "spines": 2, "leaves": 2, "hosts_per_leaf": 5,
              "host_rate": "10Gbit", "ina": "all", "routing": "spread"}  # fmt: skip
    content = {"schema_version": 1, "name": "routed", "fabric": fabric,
               "jobs": [job | {"workers": own} for own in workers]}  # fmt: skip
    asked = reads(yaml.safe_dump(content, sort_keys=False))
    made = deploy(asked, build_fabric(asked))
    links = [set(link_loads(job.plan, made.fabric)) for job in made.jobs]
    assert not {link for link in links[0] & links[1] if "s0" in link or "s1" in link}

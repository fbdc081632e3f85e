"""The parts add up, and each cause's gain is what a run without the cause shows."""

from __future__ import annotations

from functools import cache

import pytest

from testbed.backends.measurements import Stalled
from testbed.backends.packet import backend
from testbed.experiment.schema import Experiment
from testbed.placement.deployments import Deployments
from testbed.studies.explain.attribution import BUSIEST, CHAIN, COMPUTE, explain
from testbed.studies.explain.words import draw, text

RING = {"system": "ring", "workload": "resnet50", "iterations": 2, "warmup": 1}
HOSTS = [f"h{host}" for host in range(6)]
FABRIC = {
    "kind": "leaf-spine",
    "spines": 1,
    "leaves": 2,
    "hosts_per_leaf": 5,
    "host_rate": "10Gbit",
}


def experiment(job=None, fabric=None, emulation=None, others=()):
    return Experiment.model_validate(
        {
            "schema_version": 1,
            "name": "explained",
            "backend": "packet",
            "fabric": FABRIC | (fabric or {}),
            "jobs": [RING | {"workers": HOSTS} | (job or {}), *others],
            "emulation": {"scale": "1/128"} | (emulation or {}),
        }
    )


@cache
def deployed(text):
    return Deployments().of(Experiment.model_validate_json(text))


@cache
def explained_once(text):
    return explain(deployed(text))


def explained(found):
    """Explained once, for all tests that this process runs."""
    return explained_once(found.model_dump_json(exclude_none=True))


def part(found, name):
    return next(part for part in found.parts if part.name == name)


UPLINK = {"fabric_rate": "5Gbit"}
CROSSING = {"workers": ["h0", "h1", "h5", "h6"]}
BESIDE = RING | {"workers": ["h3", "h4", "h8", "h9"], "iterations": 4}
SWITCHML = {"system": "switchml"}

CASES = {
    "loss": ({"emulation": {"loss": 0.02}}, {}),
    "stragglers": (
        {"job": {"compute": {"stragglers": {"workers": [2], "slowdown": 1.5}}}},
        {},
    ),
    "steps of the chain": ({"fabric": {"step_latency": "3ms"}}, {}),
    "delays": ({"fabric": {"link_delay": "1ms"}}, {}),
    "hosts' own cost": ({"fabric": {"packet_cost": "3us"}}, {}),
    "switch capacity": (
        {"job": SWITCHML, "fabric": {"capacity": "3Gbit"}},
        {"job": SWITCHML},
    ),
    "small windows": (
        {"job": SWITCHML | {"options": {"window": 2}}, "fabric": {"link_delay": "1us"}},
        {"job": SWITCHML, "fabric": {"link_delay": "1us"}},
    ),
    "other jobs": (
        {"job": CROSSING, "fabric": UPLINK, "others": [BESIDE]},
        {"job": CROSSING, "fabric": UPLINK},
    ),
}


@pytest.mark.parametrize("cause", CASES)
def test_a_gain_is_what_the_experiment_without_the_cause_shows(cause):
    with_it, without_it = (experiment(**each) for each in CASES[cause])
    found = explained(with_it)
    other = explained(without_it)
    gain = found.jct_s - other.jct_s
    assert gain > 0.01 * other.jct_s
    assert part(found, cause).alone_s == pytest.approx(gain, rel=0.1)


@pytest.mark.parametrize("cause", CASES)
def test_parts_add_up_to_the_jct(cause):
    found = explained(experiment(**CASES[cause][0]))
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.jct_s, rel=1e-9)
    assert {COMPUTE, BUSIEST, CHAIN, cause} <= {part.name for part in found.parts}
    assert all(part.seconds >= 0 for part in found.parts if not part.instead)
    assert not found.unknown


@pytest.mark.parametrize("cause", CASES)
def test_it_can_be_told_and_drawn(cause):
    found = explained(experiment(**CASES[cause][0]))
    told = text(found)
    assert f"\n{cause}: " in told
    draw(found)


@pytest.mark.parametrize(
    ("stalls", "unknown"),
    [
        # In the first order delays go last, in the reverse order the hosts' own cost does.
        (lambda loss, cost, delay: not (loss or delay), "delays: the run without it, loss, "),
        (lambda loss, cost, delay: loss and not (cost or delay), "hosts' own cost: the run "),
    ],
    ids=["in order", "in the reverse order"],
)
def test_a_cause_is_unknown_if_runs_without_it_and_others_fail(stalls, unknown, monkeypatch):
    def run(deployment, *given):
        fabric, loss = deployment.fabric, deployment.experiment.emulation.loss
        if stalls(loss, fabric.packet_cost, fabric.link_delay):
            raise Stalled("for ever")
        return real(deployment, *given)

    real = backend.run
    monkeypatch.setattr(backend, "run", run)
    slow = {"link_delay": "100us", "packet_cost": "1us"}
    found = explain(Deployments().of(experiment(fabric=slow, emulation={"loss": 0.02})))
    (told,) = found.unknown
    assert told.startswith(unknown) and told.endswith("failed: for ever")
    causes = {"loss", "hosts' own cost", "delays"} - {told.partition(":")[0]}
    assert {part.name for part in found.parts if part.instead} == causes
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.jct_s, rel=1e-9)
    assert told in text(found)


def test_ecmps_imbalance_is_what_one_fat_spine_would_gain():
    job = {"options": {"order": "naive"}, "workers": [f"h{host}" for host in range(10)]}
    several = {"spines": 5}
    found = explained(experiment(job=job, fabric=several, emulation={"seed": 3}))
    fat = explained(experiment(job=job, fabric={"spines": 1, "fabric_rate": "50Gbit"}))
    gain = found.jct_s - fat.jct_s
    assert gain > 0.05 * fat.jct_s
    assert part(found, "ECMP's imbalance").alone_s == pytest.approx(gain, rel=0.1)


def test_a_run_with_nothing_in_its_way_has_no_causes():
    found = explained(experiment())
    assert [part.name for part in found.parts] == [COMPUTE, BUSIEST, CHAIN]


def test_without_a_barrier_a_servers_full_link_is_no_dependency_chain():
    """The worker that ends last once counted alone, whose time is a part of the JCT."""
    job = {"system": "asp", "servers": 1, "workload": "synthetic/4x2.5MB/5ms", "iterations": 4}
    found = explained(experiment(job, {"queue": "4MB"}, {"scale": "1/16"}))
    assert part(found, BUSIEST).seconds > 0.7 * found.jct_s
    assert part(found, CHAIN).seconds < 0.1 * found.jct_s

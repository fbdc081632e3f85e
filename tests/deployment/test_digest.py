"""The digest of what a job sends, and when."""

from __future__ import annotations

from testbed.deployment.deploy import deploy
from testbed.deployment.digest import digest
from testbed.experiment.load import loads
from testbed.located import write
from testbed.placement.fabric import build_fabric

TEXT = """\
schema_version: 1
name: small
backend: simulate
fabric: {kind: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 3, host_rate: 10Gbit, ina: none}
jobs: [{system: ring, workload: synthetic/4x1MB, workers: 4, servers: [h5], iterations: 1}]
"""


def changed(**fields) -> str:
    """The digest of the experiment's cell with other values of ``fields``."""
    data = loads(TEXT).data()
    for path, value in fields.items():
        at = data
        *around, last = path.split("__")
        for part in around:
            at = at[int(part)] if part.isdecimal() else at[part]
        at[last] = value
    experiment = loads(write(data))
    (job,) = deploy(experiment, build_fabric(experiment)).jobs
    return digest(job)


def test_a_digest_is_of_what_a_cell_does():
    same = changed()
    assert changed() == same
    # These do not affect what is sent or when.
    assert changed(name="another") == changed(jobs__0__fixed_point=10) == same
    for other in (
        changed(jobs__0__system="atp"),
        changed(jobs__0__workers=3),
        changed(jobs__0__workload="synthetic/8MB"),
        changed(jobs__0__bucket="1MB"),
        changed(jobs__0__start="1s"),
        changed(fabric__step_latency="1us"),
        changed(emulation__scale="1/2"),
    ):
        assert other != same


def test_systems_that_do_the_same_have_the_same_digest():
    """Without INA, Rina and NetReduce are rings."""
    assert changed(jobs__0__system="rina") == changed(jobs__0__system="netreduce") == changed()

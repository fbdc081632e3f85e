"""The hosts of jobs side by side."""

from __future__ import annotations

import pytest
from tiny import experiment

from testbed.deployment.errors import DeploymentError
from testbed.deployment.places import places
from testbed.placement.fabric import build_fabric

TWO = [
    {"system": "ps", "workload": "synthetic/1x1MB", "workers": 2, "servers": 1},
    {"system": "ps", "workload": "synthetic/1x1MB", "workers": 2, "servers": 1},
]


@pytest.mark.parametrize("placement", ["packed", "spread", "random"])
def test_workers_have_the_same_hosts_whether_other_jobs_have_servers_or_not(tmp_path, placement):
    def workers(system: str) -> list[tuple[str, ...]]:
        first, second = ({**job, "placement": placement} for job in TWO)
        asked = experiment(tmp_path, jobs=[{**first, "system": system}, second])
        found = places(asked.jobs, build_fabric(asked), 1)
        assert len(found[0].servers) == (system == "ps")
        hosts = [host for each in found for host in (*each.workers, *each.servers)]
        assert len({*hosts}) == len(hosts)
        return [each.workers for each in found]

    assert workers("ps") == workers("ring")


def test_a_lack_of_hosts_is_said_of_the_job_that_they_are_missing_for(tmp_path):
    asked = experiment(tmp_path, jobs=TWO)
    jobs = [asked.jobs[0], asked.jobs[1].model_copy(update={"servers": 40})]
    with pytest.raises(DeploymentError, match="ps on synthetic/1x1MB: 40 hosts wanted") as raised:
        places(jobs, build_fabric(asked), 1)
    assert raised.value.place == ("jobs", 1)

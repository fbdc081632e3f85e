"""Marks of long queues (ECN) reach ATP's hosts where two jobs share a slow link."""

from __future__ import annotations

from pathlib import Path

from testbed.backends.packet import backend
from testbed.deployment.deploy import deploy
from testbed.deployment.experiments import read
from testbed.experiment.cells import expand
from testbed.hosts.tree_flow import TreeFlow
from testbed.placement.fabric import build_fabric

LADDER = Path(__file__).parents[3] / "experiments" / "ladder-ecn.yaml"


def test_the_ladder_for_marks_has_marks_and_loses_little(tmp_path, monkeypatch):
    marks = []
    account = TreeFlow.account

    def counting(flow, outcome):
        marks.append(flow._engine.counters(flow._number).ecn)
        account(flow, outcome)

    monkeypatch.setattr(TreeFlow, "account", counting)
    packets = read(LADDER).model_copy(update={"backend": "packet"})
    for cell in expand(packets)[:2]:
        marks.clear()
        deployment = deploy(cell.experiment, build_fabric(cell.experiment))
        measured = backend.run(deployment, tmp_path)
        assert sum(marks) > 0, cell.settings
        ports = measured.ports.values()
        sent = sum(port.sent for port in ports)
        assert sum(port.dropped for port in ports) < 0.001 * sent
        assert sum(job.retransmitted or 0 for job in measured.jobs) < 0.005 * sent
        assert all(job.verified for job in measured.jobs)

"""Loss that few connections survive is named before a run, and by the run that fails because of
it."""

from __future__ import annotations

import pytest
import yaml
from verbs import invoke

from testbed.run_tables import read_results

EXPERIMENT = {
    "schema_version": 1,
    "name": "lossy",
    "backend": "packet",
    "fabric": {"kind": "leaf-spine", "spines": 1, "leaves": 2, "hosts_per_leaf": 2,
               "host_rate": "10Gbit"},
    "jobs": [{"system": "ring", "workload": "synthetic/200KB", "workers": 4, "iterations": 1}],
}  # fmt: skip


def called(folder, loss, *arguments):
    file = folder / "lossy.yaml"
    file.write_text(yaml.safe_dump(EXPERIMENT | {"emulation": {"loss": loss, "scale": 1}}))
    return invoke(arguments[0], file, *arguments[1:])


@pytest.mark.parametrize(
    ("loss", "warned"), [(0.5, True), ({"h1-t0": 0.5}, True), (0.01, False), (0, False)]
)
def test_loss_that_breaks_connections_is_a_warning(tmp_path, loss, warned):
    result = called(tmp_path, loss, "run", "--dry-run")
    assert result.exit_code == 0
    assert ("loses 50% of its packets (emulation.loss)" in result.output) == warned


def test_a_run_that_loses_half_of_its_packets_ends_and_says_why(tmp_path):
    result = called(tmp_path, 0.5, "run", "-o", str(tmp_path / "out"))
    assert result.exit_code == 1, result.output
    (error,) = read_results(tmp_path / "out")["error"]
    assert "TCP gave up the connection from rank" in error
    assert error.endswith("loses 50% of its packets (emulation.loss)")

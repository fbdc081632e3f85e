"""The verdict says if the machine was busy with other processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tiny import experiment

from testbed.backends.recording import NOTHING
from testbed.campaign.evaluation import New
from testbed.campaign.local import Local
from testbed.run_tables import read

pytestmark = [pytest.mark.root, pytest.mark.alone]


@pytest.fixture
def busy_processors() -> Iterator[None]:
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in os.sched_getaffinity(0)
    ]
    yield
    for each in busy:
        each.kill()
        each.wait()


@pytest.mark.usefixtures("busy_processors")
def test_a_busy_machine_is_caught_by_its_verdict(tmp_path):
    run, failures = New(experiment(tmp_path), tmp_path).run(NOTHING, Local(), quiet=True)
    assert failures == 0
    (verdict,) = read(run).results.verdict
    assert re.match(r"processor idle only [0-9]% ", verdict)

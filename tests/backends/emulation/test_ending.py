"""When the process that holds a fabric ends, its namespaces, links and processes end, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from leftovers import (
    assert_gone,
    command_of,
    descendants,
    namespace_of,
    namespaces,
    processes_in,
)
from patience import PATIENCE_S, awaited, limited
from traffic import TARGETS, fabric, switches

from testbed.backends.emulation.cleanup import clean
from testbed.backends.emulation.network import EmulationError, Network

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("root_namespace")]

# A fabric with a P4 switch, held until a signal arrives.
HOLDER = """
import multiprocessing, os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from leftovers import namespaces
from traffic import fabric, switches
from testbed.backends.emulation.network import Network
from testbed.campaign.isolation import termination_unwinds
target, unwinds, folder = sys.argv[3], sys.argv[4] == "unwinds", Path(sys.argv[5])
def hold():
    with Network(fabric(("t0",)), 1.0, switches(target, ("t0",), folder)) as network:
        print(*namespaces(network), flush=True)
        time.sleep(600)
if unwinds:
    with termination_unwinds():
        hold()
else:
    hold()
"""


def start_holder(target, ending, folder):
    here = Path(__file__).parent
    path = {"PYTHONPATH": f"{here}:{here.parents[1]}"}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(here), "-", target, ending, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | path,
        start_new_session=True,
    )
    assert process.stdout is not None
    with limited(process):
        inodes = {int(word) for word in process.stdout.readline().split()}
    assert len(processes_in(inodes)) > len(inodes)  # a shell in each, and the switch
    return process, inodes


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ending", ["unwinds", "drops dead"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=str)
def test_a_signal_to_the_holder_leaves_nothing(number, ending, target, tmp_path):
    process, inodes = start_holder(target, ending, tmp_path)
    with process:
        process.send_signal(number)
        assert_gone(inodes)
        process.wait(PATIENCE_S)
    assert not [line for line in clean() if f"run {process.pid}." in line]


def test_interrupting_the_whole_process_group_leaves_nothing(tmp_path):
    process, inodes = start_holder("native", "unwinds", tmp_path)
    with process:
        os.killpg(process.pid, signal.SIGINT)
        assert_gone(inodes)


@pytest.mark.parametrize("target", TARGETS)
def test_a_dead_switch_is_named(target, tmp_path):
    p4 = ("t0", "t1")
    with Network(fabric(p4), 1.0, switches(target, p4, tmp_path)) as network:
        assert network.dead() == {}
        (switch,) = [
            pid
            for pid in descendants(os.getpid())
            if namespace_of(pid) == namespace_of(network.pid("t1"))
            and not command_of(pid)[0].endswith(("bash", "python3"))  # the shell, BMv2's client
        ]
        os.kill(switch, signal.SIGKILL)
        dead = awaited(network.dead)
        assert list(dead) == ["t1"]
        assert dead["t1"]
        # The other switches still answer, and the reason does not change.
        assert network.statistics().lost["t0"] == 0
        assert network.dead() == dead
        assert len(network.switch_pids()) == 1
        with pytest.raises(EmulationError, match=r"^t1: "):
            network.events(0)
        inodes = namespaces(network)
    assert_gone(inodes)

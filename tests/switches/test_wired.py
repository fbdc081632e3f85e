import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import awaited

pytestmark = pytest.mark.root

_HOLDER = """
import signal, subprocess
from testbed.switches.wired import _namespace
with _namespace() as keeper:
    print(keeper, flush=True)
    signal.pause()
"""


def test_a_namespace_ends_with_the_process_that_opened_it():
    with subprocess.Popen([sys.executable, "-c", _HOLDER], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        keeper = Path("/proc") / holder.stdout.readline().decode().strip()
        assert os.readlink(keeper / "ns/net") != os.readlink("/proc/self/ns/net")
        holder.send_signal(signal.SIGKILL)
    awaited(lambda: not keeper.exists())

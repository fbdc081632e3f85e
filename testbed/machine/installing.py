"""Installs, with apt, the packages that the doctor's checks found missing."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator

from testbed.machine.doctor import Check


class NotInstalled(Exception):
    """Packages could not be installed; the message says why."""


def packages(checks: Iterable[Check]) -> list[str]:
    """The packages of Debian and Ubuntu that fix ``checks``."""
    lacking = (check for check in checks if check.status != "ok")
    return list(dict.fromkeys(package for check in lacking for package in check.packages))


def install(checks: Iterable[Check]) -> Iterator[str]:
    """Install the packages of ``checks``, and yield what is done. Raises NotInstalled if that
    fails."""
    wanted = packages(checks)
    if not wanted:
        return
    if os.geteuid() != 0:
        raise NotInstalled(f"as root, run: apt-get install {' '.join(wanted)}")
    if shutil.which("apt-get") is None:
        raise NotInstalled(f"found no apt-get; install by other means: {' '.join(wanted)}")
    yield f"installing {' '.join(wanted)}"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise NotInstalled(f"`{' '.join(command)}` failed: {said}")
    importlib.invalidate_caches()  # the next check looks for Mininet again

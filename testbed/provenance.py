"""What a run ran on: versions, machine and source code, for ``run.json``.

Nothing here names the machine or its directories, so that results can be published unchanged.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from importlib import metadata, util
from pathlib import Path
from typing import Any

PACKAGES = ("ina-testbed", "numpy", "pandas", "networkx", "pydantic", "matplotlib", "scapy")


def environment() -> dict[str, Any]:
    """The facts for ``run.json``; None where something is missing or unknown."""
    return {
        "command": command(sys.argv),
        "started_at": now(),
        **_source(Path(__file__).parent),
        "python": platform.python_version(),
        "versions": {**{name: _version(name) for name in PACKAGES}, "mininet": mininet()},
        "bmv2": _first_line("simple_switch", "--version"),
        "p4c": _first_line("p4c", "--version"),
        "compiler": _first_line("cc", "--version"),
        "kernel": platform.release(),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def command(arguments: list[str]) -> str:
    """A command line with absolute paths made relative, or cut down to their last part."""
    program = Path(arguments[0])
    name = f"python -m {program.parent.name}" if program.name == "__main__.py" else program.name
    return " ".join([name, *map(_without_place, arguments[1:])])


def _without_place(argument: str) -> str:
    option, separator, value = argument.rpartition("=")
    path = Path(value)
    if not path.is_absolute():
        return argument
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else Path(path.name)
    return f"{option}{separator}{here}"


def _source(folder: Path) -> dict[str, Any]:
    """The commit of the repository that holds this package, and whether files changed since."""
    commit = _output("git", "-C", str(folder), "rev-parse", "HEAD")
    status = _output("git", "-C", str(folder), "status", "--porcelain")
    return {"git_commit": commit or None, "git_dirty": bool(status) if commit else None}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def mininet() -> str | None:
    """Mininet's version; None if missing or unknown. It is read from the source: Debian's package
    has no metadata, and importing Mininet loads much else."""
    try:
        spec = util.find_spec("mininet")
    except ImportError:
        return None
    for folder in (spec and spec.submodule_search_locations) or ():
        source = Path(folder, "net.py")
        if source.exists():
            match = re.search(r'^VERSION = "([^"]+)"', source.read_text(), re.MULTILINE)
            return match[1] if match else None
    return None


def processor() -> str | None:
    """The processor's name; None if it is unknown."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or None
    match = re.search(r"^(?:model name|Hardware|cpu model)\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1] if match else platform.machine()


def _first_line(*words: str) -> str | None:
    return next(iter(_output(*words).splitlines()), None) if shutil.which(words[0]) else None


def _output(*words: str) -> str:
    """Standard output of a command, empty if it fails or takes over ten seconds."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()

"""What made a row, besides its configuration: the code, and the files that the experiment names."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from testbed.experiment.schema import Experiment
from testbed.shipped import folder
from testbed.workload.catalogue import WORKLOADS, names
from testbed.workload.synthetic import SYNTHETIC

_PACKAGE = Path(__file__).resolve().parents[1]
_SOURCES = {".py", ".c", ".h"}
_COMPILED = folder("p4") / "build"
_WITHOUT_INFLUENCE = (
    "__init__.py",
    "api.py",
    "cli",
    "report",
    "studies",
    "machine/measuring.py",
    "machine/calibration.py",
    "machine/capacity.py",
    "machine/doctor.py",
    "campaign/progress.py",
    "campaign/resume.py",
    "campaign/dask.py",
    "backends/emulation/cleanup.py",
)
"""Parts of the package that only look at results, never see a run, or settle what a cell names."""


def version(experiment: Experiment) -> str:
    """Ten hexadecimal digits for all that a cell's result depends on besides its configuration.

    Rows with the same cell and version are repeats of one another, whenever they were made.
    """
    digest = hashlib.sha256(code().encode())
    files = {job.workload for job in experiment.jobs}
    if experiment.emulation.p4_program is not None:
        files.add(experiment.emulation.p4_program)
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + _content(name))
    return digest.hexdigest()[:10]


@cache
def code() -> str:
    """Digest of all code that a result may depend on."""
    skipped = [_PACKAGE / part for part in _WITHOUT_INFLUENCE]
    digest = hashlib.sha256()
    for root in (_PACKAGE, _COMPILED):
        for path in sorted(root.rglob("*")):
            of_interest = path.suffix in _SOURCES or root == _COMPILED
            if of_interest and path.is_file() and not {path, *path.parents}.intersection(skipped):
                digest.update(str(path.relative_to(root)).encode() + b"\0")
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@cache
def _content(name: str) -> bytes:
    """Digest of a workload's files or of a P4 program; nothing for what is made up on the spot."""
    if name.startswith(SYNTHETIC):
        return b""
    path = WORKLOADS / name if name in names() else Path(name)
    digest = hashlib.sha256()
    # A workload may have gradients beside its trace, with the same name but for the end.
    beside = (each for each in path.parent.iterdir() if each.name.startswith(f"{path.stem}."))
    for each in sorted(filter(Path.is_file, beside)):
        digest.update(each.name.encode() + b"\0" + hashlib.sha256(each.read_bytes()).digest())
    return digest.digest()

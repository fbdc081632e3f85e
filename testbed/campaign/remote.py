"""A cell on another machine: requested as plain data, run there by a fresh interpreter.

The fresh interpreter loads the code from its files, so the running code matches its version; the
worker's own process may be days old. Requests from another version of the testbed are refused. So
are cells whose workloads or P4 programs differ on this machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from testbed.backends.emulation.network import EmulationError
from testbed.backends.recording import NOTHING, Recording
from testbed.campaign.isolation import Failed, Terminated, termination_unwinds
from testbed.campaign.local import Local, Outcome, log_name
from testbed.campaign.planning import Planned
from testbed.campaign.version import code, version
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import Cell
from testbed.experiment.schema import Experiment
from testbed.lifetime import die_with_parent
from testbed.placement.deployments import Deployments
from testbed.provenance import environment
from testbed.replaced import replacing

Request: TypeAlias = dict[str, Any]

_LOADED = code()
"""The code that this process has loaded; its files may change later."""
_OTHER_CODE = "it has another version of the testbed; install the same there, restart its worker"

_running: dict[str, subprocess.Popen[bytes]] = {}
"""Interpreters that this process runs for requests, by token."""
_stopped: set[str] = set()
"""Tokens of requests that are no longer wanted. Some may not run yet, or run here at all."""


@dataclass(frozen=True)
class Reply:
    """The outcome of a cell, or why this machine refuses it, and its logs by path."""

    outcome: Outcome | str
    logs: dict[str, bytes] = field(default_factory=dict)

    def keep_logs(self, folder: Path) -> None:
        """Write the logs into ``folder``."""
        for name, content in self.logs.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def request(cell: Cell, recording: Recording, token: str) -> Request:
    """The request for `serve`; ``token`` identifies it for `stop`."""
    return {
        "token": token,
        "code": code(),
        "version": version(cell.experiment),
        "id": cell.id,
        "experiment": cell.experiment.data(),
        "settings": cell.settings,
        "repeat": cell.repeat,
        "recording": recording.data(),
    }


def serve(asked: Request) -> Reply:
    """Run a cell in its own interpreter, and wait for it."""
    if asked["code"] != _LOADED:
        return Reply(_OTHER_CODE)
    with tempfile.TemporaryDirectory(prefix="ina-testbed-cell-") as name:
        folder = Path(name)
        (folder / "request.json").write_text(json.dumps(asked))
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, name, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        _running[asked["token"]] = process
        if asked["token"] in _stopped:
            process.terminate()
        try:
            ended = process.wait()
        finally:
            del _running[asked["token"]]
        logs = folder / "logs"
        files = filter(Path.is_file, logs.rglob("*"))
        kept = {str(each.relative_to(logs)): each.read_bytes() for each in files}
        try:
            return Reply(pickle.loads((folder / "outcome").read_bytes()), kept)
        except FileNotFoundError:
            last = (folder / "said").read_text(errors="replace").splitlines()[-1:]
            reason = ": ".join([f"the interpreter died (exit code {ended})", *last])
            return Reply(Failed(reason), kept)


def stop(tokens: Sequence[str]) -> None:
    """End the cells that run here for ``tokens``; they clean up first."""
    _stopped.update(tokens)
    for token in tokens:
        if (process := _running.get(token)) is not None:
            process.terminate()


def _outcome(asked: Request, log_dir: Path) -> Outcome | str:
    if asked["code"] != code():
        return _OTHER_CODE
    experiment = Experiment.model_validate(asked["experiment"])
    try:
        alike = version(experiment) == asked["version"]
    except OSError as error:
        return f"it lacks a file that the experiment names: {error}"
    if not alike:
        return "its files of workloads or P4 programs differ; copy them there"
    recording = Recording.of(asked["recording"])
    cell = Cell(asked["id"], experiment, asked["settings"], asked["repeat"])
    with turn(alone=experiment.backend == "emulate"):
        try:
            planned = Planned(cell, Deployments().of(experiment), seconds=0.0)
            Local().prepare([planned], NOTHING)  # checked where it was asked for
        except (DeploymentError, EmulationError) as error:
            return str(error)
        own = log_dir / log_name(cell)
        own.mkdir(parents=True)
        facts = {key: fact for key, fact in environment().items() if key != "command"}
        (own / "machine.json").write_text(json.dumps(facts, indent=2) + "\n")
        ((_, found),) = Local().outcomes([planned], log_dir, recording, lambda _: None)
        return found


@contextmanager
def turn(alone: bool) -> Iterator[None]:
    """Wait until no cell that must run ``alone`` runs on this machine; if this one must, until no
    cell runs.

    Dask cannot do this, because it sees only one scheduler's workers, and treats resources and
    cores separately.
    """
    path = Path(tempfile.gettempdir()) / f"ina-testbed-{os.getuid()}.lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC  # others may write there, too
    with os.fdopen(os.open(path, flags, 0o600), "r+") as file:
        # The kernel releases the lock, however this process ends.
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def main(folder: Path, parent: int) -> None:
    """Run the cell of ``folder/request.json``, and write ``folder/outcome``."""
    die_with_parent(parent, signal.SIGTERM)
    asked: Request = json.loads((folder / "request.json").read_text())
    try:
        with termination_unwinds():
            found = _outcome(asked, folder / "logs")
    except (Terminated, KeyboardInterrupt):
        sys.exit(130)
    with replacing(folder / "outcome") as made:
        made.write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

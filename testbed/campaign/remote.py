"""A cell on another machine: sent as plain data, run there by a fresh interpreter, sent back.

The interpreter loads the code from its files, so that what runs is what its version says; the one
that asked for it may have been there for days. It refuses what another version of the testbed sent,
or cells whose workloads or P4 programs differ here.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from testbed.backends.emulation.network import EmulationError
from testbed.campaign.cell import CellResult
from testbed.campaign.isolation import Failed, Terminated, termination_unwinds
from testbed.campaign.local import Local, Outcome, attempt
from testbed.campaign.planning import Planned
from testbed.campaign.version import code, version
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import Cell
from testbed.experiment.schema import Experiment
from testbed.lifetime import die_with_parent
from testbed.placement.deployments import Deployments
from testbed.provenance import environment
from testbed.results import Iteration, LinkLoad, Row

Request: TypeAlias = dict[str, Any]
Reply: TypeAlias = dict[str, Any]
REFUSED = "refused"

_LOADED = code()
"""What this process has in memory, whatever its files say later."""
_OTHER_CODE = "it has another version of the testbed; install the same there, restart its worker"

_running: dict[str, subprocess.Popen[bytes]] = {}
"""What this process runs for others, by their tokens."""


def request(cell: Cell, captures: Sequence[str], token: str) -> Request:
    """What `serve` wants to know; ``token`` is what `stop` is told."""
    return {
        "token": token,
        "code": code(),
        "version": version(cell.experiment),
        "id": cell.id,
        "experiment": cell.experiment.data(),
        "settings": cell.settings,
        "repeat": cell.repeat,
        "captures": list(captures),
    }


def serve(asked: Request) -> Reply:
    """Run a cell in an interpreter of its own, and wait for it.

    The reply has either REFUSED, with the reason why no such cell can be run here, or ``failed``,
    or the rows; ``logs`` holds the content of each file of the cell's logs.
    """
    if asked["code"] != _LOADED:
        return {REFUSED: _OTHER_CODE}
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
        try:
            ended = process.wait()
        finally:
            del _running[asked["token"]]
        try:
            reply: Reply = json.loads((folder / "reply.json").read_text())
        except FileNotFoundError:
            last = (folder / "said").read_text(errors="replace").splitlines()[-1:]
            reply = {"failed": ": ".join([f"the interpreter died (exit code {ended})", *last])}
        logs = folder / "logs"
        files = filter(Path.is_file, logs.rglob("*"))
        return reply | {"logs": {str(each.relative_to(logs)): each.read_bytes() for each in files}}


def stop(tokens: Sequence[str]) -> None:
    """End the cells that are run here for ``tokens``; they unwind."""
    for token in tokens:
        if (process := _running.get(token)) is not None:
            process.terminate()


def outcome(reply: Reply, log_dir: Path) -> Outcome:
    """What became of the cell; its logs go to ``log_dir``."""
    for name, content in reply["logs"].items():
        path = log_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if "failed" in reply:
        return Failed(reply["failed"])
    return CellResult(
        [Row(**each) for each in reply["jobs"]],
        [Iteration(**each) for each in reply["iterations"]],
        [LinkLoad(**each) for each in reply["links"]],
    )


def _answer(asked: Request, log_dir: Path) -> Reply:
    if asked["code"] != code():
        return {REFUSED: _OTHER_CODE}
    experiment = Experiment.model_validate(asked["experiment"])
    try:
        alike = version(experiment) == asked["version"]
    except OSError as error:
        return {REFUSED: f"it lacks a file that the experiment names: {error}"}
    if not alike:
        return {REFUSED: "its files of workloads or P4 programs differ; copy them there"}
    cell = Cell(asked["id"], experiment, asked["settings"], asked["repeat"])
    try:
        planned = Planned(cell, Deployments().of(experiment), seconds=0.0)
        Local().prepare([planned], asked["captures"])
    except (DeploymentError, EmulationError) as error:
        return {REFUSED: str(error)}
    log_dir.mkdir()
    facts = {key: fact for key, fact in environment().items() if key != "command"}
    (log_dir / "machine.json").write_text(json.dumps(facts, indent=2) + "\n")
    found = attempt(planned, log_dir, asked["captures"])
    if isinstance(found, Failed):
        return {"failed": str(found)}
    return asdict(found)


@contextmanager
def _alone() -> Iterator[None]:
    """One cell at a time on this machine, whoever asks for it."""
    path = Path(tempfile.gettempdir()) / f"ina-testbed-{os.getuid()}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # let go by the kernel, however this process ends
        yield


def main(folder: Path, parent: int) -> None:
    """Read ``folder/request.json``, run what it asks for, and write ``folder/reply.json``."""
    die_with_parent(parent, signal.SIGTERM)
    asked: Mapping[str, Any] = json.loads((folder / "request.json").read_text())
    try:
        with termination_unwinds(), _alone():
            reply = _answer(dict(asked), folder / "logs")
    except (Terminated, KeyboardInterrupt):
        sys.exit(130)
    beside = folder / "reply.tmp"
    beside.write_text(json.dumps(reply))
    beside.replace(folder / "reply.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""Cells on the machines of a Dask scheduler (https://distributed.dask.org).

Dask schedules the cells. A simulated cell takes a core, which is a thread of a worker. An emulated
cell takes the resource ``emulator``, of which a worker has one. Start a worker on each machine:

    dask worker tcp://HEAD:8786 --resources emulator=1

If a machine is lost, its cell goes to another one. The cell fails if more machines are lost while
they run it than the scheduler's ``distributed.scheduler.allowed-failures``, by default 3.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.backends.recording import Recording
from testbed.campaign import remote
from testbed.campaign.isolation import Failed
from testbed.campaign.local import Outcome, Told, check_recording, is_emulated
from testbed.campaign.planning import Planned
from testbed.deployment.errors import DeploymentError
from testbed.experiment.findings import counted

CONNECT_S = 5.0
"""Seconds to wait until a scheduler is reached."""
ANSWER_S = 30.0
"""Seconds that a scheduler may take to answer once it is reached: its machine may be busy."""
PATIENCE_S = 5.0
"""Seconds to wait for a worker if there is none."""
_POLL_S = 0.5
_GONE = (OSError, asyncio.TimeoutError, CancelledError, RuntimeError)
"""Errors of a client whose scheduler is gone. RuntimeError comes when the client has given up."""


class Dask:
    """Runs cells on the machines of a scheduler's workers.

    A machine that refuses a cell (see `testbed.campaign.remote`) gets no more cells while there are
    others.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: Any = None
        self._refused: dict[str, str] = {}

    def prepare(self, cells: Sequence[Planned], recording: Recording) -> None:
        check_recording(cells, recording)
        if not cells:
            return
        self._client = _connected(self._address)
        needed = max(map(_needed, cells))
        if not self._awaited(*needed):
            self._close()
            lacking = f"worker with the resource {needed[0]}" if needed else "worker"
            raise DeploymentError(
                f"found no {lacking} at the Dask scheduler {self._address}, wanted one on each"
                " machine that is to run cells; start them there with"
                f" `dask worker {self._address} --resources emulator=1`"
            )

    def outcomes(
        self,
        cells: Sequence[Planned],
        logs: Path,
        recording: Recording,
        started: Told,
    ) -> Iterator[tuple[Planned, Outcome]]:
        running: dict[Any, Planned] = {}
        begun: deque[tuple[float, str]] = deque()
        topic = f"ina-testbed-{uuid.uuid4().hex}"
        again, told = list(cells), set[tuple[str, int]]()

        def begin(planned: Planned) -> None:
            if (key := (planned.cell.id, planned.cell.repeat)) not in told:
                told.add(key)
                started(planned)

        try:
            if cells:
                self._client.subscribe_topic(topic, begun.append)
            while again or running:
                running |= {self._submitted(each, recording, topic): each for each in again}
                again = []
                done = self._ended(running)
                while begun:
                    _, key = begun.popleft()
                    for each in (each for future, each in running.items() if future.key == key):
                        begin(each)
                for future in done:
                    each = running.pop(future)
                    found = self._outcome(future, logs)
                    if found is None:
                        again.append(each)
                    else:
                        begin(each)  # the news of it may be late
                        yield each, found
                if again or not done:
                    self._check_somebody_is_left([*running.values(), *again])
        finally:
            self._call_back(list(running))
            self._close()

    def _submitted(self, planned: Planned, recording: Recording, topic: str) -> Any:
        token = uuid.uuid4().hex
        return self._client.submit(
            _serve,
            remote.request(planned.cell, recording, token),
            topic,
            key=token,
            resources={each: 1 for each in _needed(planned)},
            workers=(sorted(self._machines(*_needed(planned))) or None) if self._refused else None,
            allow_other_workers=bool(self._refused),
        )

    def _machines(self, resource: str = "") -> set[str]:
        """The hosts of workers that offer ``resource``, except those that refused a cell.

        Raises DeploymentError if the scheduler is gone.
        """
        from distributed.comm.addressing import get_address_host

        try:
            if self._client.scheduler is None:
                raise ConnectionError("it does not answer")
            # Not scheduler_info: every two seconds, the client's loop writes what it returns anew,
            # without workers.
            workers = self._client.sync(self._client.scheduler.identity)["workers"]
        except _GONE as error:
            raise DeploymentError(
                f"the Dask scheduler {self._address} is gone ({error});"
                " finished rows are kept, continue with run --resume"
            ) from error
        able = [each for each in workers if not resource or resource in workers[each]["resources"]]
        return set(map(get_address_host, able)) - self._refused.keys()

    def _awaited(self, resource: str = "") -> bool:
        """Whether a machine is available, now or within ``PATIENCE_S``."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._machines(resource):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _ended(self, running: dict[Any, Planned]) -> list[Any]:
        """The cells that have ended; none if none ends within ``_POLL_S``."""
        from distributed import wait

        with suppress(asyncio.TimeoutError, CancelledError), self._client.as_current():
            wait(list(running), timeout=_POLL_S, return_when="FIRST_COMPLETED")
        return [future for future in running if future.done()]

    def _outcome(self, future: Any, logs: Path) -> Outcome | None:
        """The outcome of a cell; None if it must run elsewhere."""
        from distributed import KilledWorker

        if future.cancelled():
            self._machines()  # raises if the scheduler is gone
            return None
        error = future.exception()
        if isinstance(error, KilledWorker):
            times = counted(error.allowed_failures + 1, "time")
            return Failed(f"its machine was lost, {times}; the last was {error.last_worker}")
        if error is not None:
            return Failed(f"{type(error).__name__}: {error}")
        machine, reply = future.result()
        if isinstance(reply.outcome, str):
            if machine not in self._refused:
                print(f"{machine} runs no cells: {reply.outcome}", file=sys.stderr)
            self._refused[machine] = reply.outcome
            return None
        reply.keep_logs(logs)
        outcome: Outcome = reply.outcome
        return outcome

    def _check_somebody_is_left(self, cells: Sequence[Planned]) -> None:
        """Raise DeploymentError if no machine is left for some of the cells: Dask would wait."""
        for needed in {_needed(each) for each in cells}:
            if self._awaited(*needed):
                continue
            stuck = counted(sum(_needed(each) == needed for each in cells), "cell")
            lacking = f"machine with the resource {needed[0]}" if needed else "machine"
            why = "".join(f"; {machine}: {reason}" for machine, reason in self._refused.items())
            raise DeploymentError(
                f"no {lacking} of the Dask scheduler {self._address} is left for {stuck}{why};"
                " finished rows are kept, continue with run --resume"
            )

    def _call_back(self, running: Sequence[Any]) -> None:
        """End the cells that still run, because their outcomes are no longer needed."""
        with suppress(*_GONE):
            if running and self._client.status == "running":
                self._client.cancel(running)
                self._client.run(remote.stop, [each.key for each in running], on_error="ignore")

    def _close(self) -> None:
        if self._client is not None:
            self._client.close(timeout=1)
            self._client = None


def _needed(planned: Planned) -> tuple[str, ...]:
    """The resource of a worker that a cell takes, if any."""
    return ("emulator",) if is_emulated(planned) else ()


def _serve(asked: remote.Request, topic: str) -> tuple[str, remote.Reply]:
    """Run a cell on a worker and report its start; return the machine and the reply."""
    from distributed import get_worker
    from distributed.comm.addressing import get_address_host

    worker = get_worker()
    worker.log_event(topic, asked["token"])
    return get_address_host(worker.address), remote.serve(asked)


def _connected(address: str) -> Any:
    try:
        import dask
        from distributed import Client
        from distributed.comm.addressing import parse_host_port
    except ImportError:
        raise DeploymentError(
            "found no package distributed, wanted it for --executor dask; run"
            " pip install 'ina-testbed[dask]'"
        ) from None
    # Notice within seconds that a scheduler is gone.
    dask.config.set({"distributed.comm.timeouts.connect": f"{CONNECT_S} s"})
    try:
        # The address is tried first, because a client without a scheduler reports that once more
        # when it is garbage-collected.
        socket.create_connection(parse_host_port(address.rpartition("://")[2]), CONNECT_S).close()
        return Client(address, timeout=ANSWER_S, set_as_default=False)
    except (OSError, asyncio.TimeoutError, ValueError) as error:
        raise DeploymentError(
            f"found no Dask scheduler at {address} ({error}), wanted one that answers; start it"
            " with `dask scheduler`, and give the address that it prints"
        ) from error

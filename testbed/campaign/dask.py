"""Cells on several machines, those of a Dask scheduler (https://distributed.dask.org).

Each machine has one cell at a time, however many workers and threads Dask has there, for cells
side by side would disturb one another. Which machine gets which cell is decided here, when one
becomes free; Dask carries it there and says who is left.
"""

from __future__ import annotations

import queue
import sys
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.campaign import remote
from testbed.campaign.isolation import Failed
from testbed.campaign.local import Outcome, Started, check_captures, log_name
from testbed.campaign.planning import Planned
from testbed.deployment.errors import DeploymentError
from testbed.experiment.findings import counted

TRIES = 3
"""On so many machines a cell may be lost before it is given up."""
PATIENCE_S = 5.0
"""How long to wait for a scheduler, and for a worker where there is none."""
_POLL_S = 0.5


@dataclass
class _Errand:
    """A cell on its way: on which machine, by which worker."""

    cell: Planned
    machine: str
    worker: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)


class Dask:
    """Cells run on the machines whose workers a scheduler has.

    A machine that refuses a cell, as `testbed.campaign.remote` says, gets no other; if a machine is
    lost, its cell runs on another one.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: Any = None
        self._refused: dict[str, str] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def prepare(self, cells: Sequence[Planned], captures: Sequence[str]) -> None:
        check_captures(cells, captures)
        if not cells:
            return
        self._client = _connected(self._address)
        if not self._awaited():
            self._close()
            raise DeploymentError(
                f"found no worker at the Dask scheduler {self._address}, wanted one on each machine"
                f" that shall run cells; start them there with `dask worker {self._address}`"
            )

    def outcomes(
        self, cells: Sequence[Planned], logs: Path, captures: Sequence[str], started: Started
    ) -> Iterator[tuple[Planned, Outcome]]:
        waiting = deque(cells)
        running: dict[Any, _Errand] = {}
        lost: Counter[str] = Counter()
        try:
            while waiting or running:
                machines = self._machines()
                for machine in sorted(
                    machines.keys() - {each.machine for each in running.values()}
                ):
                    if waiting:
                        errand = _Errand(waiting.popleft(), machine, machines[machine][0])
                        running[self._sent(errand, captures)] = errand
                        started(errand.cell)
                if not running and not self._awaited():
                    raise DeploymentError(self._nobody_left(len(waiting)))
                for future in self._ended(running):
                    errand = running.pop(future)
                    name = log_name(errand.cell.cell)
                    reply = self._reply(future, errand.machine)
                    if reply is None:
                        lost[name] += 1
                        reason = (
                            f"its machine was lost, {TRIES} times; the last was {errand.machine}"
                        )
                        if lost[name] == TRIES:
                            yield errand.cell, Failed(reason)
                            continue
                    elif remote.REFUSED not in reply:
                        yield errand.cell, remote.outcome(reply, logs / name)
                        continue
                    else:
                        self._refuse(errand.machine, reply[remote.REFUSED])
                    waiting.appendleft(errand.cell)
        finally:
            self._call_back(running)
            self._close()

    def _machines(self) -> dict[str, list[str]]:
        """The machines that may have cells, each with the addresses of its workers."""
        from distributed.comm.addressing import get_address_host

        try:
            workers = sorted(self._client.nthreads())
        except (OSError, TimeoutError) as error:
            raise DeploymentError(
                f"the Dask scheduler {self._address} is gone ({error});"
                " finished rows are kept, and run --resume goes on"
            ) from error
        found: dict[str, list[str]] = {}
        for worker in workers:
            machine = get_address_host(worker)
            if machine not in self._refused:
                found.setdefault(machine, []).append(worker)
        return found

    def _awaited(self) -> bool:
        """Whether there is any machine, now or soon."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._machines():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _sent(self, errand: _Errand, captures: Sequence[str]) -> Any:
        asked = remote.request(errand.cell.cell, captures, errand.token)
        future = self._client.submit(
            remote.serve, asked, workers=[errand.worker], allow_other_workers=False, pure=False
        )
        future.add_done_callback(self._done.put)
        return future

    def _ended(self, running: Mapping[Any, _Errand]) -> list[Any]:
        """What came to an end, or never will since its worker is gone; none after a moment."""
        with suppress(queue.Empty):
            self._done.get(timeout=_POLL_S)
        there = {worker for own in self._machines().values() for worker in own}
        return [
            future
            for future, errand in running.items()
            if future.done() or errand.worker not in there
        ]

    def _reply(self, future: Any, machine: str) -> remote.Reply | None:
        """What came back; None if the machine was lost."""
        from distributed import KilledWorker

        if not future.done() or future.cancelled():
            future.cancel()
            return None
        error = future.exception()
        if error is None:
            reply: remote.Reply = future.result()
            return reply
        if isinstance(error, KilledWorker):
            return None
        return {remote.REFUSED: f"{type(error).__name__}: {error}"}

    def _refuse(self, machine: str, reason: str) -> None:
        self._refused[machine] = reason
        print(f"{machine} runs no cells: {reason}", file=sys.stderr)

    def _nobody_left(self, cells: int) -> str:
        why = "".join(f"; {machine}: {reason}" for machine, reason in self._refused.items())
        return (
            f"no machine of the Dask scheduler {self._address} is left for {counted(cells, 'cell')}"
            f"{why}; finished rows are kept, and run --resume goes on"
        )

    def _call_back(self, running: Mapping[Any, _Errand]) -> None:
        """End what still runs, for nobody waits for it any more."""
        if not running:
            return
        workers = [errand.worker for errand in running.values()]
        tokens = [errand.token for errand in running.values()]
        with suppress(OSError, TimeoutError):
            self._client.cancel(list(running))
            self._client.run(remote.stop, tokens, workers=workers, on_error="ignore")

    def _close(self) -> None:
        if self._client is not None:
            self._client.close(timeout=1)
            self._client = None


def _connected(address: str) -> Any:
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise DeploymentError(
            "found no package distributed, wanted it for --executor dask; run"
            " pip install 'ina-testbed[dask]'"
        ) from None
    # A scheduler that is gone is to be told within seconds.
    dask.config.set({"distributed.comm.timeouts.connect": f"{PATIENCE_S} s"})
    try:
        return Client(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise DeploymentError(
            f"found no Dask scheduler at {address} ({error}), wanted one that answers; start it"
            " with `dask scheduler`, and give the address that it prints"
        ) from error

"""A rank's part in its group's sums: float32 values go through the switches as int32."""

from __future__ import annotations

import atexit
import ctypes
import os
import pickle
import select
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any

import numpy as np

from testbed.compiler import BuildError
from testbed.hosts.aggregation import Engine, Operation
from testbed.switches.control import ControlError
from testbed.torch.arithmetic import Agree, factors
from testbed.torch.errors import GroupError
from testbed.torch.fabric import Fabric
from testbed.torch.links import EngineCalls, Memory, Reduction, core
from testbed.torch.wiring import Wiring, wiring
from testbed.workload.quantise import Float32

_LOOK_S = 0.25
"""Seconds between the checks of a waiting rank that the others are alive."""

_PATIENCE_S = 10.0
"""Seconds that a process without connections, or the thread of a closed group, may take to end, and
the other ranks to read why there is no group."""


class Summing:
    """Sums arrays over the ranks of a group, one after another, in a thread of its own.

    Args:
        store: a PyTorch store that the ranks share, for this group only.
        timeout_s: how many seconds one sum may take.
        agree: replaces each integer by the largest of all ranks.

    All ranks must make it together. Raises GroupError, at all of them, if that is impossible. Any
    other error, such as the store's when a rank does not come in time, is raised as it is, and as
    GroupError at the other ranks.
    """

    def __init__(self, store: Any, rank: int, world: int, timeout_s: float, agree: Agree) -> None:
        self._rank, self._world, self._timeout_s, self._agree = rank, world, timeout_s, agree
        self._fabric: Fabric | None = None
        self._closing = False
        self._queueing = Lock()
        self._failed: BaseException | None = None
        self._begin = 0
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        with ExitStack() as opened:
            try:
                self._open(store, opened)
            except Exception as error:
                said = self._tell(store, error)
                if isinstance(error, BuildError | ControlError | OSError | MemoryError):
                    raise said from error
                raise
            self._opened = opened.pop_all()
        atexit.register(self.close)

    def submit(self, order: Callable[[], None]) -> None:
        """Call ``order`` in the thread, after all earlier ones. It may call `sum`.

        An order made in the thread itself, by a callback of a sum's future, is called at once. The
        callback may wait for it, and the thread could not call it before the callback returns.
        Sums must have the same order at all ranks: scripts must add such a callback before they
        start another sum. Then a callback's sums come next at every rank, even at one where the
        future is already complete and the script's own thread calls the callback.

        Raises GroupError if the group is closed, or is being closed.
        """
        with self._queueing:
            if self._closing:
                raise GroupError(
                    "found a group that is closed, wanted one that is open; sum before"
                    " destroy_process_group, or make a new group"
                )
            if current_thread() is not self._thread:
                self._orders.put(order)
                return
        order()

    def sum(self, values: Float32, divisor: int = 1) -> None:
        """Replace ``values``, contiguous float32[values], by the sums over all ranks, divided by
        ``divisor``. Raises GroupError, which says why there is none; the group cannot be used any
        more then."""
        if self._failed is not None:
            raise GroupError(f"the group has failed before: {self._failed}")
        try:
            self._sum(values, divisor)
        except BaseException as error:
            self._failed = error
            raise

    def close(self) -> None:
        """End the thread, and at rank 0 the switches. May be called twice."""
        with self._queueing:  # so that no order is queued behind the last, and waited for
            if self._closing:
                return
            self._closing = True
            self._orders.put(None)
        atexit.unregister(self.close)
        core().bell_ring(self._memory.bell(self._wiring.workers[self._rank]))
        self._thread.join(_PATIENCE_S)
        if self._fabric is not None:
            self._fabric.close()
        if self._thread.is_alive():  # in gloo, which waits for a rank that has not called
            return
        self._opened.close()

    def _open(self, store: Any, opened: ExitStack) -> None:
        self._wiring, self._memory = self._meet(store, opened)
        host = self._wiring.workers[self._rank]
        self._engine = Engine(self._wiring.values)
        opened.callback(self._engine.close)
        self._flow = self._engine.add(self._wiring.roles[host])
        self._node = self._memory.node(host)
        opened.callback(core().node_close, self._node)
        self._stage = np.empty(core().stage_values(self._wiring.values), np.int32)
        self._others = self._look_at_others(store, opened)
        self._thread = Thread(target=self._work, name="ina-sums", daemon=True)
        self._thread.start()
        opened.callback(self._thread.join)
        opened.callback(self._orders.put, None)
        self._exchanged(store, "ready", None)

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            order()

    def _sum(self, values: Float32, divisor: int) -> None:
        block = self._wiring.values
        try:
            found = factors(values, block, self._wiring.factor, self._world, self._agree)
        except GroupError:
            raise
        except RuntimeError as error:  # gloo's
            self._check_others(_PATIENCE_S)
            raise GroupError(f"all_reduce: {_one_line(error)}") from error
        reduction = Reduction(
            node=self._node,
            engine=self._engine.handle,
            calls=EngineCalls.of(self._engine),
            flow=self._flow,
            operation=Operation.ALL_REDUCE,
            values=values.ctypes.data,
            count=len(values),
            block=block,
            to=found.to.ctypes.data,
            back=found.back.ctypes.data,
            divisor=divisor,
            divides=found.divides,
            stage=self._stage.ctypes.data,
            begin=self._begin,
        )
        give_up = time.monotonic() + self._timeout_s
        while not (
            done := core().reduction_run(ctypes.byref(reduction), time.monotonic() + _LOOK_S)
        ):
            self._check(give_up)
        if done < 0:
            raise OSError(-done, os.strerror(-done))
        self._begin += -(-len(values) // block)

    def _check(self, give_up: float) -> None:
        """Raise GroupError if the sum that this rank waits for will not come."""
        if self._closing:
            raise GroupError("the group was closed while it summed")
        self._check_others(0)
        if time.monotonic() > give_up:
            raise GroupError(
                f"found no sum within {self._timeout_s:g} s, the group's timeout: some rank has"
                " not called all_reduce as often as this one"
            )

    def _check_others(self, patience_s: float) -> None:
        """Raise GroupError if another rank has ended, or ends within ``patience_s`` seconds."""
        poll = select.poll()
        for descriptor in self._others.values():
            poll.register(descriptor, select.POLLIN)
        ended = {descriptor for descriptor, _ in poll.poll(1000 * patience_s)}
        gone = [str(rank) for rank, each in self._others.items() if each in ended]
        if gone:
            raise GroupError(f"rank {', '.join(gone)} ended before the others had its sums")

    def _meet(self, store: Any, opened: ExitStack) -> tuple[Wiring, Memory]:
        """The network that rank 0 has made. If it could not, raises its error."""
        if self._rank:
            made, machine, process, descriptor = _unless_error(store.get("wiring/0"))
            return made, self._shared(made, machine, process, descriptor)
        made = wiring(self._world)
        memory = Memory(made)
        opened.callback(memory.close)
        self._fabric = Fabric(made, memory)
        opened.callback(self._fabric.close)
        store.set("wiring/0", pickle.dumps((made, _machine(), os.getpid(), memory.descriptor)))
        return made, memory

    def _shared(self, made: Wiring, machine: str, process: int, descriptor: int) -> Memory:
        if machine != _machine():
            raise GroupError(
                f"rank {self._rank}: found rank 0 on another machine, wanted all ranks of the group"
                " on one, because their links are in its memory"
            )
        try:
            opened = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise GroupError(
                f"rank {self._rank}: found no memory of rank 0 ({error.strerror}), wanted all ranks"
                " as one user in one container"
            ) from error
        memory = Memory(made, opened)
        memory.close()
        return memory

    def _look_at_others(self, store: Any, opened: ExitStack) -> dict[int, int]:
        """A descriptor of each other rank's process, which becomes readable when the process has
        ended."""
        others = {}
        for rank, process in enumerate(self._exchanged(store, "process", os.getpid())):
            if rank != self._rank:
                others[rank] = os.pidfd_open(process)
                opened.callback(os.close, others[rank])
        return others

    def _exchanged(self, store: Any, key: str, said: Any) -> list[Any]:
        """What each rank says under ``key``; this one says ``said``. Raises the error of a rank
        that says why there is no group."""
        store.set(f"{key}/{self._rank}", pickle.dumps(said))
        # All are read first: the store may end with rank 0, which must not leave before all come.
        found = [store.get(f"{key}/{rank}") for rank in range(self._world)]
        return [*map(_unless_error, found)]

    def _tell(self, store: Any, error: Exception) -> GroupError:
        """Tell the other ranks, wherever they wait, why there is no group. Returns what they
        raise."""
        if isinstance(error, GroupError):
            said = error
        else:
            why = _one_line(error) or type(error).__name__
            said = GroupError(f"rank {self._rank} could not make the group: {why}")
        with suppress(RuntimeError):  # one has ended
            for key in ("wiring", "process", "ready"):
                store.set(f"{key}/{self._rank}", pickle.dumps(said))
            store.set(_told(self._rank), "")
            if not self._rank:
                # The others may still be connecting to this process, and would only see it end.
                store.wait([*map(_told, range(self._world))], timedelta(seconds=_PATIENCE_S))
        return said


def _told(rank: int) -> str:
    """The store's key by which a rank says that it has read why there is no group."""
    return f"told/{rank}"


def _unless_error(told: bytes) -> Any:
    """What a rank has told the others. Raises GroupError if it is why there is no group."""
    found = pickle.loads(told)
    if isinstance(found, GroupError):
        raise found
    return found


def _machine() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())

"""Groups that cannot be made, in the threads of one process."""

from __future__ import annotations

import gc
import os
import pickle
import threading
from collections import Counter
from datetime import timedelta

import pytest
from patience import PATIENCE_S
from test_process_group import ATP_IN_TWO_RACKS, experiment

pytest.importorskip("torch")

import torch

from testbed.hosts.aggregation import Engine
from testbed.torch import fabric, summing
from testbed.torch.errors import GroupError
from testbed.torch.fabric import Fabric
from testbed.torch.links import Memory, core
from testbed.torch.summing import Summing
from testbed.torch.wiring import wiring


def descriptors() -> list[str]:
    """What this process has open of a group."""
    found = []
    for each in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{each}"))
        except FileNotFoundError:  # that of listdir itself
            continue
    return [each for each in found if "ina-testbed" in each or "pidfd" in each]


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("ina-")]


def test_the_switches_end_before_their_memory_if_the_group_cannot_be_made(monkeypatch):
    monkeypatch.setattr(summing, "_PATIENCE_S", 0.1)
    store = torch.distributed.HashStore()
    store.set_timeout(timedelta(seconds=0.1))
    for rank in (1, 2):  # which never become ready
        store.set(f"process/{rank}", pickle.dumps(os.getpid()))
    with pytest.raises(torch.distributed.DistStoreError) as raised:
        Summing(store, 0, 3, 1.0, agree=None)
    # The error keeps the memory. Without it, switches that still run would end this process.
    assert not threads()
    del raised
    gc.collect()
    assert not descriptors()


def test_switches_and_servers_that_do_not_start_are_freed(tmp_path, monkeypatch):
    called: Counter[str] = Counter()
    servers: list[Engine] = []

    class Counted:
        def __getattr__(self, name):
            def call(*arguments):
                called[name] += 1
                return getattr(core(), name)(*arguments)

            return call

    def server(values):
        servers.append(Engine(values))
        return servers[-1]

    def fail(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setenv("INA_TESTBED_EXPERIMENT", experiment(tmp_path, ATP_IN_TWO_RACKS))
    made = wiring(3)
    monkeypatch.setattr(fabric, "core", Counted)
    monkeypatch.setattr(fabric, "Engine", server)
    monkeypatch.setattr(threading.Thread, "start", fail)
    memory = Memory(made)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        Fabric(made, memory)
    memory.close()
    nodes = len(made.entries) + len(made.servers)
    assert called["fabric_switch"] + called["fabric_server"] == nodes == 2
    assert (called["fabric_close"], called["node_close"]) == (1, nodes)
    for each in servers:
        with pytest.raises(ValueError, match="is closed"):
            each.done(0)


def met(world: int) -> list[BaseException | None]:
    """What the ranks of a group raise that is made in threads, one for each."""
    store = torch.distributed.HashStore()
    store.set_timeout(timedelta(seconds=PATIENCE_S))
    raised: list[BaseException | None] = [None] * world

    def meet(rank: int) -> None:
        try:
            Summing(store, rank, world, PATIENCE_S, agree=None).close()
        except Exception as error:
            raised[rank] = error

    ranks = [threading.Thread(target=meet, args=[rank]) for rank in range(world)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    return raised


@pytest.mark.parametrize(
    "error", [OSError(24, "Too many open files"), MemoryError(), GroupError("no")]
)
@pytest.mark.parametrize(
    ("where", "step", "failing"),
    [
        (summing, "Fabric", 0),
        (Summing, "_shared", 2),
        (Summing, "_look_at_others", 0),
        (Summing, "_look_at_others", 2),
    ],
)
def test_every_rank_says_why_one_could_not_take_part(monkeypatch, where, step, failing, error):
    usual = getattr(where, step)

    def fail(*arguments):
        if where is summing or arguments[0]._rank == failing:
            raise error
        return usual(*arguments)

    monkeypatch.setattr(where, step, fail)
    raised = met(3)
    assert {type(each) for each in raised} == {GroupError}
    (said,) = {str(each) for each in raised}
    assert said == (
        "no"
        if isinstance(error, GroupError)
        else f"rank {failing} could not make the group: {str(error) or 'MemoryError'}"
    )
    assert not threads()


def test_a_group_in_threads_can_be_made_and_closed():
    assert met(3) == [None] * 3
    assert not threads()

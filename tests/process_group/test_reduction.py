"""One all-reduce at a rank, whose engine only notes what is pushed."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, byref, c_double, c_int, c_size_t, c_uint8, c_uint64, c_void_p

import numpy as np
import pytest

pytest.importorskip("torch")

from testbed.torch.links import EngineCalls, Reduction, core

BLOCK, BLOCKS = 8, 1000


class Engine:
    def __init__(self) -> None:
        self.pushed: list[tuple[int, int]] = []
        self._calls = {
            "take": CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_double)(lambda *_: None),
            "pump": CFUNCTYPE(None, c_void_p, c_double)(lambda *_: None),
            "deadline": CFUNCTYPE(c_double, c_void_p)(lambda _: 0.0),
            "next": CFUNCTYPE(c_size_t, c_void_p, c_void_p, c_void_p)(lambda *_: 0),
            "push": CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_void_p, c_uint64, c_uint8)(
                self._push
            ),
            "done": CFUNCTYPE(c_uint64, c_void_p, c_int)(lambda *_: 0),
        }

    def _push(
        self, engine: int, flow: int, operation: int, values: int, count: int, priority: int
    ) -> int:
        self.pushed.append((values, count))
        return 0

    @property
    def calls(self) -> EngineCalls:
        return EngineCalls(
            *(ctypes.cast(self._calls[name], c_void_p) for name in EngineCalls.names)
        )


def test_what_is_pushed_fills_the_stage_and_nothing_behind_it():
    engine, size = Engine(), core().stage_values(BLOCK)
    values, factors = np.ones(BLOCK * BLOCKS, np.float32), np.ones(BLOCKS)
    stage = np.zeros(size + BLOCK, np.int32)
    bell = ctypes.create_string_buffer(128)
    node = core().node_open((ctypes.addressof(bell) + 63) & ~63, 4, 64)
    reduction = Reduction(
        node=node,
        calls=engine.calls,
        values=values.ctypes.data,
        count=len(values),
        block=BLOCK,
        to=factors.ctypes.data,
        stage=stage.ctypes.data,
    )
    for _ in range(BLOCKS):
        assert core().reduction_run(byref(reduction), 0.0) == 0
    core().node_close(node)
    assert sum(count for _, count in engine.pushed) == size < len(values)
    assert {address for address, _ in engine.pushed} == {
        stage.ctypes.data + at * stage.itemsize for at in range(0, size, engine.pushed[0][1])
    }
    assert stage[:size].all() and not stage[size:].any()

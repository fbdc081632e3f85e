"""One all-reduce at a rank, whose engine only notes what is pushed."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, byref, c_double, c_int, c_size_t, c_uint8, c_uint64, c_void_p

import numpy as np
import pytest

pytest.importorskip("torch")

from testbed.hosts.aggregation import Operation
from testbed.torch.links import EngineCalls, Reduction, core

BLOCK = 8


class Engine:
    def __init__(self) -> None:
        self.pieces: list[tuple[int, int]] = []
        self.operations: set[int] = set()
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
        self.pieces.append((values, count))
        self.operations.add(operation)
        return 0

    @property
    def calls(self) -> EngineCalls:
        return EngineCalls(
            *(ctypes.cast(self._calls[name], c_void_p) for name in EngineCalls.names)
        )


def pushed(blocks: int, stage: np.ndarray, operation: int = Operation.ALL_REDUCE) -> Engine:
    """The engine of a reduction of ``blocks`` blocks, of which none is ever done."""
    engine = Engine()
    values, factors = np.ones(BLOCK * blocks, np.float32), np.ones(blocks)
    bell = ctypes.create_string_buffer(128)
    node = core().node_open((ctypes.addressof(bell) + 63) & ~63, 4, 64)
    reduction = Reduction(
        node=node,
        calls=engine.calls,
        operation=operation,
        values=values.ctypes.data,
        count=len(values),
        block=BLOCK,
        to=factors.ctypes.data,
        stage=stage.ctypes.data,
    )
    for _ in range(blocks):
        assert core().reduction_run(byref(reduction), 0.0) == 0
    core().node_close(node)
    return engine


def test_what_is_pushed_fills_the_stage_and_nothing_behind_it():
    size = core().stage_values(BLOCK)
    stage = np.zeros(size + BLOCK, np.int32)
    pieces = pushed(1000, stage).pieces
    assert sum(count for _, count in pieces) == size < 1000 * BLOCK
    assert {address for address, _ in pieces} == {
        stage.ctypes.data + at * stage.itemsize for at in range(0, size, pieces[0][1])
    }
    assert stage[:size].all() and not stage[size:].any()


@pytest.mark.parametrize("operation", Operation)
def test_the_engine_gets_the_operation_by_the_number_that_python_has(operation):
    stage = np.zeros(core().stage_values(BLOCK), np.int32)
    assert pushed(1, stage, operation).operations == {operation}


def test_the_clock_is_that_of_the_hosts_engine():
    assert not hasattr(core(), "monotonic")  # clock.h's is inlined

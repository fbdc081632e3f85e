"""A native switch as a library in this process; the caller supplies packets and times."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from ctypes import POINTER, byref, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p, string_at
from pathlib import Path

import numpy as np
import numpy.typing as npt

from testbed.switches.control import ControlError
from testbed.switches.native.program import Program
from testbed.switches.native.requests import REFUSALS, Requests


class EmbeddedSwitch(Requests):
    """One switch that runs ``program``, ``built`` by `build_library`. Implements ``Control``.

    ``attach`` and ``process`` are the addresses of its C functions (runtime/embedded.h). Its state
    is in the library, so every switch loads its own copy.
    """

    def __init__(self, program: Program, built: Path, seed: int = 0) -> None:
        super().__init__(program)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / built.name
            shutil.copy(built, copy)
            self._library = ctypes.CDLL(str(copy))
        self._library.switch_open.argtypes = [c_uint64]
        self._library.switch_request.argtypes = [
            c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t),
        ]  # fmt: skip
        self._library.switch_request.restype = c_uint32
        self._library.switch_register.argtypes = [c_uint32, POINTER(c_uint32), POINTER(c_uint32)]
        self._library.switch_register.restype = c_void_p
        self._library.switch_open(seed)

    @property
    def attach(self) -> int:
        return _address(self._library.switch_attach)

    @property
    def process(self) -> int:
        return _address(self._library.switch_process)

    def register(self, name: str) -> npt.NDArray[np.uint64]:
        """A register's cells of up to 64 bits, in place: reading them needs no request.

        Raises ControlError if there is no such register, or if its cells are wider.
        """
        register = self._register(name)
        size, cell = c_uint32(), c_uint32()
        cells = self._library.switch_register(register.index, byref(size), byref(cell))
        if cell.value != 8:
            raise ControlError(f"register {name}: {register.width} bits do not fit 64")
        array = ctypes.cast(cells, POINTER(c_uint64))
        view: npt.NDArray[np.uint64] = np.ctypeslib.as_array(array, (size.value,))
        return view

    def forget(self) -> None:
        """Clear all registers, as in a restart after which the tables have been filled in again."""
        for name in self._registers:
            self.reset_register(name)

    def restart(self) -> None:
        """Clear everything, tables and counters included, as when the switch is powered on."""
        self._request(b"X")

    def close(self) -> None:
        """Nothing to do: the library is unloaded with the process."""

    def _request(self, request: bytes, what: str = "") -> bytes:
        answer, length = c_void_p(), c_size_t()
        refused = self._library.switch_request(request, len(request), byref(answer), byref(length))
        if refused:
            raise ControlError(f"{what}: {REFUSALS.get(refused, refused)}")
        return string_at(answer.value, length.value) if answer.value else b""


def _address(function: object) -> int:
    found = ctypes.cast(function, c_void_p).value  # type: ignore[arg-type]
    assert found is not None
    return found

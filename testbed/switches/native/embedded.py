"""A native switch as a library in this process, for whoever has packets and a clock."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from ctypes import POINTER, byref, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p, string_at
from pathlib import Path

from testbed.switches.control import ControlError
from testbed.switches.native.build import build_library
from testbed.switches.native.requests import REFUSALS, Requests


class EmbeddedSwitch(Requests):
    """One switch that runs the program at ``json_path``. Implements ``Control``.

    ``attach`` and ``process`` are the addresses of its C functions (runtime/embedded.h). Its state
    is the library's, of which every switch loads a copy of its own.
    """

    def __init__(self, json_path: Path, seed: int = 0) -> None:
        super().__init__(json_path)
        built = build_library(json_path)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / built.name
            shutil.copy(built, copy)
            self._library = ctypes.CDLL(str(copy))
        self._library.switch_open.argtypes = [c_uint64]
        self._library.switch_request.argtypes = [
            c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t),
        ]  # fmt: skip
        self._library.switch_request.restype = c_uint32
        self._library.switch_open(seed)

    @property
    def attach(self) -> int:
        return _address(self._library.switch_attach)

    @property
    def process(self) -> int:
        return _address(self._library.switch_process)

    def close(self) -> None:
        """Nothing to do: the library goes with the process."""

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

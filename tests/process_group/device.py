"""A device of PyTorch's made for tests (device.cpp), in whose memory all bits are inverted."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from types import ModuleType

import torch

NAME = "other"
_SOURCE = Path(__file__).with_suffix(".cpp")


def build(folder: Path) -> Path:
    """The compiled device. Raises CalledProcessError if PyTorch's headers do not fit."""
    installed, library = Path(torch.__file__).parent, folder / "device.so"
    flags = ["-std=c++20", "-O0", "-fPIC", "-shared", "-w"]
    flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}")
    places = [f"-I{installed}/include", f"-I{installed}/include/torch/csrc/api/include"]
    linked = [f"-L{installed}/lib", "-ltorch_cpu", "-lc10"]
    subprocess.run(["c++", *flags, *places, str(_SOURCE), "-o", str(library), *linked], check=True)
    return library


def load(library: Path) -> ctypes.CDLL:
    """Make the device known to PyTorch. Returns its counters: ``recorded`` events, and streams that
    were ``blocked`` until one."""
    torch.utils.rename_privateuse1_backend(NAME)
    loaded = ctypes.CDLL(str(library))
    module = ModuleType(NAME)
    vars(module).update(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        _is_in_bad_fork=lambda: False,
        manual_seed_all=lambda seed: None,
    )
    torch._register_device_module(NAME, module)
    return loaded

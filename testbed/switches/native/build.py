"""Compiles a program to a switch: a process, or a library."""

from __future__ import annotations

from pathlib import Path

from testbed.compiler import BuildError, compiled
from testbed.switches.native.emit import emit
from testbed.switches.native.reader import read

__all__ = ["BuildError", "build", "build_library"]

_RUNTIME = Path(__file__).parent / "runtime"
_WARNINGS = ["-Wall", "-Wextra", "-Werror=implicit-function-declaration", "-Wno-unused"]
_FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O3", "-march=native", *_WARNINGS]
_SANITIZED = [
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-O1",
    "-g",
    "-fsanitize=address,undefined",
    *_WARNINGS,
]
_SANITIZED += ["-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]


def build_library(json_path: Path) -> Path:
    """The same program as a shared library: see runtime/embedded.h. Raises as ``build`` does."""
    sources = {path.name: path.read_text() for path in sorted(_RUNTIME.iterdir())}
    sources["switch.c"] = emit(read(json_path), "embedded.h")
    return compiled("switch-library", sources, [*_FLAGS, "-shared", "-fPIC"])


def build(json_path: Path, sanitize: bool = False) -> Path:
    """The switch compiled from p4c's JSON: from the cache, or built now (some seconds).

    ``sanitize`` builds with AddressSanitizer and UndefinedBehaviorSanitizer, for tests. Raises
    ``Unsupported`` and ``ValueError`` as ``reader.read`` does, and ``BuildError``.
    """
    sources = {path.name: path.read_text() for path in sorted(_RUNTIME.iterdir())}
    sources["switch.c"] = emit(read(json_path))
    return compiled("switch", sources, _SANITIZED if sanitize else _FLAGS)

"""Compiles a program to a switch, once: the result is kept under a hash of all that made it."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from testbed.dataplane.native.emit import emit
from testbed.dataplane.native.reader import read

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


class BuildError(Exception):
    """No compiler, or one that refused; the message holds what it said."""


def cache() -> Path:
    """Where built switches are kept; it may be removed at any time."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ina-testbed"


def build(json_path: Path, sanitize: bool = False) -> Path:
    """The switch compiled from p4c's JSON, from the cache or made now (some seconds).

    ``sanitize`` builds with AddressSanitizer and UndefinedBehaviorSanitizer, for tests. Raises
    ``Unsupported`` and ``ValueError`` as ``reader.read`` does, and ``BuildError``.
    """
    source = emit(read(json_path))
    compiler = os.environ.get("CC") or "cc"
    flags = _SANITIZED if sanitize else _FLAGS
    found = shutil.which(compiler)
    if found is None:
        raise BuildError(
            f"the native switch target needs a C compiler, and there is no {compiler!r} here "
            "(Debian and Ubuntu: apt install gcc libc6-dev; or set CC)"
        )
    digest = hashlib.sha256()
    for part in (source, *(p.read_text() for p in sorted(_RUNTIME.iterdir())), found, *flags):
        digest.update(part.encode() + b"\0")
    digest.update(_processor().encode())
    target = cache() / f"switch-{digest.hexdigest()[:24]}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
        file = Path(folder) / "switch.c"
        file.write_text(source)
        made = Path(folder) / "switch"
        command = [compiler, *flags, "-I", str(_RUNTIME), str(file), "-o", str(made)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise BuildError(f"{' '.join(command)} failed:\n{result.stderr[:4000]}")
        file.rename(target.with_suffix(".c"))  # kept beside it, for a look
        made.rename(target)
    return target


def _processor() -> str:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return "\n".join(x for x in lines[:40] if x.startswith(("model name", "flags", "Features")))

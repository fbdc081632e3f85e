"""C programs of this project, compiled once by this machine's compiler and cached by hash."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Signatures = Mapping[str, tuple[Any, ...]]
"""Each function's result and arguments as ctypes' types; None for no result."""


class BuildError(Exception):
    """There is no compiler, or it failed; the message holds its output."""


def cache() -> Path:
    """The folder of compiled programs; it may be removed at any time."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ina-testbed"


def compiled(
    name: str, sources: Mapping[str, str], flags: Sequence[str], libraries: Sequence[str] = ()
) -> Path:
    """The program made of ``sources`` (file name: text), from the cache or compiled now.

    Files that end in .c are compiled together. Raises ``BuildError``.
    """
    compiler = os.environ.get("CC") or "cc"
    found = shutil.which(compiler)
    if found is None:
        raise BuildError(
            f"hosts and native switches need a C compiler, and there is no {compiler!r} here "
            "(Debian and Ubuntu: apt install gcc libc6-dev; or set CC)"
        )
    digest = hashlib.sha256()
    for part in (*(x for pair in sorted(sources.items()) for x in pair), found, *flags, *libraries):
        digest.update(part.encode() + b"\0")
    digest.update(_processor().encode())
    target = cache() / f"{name}-{digest.hexdigest()[:24]}"
    if _is_whole(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _turn(target), tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
        if _is_whole(target):  # another process compiled it meanwhile
            return target
        for file, text in sources.items():
            (Path(folder) / file).write_text(text)
        made = Path(folder) / name
        files = [str(Path(folder) / file) for file in sources if file.endswith(".c")]
        command = [compiler, *flags, *files, "-o", str(made), *libraries]
        # The compiler's temporary files vanish with the folder, even if it is killed.
        environment = {**os.environ, "TMPDIR": folder}
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment
        )
        if result.returncode != 0:
            raise BuildError(f"{' '.join(command)} failed:\n{result.stderr[:4000]}")
        if not made.exists():
            raise BuildError(f"{' '.join(command)} wrote no file, wanted a C compiler; set CC")
        for file in files:  # the sources are kept beside it, for debugging
            Path(file).rename(target.with_name(f"{target.name}-{Path(file).name}"))
        with made.open("rb") as written:
            os.fsync(written.fileno())  # or a crash may leave an empty file
        made.rename(target)
    return target


def _is_whole(target: Path) -> bool:
    return target.exists() and target.stat().st_size > 0


@contextmanager
def _turn(target: Path) -> Iterator[None]:
    """Let one process at a time compile a program. The kernel unlocks the file if it is killed."""
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def declare(library: ctypes.CDLL, signatures: Signatures, prefix: str = "") -> None:
    """Tell ctypes the types of functions of ``library``, whose names all begin with ``prefix``."""
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, prefix + name)
        function.restype, function.argtypes = result, arguments


def _processor() -> str:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return "\n".join(x for x in lines[:40] if x.startswith(("model name", "flags", "Features")))

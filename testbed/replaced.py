"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``. If that fails, for example because the disk is full, a file
    that was there stays as it was. Raises OSError, which names ``path``."""
    if path.exists() and not path.is_file():  # a pipe, or /dev/stdout
        path.write_bytes(content)
        return
    target = path.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(content)
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        beside.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        beside.unlink(missing_ok=True)

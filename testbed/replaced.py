"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A context that gives a file to write, with the same end of its name, which then becomes
    ``path``. If that fails, for example because the disk is full, a file that was there stays as it
    was. Raises OSError, which names ``path``."""
    if path.exists() and not path.is_file():  # a pipe, or /dev/stdout
        yield path
        return
    target = path.resolve()
    beside = target.with_name(f".{os.getpid()}-{target.name}")
    try:
        yield beside
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        beside.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        beside.unlink(missing_ok=True)

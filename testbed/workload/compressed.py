"""Files that may be compressed by gzip."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from testbed import located

_GZIP = b"\x1f\x8b"
MOST_BYTES = 2 * 10**9
"""A small file can be gigabytes of zeros."""


def contents(path: Path) -> bytes:
    """A file's bytes, decompressed. Raises OSError, EOFError or zlib.error if it cannot be read, is
    truncated, or has more than `MOST_BYTES`."""
    found = located.contents(path, MOST_BYTES)
    if found.startswith(_GZIP):
        found = gzip.GzipFile(fileobj=io.BytesIO(found)).read(MOST_BYTES + 1)
        if len(found) > MOST_BYTES:
            raise OSError(f"more than the {MOST_BYTES:,} bytes that are decompressed")
    return found

"""Compressed traces: what is read, and what is refused before it fills the memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from testbed.workload import chakra, compressed, profiler
from testbed.workload.trace import TraceError


def test_plain_compressed_and_joined_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    for content in (b"ab", gzip.compress(b"ab"), gzip.compress(b"a") + gzip.compress(b"b")):
        path.write_bytes(content)
        assert compressed.contents(path) == b"ab"


@pytest.mark.parametrize("load", [chakra.load, profiler.load])
def test_a_small_file_with_gigabytes_of_zeros_is_refused(
    load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "MOST_BYTES", 10**6)
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(bytes(10**6 + 1)))
    with pytest.raises(TraceError, match=r"zeros\.gz: cannot be read: more than the 1,000,000 by"):
        load(path)


@pytest.mark.parametrize("load", [chakra.load, profiler.load])
def test_a_file_that_ends_too_early_is_refused(load, tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"abc" * 1000)[:-10])
    with pytest.raises(TraceError, match=r"cut\.gz: cannot be read: Compressed file ended"):
        load(path)


def test_a_trace_of_zeros_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "zeros.et"
    path.write_bytes(bytes(10**6))
    with pytest.raises(TraceError, match="has an empty message at byte 2"):
        chakra.load(path)

"""Files are written as a whole or not at all."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from testbed.replaced import replacing


def write(path, content):
    with replacing(path) as made:
        made.write_bytes(content)


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)
    write(path, b"new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [*tmp_path.iterdir()] == [path]


def test_a_link_stays_a_link(tmp_path):
    path, link = tmp_path / "a", tmp_path / "b"
    link.symlink_to(path)
    write(link, b"new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_on_a_full_disk_the_old_file_stays(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("old")

    def full(self, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write(path, b"new")
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_what_is_no_file_is_written_to():
    write(Path("/dev/null"), b"new")
    assert Path("/dev/null").is_char_device()

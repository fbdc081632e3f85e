"""Skips tests that this machine or this user cannot run, and gives the reason."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress

import hypothesis
import pytest

# This is set before the registries are read, because a user's own systems are not part of these
# tests.
os.environ["INA_TESTBED_EXTENSIONS"] = ""

from testbed.switches import bmv2


def _no_root() -> str | None:
    if os.geteuid() != 0:
        return "not root: network namespaces need it"
    if importlib.util.find_spec("mininet") is None:
        return "Mininet is not importable from this Python"
    return None


def _no_bmv2() -> str | None:
    return None if bmv2.installed() else "simple_switch and simple_switch_CLI are not installed"


_OBSTACLES = {"root": _no_root, "bmv2": _no_bmv2}


pytest.register_assert_rewrite("contract")
# A time limit for each example would fail tests on a busy machine.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_configure() -> None:
    # A shell makes its background processes ignore Ctrl-C, and their children inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker, obstacle in _OBSTACLES.items():
        marked = [item for item in items if item.get_closest_marker(marker) is not None]
        if marked and (reason := obstacle()) is not None:
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    # Modules and tests stay until the end; examining all of them would take seconds in each
    # collection.
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give tests their own folders, so that this machine's calibration does not influence them, and
    what processes leave in their temporary folder is removed with pytest's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        patch.setattr(tempfile, "tempdir", None)  # of this process: read from TMPDIR again
        yield


@pytest.fixture
def root_namespace() -> Iterator[None]:
    """Fail a test that leaves a link in the root namespace or an open file."""
    gc.collect()
    before = _links_and_files()
    yield
    gc.collect()  # the object of a joined process keeps a descriptor open
    # An earlier test's files may be closed meanwhile.
    assert not _links_and_files() - before


def _links_and_files() -> set[str]:
    found = {name for name in os.listdir("/sys/class/net") if re.fullmatch(r"\w\d+-\w\d+", name)}
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.add(f"{number}: {os.readlink(f'/proc/self/fd/{number}')}")
    return found

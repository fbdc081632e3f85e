"""Fixtures of the tests with real namespaces."""

from __future__ import annotations

import gc
import os
import re

import pytest


def _here() -> tuple[set[str], int]:
    links = {name for name in os.listdir("/sys/class/net") if re.fullmatch(r"\w\d+-\w\d+", name)}
    return links, len(os.listdir("/proc/self/fd"))


@pytest.fixture
def root_namespace():
    """Fails a test that leaves a link in the root namespace, or a file open."""
    gc.collect()
    before = _here()
    yield
    gc.collect()  # a process that was joined keeps a descriptor for as long as it is an object
    assert _here() == before

"""No packet and no request crashes a switch; ``native_fuzz.py`` is the long version."""

from __future__ import annotations

import random

import pytest
from native_fuzz import NAMES, Fuzzer


@pytest.mark.parametrize("name", NAMES)
def test_hostile_packets_and_requests_are_survived(name):
    fuzzer = Fuzzer(name, random.Random(name))
    fuzzer.run(range(20))
    assert fuzzer.packets == 2000

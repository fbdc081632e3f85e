"""The configuration of ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocols.atp.protocol import hashed_slots


@given(st.integers(0, 255), st.integers(1, 64), st.integers(0, 64))
def test_slots_are_distinct_and_in_memory(tree, count, spare):
    slots = hashed_slots(tree, count, count + spare)
    assert len(set(slots)) == count
    assert max(slots) < count + spare


def test_trees_begin_at_different_places():
    assert hashed_slots(1, 8, 4096) != hashed_slots(2, 8, 4096)


def test_more_places_than_slots_are_refused():
    with pytest.raises(ValueError, match="9 places need more than 8 slots"):
        hashed_slots(0, 9, 8)

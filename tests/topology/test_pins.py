"""Pins that can be kept, and those that cannot."""

from __future__ import annotations

import pytest

from testbed.topology.builders import fat_tree, graph
from testbed.topology.pins import check

CHAIN = graph(
    {"S1": ["a"], "S2": ["b"], "S3": ["c"], "S4": []},
    [("S1", "S2", 1), ("S2", "S3", 1), ("S2", "S4", 1)],
    1,
    1,
)


def test_pins_that_lead_to_their_destination():
    check(CHAIN, {})
    check(CHAIN, {("a", "c"): "S2"})
    check(fat_tree(4, 2, 1, 1, 1), {("h0", "h15"): "a1", ("h15", "h0"): "a6"})


@pytest.mark.parametrize(
    ("pin", "wrong"),
    [
        ((("a", "c"), "S3"), "from a to c cannot go via S3, which is not a switch next to S1"),
        ((("a", "c"), "a"), "via a, which is not a switch next to S1"),
        ((("a", "c"), "x"), "via x, which is not a switch"),
        ((("a", "x"), "S2"), "it needs two hosts"),
        ((("a", "a"), "S2"), "it needs two hosts"),
        ((("S1", "c"), "S2"), "it needs two hosts"),
        ((("b", "c"), "S4"), "from b to c cannot go via S4: a shortest path from there leads back"),
    ],
)
def test_pins_that_cannot_be_kept(pin, wrong):
    with pytest.raises(ValueError, match=wrong):
        check(CHAIN, dict([pin]))

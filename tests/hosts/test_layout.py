"""Positions of units and chunks if only some of a packet's values are carried."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.hosts.layout import Layout
from testbed.hosts.messages import Answer, Chunk, Turn, encode
from testbed.plan.program import Plan
from testbed.plan.trees import Tree
from testbed.plan.units import Unit
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML

TREE = Tree("switch", {"h0": 0}, {"h0": "switch"}, SWITCHML)


def layout(sizes, chunks, values, carried, on_trees=False):
    units = [Unit(number, size, 0.0) for number, size in enumerate(sizes)]
    plan = Plan("any", ("h0",), 1, chunks, ((),), (TREE,) if on_trees else ())
    return Layout(plan, units, values, carried)


DENSITIES = [(256, 8), (256, 256), (64, 8), (1024, 8)]
SIZES = st.lists(st.integers(1, 5000), min_size=1, max_size=6)


@given(SIZES, st.integers(1, 9), st.sampled_from(DENSITIES), st.booleans())
def test_units_and_chunks_tile_what_is_carried(sizes, chunks, density, on_trees):
    values, carried = density
    made = layout(sizes, chunks, values, carried, on_trees)
    end = 0
    for number in range(len(sizes)):
        assert made.unit(number).start == end
        for chunk in range(chunks):
            assert made.chunk(number, chunk).start == end
            end = made.chunk(number, chunk).stop
        assert made.unit(number).stop == end
        assert made.unit(number + len(sizes)) == made.unit(number)
    assert made.elements == end
    share = Fraction(carried, values)
    assert end == sum(math.ceil(share * size) for size in sizes)


@given(SIZES, st.integers(1, 9), st.sampled_from(DENSITIES))
def test_a_unit_on_trees_fills_all_its_packets_but_the_last(sizes, chunks, density):
    values, carried = density
    every, few = (layout(sizes, chunks, values, each, on_trees=True) for each in (values, carried))
    for number, size in enumerate(sizes):
        packets = 0
        for chunk in range(chunks):
            whole, thin = every.chunk(number, chunk), few.chunk(number, chunk)
            count = -(-(whole.stop - whole.start) // values)
            assert count == -(-(thin.stop - thin.start) // carried)
            packets += count
            full = whole.stop == whole.start + count * values
            assert full or whole.stop == every.unit(number).stop
        assert packets == -(-size // values)


@given(SIZES, st.integers(1, 5))
def test_messages_are_as_long_as_if_all_were_carried(sizes, chunks):
    few, every = (layout(sizes, chunks, 256, carried) for carried in (8, None))
    for number in range(len(sizes)):
        for chunk in range(chunks):
            part = every.chunk(number, chunk)
            whole = Chunk(number, chunk, np.zeros(part.stop - part.start, np.int32))
            answer = Answer(number, chunk, whole.values, [1, 0, 2])
            for message in (whole, answer, Turn()):
                expected = len(encode(message))
                assert few.message_bytes(message) == every.message_bytes(message) == expected

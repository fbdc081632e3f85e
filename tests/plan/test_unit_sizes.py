"""Units have the sizes of their gradients."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.plan.program import Pipelining, Plan
from testbed.plan.trees import Tree
from testbed.plan.units import cut, grain, in_packets
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.workload.buckets import Bucket, fill
from testbed.workload.catalogue import load

TREE = Tree("switch", {"h0": 0}, {"h0": "switch"}, SWITCHML)


def plan(chunks, trees, partition=None):
    pipelining = Pipelining(partition)
    return Plan("any", ("h0",), 1, chunks, ((),), (TREE,) if trees else (), pipelining)


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=8),
    st.integers(1, 40),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 50)),
    st.sampled_from([64, 256, 1024]),
)
def test_units_and_chunks_are_as_large_as_their_gradients(sizes, chunks, trees, parts, values):
    # From twice the largest bucket to a part of it that keeps the units few, and the test short.
    partition = parts and -(-8 * max(sizes) // parts)
    made = plan(chunks, trees, partition)
    buckets = [Bucket(number, (), 4 * size, 0.0) for number, size in enumerate(sizes)]
    units = cut(buckets, made, Fraction(1), values)
    for bucket in buckets:
        own = [unit.elements for unit in units if unit.bucket == bucket.index]
        assert 4 * sum(own) == bucket.bytes
        # Only the last packet of a bucket is partly filled, however the bucket is divided.
        packets = sum(in_packets(each, grain(made, values)) for each in own)
        assert packets == in_packets(sum(own), grain(made, values))
    for unit in units:
        assert partition is None or 4 * unit.elements <= max(partition, 4 * grain(made, values))
        cuts = made.cuts(unit.elements, grain(made, values))
        chunks_of = [end - start for start, end in pairwise(cuts)]
        assert sum(chunks_of) == unit.elements
        carried = sum(in_packets(each, grain(made, values)) for each in chunks_of)
        assert carried == in_packets(unit.elements, grain(made, values))


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 64), Fraction(1, 1024)])
@pytest.mark.parametrize("trees", [False, True])
def test_a_scaled_model_has_its_own_bytes(scale, trees):
    trace = load("resnet50")
    units = cut(fill(trace, scale=scale), plan(12, trees), scale)
    small = trace if scale == 1 else trace.scaled(scale)
    assert 4 * sum(unit.elements for unit in units) == small.bytes

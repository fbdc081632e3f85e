"""Aggregation trees: which contributions pass which nodes."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from testbed.plan.trees import Tree
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML

# Two racks: t0 sums h0 and h1, and t1, below the root, sums t0 and h2.
TWO_LEVELS = Tree(
    root="ps",
    rank_of={"h0": 0, "h1": 1, "h2": 2},
    parent={"h0": "t0", "h1": "t0", "h2": "t1", "t0": "t1", "t1": "ps"},
    protocol=ATP,
    root_rank=3,
)


def test_switches_come_before_their_parents():
    assert TWO_LEVELS.switches == ("t0", "t1")


def test_ranks_climb():
    assert TWO_LEVELS.ranks_below("t0") == {0, 1}
    assert TWO_LEVELS.ranks_below("t1") == {0, 1, 2}
    assert TWO_LEVELS.ranks_below("h2") == {2}
    assert TWO_LEVELS.streams == 1
    assert TWO_LEVELS.children("h0") == ()


def test_without_switches_every_member_is_a_stream():
    tree = Tree("ps", {"h0": 0, "h1": 1}, {"h0": "ps", "h1": "ps"}, ATP, root_rank=2)
    assert tree.switches == ()
    assert tree.streams == 2
    assert set(tree.children("ps")) == {"h0", "h1"}


def test_a_switch_may_be_the_root():
    tree = Tree("t1", {"h0": 0, "h1": 1}, {"h0": "t0", "h1": "t1", "t0": "t1"}, SWITCHML)
    assert tree.switches == ("t0", "t1")
    assert tree.participants == {0, 1}
    assert TWO_LEVELS.participants == {0, 1, 2, 3}


@st.composite
def trees(draw, most=10, first=0, root_rank=None):
    """Switches s0, s1, …, each below an earlier one or the root, and members below any of them."""
    inner = ["root"] + [f"s{index}" for index in range(draw(st.integers(0, 6)))]
    parent = {
        node: draw(st.sampled_from(inner[:index])) for index, node in enumerate(inner) if index
    }
    members = draw(st.integers(1, most))
    parent |= {f"h{rank}": draw(st.sampled_from(inner)) for rank in range(members)}
    rank_of = {f"h{rank}": first + rank for rank in range(members)}
    return Tree("root", rank_of, parent, ATP, root_rank)


@given(trees())
def test_children_part_what_climbs(tree):
    for node in {*tree.parent, tree.root}:
        below = [tree.ranks_below(child) for child in tree.children(node)]
        own = {tree.rank_of[node]} if node in tree.rank_of else set()
        assert sum(map(len, below)) + len(own) == len(tree.ranks_below(node))
        assert own.union(*below) == tree.ranks_below(node)
        for child in tree.children(node):
            assert tree.depth(child) == tree.depth(node) + 1
    assert tree.ranks_below(tree.root) == set(tree.rank_of.values())
    place = {switch: index for index, switch in enumerate(tree.switches)}
    assert all(
        place[node] < place[up] for node, up in tree.parent.items() if {node, up} <= set(place)
    )
    assert tree.streams == len(tree.children("root"))


@pytest.mark.parametrize("node", ["nobody"])
def test_depth_of_a_stranger_is_an_error(node):
    with pytest.raises(KeyError):
        TWO_LEVELS.depth(node)


@given(trees())
def test_a_bit_is_a_rank_where_bits_suffice(tree):
    for child in tree.parent:
        assert tree.bits(child) == sum(1 << rank for rank in tree.ranks_below(child))
        assert tree.number(child) == 0
    assert not tree.behind


@given(trees(most=150, first=64, root_rank=2000))
def test_each_child_of_a_node_has_a_bit_where_they_do_not(tree):
    assume(all(len(tree.children(switch)) <= 64 for switch in tree.switches))
    named = {(tree.number(child), tree.bits(child)): child for child in tree.parent}
    assert len(named) == len(tree.parent), "a number and a bit name one child"
    for (number, bit), child in named.items():
        assert bit.bit_count() == 1
        assert number > 0
        assert tree.behind[number, bit.bit_length() - 1] == tree.ranks_below(child)
        siblings = tree.children(tree.parent[child])
        if tree.parent[child] != tree.root:
            assert {tree.number(other) for other in siblings} == {number}

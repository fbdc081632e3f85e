"""Digests of packets: where they say that two runs diverge."""

from __future__ import annotations

import zlib
from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from testbed.backends.digests import Digests, first_difference
from testbed.backends.packet.backend import tcp_settings
from testbed.backends.packet.simulation import HOST, NEVER, ROUTER, SECOND, Link, Simulation
from testbed.topology.builders import leaf_spine

SIZE = 30_000_000


def transfer(down_at=None):
    """The digests of a long transfer, the number of packets before ``down_at`` (s), and that of all
    packets."""
    settings = tcp_settings(leaf_spine(1, 1, 2, 1e10, 1e10, 256_000))
    with Simulation(3, 0, settings) as simulation:
        for node, kind in enumerate((HOST, HOST, ROUTER)):
            simulation.node(node, kind, 0x0A000001 + node, node)
        for host in (0, 1):
            ends = {"a": host, "b": 2, "rate": 10**10, "limit_a": 1 << 40, "limit_b": 1 << 40}
            simulation.link(Link(**ends, seed=1))
            simulation.next_hops(2, host, [host])
        connection = simulation.connect(0, 1, 5000, 5001)
        simulation.write(connection, SIZE)
        before = None
        if down_at is not None:
            assert simulation.run(round(down_at * SECOND)) is None
            before = simulation.hops
            simulation.set_down(0, 0, True)
            assert simulation.run(round((down_at + 0.001) * SECOND)) is None
            simulation.set_down(0, 0, False)
        assert simulation.run(NEVER) is not None
        found = simulation.digests()
        assert found.packets == simulation.hops
        return found, before


def test_a_run_parts_from_another_where_a_link_goes_down():
    whole, _ = transfer()
    assert 256 <= len(whole.kept) <= 512 and whole.every == 128
    assert first_difference(whole, transfer()[0]) is None
    for down_at in (0.0, 0.0003, 0.011, 0.02):
        other, before = transfer(down_at)
        found = first_difference(whole, other)
        assert found is not None
        first, last = found
        assert last - first == 127
        # What is under way when the link goes down still arrives.
        assert before < last and first <= before + 200, (down_at, before, found)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=3000), st.data())
def test_digests_tell_where_runs_part(packets, drawn):
    """Compared with the packets themselves, by the C code's rule for what is kept."""
    at = drawn.draw(st.integers(0, len(packets)))
    other = packets[:at] + drawn.draw(st.lists(st.integers(0, 9), max_size=3000))
    base, new = digests(packets), digests(other)
    assert Digests.of(base.packets, base.every, base.text()) == base
    found = first_difference(base, new)
    if packets == other:
        assert found is None
        return
    pairs = zip_longest(packets, other)
    first = 1 + next(i for i, (was, now) in enumerate(pairs) if was != now)
    assert found is not None and found[0] <= first <= found[1]
    assert found[1] - found[0] < max(base.every, new.every) or found[1] == max(
        map(len, (packets, other))
    )


def digests(packets: list[int]) -> Digests:
    every = 1
    while len(packets) // every >= 64:
        every *= 2
    ends = [*range(every, len(packets) + 1, every), len(packets)]
    return Digests(len(packets), every, [zlib.crc32(bytes(packets[:end])) >> 16 for end in ends])

"""The windows of PANAMA's and A2TP's hosts, compared with their rules in Python."""

from __future__ import annotations

from collections import deque

from ina_loopback import drawn, member
from test_ina_packets import a_member, result

from testbed import wire
from testbed.hosts.aggregation import Engine, Operation
from testbed.protocols.a2tp.protocol import PROTOCOL as A2TP
from testbed.protocols.esa.protocol import PROTOCOL as ESA
from testbed.protocols.panama.protocol import PROTOCOL as PANAMA

WINDOW = 64
COUNT = 2000
ROUND_TRIP = 0.01


def played_through(style, flags):
    """Answer each fragment a round trip after it was sent, with ``flags(fragment)``. Returns the
    flags with which each was first sent, and how many were in flight at each answer."""
    sent, in_flight = {}, []
    with a_member(style, drawn(COUNT, wire.VALUES), window=WINDOW) as played:
        waiting = deque()

        def note(packets):
            for each in packets:
                if int(each["sequence"]) not in sent:
                    sent[int(each["sequence"])] = int(each["flags"])
                    waiting.append((played.now + ROUND_TRIP, int(each["sequence"])))

        note(played.hear())
        while waiting:
            due, fragment = waiting.popleft()
            in_flight.append(len(waiting) + 1)
            note(played.hear(after=max(0.0, due - played.now)))
            note(played.hear(result(fragment, 7, flags=flags(fragment))))
        assert played.engine.done(played.flow) == COUNT
    return sent, in_flight


def test_panama_shrinks_with_the_share_of_marks_and_grows_by_one_a_window():
    def late(flags):
        return max(played_through(PANAMA, flags)[1][-200:])

    assert late(lambda fragment: 0) == WINDOW
    all_marked = late(lambda fragment: wire.FLAG_ECN)
    some_marked = late(lambda fragment: wire.FLAG_ECN if fragment % 16 == 0 else 0)
    assert all_marked <= 10
    assert all_marked < some_marked < WINDOW // 2
    _, in_flight = played_through(
        PANAMA, lambda fragment: wire.FLAG_ECN if fragment < WINDOW + 1 else 0
    )
    # The first share of marks counts as 1, so it halves the window. Each later window adds one.
    assert min(in_flight[WINDOW : 3 * WINDOW]) <= WINDOW // 2 + 4
    assert 40 <= max(in_flight[10 * WINDOW : 12 * WINDOW]) <= 52


def aggregated():
    """A2TP's second window after each of its windows, if all answers are contended."""
    window, share, found = float(WINDOW), 0.0, []
    for _ in range(8):
        share = 7 / 8 * share + 1 / 8
        window = max(window * (1 - (share - 0.1) / 1.9), 1)
        found.append(int(window))
    return found


def past_the_switches(sent, window):
    """How many fragments of window number ``window`` have the flag of retransmissions."""
    first = window * WINDOW
    return sum(bool(sent[each] & wire.FLAG_RESEND) for each in range(first, first + WINDOW))


def test_a2tp_sends_past_the_switches_what_its_second_window_leaves():
    sent, in_flight = played_through(A2TP, lambda fragment: wire.FLAG_CONTENDED)
    assert past_the_switches(sent, 0) == 0, "a tensor's first window always uses aggregators"
    expected = [WINDOW - each for each in aggregated()]
    found = [past_the_switches(sent, window) for window in range(2, 9)]
    assert expected[-2] > 15
    assert all(abs(ours - theirs) <= 2 for ours, theirs in zip(found, expected, strict=False))
    assert max(in_flight[-200:-WINDOW]) == WINDOW, "contention does not touch the other window"


def test_a2tp_tolerates_a_tenth():
    sent, _ = played_through(A2TP, lambda fragment: (fragment % 16 == 0) * wire.FLAG_CONTENDED)
    assert not any(flags & wire.FLAG_RESEND for flags in sent.values())


def test_a2tp_shrinks_the_other_window_by_marks():
    _, in_flight = played_through(A2TP, lambda fragment: wire.FLAG_ECN)
    assert max(in_flight[-200:-WINDOW]) <= 12


def test_a_chunk_of_esa_has_its_priority_in_every_packet():
    values = drawn(4, wire.VALUES)
    with Engine() as engine:
        flow = engine.add(member(1, ESA, WINDOW))
        engine.push(flow, Operation.ALL_REDUCE, values.ctypes.data, values.size, 5)
        engine.pump(1000.0)
        packets = [packet for _, packet in engine.packets()]
    assert [packet[1] for packet in packets] == [5 << wire.PRIORITY_SHIFT] * 4

"""Chunks from rank to rank: the textbook systems' transport."""

from __future__ import annotations

from testbed import wire
from testbed.plan.program import Receive, Send
from testbed.protocols.congestion import RENO
from testbed.protocols.protocol import Protocol

PROTOCOL = Protocol(
    name="chunks",
    citation="Eddy (ed.), Transmission Control Protocol, RFC 9293, 2022",
    published=("A stream of bytes between two hosts, in order and without loss.",),
    reading=(
        "Ranks that exchange anything have a stream each way. A chunk has unit, number and length "
        "before it.",
        "TCP is Reno, and waits 10 ms at least before a retransmission by its timer.",
    ),
    loss="The kernel retransmits. What follows waits (head-of-line blocking).",
    operations=(Send, Receive),
    port=wire.CHUNKS_PORT,
    congestion=RENO,
)

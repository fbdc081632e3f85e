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
        "Ranks that exchange chunks have a stream in each direction. Unit, number and length "
        "precede a chunk.",
        "TCP is Reno; its retransmission timeout is at least 10 ms.",
    ),
    loss="The kernel retransmits. Later data waits (head-of-line blocking).",
    operations=(Send, Receive),
    port=wire.CHUNKS_PORT,
    congestion=RENO,
)

"""Payloads of packets that no member of a tree sends.

If a packet is byte for byte what a member could send now, it counts as a member's: no protocol here
authenticates packets, and no paper does. So each of these payloads differs in something that a
switch or a host can recognise: an unknown tree, bits of no worker, a number that no worker has
reached, a length or a kind that does not exist.
"""

from __future__ import annotations

import random
import struct

from testbed import wire
from testbed.deployment.deploy import Deployment

_VALUES = struct.Struct(f">{wire.FEW}i")
_FAR = 1 << 24
"""More fragments than any case sends."""


def payload(draw: random.Random, deployment: Deployment) -> tuple[int, bytes]:
    """A UDP port, and the payload to send there."""
    trees = sum(len(job.plan.trees) for job in deployment.jobs)
    tree = draw.randrange(trees) if trees else 0
    sequence = draw.choice([0, 1, 5, 20, draw.randrange(200)])
    slot = draw.choice([0, 1, 3, draw.randrange(64)])
    bits, kind, values = 1 << draw.randrange(4), draw.choice([1, 1, 2, 3, 4]), True
    what = draw.choice(["tree", "nobody", "bits", "late", "short", "noise", "connection"])
    if what == "tree":
        tree = trees + draw.randrange(1000)
    elif what == "nobody":
        kind, bits = wire.KIND_DATA, 0
    elif what == "bits":
        kind, bits = wire.KIND_DATA, bits | 1 << draw.randrange(50, 64)
    elif what == "late":
        kind, sequence = wire.KIND_RESULT, _FAR + draw.randrange(_FAR)
    elif what == "short":
        kind, values = wire.KIND_DATA, False
    elif what == "noise":
        return draw.choice([wire.PORT, wire.ROCE_PORT]), draw.randbytes(draw.randrange(1, 23))
    header = struct.pack(
        ">BBHIIIQ", kind, draw.choice([0, 0, 1, 2]), tree, sequence, slot, slot, bits
    )
    body = _VALUES.pack(*(draw.randrange(-1000, 1000) for _ in range(wire.FEW))) if values else b""
    if what != "connection":
        return wire.PORT, header + body
    number = wire.connection(trees + 1, draw.randrange(4))
    opcode = draw.choice([wire.SEND_MIDDLE, wire.SEND_LAST])
    bth = struct.pack(">BBH", opcode, 0, 0xFFFF) + struct.pack(">II", number, sequence)
    return wire.ROCE_PORT, bth + body

"""How long plans take in closed form, without the overhead of framing."""

from __future__ import annotations

from testbed.plan import cost as model
from testbed.plan.program import Plan
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing


def pace(made: Plan, fabric: Fabric) -> float:
    """Time per byte of messages, in units of a byte on a link of 10 Gbit/s."""
    tcp = framing(fabric)
    overhead = 1 / tcp.tcp_efficiency + tcp.tcp_ack_share
    return model.seconds_per_byte(made, fabric) * 1e10 / 8 / overhead

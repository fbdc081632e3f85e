"""A toy protocol: a P4 control of its own, and the hosts of another."""

from __future__ import annotations

from testbed.protocols.loud.reference import MODEL

from testbed.plan.program import SwitchAllReduce
from testbed.protocols.protocol import TreeProtocol
from testbed.protocols.roles import Neighbours, Place, Role
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML


class Loud(TreeProtocol):
    """Its hosts are SwitchML's, and never know."""

    def role(self, place: Place) -> Role | Neighbours:
        return SWITCHML.role(place)


PROTOCOL = Loud(
    name="loud",
    citation="none: a toy",
    published=("A switch answers everybody again when one asks again.",),
    reading=("All else is SwitchML's.",),
    loss=SWITCHML.loss,
    operations=(SwitchAllReduce,),
    number=5,
    control="loud.p4",
    switch_may_be_root=True,
    reference=MODEL,
)

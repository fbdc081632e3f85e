"""A toy protocol: its own P4 control, and the hosts of another protocol."""

from __future__ import annotations

from testbed.plan.program import SwitchAllReduce
from testbed.protocols.protocol import TreeProtocol
from testbed.protocols.roles import Neighbours, Place, Role
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML


class Loud(TreeProtocol):
    """Its hosts behave like SwitchML's."""

    def role(self, place: Place) -> Role | Neighbours:
        return SWITCHML.role(place)


PROTOCOL = Loud(
    name="loud",
    citation="none: a toy",
    published=("A switch answers all members again when one asks again.",),
    reading=("Everything else is as in SwitchML.",),
    loss=SWITCHML.loss,
    operations=(SwitchAllReduce,),
    number=200,
    control="loud.p4",
    switch_may_be_root=True,
)

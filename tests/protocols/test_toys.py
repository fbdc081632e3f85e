"""A protocol is one folder: a toy is put next to the others, and the contract finds it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from random import Random

import pytest
from carried import TOYS, program, registered
from compiled import what_it_does
from ina_scene import ADDRESSING, FABRIC, SWITCH
from ina_traffic import Traffic
from test_protocols import scene_of

from testbed.protocols import registry
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.switches.compile import COMPILER, compile_user_program
from testbed.switches.entries import derive
from testbed.switches.native.target import NativeSwitch

LOUD = registered()["loud"]


def test_it_is_found_beside_the_registered_ones():
    assert registered().keys() - registry.keys() == {"loud"}


def test_its_switch_is_not_that_of_its_hosts():
    """For the same traffic, more packets leave the toy's program."""
    copies = {}
    for protocol in (SWITCHML, LOUD):
        told = scene_of(protocol)
        with NativeSwitch.offline(program(protocol)) as switch:
            derive(SWITCH, FABRIC, ADDRESSING, told).install(switch)
            traffic = Traffic(Random(3), (protocol,), told)
            copies[protocol.name] = sum(
                len(switch.process(port, frame)) for port, frame in traffic.arrivals(400)
            )
    assert copies["loud"] > copies["switchml"]


def test_its_hosts_take_the_part_that_another_protocol_gives_them():
    from carried import Loopback, allocations, plan, racks

    from testbed.deployment.tasks import role
    from testbed.protocols.allocation import Window

    fabric = racks((4,), ["t0"])
    made = plan(LOUD, fabric, "t0")
    (told,) = allocations(made)
    addresses = Loopback(fabric).addresses
    found = role(made, 0, told, addresses, Window(8), fabric)
    theirs = replace(told, tree=replace(told.tree, protocol=SWITCHML))
    wanted = role(made, 0, theirs, addresses, Window(8), fabric)
    assert found.protocol is wanted.protocol is SWITCHML


@pytest.mark.bmv2
@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")
def test_its_compiled_program_is_not_stale():
    source = TOYS / "loud" / "loud.p4"
    again = compile_user_program(source).read_bytes()
    assert what_it_does(again) == what_it_does(program(LOUD).read_bytes())

"""The contract of every registered protocol and of the toys, all of which are found
automatically."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest
from carried import (
    ELEMENTS,
    TOYS,
    WORKERS,
    Loopback,
    LoopbackSwitch,
    allocations,
    program,
    racks,
    registered,
    tasks,
)
from carried import plan as made_of
from ina_scene import ADDRESSING as SCENE
from ina_scene import ALLOCATIONS, FABRIC, SWITCH, counted, forget
from ina_traffic import Traffic
from patience import PATIENCE_S

from testbed.backends.flow.scenario import Assumptions, Job
from testbed.backends.flow.simulate import simulate
from testbed.hosts.aggregation import protocols_table
from testbed.hosts.launcher import Launcher
from testbed.plan import cost as model
from testbed.plan.checker import PlanError, check
from testbed.plan.program import Operation
from testbed.plan.units import Unit
from testbed.protocols import TreeProtocol, on_trees, registry
from testbed.switches.compile import SOURCES, check_interface
from testbed.switches.entries import derive
from testbed.switches.native.target import NativeSwitch
from testbed.switches.reference import ReferenceSwitch

PROTOCOLS = registered()
ON_TREES = {name: each for name, each in PROTOCOLS.items() if isinstance(each, TreeProtocol)}
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
every_one_on_trees = pytest.mark.parametrize("protocol", ON_TREES.values(), ids=ON_TREES)
SHAPES = {"one rack": ((4,), ("t0",), "t0"), "two": ((2, 2), ("t0", "t1"), "t0"),
          "a spine": ((2, 2), ("s0",), "s0")}  # fmt: skip
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@every_protocol
@every_shape
def test_its_plan_sums_exactly_once(protocol, shape):
    sizes, ina, root = shape
    check(made_of(protocol, racks(sizes, ina), root))


@every_protocol
@every_shape
def test_the_simulator_and_the_closed_form_agree(protocol, shape):
    sizes, ina, root = shape
    fabric = racks(sizes, ina)
    plan = made_of(protocol, fabric, root)
    pieces = tuple(Unit(i, 10**6, 0.0) for i in range(8))
    expected = model.ClosedForm(plan, fabric).iteration(model.Timing([(0.0, 4e6)] * 8))
    job = Job(plan, pieces, 0.0, ((1.0,),) * WORKERS)
    found = simulate(fabric, [job], Assumptions("even"))
    assert found.jct_s(0) == pytest.approx(expected.iteration_s, rel=0.01)


@every_protocol
def test_its_hosts_sum_over_loopback_by_a_native_switch(protocol):
    """Without root: each host is a process, and the switch is behind sockets."""
    over_loopback(protocol, drop=0)


@every_one_on_trees
def test_its_hosts_sum_when_what_the_switch_sends_is_lost(protocol):
    assert over_loopback(protocol, drop=11).lost > 0


def over_loopback(protocol, drop):
    fabric = racks((2, 2), ["s0"])
    addressing = Loopback(fabric)
    plan = made_of(protocol, fabric, "s0")
    told = tasks(plan, fabric, addressing.addresses)
    with Launcher(told, [None] * len(told)) as launcher:
        # Threads may start only after the fork.
        if not plan.trees:
            outcomes, switch = launcher.run(timeout=PATIENCE_S), None
        else:
            with LoopbackSwitch("s0", addressing, plan, fabric, program(protocol), drop) as switch:
                outcomes = launcher.run(timeout=PATIENCE_S)
            assert switch.packets > 0
    for outcome in outcomes[:WORKERS]:
        assert outcome.wrong == 0
        assert outcome.checked == 2 * ELEMENTS
    return switch


def scene_of(protocol):
    """The scene's trees with ``protocol`` on them, as far as it allows."""
    roots = [
        each
        for each in ALLOCATIONS
        if each.slots and (protocol.switch_may_be_root or each.tree.root_rank is not None)
    ]
    return [replace(each, job=0, tree=replace(each.tree, protocol=protocol)) for each in roots]


@every_one_on_trees
def test_the_native_switch_does_what_its_reference_says(protocol):
    told = scene_of(protocol)
    with NativeSwitch.offline(program(protocol)) as switch:
        derive(SWITCH, FABRIC, SCENE, told).install(switch)
        for seed in range(3):
            forget(switch, program(protocol))
            before = counted(switch)
            reference = ReferenceSwitch(SWITCH, FABRIC, told)
            traffic = Traffic(Random(seed), (protocol,), told)
            for port, frame in traffic.arrivals(250):
                assert sorted(switch.process(port, frame)) == sorted(reference.process(frame))
            assert counted(switch) == before + reference.events
            assert len({event for _, event in reference.events}) >= 6


@pytest.mark.root
@every_protocol
def test_its_hosts_sum_in_the_emulator(protocol, tmp_path):
    from testbed.backends.emulation import targets
    from testbed.backends.emulation.network import Network

    fabric = racks((2, 2), ["t0", "t1"])
    plan = made_of(protocol, fabric, "t0")
    switches = {
        name: targets.make("native", tmp_path / f"{name}.log", program(protocol))
        for name in {switch for tree in plan.trees for switch in tree.switches}
    }
    with Network(fabric, 50.0, switches, allocations(plan)) as network:
        addresses = {node: network.addressing.ip(node) for node in fabric.nodes}
        told = tasks(plan, fabric, addresses)
        with Launcher(
            told, [network.namespace(plan.hosts[each.rank]) for each in told]
        ) as launcher:
            outcomes = launcher.run(timeout=PATIENCE_S)
    for outcome in outcomes[:WORKERS]:
        assert outcome.wrong == 0
        assert outcome.checked == 2 * ELEMENTS


@every_protocol
def test_what_is_published_and_what_is_our_reading_are_both_said(protocol):
    assert protocol.citation
    assert protocol.published
    assert protocol.reading
    assert protocol.loss
    assert protocol.congestion.source


def test_every_operation_of_a_plan_is_carried_by_some_protocol():
    carried = {kind for each in registry.values() for kind in each.operations}
    assert carried == set(Operation.__args__)


def test_numbers_are_those_of_p4_and_of_the_engine():
    numbers = {name.upper(): each.number for name, each in on_trees().items()}
    enum = re.search(r"enum bit<8> Style \{(.*?)\}", (SOURCES / "headers.p4").read_text(), re.S)
    assert {name: int(n) for name, n in re.findall(r"(\w+)\s*=\s*(\d+)", enum[1])} == numbers
    engine = re.findall(r"\[(\d+)\] = &(\w+),", protocols_table())
    assert {name.upper(): int(n) for n, name in engine} == numbers


@every_one_on_trees
def test_its_control_is_there_and_its_program_can_be_filled(protocol):
    beside = TOYS / protocol.name / protocol.control
    assert (SOURCES / protocol.control).exists() or beside.exists()
    check_interface(program(protocol))


@every_one_on_trees
def test_a_root_that_cannot_be_a_switch_is_refused(protocol):
    if protocol.switch_may_be_root:
        return
    fabric = racks((4,), ["t0"])
    plan = made_of(protocol, fabric, "t0")
    (tree, *_) = plan.trees
    parent = {child: up for child, up in tree.parent.items() if child != "t0"}
    rootless = replace(tree, root="t0", parent=parent, root_rank=None)
    with pytest.raises(PlanError, match=f"protocol {protocol.name} needs a host as its root"):
        check(replace(plan, trees=(rootless,) * len(plan.trees)))


def test_two_protocols_of_one_number_are_refused(monkeypatch):
    import testbed.protocols as package

    double = SimpleNamespace(name="again", number=registry["atp"].number)
    monkeypatch.setattr(package.pkgutil, "iter_modules", lambda path: [
        SimpleNamespace(name=name, ispkg=True) for name in ("atp", "again")
    ])  # fmt: skip
    real = package.extensions.load
    monkeypatch.setattr(
        package.extensions,
        "load",
        lambda name: SimpleNamespace(PROTOCOL=double) if "again" in name else real(name),
    )
    with pytest.raises(ValueError, match="two protocols have the number 1"):
        package.discover()

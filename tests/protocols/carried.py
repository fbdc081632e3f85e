"""A small plan with each protocol's operations, and the means to run it without root."""

from __future__ import annotations

import importlib
import selectors
import socket
import sys
import threading
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np
from ina_loopback import NET

import testbed.protocols
from testbed import wire
from testbed.deployment.tasks import role
from testbed.hosts.task import Task
from testbed.plan.program import (
    Consistency,
    Multicast,
    Operation,
    Plan,
    Receive,
    Send,
    SwitchAllReduce,
    SwitchReduce,
    Update,
)
from testbed.plan.trees import Tree
from testbed.plan.units import Unit
from testbed.protocols import Protocol, TreeProtocol, discover
from testbed.protocols.allocation import Allocation, Window
from testbed.switches.compile import PROGRAM
from testbed.switches.entries import derive
from testbed.switches.native.target import NativeSwitch
from testbed.systems.racks import two_levels
from testbed.topology.addressing import Addressing
from testbed.topology.builders import leaf_spine
from testbed.topology.fabric import Fabric
from testbed.workload.gradients import Gradients

TOYS = Path(__file__).parent / "toys"
WORKERS = 3
ELEMENTS = 4 * 8 * wire.VALUES
WINDOW = Window(8, 4)


def registered() -> dict[str, Protocol]:
    """Every protocol, with the toys as if their folders were in testbed/protocols."""
    testbed.protocols.__path__.append(str(TOYS))
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        return discover()
    finally:
        testbed.protocols.__path__.remove(str(TOYS))
        sys.dont_write_bytecode = written


def program(protocol: TreeProtocol) -> Path:
    """The switches' compiled program: the project's, or a toy's own."""
    home = type(protocol).__module__.rpartition(".")[0]
    if (TOYS / protocol.name).exists():
        return importlib.import_module(f"{home}.switch").program()
    return PROGRAM


def racks(sizes: Sequence[int], ina: Iterable[str]) -> Fabric:
    return leaf_spine(1, len(sizes), sizes, 1e9, 1e9, 10**6).with_ina(ina)


def plan(protocol: Protocol, fabric: Fabric, root: str) -> Plan:
    """A plan on the first hosts, with the last one as server if the protocol needs one. ``root`` is
    the switch that returns sums, or that sends them to the server."""
    hosts, server = fabric.hosts[:WORKERS], fabric.hosts[-1]
    trees: tuple[Tree, ...] = ()
    if isinstance(protocol, TreeProtocol) and SwitchAllReduce in protocol.operations:
        tree = two_levels(hosts, fabric, root, protocol)
        if not protocol.switch_may_be_root:
            tree = rooted(tree, root, server, WORKERS)
            hosts = (*hosts, server)
        trees = (tree,)
        programs: list[list[Operation]] = [[SwitchAllReduce(0, 0)]] * len(hosts)
    elif isinstance(protocol, TreeProtocol):  # towards the last worker, and from it
        tree = rooted(two_levels(hosts[:-1], fabric, root, protocol), root, hosts[-1], WORKERS - 1)
        trees = (tree, tree)
        programs = [[SwitchReduce(0, 0), Multicast(0, 1)]] * len(hosts)
    elif Update in protocol.operations:
        hosts = (*hosts, server)
        pushing: list[Operation] = [Update(0, WORKERS)]
        programs = [*([pushing] * WORKERS), []]
    else:
        others = range(1, WORKERS)
        centre: list[Operation] = [*(Receive(0, r, True) for r in others)]
        centre += [Send(0, rank) for rank in others]
        other: list[Operation] = [Send(0, 0), Receive(0, 0, False)]
        programs = [centre, *([other] * len(others))]
    return Plan(
        system=protocol.name,
        hosts=hosts,
        workers=WORKERS,
        chunks=1,
        programs=tuple(map(tuple, programs)),
        trees=trees,
        consistency=Consistency(staleness=0) if Update in protocol.operations else None,
    )


def rooted(tree: Tree, top: str, host: str, rank: int) -> Tree:
    """``tree``, whose root is the switch ``top``, with ``host`` above it as the new root."""
    return Tree(host, tree.rank_of, {**tree.parent, top: host}, tree.protocol, rank)


def allocations(made: Plan) -> list[Allocation]:
    size = 2 * WINDOW.fragments
    return [Allocation(n, 0, tree, n * size, size) for n, tree in enumerate(made.trees)]


def tasks(made: Plan, fabric: Fabric, addresses: dict[str, str]) -> list[Task]:
    """Two iterations of two units."""
    gradients = Gradients(5, WORKERS, ELEMENTS)
    units = (Unit(0, ELEMENTS // 2, 0.01), Unit(1, ELEMENTS // 2, 0.02))
    told = allocations(made)
    return [
        Task(
            made,
            rank,
            0,
            tuple(addresses[host] for host in made.hosts),
            units,
            0.03,
            gradients,
            (1.0,) * 2,
            tuple(role(made, rank, each, addresses, WINDOW, fabric) for each in told),
        )
        for rank in made.ranks
    ]


class Loopback(Addressing):
    """Gives every node a loopback address of its own in this process, because ports are fixed."""

    def __init__(self, fabric: Fabric) -> None:
        super().__init__(fabric)
        self.addresses = {node: f"{NET}.{at + 1}" for at, node in enumerate(fabric.nodes)}
        self._ip = {node: IPv4Address(ip) for node, ip in self.addresses.items()}

    def routes(self, switch: str) -> dict[str, str]:
        return {f"{self.ip(node)}/32": node for node in self.addresses if node != switch}


class LoopbackSwitch(threading.Thread):
    """``switch`` of ``fabric``, a native switch behind sockets on its loopback address.

    Hosts' datagrams become frames, and its frames become datagrams, of which one in ``drop`` is
    lost.
    """

    def __init__(self, switch: str, addressing: Loopback, made: Plan, fabric: Fabric, program: Path, drop: int = 0) -> None:  # fmt: skip  # noqa: E501
        super().__init__()
        self.packets = self.lost = 0
        self._drop = drop
        self._native = NativeSwitch.offline(program)
        derive(switch, fabric, addressing, allocations(made)).install(self._native)
        self._to = socket.inet_aton(addressing.ip(switch))
        self._ways = {}
        for port in (wire.PORT, wire.ROCE_PORT):
            way = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            way.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            way.bind((addressing.ip(switch), port))
            way.setblocking(False)
            self._ways[port] = way
        self._over = False

    def __enter__(self) -> LoopbackSwitch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self.join()
        for way in self._ways.values():
            way.close()
        self._native.close()

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for port, way in self._ways.items():
                selector.register(way, selectors.EVENT_READ, port)
            while not self._over:
                for key, _ in selector.select(0.02):
                    payload, (source, _) = key.fileobj.recvfrom(9000)
                    for _, frame in self._native.process(1, self._frame(source, key.data, payload)):
                        self._leave(frame)

    def _frame(self, source: str, port: int, payload: bytes) -> bytes:
        udp = np.array([port, port, 8 + len(payload), 0], ">u2").tobytes()
        sizes = (28 + len(payload)).to_bytes(2, "big")
        ip = b"\x45\x00" + sizes + bytes(4) + b"\x40\x11" + bytes(2)
        ip += socket.inet_aton(source) + self._to
        return bytes(12) + b"\x08\x00" + ip + udp + payload

    def _leave(self, frame: bytes) -> None:
        self.packets += 1
        if self._drop and self.packets % self._drop == 0:
            self.lost += 1
            return
        port = int.from_bytes(frame[36:38], "big")
        self._ways[port].sendto(frame[42:], (socket.inet_ntoa(frame[30:34]), port))

"""Correct hosts on a hostile network: every packet carries the sum of exactly the ranks it names.

This holds even if packets are reordered, repeated and lost, and if switches lose their memory. If
no memory was lost, every fragment is completed once the network is reliable again.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from ina_hosts import FRAGMENTS, WINDOW, Member, Neighbour, Root, wrong
from ina_scene import ADDRESSING, FABRIC, MANY, RANKS, forget
from ina_scene import tree as grown

from testbed.protocols.a2tp.protocol import PROTOCOL as A2TP
from testbed.protocols.allocation import Allocation
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.esa.protocol import PROTOCOL as ESA
from testbed.protocols.netreduce.protocol import PROTOCOL as NETREDUCE
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.switches.compile import PROGRAM
from testbed.switches.entries import derive
from testbed.switches.frames import Packet, parse, set_checksum
from testbed.switches.native.target import NativeSwitch

SLOTS = 2 * WINDOW
CASES = {
    "atp in one rack": [grown(ATP, "h2", t0="h0 h1", h2="t0")],
    "atp, jobs that share slots": [
        grown(ATP, "h5", t0="h0 h1 h2", t1="t0 h3", h5="t1"),
        grown(ATP, "h4", t0="h0 h2", h4="t0"),
    ],
    "atp, many workers": [
        grown(ATP, "h5", MANY, t0="h0 h1 h2", s0="t0 t1", t1="h3 h4", h5="s0"),
        grown(ATP, "h4", MANY, t0="h0 h2", h4="t0"),
    ],
    "a2tp, jobs that share slots": [
        grown(A2TP, "h5", t0="h0 h1 h2", t1="t0 h3", h5="t1"),
        grown(A2TP, "h4", t0="h0 h2", h4="t0"),
    ],
    "esa, jobs that share slots": [
        grown(ESA, "h5", t0="h0 h1 h2", t1="t0 h3", h5="t1"),
        grown(ESA, "h4", t0="h0 h2", h4="t0"),
        grown(ESA, "h4", t0="h0 h1", h4="t0"),
    ],
    "esa, many workers": [
        grown(ESA, "h5", MANY, t0="h0 h1 h2", s0="t0 t1", t1="h3 h4", h5="s0"),
        grown(ESA, "h4", MANY, t0="h0 h2", h4="t0"),
    ],
    "esa beside atp and a2tp": [
        grown(ESA, "h5", t0="h0 h1 h2", h5="t0"),
        grown(ATP, "h4", t0="h0 h2", h4="t0"),
        grown(A2TP, "h3", t0="h1 h2", h3="t0"),
    ],
    "switchml, many workers": [
        grown(SWITCHML, "s0", MANY, s0="t0 t1", t0="h0 h1", t1="h3 h4"),
    ],
    "switchml to a server, many": [grown(SWITCHML, "h5", MANY, t0="h0 h1", h5="t0 h3")],
    "rack, many workers": [grown(RACK, "h4", MANY, t0="h0 h1 h2", h4="t0")],
    "netreduce, many workers": [grown(NETREDUCE, "s0", MANY, t0="h0 h1 h2", s0="t0 h3")],
    "switchml in one rack": [grown(SWITCHML, "t0", t0="h0 h1 h2")],
    "switchml in two": [grown(SWITCHML, "t0", t0="h0 h1 t1", t1="h3 h4")],
    "switchml, three levels": [grown(SWITCHML, "s0", s0="t0 t1", t0="h0 h1", t1="h3 h4")],
    "switchml to a server": [grown(SWITCHML, "h5", t0="h0 h1", h5="t0 h3")],
    "rack": [grown(RACK, "h2", t0="h0 h1", h2="t0")],
    "rack to another": [grown(RACK, "h4", t0="h0 h1 h2", h4="t0")],
    "netreduce in one rack": [grown(NETREDUCE, "t0", t0="h0 h1 h2")],
    "netreduce in two": [grown(NETREDUCE, "s0", t0="h0 h1 h2", s0="t0 h3")],
    "netreduce by a spine alone": [grown(NETREDUCE, "s0", s0="h0 h3")],
}


@pytest.fixture(scope="module", params=CASES, ids=lambda name: name)
def running(request):
    """The switches of a case, configured with its trees."""
    shared = CASES[request.param][0].protocol.shares_slots
    trees = [
        Allocation(place + 1, place, tree, 0 if shared else SLOTS * place, 3 if shared else SLOTS)
        for place, tree in enumerate(CASES[request.param])
    ]
    switches = {name: NativeSwitch.offline(PROGRAM) for name in FABRIC.switches}
    for name, switch in switches.items():
        derive(name, FABRIC, ADDRESSING, trees).install(switch)
    yield switches, trees
    for switch in switches.values():
        switch.close()


class Network:
    """Packets in flight and their receivers: the test decides which one arrives, and when."""

    def __init__(self, switches, trees, random, multicasts):
        self.switches, self.random, self.multicasts = switches, random, multicasts
        self.trees = {each.number: each for each in trees}
        self.under_way: list[tuple[str, int, bytes]] = []
        self.hosts = [host for each in trees for host in self._hosts(each)]
        for switch in switches.values():
            forget(switch)

    def _hosts(self, allocation: Allocation) -> Iterator[Member | Root | Neighbour]:
        tree = allocation.tree

        def sender(name):
            return lambda packet: self._enter(name, packet)

        def made(kind, name, **how):
            return kind(name, allocation, ADDRESSING, sender(name), self.multicasts, **how)

        if tree.protocol is NETREDUCE:
            ring = [
                made(Neighbour, name, passes=tree.parent[name] == FABRIC.tor_of(name))
                for name in sorted(tree.rank_of, key=tree.rank_of.__getitem__)
            ]
            for place, each in enumerate(ring):
                each.after = ring[(place + 1) % len(ring)]
            yield from ring
            return
        if tree.root in RANKS:
            yield made(Root, tree.root)
        for name in tree.rank_of:
            yield made(Member, name)

    def _enter(self, name: str, packet: Packet) -> None:
        size = len(bytes(packet)) - packet.link.nbytes
        packet.link["length"], packet.udp["length"] = size + 20, size
        set_checksum(packet.link)
        tor = FABRIC.tor_of(name)
        self.under_way.append((tor, ADDRESSING.port(tor, name), bytes(packet)))

    def deliver(self, lose: float = 0.0, double: float = 0.0) -> None:
        """Move a packet by one hop, preferably a recent packet, so that some become very old."""
        youngest = 6 if self.random.random() < 0.9 else len(self.under_way)
        at = max(0, len(self.under_way) - 1 - self.random.randrange(youngest))
        node, port, frame = self.under_way[at]
        if self.random.random() >= double:
            self.under_way[at] = self.under_way[-1]
            self.under_way.pop()
        if self.random.random() < lose:
            return
        packet = parse(frame)
        assert not wrong(packet, self.trees, self.multicasts), (node, frame[:90].hex())
        if node in RANKS:
            assert packet.link["dst"][0] == ADDRESSING.ip_number(node)
            for host in self.hosts:
                if host.name == node:
                    host.hear(packet)
            return
        for out, left in self.switches[node].process(port, frame):
            neighbour = FABRIC.neighbours(node)[out - 1]
            inwards = 0 if neighbour in RANKS else ADDRESSING.port(neighbour, node)
            self.under_way.append((neighbour, inwards, left))

    def speak(self) -> None:
        able = [host for host in self.hosts if host.due()]
        if able:
            host = self.random.choice(able)
            host.speak(self.random.choice(host.due()))

    def storm(self, steps: int, forgetting: bool) -> None:
        for _ in range(steps):
            if not self.under_way or (len(self.under_way) < 30 and self.random.random() < 0.3):
                self.speak()
            else:
                self.deliver(lose=0.05, double=0.08)
            if forgetting and self.random.random() < 0.01:
                forget(self.random.choice(list(self.switches.values())))

    def calm(self, rounds: int) -> None:
        """Let all packets arrive, in any order, and all hosts retransmit what is missing."""
        for _ in range(rounds):
            while self.under_way:
                self.deliver()
            for host in self.hosts:
                for s in host.due():
                    host.speak(s)

    def unfinished(self) -> list[str]:
        return [f"{host.name} {sorted(host.done)}" for host in self.hosts if not host.finished()]


def operations(trees) -> list[bool]:
    """The operations to test, True for multicast: protocol RACK does both, multicast and reduce."""
    return [False, True] if trees[0].tree.protocol is RACK else [False]


@pytest.mark.parametrize("seed", range(2))
def test_every_sum_is_of_whom_it_names_and_all_get_done(running, seed):
    switches, trees = running
    for multicasts in operations(trees):
        network = Network(switches, trees, Random(seed), multicasts)
        network.storm(900, forgetting=False)
        network.calm(3 * FRAGMENTS)
        assert not network.unfinished()


@pytest.mark.parametrize("seed", range(2))
def test_no_sum_is_wrong_when_switches_forget(running, seed):
    switches, trees = running
    for multicasts in operations(trees):
        network = Network(switches, trees, Random(100 + seed), multicasts)
        network.storm(900, forgetting=True)
        network.calm(3 * FRAGMENTS)
        if trees[0].tree.protocol.shares_slots:
            assert not network.unfinished(), "ATP and its variants need no memory"

"""The fabric in Mininet: hosts and switches in namespaces of their own, with links between them.

Veths are made directly between the namespaces, so a run puts nothing into the root namespace, and
the veths vanish with their namespace when its last process ends. So nothing is left, however a run
ends: Mininet's shells end when their terminals close, and switches and ranks die with their parent.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from testbed.backends.emulation import node_setup
from testbed.backends.emulation.cleanup import TAG, mark
from testbed.backends.emulation.node_setup import Hook, Rule
from testbed.backends.emulation.queues import Queues, Reading
from testbed.backends.emulation.superframes import superframe
from testbed.backends.emulation.switch_target import SwitchTarget
from testbed.backends.links import Shares, any_of
from testbed.protocols.allocation import Allocation
from testbed.protocols.events import Event
from testbed.switches import entries, events
from testbed.switches.control import Control, ControlError
from testbed.switches.entries import SwitchEntries
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric
from testbed.topology.paths import Routes

TOOLS = ("ip", "tc", "mnexec", "ethtool", "ping")

_TX_DROPPED = 11
"""The column in /proc/net/dev of packets dropped on sending."""


class EmulationError(Exception):
    """The fabric cannot be emulated here; the message says why and how to fix it."""


@dataclass(frozen=True)
class Statistics:
    """Packet counters since the network came up.

    ``lost``: packets that came too fast for a P4 switch or for a host's UDP sockets, by node.
    ``crowded_out``: packets for which the kernel's receive queue had no room, by interface.
    ``queue_drops``: packets dropped by full link queues. ``sent_bytes``: bytes sent, by interface.
    ``sent_packets``: all packets sent by hosts. ``tcp_resent``: TCP retransmissions, by host.
    """

    lost: Mapping[str, int]
    crowded_out: Mapping[str, int]
    queue_drops: int
    sent_bytes: Mapping[str, int]
    sent_packets: int
    tcp_resent: Mapping[str, int]

    def since(self, before: Statistics) -> Statistics:
        """The counts since ``before``."""
        return Statistics(
            _difference(self.lost, before.lost),
            _difference(self.crowded_out, before.crowded_out),
            self.queue_drops - before.queue_drops,
            _difference(self.sent_bytes, before.sent_bytes),
            self.sent_packets - before.sent_packets,
            _difference(self.tcp_resent, before.tcp_resent),
        )


def _difference(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    # The counters of a switch that has ended read 0.
    return {name: max(0, count - before.get(name, 0)) for name, count in now.items()}


def require() -> None:
    """Raise EmulationError unless this user can emulate on this machine."""
    problems = []
    if os.geteuid() != 0:
        problems.append("not root: network namespaces need it; use sudo")
    if importlib.util.find_spec("mininet") is None:
        problems.append(
            "Mininet is not importable: apt-get install mininet, and make the virtual environment"
            " from the system's Python with --system-site-packages, as setup.sh does"
        )
    for tool in TOOLS:
        if shutil.which(tool) is None:
            problems.append(f"{tool} is not installed: `ina-testbed setup` says what to install")
    if problems:
        raise EmulationError("; ".join(problems))


class Network:
    """A context in which the fabric runs.

    Args:
        fabric: what to build.
        dilation: divides the links' rates; None leaves links unshaped.
        targets: for each switch that runs the P4 program, a target not yet started.
        allocations: the jobs' aggregation trees.
        seed: of the kernel routers' ECMP hash.
        routes: flows with a path of their own.
        loss, duplication: the share of packets that a link loses or delivers twice, at random, in
            each direction.
        whole_frames: whether the kernel never carries several packets as one, so that captures show
            each.

    Attributes:
        superframe: how many packets the kernel may carry as one.
    """

    def __init__(
        self,
        fabric: Fabric,
        dilation: float | None,
        targets: Mapping[str, SwitchTarget],
        allocations: Sequence[Allocation] = (),
        seed: int = 0,
        routes: Routes | None = None,
        loss: Shares | None = None,
        duplication: Shares | None = None,
        whole_frames: bool = False,
    ) -> None:
        self.fabric = fabric
        self.addressing = Addressing(fabric)
        self._dilation, self._targets, self._seed = dilation, targets, seed
        self._allocations = allocations
        self._routes = routes or {}
        self._loss, self._duplication = loss or {}, duplication or {}
        cut = all(target.cuts_superframes for target in targets.values())
        whole = whole_frames or self._is_impaired or not cut
        self.superframe = 1 if whole else superframe(fabric, dilation)
        self._nodes: dict[str, Any] = {}
        self._off: set[str] = set()
        self._ruled: set[tuple[Rule, str]] = set()
        self._counted: dict[int, Counter[Event]] = {}  # of each job, by switches since killed
        self._queues: Queues | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Network:
        require()
        if self._is_impaired and shutil.which("nft") is None:
            raise EmulationError(
                "loss and duplication: nft is not installed: see `ina-testbed setup`"
            )
        with ExitStack() as stack:
            stack.callback(self._terminate)
            self._build()
            self._set_up()
            self._queues = Queues(
                {
                    self.namespace(node): [
                        self.addressing.interface(node, neighbour)
                        for neighbour in self.fabric.neighbours(node)
                    ]
                    for node in self.fabric.nodes
                }
            )
            self._off = set(self._targets)
            for switch in self._targets:
                self.start_switch(switch, self.entries(switch))
            self._probe()
            if self._is_impaired:
                self.impair({*self._loss, *self._duplication})
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def _is_impaired(self) -> bool:
        return bool(self._loss or self._duplication)

    def pid(self, node: str) -> int:
        """A process in the node's namespace that lives as long as the network."""
        pid: int = self._nodes[node].pid
        return pid

    def namespace(self, node: str) -> str:
        """Path of the node's network namespace."""
        return f"/proc/{self.pid(node)}/ns/net"

    def inside(self, node: str) -> list[str]:
        """The prefix that makes a command run in the node's namespace."""
        return ["mnexec", "-a", str(self.pid(node))]

    @property
    def p4_switches(self) -> Collection[str]:
        """The switches that run the P4 program."""
        return self._targets.keys()

    def dead(self) -> dict[str, str]:
        """P4 switches that ended unexpectedly, with the reason."""
        reasons = {name: target.died() for name, target in self._running().items()}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def events(self, job: int) -> Counter[Event]:
        """The events of a job that all P4 switches together have counted, those before restarts
        included."""
        total = Counter(self._counted.get(job, Counter()))
        for switch, target in self._running().items():
            with self._named(switch):
                total += events.read(target, job)
        return total

    def switch_pids(self) -> list[int]:
        """The processes of the P4 switches that are running."""
        return [target.pid for target in self._running().values() if target.died() is None]

    def kill_switch(self, switch: str) -> None:
        """Kill a P4 switch's process. Its memory and tables are lost; its counts are read first."""
        if switch in self._off:
            return
        target = self._targets[switch]
        with self._named(switch):
            for job in {each.job for each in self._allocations}:
                self._counted.setdefault(job, Counter()).update(events.read(target, job))
            os.kill(target.pid, signal.SIGKILL)
        target.close()
        self._off.add(switch)

    def start_switch(self, switch: str, told: SwitchEntries) -> None:
        """Start a P4 switch that is not running, and install its entries once it answers."""
        if switch not in self._off:
            return
        ports = {
            self.addressing.port(switch, neighbour): self.addressing.interface(switch, neighbour)
            for neighbour in self.fabric.neighbours(switch)
        }
        with self._named(switch):
            self._nodes[switch].run(ports, self.superframe, told)
        self._off.discard(switch)

    def entries(self, switch: str) -> SwitchEntries:
        """The entries of a P4 switch."""
        return entries.derive(
            switch, self.fabric, self.addressing, self._allocations, self._seed, self._routes
        )

    def tell_switch(self, switch: str, step: Callable[[Control], None]) -> None:
        """Carry out one step of a running P4 switch's configuration."""
        if switch not in self._off:
            with self._named(switch):
                step(self._targets[switch])

    def impair(
        self,
        links: Collection[tuple[str, str]],
        losses: Sequence[float | None] = (),
        duplications: Sequence[float | None] = (),
    ) -> None:
        """Make ``links``, by their ends as in the fabric, lose packets or deliver them twice, in
        both directions: their usual shares and these, independently of one another.

        Packets are lost where the kernel receives them, or where they are sent if the receiver runs
        P4. Copies are made where packets are sent.
        """
        scripts: dict[str, str] = {}

        def add(node: str, neighbour: str, rule: Rule, hook: Hook, share: float) -> None:
            interface = self.addressing.interface(node, neighbour)
            if share or (rule, interface) in self._ruled:
                self._ruled.add((rule, interface))
                text = node_setup.impairment(rule, hook, interface, share)
                scripts[node] = scripts.get(node, "") + text

        for a, b in links:
            lost = any_of([self._loss.get((a, b)), *losses])
            copied = any_of([self._duplication.get((a, b)), *duplications])
            for here, there in ((a, b), (b, a)):
                if there in self._targets:
                    add(here, there, "loss", "egress", lost)
                else:
                    add(there, here, "loss", "ingress", lost)
                add(here, there, "duplication", "egress", copied)
        if problems := self._tell(["nft", "-f", "-"], scripts):
            raise EmulationError(
                "cannot lose or copy packets; copies, and losses on links to P4 switches, need"
                " Linux 5.17; " + "; ".join(problems)
            )

    @contextmanager
    def _named(self, switch: str) -> Iterator[None]:
        """Turns what a switch refuses, or cannot answer because it has ended, into an
        EmulationError that names it."""
        try:
            yield
        except ControlError as error:
            raise EmulationError(f"{switch}: {error}") from error

    def _running(self) -> dict[str, SwitchTarget]:
        return {name: each for name, each in self._targets.items() if name not in self._off}

    def queues(self) -> dict[str, Reading]:
        """The queue at each sending end of a link, by interface."""
        assert self._queues is not None
        return self._queues.read()

    def statistics(self) -> Statistics:
        queues = self.queues()
        lost = {name: target.lost() for name, target in self._running().items()}
        lost |= {host: self._counter(host, "Udp", "RcvbufErrors") for host in self.fabric.hosts}
        return Statistics(
            lost=lost,
            crowded_out={
                name: count for node in self.fabric.nodes for name, count in self._dropped(node)
            },
            queue_drops=sum(queue.dropped for queue in queues.values()),
            sent_bytes={name: queue.sent_bytes for name, queue in queues.items()},
            sent_packets=sum(
                queues[self.addressing.interface(host, self.fabric.tor_of(host))].sent_packets
                for host in self.fabric.hosts
            ),
            tcp_resent={
                host: self._counter(host, "Tcp", "RetransSegs") for host in self.fabric.hosts
            },
        )

    def _build(self) -> None:
        from mininet.link import Link
        from mininet.log import setLogLevel
        from mininet.net import Mininet
        from mininet.node import Node

        from testbed.backends.emulation.switch_node import SwitchNode

        # Mininet's init() would raise system-wide limits.
        Mininet.inited = True
        setLogLevel("error")
        os.environ[TAG] = mark()
        mininet = Mininet(build=False, controller=None)
        for name in self.fabric.nodes:
            # To Mininet, a switch in a namespace of its own is an ordinary node.
            if name in self._targets:
                node = mininet.addHost(name, cls=SwitchNode, target=self._targets[name])
            else:
                node = mininet.addHost(name, cls=Node)
            self._nodes[name] = node
        for link in self.fabric.links:
            Link(
                self._nodes[link.a],
                self._nodes[link.b],
                intfName1=self.addressing.interface(link.a, link.b),
                intfName2=self.addressing.interface(link.b, link.a),
                fast=True,
            )

    def _set_up(self) -> None:
        scripts = {
            name: node_setup.script(
                name,
                self.fabric,
                self.addressing,
                self._targets,
                self._dilation,
                self._seed,
                self._routes,
                superframe=self.superframe,
            )
            for name in self.fabric.nodes
        }
        if problems := self._tell(["sh", "-e"], scripts):
            raise EmulationError("cannot set up " + "; ".join(problems))

    def _tell(self, program: Sequence[str], scripts: Mapping[str, str]) -> list[str]:
        """Run ``program`` on all nodes' scripts in parallel; return the failures' messages."""
        running = []
        for name, text in scripts.items():
            process = subprocess.Popen(
                [*self.inside(name), *program],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert process.stdin is not None
            process.stdin.write(text)
            process.stdin.close()
            running.append((name, process))
        problems = []
        for name, process in running:
            assert process.stderr is not None
            said = process.stderr.read().strip()
            process.stderr.close()
            if process.wait() != 0:
                problems.append(f"{name}: {said}")
        return problems

    def _probe(self) -> None:
        """Raise EmulationError unless one host of each rack reaches one of every other rack."""
        first = [hosts[0] for tor in self.fabric.tors if (hosts := self.fabric.rack_hosts(tor))]
        probes = [
            (
                source,
                to,
                subprocess.Popen(
                    [*self.inside(source), "ping", "-q", "-c1", "-W3", self.addressing.ip(to)],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                ),
            )
            for source in first
            for to in first
            if source < to
        ]
        silent = [f"{source} to {to}" for source, to, probe in probes if probe.wait() != 0]
        if silent:
            raise EmulationError("no path through the fabric from " + ", ".join(silent))

    def _counter(self, host: str, protocol: str, name: str) -> int:
        text = Path(f"/proc/{self.pid(host)}/net/snmp").read_text()
        names, counts = (
            line.split() for line in text.splitlines() if line.startswith(f"{protocol}:")
        )
        return int(counts[names.index(name)])

    def _dropped(self, node: str) -> Iterator[tuple[str, int]]:
        """Packets for which the receiving kernel had no room. A veth counts them at the sender."""
        for line in Path(f"/proc/{self.pid(node)}/net/dev").read_text().splitlines()[2:]:
            name, _, counts = line.partition(":")
            if name.strip() != "lo":
                yield name.strip(), int(counts.split()[_TX_DROPPED])

    def _terminate(self) -> None:
        if self._queues is not None:
            self._queues.close()
        shells = [node.shell for node in self._nodes.values()]
        for node in self._nodes.values():
            node.waitExited = False  # they end in parallel
            node.terminate()
        for shell in shells:
            shell.wait()
        self._nodes.clear()
        os.environ.pop(TAG, None)

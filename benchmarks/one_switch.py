"""One switch and one host on a veth: the host plays all workers of an aggregation tree."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from types import TracebackType

from testbed import wire
from testbed.backends.emulation import targets
from testbed.compiler import compiled
from testbed.hosts.aggregation import wire_header
from testbed.protocols import TreeProtocol
from testbed.protocols.netreduce.protocol import PROTOCOL as NETREDUCE
from testbed.protocols.tables import Exact, Lpm, TableEntry
from testbed.switches.control import Replica
from testbed.topology.framing import LARGEST_SUPERFRAME

HOST, SWITCH = "10.0.0.1", "10.0.0.254"
HOST_MAC, SWITCH_MAC = "02:00:00:00:00:01", "02:00:00:00:00:fe"
TREE, PORT, GROUP, NEXT_HOP = 7, 1, 1, 0
"""``load.c`` has the tree's number, too."""

LARGEST_DATAGRAM = 64
"""The most packets of a datagram. At most 59 packets of 256 values fit into one, or 15 of 1024
values."""

MTU = 9000

_SET_UP_HOST = f"""
ip link add h0 type veth peer name t0 netns {{switch}}
echo 1 > /proc/sys/net/ipv6/conf/h0/disable_ipv6
ip link set h0 mtu {MTU}
ip link set h0 address {HOST_MAC} up
ip address add {HOST}/24 dev h0
ip neighbour replace {SWITCH} lladdr {SWITCH_MAC} dev h0 nud permanent
ethtool -K h0 tso off gro off >/dev/null
"""
_WHOLE_FRAMES = "ethtool -K h0 tx-udp-segmentation off >/dev/null"
_SET_UP_SWITCH = f"""
echo 1 > /proc/sys/net/ipv6/conf/t0/disable_ipv6
ethtool -K t0 tx off tso off gso off gro off >/dev/null
ip link set lo up
ip link set t0 mtu {MTU}
ip link set t0 up
"""


@dataclass(frozen=True)
class Result:
    """The result of one load. ``rate``: packets/s into the switch, for completed sums.
    ``switch_us``, ``load_us``: processor time per packet of the switch and of the generator.
    ``given_up``: fragments of which a packet was lost."""

    rate: float
    switch_us: float
    load_us: float
    given_up: int
    kernel_share: float = 0.0
    """The kernel's share of the switch's processor time."""


class OneSwitch:
    """A context in which ``program`` runs on ``target``, with one tree of ``workers``.

    ``superframe``: the number of packets that the link carries as one, if the switch splits them.
    """

    def __init__(
        self,
        target: str,
        program: Path,
        style: TreeProtocol,
        workers: int,
        usual: bool = False,
        told: bool = True,
        superframe: int = LARGEST_SUPERFRAME,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.switch = targets.make(target, Path(self._folder.name) / "log", program)
        self._style, self._workers = style, workers
        self._superframe = superframe if self.switch.cuts_superframes else 1
        self._entries = per_value_entries(workers) if usual else ina_entries(style, workers)
        if not told:
            self._entries = []
        self._stack = ExitStack()

    def __enter__(self) -> OneSwitch:
        with ExitStack() as stack:
            stack.callback(self._folder.cleanup)
            self._host, self.there = self._namespace(stack), self._namespace(stack)
            self._run(self._host, _SET_UP_HOST.format(switch=self.there))
            short = f"ip link set h0 gso_max_segs {self._superframe}"
            self._run(self._host, short if self._superframe > 1 else _WHOLE_FRAMES)
            self._run(self.there, _SET_UP_SWITCH)
            stack.callback(self.switch.close)
            self.switch.start({PORT: "t0"}, _inside(self.there), self._superframe)
            self.switch.multicast_group(GROUP, [Replica(PORT, 1)])
            for entry in self._entries:
                self.switch.insert(entry)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def load(self, values: int, window: int, message: int, seconds: float) -> Result:
        """Send packets and receive sums for ``seconds``. Raises SystemExit if one is wrong, or none
        comes.

        With a ``window`` of 0, the generator does not wait for sums.
        """
        # Sending many at once saves the generator's time, even if the kernel has to split them.
        at_once = self._superframe if self._superframe > 1 else LARGEST_DATAGRAM
        tree = (self._style.number, values, self._workers)
        figures = (*tree, window, message, at_once, seconds)
        before, times = processor_s(self.switch.pid), _user_and_kernel(self.switch.pid)
        done = subprocess.run(
            [*_inside(self._host), str(generator()), HOST, SWITCH, *map(str, figures)],
            capture_output=True,
            text=True,
            check=False,
        )
        spent = processor_s(self.switch.pid) - before
        user, kernel = (
            new - old for new, old in zip(_user_and_kernel(self.switch.pid), times, strict=True)
        )
        if done.returncode != 0:
            raise SystemExit(f"load: {done.stderr}")
        packets, lasted, sent, sums, wrong, given_up, own = map(float, done.stdout.split())
        if wrong or (window and not sums):
            raise SystemExit(f"{self._style.name}: {wrong:.0f} of {sums:.0f} sums are wrong")
        return Result(
            packets / lasted,
            spent / sent * 1e6,
            own / sent * 1e6,
            int(given_up),
            kernel / max(user + kernel, 1),
        )

    @staticmethod
    def _namespace(stack: ExitStack) -> int:
        """A process in a new network namespace; it ends with the context or with this process."""
        process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stack.enter_context(process)
        stack.callback(process.kill)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    @staticmethod
    def _run(pid: int, script: str) -> None:
        subprocess.run([*_inside(pid), "sh", "-e"], input=script, text=True, check=True)


def ina_entries(style: TreeProtocol, workers: int) -> list[TableEntry]:
    """One tree at the switch, and the route to the host."""
    host, own = int(IPv4Address(HOST)), int(IPv4Address(SWITCH))
    members = (1 << workers) - 1
    to_host = not style.switch_may_be_root
    told = (0, members, members, 0, host if to_host else 0, own, GROUP, 0, wire.SLOTS)
    macs = (_mac(SWITCH_MAC), _mac(HOST_MAC))
    address: tuple[str, tuple[int, ...]] = ("address", (host, *macs))
    if style is NETREDUCE:
        # The peer is another host: no host accepts a packet from its own address.
        address = ("connect", (host, own, wire.connection(TREE, 0), *macs))
    return [
        TableEntry(
            "InaIngress.trees",
            (Exact(own), Exact(TREE)),
            "InaIngress.join",
            (style.number, *told, 0, int(style.watches_overflow)),
        ),
        *(
            TableEntry(
                "InaIngress.connections",
                (Exact(host), Exact(wire.connection(TREE, rank))),
                "InaIngress.join_connection",
                (rank, 1 << rank, TREE, *told),
            )
            for rank in range(workers)
        ),
        TableEntry(
            "InaEgress.replication.replicas",
            (Exact(1),),
            f"InaEgress.replication.{address[0]}",
            address[1],
        ),
        TableEntry(
            "InaIngress.forwarding.routes",
            (Lpm(host, 32),),
            "InaIngress.forwarding.route",
            (NEXT_HOP, 1, 1),
        ),
        TableEntry(
            "InaIngress.forwarding.next_hops",
            (Exact(NEXT_HOP),),
            "InaIngress.forwarding.forward",
            (PORT, *macs),
        ),
    ]


def per_value_entries(workers: int) -> list[TableEntry]:
    """The same entries for ``per_value.p4``."""
    own, members = int(IPv4Address(SWITCH)), (1 << workers) - 1
    address = (int(IPv4Address(HOST)), _mac(SWITCH_MAC), _mac(HOST_MAC))
    return [
        TableEntry(
            "InaIngress.trees",
            (Exact(own), Exact(TREE)),
            "InaIngress.join",
            (members, GROUP, own),
        ),
        TableEntry("InaEgress.replicas", (Exact(1),), "InaEgress.address", address),
    ]


def generator() -> Path:
    """The compiled load generator."""
    most = wire_header(max(wire.SIZES))
    sources = {"load.c": Path(__file__).with_name("load.c").read_text(), "wire.h": most}
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-march=native", "-Wall", "-Wextra"]
    return compiled("load", sources, flags)


def processor_s(pid: int) -> float:
    """Processor time of all threads of a process so far, in seconds."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def _user_and_kernel(pid: int) -> tuple[int, int]:
    """Clock ticks of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


def _inside(pid: int) -> list[str]:
    return ["nsenter", f"--net=/proc/{pid}/ns/net"]


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)

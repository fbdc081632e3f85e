"""The commands that turn a namespace into a host, a router or the base of a P4 switch.

Pure text: one shell script per node, so that setting up a node takes one process.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from typing import Literal

from testbed.backends.shaping import burst_bytes
from testbed.backends.timeouts import least_tcp_timeout_s
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric, Kind, Link
from testbed.topology.framing import framing
from testbed.topology.paths import Flow, Routes, diverted

TCP_CONGESTION_CONTROL = "reno"

SYSCTLS: Mapping[str, str] = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/default/send_redirects": "0",
    # After a pause for computation, a transfer keeps the congestion window of the previous one.
    "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
    # The same on every kernel, whatever its default is; namespaces may always use this one.
    "net/ipv4/tcp_congestion_control": TCP_CONGESTION_CONTROL,
}
ROUTER_SYSCTLS: Mapping[str, str] = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/fib_multipath_hash_policy": "1",  # by ports as well as addresses
}

_WHOLE_FRAMES = "tx off tso off gso off gro off"
_FIRST_TABLE = 100
"""Number of the first routing table for diverted flows; a router has one for each neighbour."""

_IMPAIRMENT_PARTS = 1_000_000
"""Losses and copies are drawn as whole parts of this."""

Rule = Literal["loss", "duplication"]
Hook = Literal["ingress", "egress"]


def script(
    node: str,
    fabric: Fabric,
    addressing: Addressing,
    p4_switches: Collection[str],
    dilation: float | None,
    seed: int,
    routes: Routes | None = None,
    superframe: int = 1,
) -> str:
    """The set-up of ``node``, for ``sh -e``. On ``p4_switches`` a P4 program forwards, not the
    kernel.

    ``dilation`` divides the links' rates; None leaves them unshaped. The kernel may carry
    ``superframe`` packets as one. With 1 it also computes all checksums.
    """
    p4 = node in p4_switches
    router = fabric.nodes[node].kind is not Kind.HOST and not p4
    sysctls = {**SYSCTLS, **(ROUTER_SYSCTLS if router else {})}
    lines = [f"echo {value} > /proc/sys/{key}" for key, value in sysctls.items()]
    if router:
        lines.append(_ecmp(fabric.nodes[node].kind, f"{seed}/{node}"))
    interfaces = {n: addressing.interface(node, n) for n in fabric.neighbours(node)}
    if superframe == 1:
        # Some features may be impossible to change; that is no error.
        lines += [
            f"ethtool -K {name} {_WHOLE_FRAMES} >/dev/null 2>&1 || true"
            for name in interfaces.values()
        ]
    # Also with 1: TCP still passes several segments to a queue as one, which are cut after it.
    commands = [
        f"link set {name} mtu {fabric.mtu} gso_max_segs {superframe}"
        for name in interfaces.values()
    ]
    commands += _ip(node, fabric, addressing, interfaces, p4, dilation)
    if router:
        commands += _diverted(addressing, interfaces, node, diverted(fabric, routes or {}, node))
    lines += _batch("ip", commands)
    if dilation is not None:
        lines += _batch(
            "tc",
            [
                command
                for neighbour, name in interfaces.items()
                for command in _shape(name, fabric, fabric.link(node, neighbour), dilation)
            ],
        )
    return "\n".join(lines) + "\n"


def _ecmp(kind: Kind, seed: str) -> str:
    """Make each router hash flows differently. Otherwise upper routers repeat the choice of lower
    ones.

    Seeds exist since Linux 6.11. In earlier versions only the hashed fields can differ: routers
    above the ToRs leave out the protocol.
    """
    sysctl = "/proc/sys/net/ipv4/fib_multipath_hash"
    choose = f"if [ -e {sysctl}_seed ]; then echo {zlib.crc32(seed.encode()) or 1} > {sysctl}_seed"
    if kind is not Kind.TOR:
        by_fields = f"echo 3 > {sysctl}_policy; echo 51 > {sysctl}_fields"
        choose += f"; elif [ -e {sysctl}_fields ]; then {by_fields}"
    return f"{choose}; fi"


def impairment(rule: Rule, hook: Hook, interface: str, share: float) -> str:
    """Input for ``nft -f -``: a random ``share`` of packets disappears at ``hook``, or is copied.
    It replaces an earlier rule of the same kind there.

    ``ingress``: after the link, which is too late for a P4 switch, as it reads packets before that.
    ``egress``: before the link's queue (Linux 5.17). Lost packets are forwarded to ``lo`` there,
    which discards them: if they were dropped, the sender would notice and retransmit. A copy passes
    the hook again. A mark keeps it from being copied again; it may be lost.
    """
    parts = round(share * _IMPAIRMENT_PARTS)
    # nft refuses a comparison that is always true.
    some = parts < _IMPAIRMENT_PARTS
    chance = f"numgen random mod {_IMPAIRMENT_PARTS} < {parts} " if some else ""
    lose = "drop" if hook == "ingress" else "fwd to lo"
    told = {
        "loss": f"{chance}{lose}",
        "duplication": f"meta mark 0 {chance}meta mark set 1 dup to {interface}",
    }
    chain = f"netdev {rule} {hook}-{interface}"
    priority = list(told).index(rule)
    made = (
        f"add table netdev {rule}\n"
        f"add chain {chain}"
        f" {{ type filter hook {hook} device {interface} priority {priority} ; }}\n"
        f"flush chain {chain}\n"
    )
    return made + (f"add rule {chain} {told[rule]}\n" if share else "")


def _batch(tool: str, commands: list[str]) -> list[str]:
    return [f"{tool} -batch - <<'END'", *commands, "END"]


def _ip(
    node: str,
    fabric: Fabric,
    addressing: Addressing,
    interfaces: Mapping[str, str],
    p4: bool,
    dilation: float | None,
) -> list[str]:
    commands = ["link set lo up"]
    if p4:
        # Interfaces keep their own MAC addresses. So the kernel takes frames to be for another
        # machine and ignores them early; otherwise it would look up a route at the sender's
        # expense.
        return [*commands, *(f"link set {name} up" for name in interfaces.values())]
    for name in interfaces.values():
        commands.append(f"link set {name} address {addressing.mac_text(node)} up")
    home = next(iter(interfaces.values())) if fabric.nodes[node].kind is Kind.HOST else "lo"
    commands.append(f"address add {addressing.ip(node)}/32 dev {home}")
    for neighbour, name in interfaces.items():
        commands.append(
            f"neighbour replace {addressing.ip(neighbour)} lladdr {addressing.mac_text(neighbour)}"
            f" dev {name} nud permanent"
        )
    if fabric.nodes[node].kind is Kind.HOST:
        tor = fabric.tor_of(node)
        commands.append(
            f"route add default via {addressing.ip(tor)} dev {interfaces[tor]} onlink"
            f" rto_min {round(1000 * least_tcp_timeout_s(dilation or 1.0))}ms"
        )
        return commands
    for prefix, destination in addressing.routes(node).items():
        hops = "".join(
            f" nexthop via {addressing.ip(hop)} dev {interfaces[hop]} onlink"
            for hop in fabric.next_hops(node, destination)
        )
        commands.append(f"route add {prefix}{hops}")
    return commands


def _diverted(
    addressing: Addressing, interfaces: Mapping[str, str], node: str, hops: Mapping[Flow, str]
) -> list[str]:
    """Rules for flows that leave the router by a next hop of their own."""
    tables = {hop: _FIRST_TABLE + addressing.port(node, hop) for hop in hops.values()}
    return [
        *(
            f"route add default via {addressing.ip(hop)} dev {interfaces[hop]} onlink table {table}"
            for hop, table in tables.items()
        ),
        *(
            f"rule add from {addressing.ip(source)} to {addressing.ip(destination)}"
            f" lookup {tables[hop]}"
            for (source, destination), hop in hops.items()
        ),
    ]


def slack_bytes(fabric: Fabric, rate: float, superframe: int) -> int:
    """Bytes that a link may send beyond its ``rate`` (bit/s) in any period: the shaper's burst at
    its beginning and end, and the superframe in flight, of ``superframe`` packets."""
    return 2 * burst_bytes(fabric, rate) + superframe * framing(fabric).full_frame


def _shape(name: str, fabric: Fabric, link: Link, dilation: float) -> list[str]:
    rate = link.rate / dilation
    burst = burst_bytes(fabric, rate)
    return [
        f"qdisc add dev {name} root handle 1: htb default 1",
        f"class add dev {name} parent 1: classid 1:1 htb rate {round(rate)}bit"
        f" burst {burst} cburst {burst} quantum {framing(fabric).full_frame}",
        f"qdisc add dev {name} parent 1:1 handle 10: bfifo limit {link.queue}",
    ]

"""The commands that make a namespace a host, a router or the ground a P4 switch stands on.

Pure text: one shell script a node, so that a node costs one process to set up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric, Kind, Link

TCP_RTO_MIN_MS = 10
"""TCP's least retransmission timeout. The kernel's 200 ms would be 1 ms of the real cluster at a
dilation of 200, and longer than some whole transfers here."""

TCP_CONGESTION_CONTROL = "reno"

SYSCTLS: Mapping[str, str] = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/default/send_redirects": "0",
    # A transfer after a pause for compute starts where the last one ended.
    "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
    # The same on every kernel, whatever its default; namespaces may always use it.
    "net/ipv4/tcp_congestion_control": TCP_CONGESTION_CONTROL,
}
ROUTER_SYSCTLS: Mapping[str, str] = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/fib_multipath_hash_policy": "1",  # by ports as well as addresses
}

_WHOLE_FRAMES = "tx off tso off gso off gro off"
_LARGEST_SUPERFRAME = 6
"""Segments that the kernel may carry through a fabric of its own routers as one: most of the
processor's time is per packet, and six are still small against a queue."""

_LEAST_BURST = 3028  # two full frames
_BURST_TIME = 0.0005


def script(
    node: str,
    fabric: Fabric,
    addressing: Addressing,
    p4_switches: Collection[str],
    dilation: float | None,
    seed: int,
) -> str:
    """The set-up of ``node``. At ``p4_switches`` a P4 program will forward, not the kernel.

    ``dilation`` divides the links' rates; None leaves them unshaped. Run with ``sh -e``.
    """
    p4 = node in p4_switches
    router = fabric.nodes[node].kind is not Kind.HOST and not p4
    sysctls = {**SYSCTLS, **(ROUTER_SYSCTLS if router else {})}
    lines = [f"echo {value} > /proc/sys/{key}" for key, value in sysctls.items()]
    if router:
        # Since Linux 6.11; without it each kernel hashes flows its own way.
        path = "/proc/sys/net/ipv4/fib_multipath_hash_seed"
        lines.append(f"if [ -e {path} ]; then echo {seed + 1} > {path}; fi")
    interfaces = {n: addressing.interface(node, n) for n in fabric.neighbours(node)}
    if p4_switches:
        # Frames must be whole and checksummed where a program reads them; some features may be
        # fixed, which is no error.
        lines += [
            f"ethtool -K {name} {_WHOLE_FRAMES} >/dev/null 2>&1 || true"
            for name in interfaces.values()
        ]
    else:
        lines += _batch(
            "ip",
            [f"link set {name} gso_max_segs {_LARGEST_SUPERFRAME}" for name in interfaces.values()],
        )
    lines += _batch("ip", _ip(node, fabric, addressing, interfaces, p4))
    if dilation is not None:
        lines += _batch(
            "tc",
            [
                command
                for neighbour, name in interfaces.items()
                for command in _shape(name, fabric.link(node, neighbour), dilation)
            ],
        )
    return "\n".join(lines) + "\n"


def _batch(tool: str, commands: list[str]) -> list[str]:
    return [f"{tool} -batch - <<'END'", *commands, "END"]


def _ip(
    node: str, fabric: Fabric, addressing: Addressing, interfaces: Mapping[str, str], p4: bool
) -> list[str]:
    commands = ["link set lo up"]
    if p4:
        # Without the node's address on them the kernel sees frames for somebody else, and leaves
        # them to the P4 switch before it looks for a route, at the expense of who sent them.
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
            f" rto_min {TCP_RTO_MIN_MS}ms"
        )
        return commands
    for host in fabric.rack_hosts(node):
        commands.append(f"route add {addressing.ip(host)}/32 dev {interfaces[host]}")
    for tor in fabric.tors:
        if tor == node:
            continue
        hops = "".join(
            f" nexthop via {addressing.ip(hop)} dev {interfaces[hop]} onlink"
            for hop in fabric.next_hops(node, tor)
        )
        commands.append(f"route add {addressing.prefix(tor)}{hops}")
    return commands


def _shape(name: str, link: Link, dilation: float) -> list[str]:
    rate = link.rate / dilation
    burst = max(_LEAST_BURST, round(rate / 8 * _BURST_TIME))
    return [
        f"qdisc add dev {name} root handle 1: htb default 1",
        f"class add dev {name} parent 1: classid 1:1 htb rate {round(rate)}bit"
        f" burst {burst} cburst {burst} quantum 1514",
        f"qdisc add dev {name} parent 1:1 handle 10: bfifo limit {link.queue}",
    ]

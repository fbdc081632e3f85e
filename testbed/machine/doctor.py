"""What this machine offers, lacks and limits, for ``ina-testbed doctor`` and ``setup``.

Kernel features are tried in a network namespace that ends with the trial, so nothing is changed or
left behind.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from testbed.backends.emulation.network import TOOLS
from testbed.backends.emulation.node_setup import impairment
from testbed.provenance import mininet
from testbed.switches import bmv2
from testbed.switches.compile import COMPILER

Status = Literal["ok", "missing", "limited"]

LEAST_MEMORY = 2 << 30
LEAST_CORES = 2

_PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "mnexec": "mininet",
    "ethtool": "ethtool",
    "ping": "iputils-ping",
    "unshare": "util-linux",
    "nft": "nftables",
    "tcpdump": "tcpdump",
}
"""The package of Debian and Ubuntu that contains each tool."""
_P4LANG = "http://download.opensuse.org/repositories/home:/p4lang"

_OPTIONAL_TOOLS = {
    "nft": "no experiments with loss or duplication",
    "tcpdump": "no captures of emulated links",
}

_VETH = "ip link add probe0 type veth peer name probe1 && ip link set probe0 up"
_HTB = (
    "tc qdisc add dev lo root handle 1: htb default 1 &&"
    " tc class add dev lo parent 1: classid 1:1 htb rate 1mbit"
)
_FEATURES = {
    # name: (trial, what uses it)
    "veth": (_VETH, "every link is one"),
    "htb": (_HTB, "shapes every link"),
    "bfifo": (f"{_HTB} && tc qdisc add dev lo parent 1:1 bfifo limit 9000", "every port's queue"),
    "multipath": (
        f"{_VETH} && ip address add 10.0.0.1/32 dev lo &&"
        " ip route add 10.1.0.0/16 nexthop via 10.0.0.2 dev probe0 onlink"
        " nexthop via 10.0.0.3 dev probe0 onlink",
        "ECMP in kernel routers",
    ),
}
_OPTIONAL_FEATURES = {
    # name: (trial, what is lost without it)
    "netem": (
        "tc qdisc add dev lo root netem delay 1ms",
        "no links with delay; nothing else needs it",
    ),
    "policy routing": (
        "ip rule add from 10.0.0.1 lookup 100",
        "no flows with a route of their own, which some of GRID's baselines need",
    ),
    "nft loss": (
        f"printf '{impairment('loss', 'ingress', 'lo', 0.5)}' | nft -f -",
        "no experiments with loss",
    ),
    "nft loss at P4 switches": (
        f"printf '{impairment('loss', 'egress', 'lo', 0.5)}' | nft -f -",
        "no loss on links to P4 switches (Linux 5.17)",
    ),
    "nft duplication": (
        f"printf '{impairment('duplication', 'egress', 'lo', 0.5)}' | nft -f -",
        "no experiments with duplication (Linux 5.17)",
    ),
}
_PRESSURE = Path("/proc/pressure/cpu")
_FINE_TIMER_S = 1e-6
_LOGGED = b"Processing packet received on port"
_SLOW_CLOCKS = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"}


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        fix: how to fix a problem; empty if there is none.
        packages: packages of Debian and Ubuntu that fix it.
    """

    name: str
    status: Status
    detail: str
    fix: str = ""
    packages: tuple[str, ...] = ()


def checks() -> list[Check]:
    """All checks. While anything is ``missing``, emulation is impossible."""
    return [*_rights(), *packaged(), *kernel(), *_machine()]


def packaged() -> list[Check]:
    """The checks of programs and libraries that packages install."""
    return [*_tools(), *_switches()]


def _lacking(name: str, status: Status, detail: str, *packages: str) -> Check:
    """A check that packages of Debian and Ubuntu fix."""
    return Check(name, status, detail, f"apt-get install {' '.join(packages)}", packages)


def _rights() -> Iterator[Check]:
    if os.geteuid() == 0:
        yield Check("root", "ok", "this user")
    else:
        yield Check("root", "missing", "network namespaces need it", "run with sudo")


def _tools() -> Iterator[Check]:
    if importlib.util.find_spec("mininet") is not None:
        yield Check("mininet", "ok", mininet() or "of unknown version")
    elif _which("mnexec") is None:
        yield _lacking("mininet", "missing", "not installed", "mininet")
    else:
        yield Check(
            "mininet",
            "missing",
            "installed, but not importable from this Python",
            "make the virtual environment from the system's Python: /usr/bin/python3 -m venv"
            " --system-site-packages",
        )
    for tool in (*TOOLS, "unshare"):
        if path := _which(tool):
            yield Check(tool, "ok", _version(path, "-V") if tool == "tc" else path)
        else:
            yield _lacking(tool, "missing", "not installed", _PACKAGES[tool])
    for tool, cost in _OPTIONAL_TOOLS.items():
        if path := _which(tool):
            yield Check(tool, "ok", path)
        else:
            yield _lacking(tool, "limited", f"not installed: {cost}", _PACKAGES[tool])


def _which(tool: str) -> str | None:
    """The path of a tool as root finds it: on Debian, /usr/sbin is not in other users' PATH."""
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin")


def kernel() -> Iterator[Check]:
    """The checks of the kernel's features. Without root, a single one, which says that none was
    made."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        yield Check("kernel", "limited", "not tried: that needs root and unshare")
        return
    if refusal := _try("true"):
        # Nothing else can be tried.
        yield Check("namespaces", "missing", f"every node is one; {refusal}", _fix(refusal))
        return
    yield Check("namespaces", "ok", "every node is one")
    for name, (trial, purpose) in _FEATURES.items():
        refusal = _try(trial)
        if refusal is None:
            yield Check(name, "ok", purpose)
        else:
            yield Check(name, "missing", f"{purpose}; {refusal}", _fix(refusal))
    for name, (trial, cost) in _OPTIONAL_FEATURES.items():
        refusal = _try(trial)
        if refusal is None:
            yield Check(name, "ok", "available")
        else:
            yield Check(name, "limited", f"{cost}; {refusal}", _fix(refusal))


def _fix(refusal: str) -> str:
    """How to get a feature that the kernel refused with this error."""
    if "not permitted" in refusal:
        return "root lacks rights here; start the container with --privileged"
    return (
        "use a kernel with this feature; if it is a module, `modprobe` it (veth, sch_htb,"
        " sch_netem, nf_tables; Ubuntu has more in linux-modules-extra-$(uname -r))"
    )


def _try(trial: str) -> str | None:
    """Run ``trial`` in a temporary network namespace; return its error, None if it succeeds."""
    done = subprocess.run(
        ["unshare", "--net", "sh", "-ec", trial],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    if done.returncode == 0:
        return None
    said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()
    return said[0]


def _switches() -> Iterator[Check]:
    yield _compiler()
    optional = {
        bmv2.SWITCH: (
            "BMv2", "target bmv2 cannot run; native runs the same program", "p4lang-bmv2",
        ),
        bmv2.CLIENT: ("BMv2 client", "target bmv2 cannot be configured", "p4lang-bmv2"),
        COMPILER: (
            "p4c", "P4 source cannot be compiled; the compiled program is included", "p4lang-p4c",
        ),
    }  # fmt: skip
    for tool, (name, cost, package) in optional.items():
        if shutil.which(tool) is None:
            detail = f"{tool} is not installed: {cost}"
            yield Check(name, "limited", detail, f"{package}, from p4lang's packages: {_p4lang()}")
        elif tool == bmv2.CLIENT:
            yield Check(name, "ok", tool)
        else:
            yield Check(name, "ok", f"{tool} {_version(tool)}")
    if (path := shutil.which(bmv2.SWITCH)) is not None:
        yield _logging(Path(path))


def _p4lang() -> str:
    """p4lang's package source for this distribution, as a line of sources.list. Its key is the file
    Release.key next to the packages."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return _P4LANG
    name = {"ubuntu": "xUbuntu_", "debian": "Debian_"}.get(system.get("ID", ""))
    return f"deb {_P4LANG}/{name}{system.get('VERSION_ID', '')}/ /" if name else _P4LANG


def _logging(switch: Path) -> Check:
    """Whether BMv2 was built without logging macros, which its docs/performance.md recommends for
    speed. Such a build does not contain the log messages."""
    parts = [switch, *_libraries(switch)]
    if any(_LOGGED in part.read_bytes() for part in parts):
        return Check(
            "BMv2 build",
            "limited",
            "with logging macros: every step of every packet checks whether to log",
            "for speed build BMv2 with ./configure --disable-logging-macros 'CXXFLAGS=-O3'",
        )
    return Check("BMv2 build", "ok", "without logging macros")


def _libraries(program: Path) -> Iterator[Path]:
    """BMv2's own libraries with which ``program`` is linked."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for line in said.splitlines():
        name, _, where = line.strip().partition(" => ")
        if name.startswith(("libbm", "libsimpleswitch")) and where.startswith("/"):
            yield Path(where.split()[0])


def _compiler() -> Check:
    """Whether the compiler accepts a program that needs the C library's headers."""
    command = os.environ.get("CC") or "cc"
    packages = ("gcc", "libc6-dev")
    if shutil.which(command) is None:
        detail = f"{command} is not installed: the native switch is built with it"
        return _lacking("C compiler", "missing", detail, *packages)
    done = subprocess.run(
        [command, "-x", "c", "-fsyntax-only", "-"],
        input="#include <stdio.h>\n#include <linux/if_packet.h>\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[:1]
        detail = f"{command} fails: {' '.join(said)}"
        return _lacking("C compiler", "missing", detail, *packages)
    return Check("C compiler", "ok", _version(command))


def _version(tool: str, option: str = "--version") -> str:
    said = subprocess.run([tool, option], capture_output=True, text=True, check=False)
    # p4c prints its version on standard error, in the second line.
    lines = [line for line in (said.stdout + said.stderr).splitlines() if "." in line]
    return lines[0] if lines else "of unknown version"


def _machine() -> Iterator[Check]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    enough = memory >= LEAST_MEMORY
    yield Check(
        "memory",
        "ok" if enough else "limited",
        f"{memory / (1 << 30):.1f} GiB",
        "" if enough else f"the examples need {LEAST_MEMORY >> 30} GiB; choose a smaller scale",
    )
    cores = len(os.sched_getaffinity(0))
    enough = cores >= LEAST_CORES
    yield Check(
        "cores",
        "ok" if enough else "limited",
        f"{cores} for this process",
        "" if enough else f"the examples need {LEAST_CORES}; choose a larger dilation",
    )
    governors = {
        path.read_text().strip()
        for path in Path("/sys/devices/system/cpu").glob("cpu*/cpufreq/scaling_governor")
    }
    if governors - {"performance"}:
        yield Check(
            "governor",
            "limited",
            f"{', '.join(sorted(governors))}: the clock rate changes while an experiment runs",
            "cpupower frequency-set -g performance",
        )
    else:
        yield Check("governor", "ok", ", ".join(governors) or "none visible")
    try:
        clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text()
    except OSError:
        clock = "not visible"
    clock = clock.strip()
    if clock in _SLOW_CLOCKS:
        yield Check(
            "clock",
            "limited",
            f"{clock}: slow to read, and it is read for every packet",
            "clocksource=tsc on the kernel's command line, if the processor's TSC is stable",
        )
    else:
        yield Check("clock", "ok", clock)
    tick = time.clock_getres(time.CLOCK_MONOTONIC)
    if tick > _FINE_TIMER_S:
        detail = f"steps of {tick * 1e3:g} ms: links would send in bursts of that length"
        yield Check("timers", "limited", detail, "a kernel with CONFIG_HIGH_RES_TIMERS")
    else:
        yield Check("timers", "ok", "of high resolution")
    if _PRESSURE.exists():
        yield Check("pressure", "ok", f"{_PRESSURE} shows waits for a processor")
    else:
        detail = "the kernel does not show waits for a processor: verdicts rely on idle time"
        yield Check("pressure", "limited", detail, "psi=1 on the kernel's command line")

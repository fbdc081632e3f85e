"""The capacity of this machine, which ``ina-testbed calibrate`` measures once and stores for the
user.

A calibration is valid for the machine, the kernel and the code with which it was made. For any
other, conservative defaults are used.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import provenance
from testbed.replaced import replacing
from testbed.shipped import folder
from testbed.topology.framing import Framing

if TYPE_CHECKING:
    from testbed.machine.doctor import Check

FILE = "ina-testbed/calibration.json"
_PACKAGE = Path(__file__).resolve().parents[1]
_DECISIVE = ("switches", "protocols", "hosts", "backends/emulation")
"""Parts of the package that handle packets, or set up what handles them; the compiled P4 program
does, too."""


@dataclass(frozen=True)
class Costs:
    """Processor time in ns per byte of frames, on the emulator's links.

    Attributes:
        link: of all processors, per link that the byte crosses, ends and routers included.
        rank: of a rank's process, per byte that its host sends or receives.
        switch: of the busiest thread of a P4 switch, per byte that it receives; 0 for kernel
            routers.
    """

    link: float
    rank: float
    switch: float = 0.0


@dataclass(frozen=True)
class Calibration:
    """The capacity of a machine.

    Attributes:
        costs: ``tcp`` for hosts that sum behind kernel routers, ``native`` and ``bmv2`` for
            switches that sum.
        late_s: the longest delay with which a process was woken while the machine was busy.
        bring_up_s: the time to set up and tear down a node.
        kept: the lowest share of its rate that any link achieved while packets waited; None if
            unknown.
        measured_at: UTC, ISO 8601; empty for defaults.
        machine: the machine that was measured, see `machine`.
    """

    costs: Mapping[str, Costs]
    late_s: float
    bring_up_s: float
    kept: float | None = None
    measured_at: str = ""
    machine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        return bool(self.measured_at)


DEFAULTS = Calibration(
    {
        "tcp": Costs(12.0, 10.0),
        "native": Costs(24.0, 12.0, 24.0),
        "bmv2": Costs(100.0, 20.0, 75.0),
    },
    late_s=0.005,
    bring_up_s=0.3,
)
"""Measured on two busy cores of a virtual machine, rounded up: most machines are faster."""


def machine() -> dict[str, Any]:
    """The facts for which a calibration is valid."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": provenance.processor(),
        "kernel": platform.release(),
        "code": _code(),
    }


def path() -> Path:
    """The path of the calibration's file, by the XDG base directory specification."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / FILE


def load() -> Calibration:
    """The calibration of this machine and code, or the defaults."""
    found = read()
    return found if found is not None and found.machine == machine() else DEFAULTS


def read() -> Calibration | None:
    """The stored calibration, even if it is not valid here; None if there is none that can be
    read."""
    try:
        data = json.loads(path().read_text())
        costs = {name: Costs(**each) for name, each in data.pop("costs").items()}
        return Calibration(costs, **data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def store(calibration: Calibration) -> Path:
    """Replace the stored calibration; return its path."""
    where = path()
    where.parent.mkdir(parents=True, exist_ok=True)
    with replacing(where) as made:
        made.write_text(json.dumps(asdict(calibration), indent=2) + "\n")
    return where


def describe(calibration: Calibration) -> list[str]:
    """The calibration as lines of text, per core and in network units."""
    lines = []
    for name, costs in calibration.costs.items():
        line = f"{name:7} {8 / costs.link:6.2f} Gbit/s of links per core"
        line += f", {8 / costs.rank:6.2f} Gbit/s per rank"
        if costs.switch:
            line += f", {1e9 / costs.switch / Framing().frame:9,.0f} packets/s into a switch"
        lines.append(line)
    late = f"wake-up at most {calibration.late_s * 1e3:.1f} ms late"
    if calibration.kept is not None:
        late += f"; links carry {calibration.kept:.0%} of their rates or more"
    return [*lines, late]


def check() -> Check:
    """The calibration as a check of the doctor."""
    from testbed.machine.doctor import Check  # loads the emulator, which planning does not need

    found, here = read(), machine()
    if found is None:
        detail = "none: dilation auto and warnings use conservative guesses"
        return Check("calibration", "limited", detail, "ina-testbed calibrate")
    other = [name for name, value in here.items() if found.machine.get(name) != value]
    if other:
        detail = f"of {found.measured_at}, for another {' and '.join(other)}: not used"
        return Check("calibration", "limited", detail, "ina-testbed calibrate")
    return Check("calibration", "ok", f"of {found.measured_at}")


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for part in _DECISIVE:
        for source in sorted((_PACKAGE / part).rglob("*.[pch]*")):
            if source.suffix in (".py", ".c", ".h"):
                digest.update(source.read_bytes())
    for program in sorted((folder("p4") / "build").glob("*.json")):
        digest.update(program.read_bytes())
    return digest.hexdigest()[:10]

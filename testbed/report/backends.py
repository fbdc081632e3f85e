"""How reports refer to back ends."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.run_tables import Unreadable

SIMULATED, EMULATED = "simulate", "emulate"
RUN_BY = {"simulate": "simulation", "packet": "packets in virtual time", "emulate": "emulation"}
SHORTLY = {"simulate": "simulated", "packet": "packets", "emulate": "emulated"}
FLOOR = {"simulate": 0.03, "packet": 0.02, "emulate": 0.04}
"""The noise floor: the smallest difference between systems that counts, as a share. For the
simulator and packets it is above their median error against the emulator (`ina-testbed ladder`);
for the emulator, it is how far apart runs of the same plan were."""


def mark(backend: str) -> str:
    """How a back end is named in a list of settings; empty for the emulator."""
    return {"simulate": " (simulated)", "packet": " (packets)"}.get(backend, "")


def check(backends: Iterable[str]) -> None:
    """Raise Unreadable if results have a back end that this version does not know."""
    if unknown := sorted({*backends} - FLOOR.keys()):
        raise Unreadable(f"found rows of the back end {unknown[0]!r}, wanted {', '.join(FLOOR)}")

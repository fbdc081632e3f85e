"""What the network needs from a program that runs a P4 switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from testbed.switches.control import Control


class SwitchTarget(Control, Protocol):
    """A running P4 switch."""

    @property
    def cuts_superframes(self) -> bool:
        """Whether it accepts superframes, whose segmentation the kernel leaves to hardware."""

    @property
    def pid(self) -> int:
        """The number of its process."""

    def start(
        self, interfaces: Mapping[int, str], prefix_command: Sequence[str], superframe: int
    ) -> None:
        """Start on ``interfaces`` (port to name). ``superframe``: how many packets a frame may
        hold. May be called again after ``close``."""

    def lost(self) -> int:
        """Packets lost between a port and the program."""

    def died(self) -> str | None:
        """Why the switch is no longer running; None while it is."""

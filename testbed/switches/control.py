"""The interface between a control plane and a switch, for every target.

Names are those of the compiled program (``"MyIngress.ipv4_lpm"``), values are plain integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from testbed.protocols.tables import TableEntry


class ControlError(Exception):
    """The switch refused a request; the message has the request and the reason."""


@dataclass(frozen=True)
class Replica:
    """A copy that a multicast group makes: it leaves by ``port``; ``rid`` is its egress_rid."""

    port: int
    rid: int = 0


class Control(Protocol):
    """The methods of every switch target. Each raises ``ControlError`` if refused."""

    def insert(self, entry: TableEntry) -> None:
        """Adds an entry; a second entry with the same match is refused."""

    def set_default(self, table: str, action: str, params: Sequence[int] = ()) -> None:
        """Sets a table's action for packets without a match."""

    def multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        """Sets, or replaces, the copies that ``mcast_grp == group`` makes."""

    def mirror_session(
        self, session: int, *, port: int | None = None, group: int | None = None
    ) -> None:
        """Sets where clones of a session go: to a port, or to a multicast group's replicas."""

    def read_register(self, name: str, index: int) -> int: ...

    def write_register(self, name: str, index: int, value: int) -> None: ...

    def reset_register(self, name: str) -> None:
        """Sets every cell to zero."""

    def read_counter(self, name: str, index: int) -> tuple[int, int]:
        """Packets and bytes counted."""

    def meter_rates(
        self, name: str, index: int, committed: tuple[float, int], peak: tuple[float, int]
    ) -> None:
        """Sets each rate, in packets or bytes per second, and its burst.

        For a direct meter, ``index`` counts its table's entries.
        """

    def close(self) -> None:
        """Stops the switch; may be called twice."""

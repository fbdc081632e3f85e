"""What a run records, besides its measurements, in the directory of a cell's logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testbed.backends.links import ends
from testbed.deployment.errors import DeploymentError
from testbed.topology.fabric import Fabric
from testbed.units import parse_time

SHORTEST_S = 100e-9
"""At 100 Gbit/s a packet of 256 values takes as long. A run with shorter pauses hardly advances."""


class Unrecordable(DeploymentError):
    """An option asks for what no cell can record; the message begins with the option."""


@dataclass(frozen=True)
class Recording:
    """What to record; nothing by default.

    Attributes:
        captures: links such as h0-t0, whose packets are written to a pcap file.
        series_s: the interval, in seconds of simulated time, at which the state of queues, windows
            and slots is written to a table; None for no table.
        timeline: whether to write when ranks, links and switches were busy.
        packets: numbers of the first and the last packet put on a link that are listed; None for
            no list.
    """

    captures: tuple[str, ...] = ()
    series_s: float | None = None
    timeline: bool = False
    packets: tuple[int, int] | None = None

    def data(self) -> dict[str, Any]:
        """The recording as plain data, for `of`."""
        return asdict(self)

    @staticmethod
    def of(data: Mapping[str, Any]) -> Recording:
        """The recording with this ``data``, which may have been JSON in between."""
        packets = data["packets"] and tuple(data["packets"])
        return Recording(**{**data, "captures": tuple(data["captures"]), "packets": packets})

    def check(self, cells: Sequence[tuple[str, Fabric]]) -> None:
        """Raise Unrecordable if no cell can record this, or if a cell that could lacks a link.

        ``cells``: the back end and the fabric of each.
        """
        backends = {backend for backend, _ in cells}
        asked: dict[str, tuple[str, ...]]
        asked = {f"--pcap {link}": ("packet", "emulate") for link in self.captures}
        asked |= {"--series": ("packet",)} if self.series_s is not None else {}
        asked |= {"--timeline": ("packet",)} if self.timeline else {}
        for option, able in asked.items():
            if backends and backends.isdisjoint(able):
                raise Unrecordable(
                    f"{option}: found backend: {', '.join(sorted(backends))}, wanted"
                    f" {' or '.join(able)}"
                )
        for backend, fabric in cells:
            for link in self.captures if backend != "simulate" else ():
                try:
                    ends(link, fabric)
                except ValueError as error:
                    raise Unrecordable(f"--pcap {link}: {error}") from error


NOTHING = Recording()


def recorded(
    captures: Sequence[str] = (), series: str | None = None, timeline: bool = False
) -> Recording:
    """The recording that a user asks for; ``series`` is an interval such as 10us.

    Raises ValueError if that is no time, or shorter than `SHORTEST_S`.
    """
    interval = None if series is None else parse_time(series)
    if interval is not None and interval < SHORTEST_S:
        raise ValueError(f"found {series!r}, wanted a time from 100ns on; write for example 10us")
    return Recording(tuple(captures), interval, timeline)

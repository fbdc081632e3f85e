"""The state of queues, windows and slots at regular instants, as a table.

``series.csv`` has a line for each value that differs from the previous one at the same place, so
that what does not change takes no space:

    import pandas as pd

    found = pd.read_csv("series.csv")
    queues = found[found["quantity"] == "queue_bytes"]
    queues.pivot(index="time_s", columns="place", values="value").ffill()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from testbed.backends.packet.look import Look
from testbed.backends.packet.simulation import NEVER, SECOND, Kind, Simulation, TcpSettings
from testbed.switches.occupancy import Occupancy

COLUMNS = ("time_s", "quantity", "place", "value")

_Values = Iterator[tuple[str, str, float]]


class Series:
    """A context in which samples are written to ``path``.

    Args:
        ports: the two nodes of each port, in the order of nodes and their ports.
        hosts: each host by its IPv4 address as a number.
        switches: the slots of each switch that sums.
    """

    def __init__(
        self,
        path: Path,
        look: Look,
        ports: Sequence[tuple[str, str]],
        nodes: Sequence[str],
        hosts: Mapping[int, str],
        switches: Mapping[str, Occupancy],
    ) -> None:
        self._path, self._look, self._nodes, self._switches = path, look, nodes, switches
        self._ports = [f"{here}>{there}" for here, there in ports]
        self._host = hosts
        self._last: dict[tuple[str, str], float] = {}

    def __enter__(self) -> Series:
        self._file = self._path.open("w")
        self._file.write(",".join(COLUMNS) + "\n")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def lines(self) -> Iterator[tuple[float, str, str, float]]:
        """The lines that have been written so far."""
        self._file.flush()
        with self._path.open() as file:
            next(file)
            for line in file:
                time, quantity, place, value = line.rstrip().split(",")
                yield float(time), quantity, place, float(value)

    def sample(self, now: int) -> None:
        """Write what has changed by ``now``, in picoseconds."""
        time = f"{now / SECOND:.12g}"
        for quantity, place, value in self._values():
            if self._last.get((quantity, place)) != value:
                self._last[quantity, place] = value
                self._file.write(f"{time},{quantity},{place},{value:.9g}\n")

    def _values(self) -> _Values:
        for place, waiting in zip(self._ports, self._look.queues().tolist(), strict=True):
            yield "queue_bytes", place, waiting
        for each in self._look.connections():
            source, to = (f"{self._host[host]}:{port}" for host, port in (each.source, each.to))
            place = f"{source}>{to}"
            yield "tcp_window_bytes", place, each.window
            yield "tcp_in_flight_bytes", place, each.in_flight
            yield "tcp_round_trip_s", place, each.round_trip_s
        for flow in self._look.flows():
            place = f"{self._nodes[flow.node]} tree {flow.tree}"
            yield "ina_window", place, flow.window
            yield "ina_in_flight", place, flow.in_flight
            yield "ina_round_trip_s", place, flow.round_trip_s
        for name, slots in self._switches.items():
            yield "slots_taken", name, slots.taken()
            yield "slots_incomplete", name, slots.incomplete()


class SampledSimulation(Simulation):
    """A simulation that pauses every ``interval`` picoseconds for samples of ``series``.

    Events and their order are the same as in a simulation that does not pause.
    """

    def __init__(self, nodes: int, data_room: int, tcp: TcpSettings, interval: int) -> None:
        super().__init__(nodes, data_room, tcp)
        self._interval, self._next = interval, 0
        self.series: Series | None = None

    def sample_with(self, series: Series, look: Look) -> None:
        self.series, self._look = series, look

    def run(self, until: int) -> tuple[Kind, int, int] | None:
        if self.series is None:
            return super().run(until)
        while True:
            happened = super().run(min(until, self._next))
            if happened is not None or self.now < self._next:
                return happened
            self.series.sample(self.now)
            self._next += self._interval
            if until <= self.now or (until == NEVER and self._look.is_idle):
                return None

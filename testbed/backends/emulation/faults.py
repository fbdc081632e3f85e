"""Faults at given instants of an emulated run, by signals to processes and rules in the kernel.

The machine's clock runs on while a fault is caused. So each is reported with the time at which it
was asked for and the time that it took.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from testbed.backends.emulation.network import EmulationError, Network
from testbed.backends.links import ends
from testbed.experiment.schema import Fault
from testbed.hosts.launcher import Action, Launcher
from testbed.switches.control import Control
from testbed.switches.entries import SwitchEntries
from testbed.topology.fabric import Fabric
from testbed.units import format_time

_DOWN = 1.0
"""The share of packets that a link loses while it is down."""

_NO_ENTRIES = SwitchEntries((), {})


class Faults:
    """The ``faults`` of a run. ``clock``: seconds on the emulator's clock for each second in the
    faults' times.

    Faults may overlap. A link is up once no fault takes it down; switches are on and hosts continue
    likewise.

    Raises EmulationError if one cannot be caused here.
    """

    def __init__(self, faults: Sequence[Fault], clock: float) -> None:
        for fault in faults:
            if names := fault.not_emulated:
                raise EmulationError(f"faults: {names[0]} needs backend: packet")
        is_filtered = (each.link or (each.until is None) == bool(each.host) for each in faults)
        if any(is_filtered) and shutil.which("nft") is None:
            raise EmulationError("faults: nft is not installed: see `ina-testbed setup`")
        self.faults, self._clock = faults, clock
        self._done: list[str] = []
        self._starts: Counter[str] = Counter()  # of each switch
        self._offs: Counter[str] = Counter()  # of each P4 switch: the faults that it is off for
        self._pauses: Counter[str] = Counter()  # of each host
        self._impairing: defaultdict[tuple[str, str], list[Fault]] = defaultdict(list)
        self._began: float | None = None

    @property
    def by_packet(self) -> bool:
        """Whether a fault concerns single packets of a link, so that they must not be joined."""
        return any(fault.impairs for fault in self.faults)

    @property
    def paused(self) -> set[str]:
        """The hosts that pause."""
        return {fault.host for fault in self.faults if fault.host and fault.until is not None}

    @property
    def notes(self) -> str:
        """What was done, when, and how long that took, in the experiment's time."""
        return "; ".join(self._done)

    def elapsed(self) -> float:
        """The time since the first iteration began, in the experiment's time."""
        return 0.0 if self._began is None else (time.monotonic() - self._began) / self._clock

    def begin(self) -> None:
        """Note that the first iteration begins now."""
        self._began = time.monotonic()

    def actions(
        self, network: Network, launcher: Launcher, ranks: Mapping[str, Sequence[int]]
    ) -> Iterator[Action]:
        """What to do, and when. ``ranks``: the tasks of each host."""
        for fault in self.faults:
            for at, words, do in self._of(fault, network, launcher, ranks):
                yield at * self._clock, partial(self._noted, words, do)

    def _noted(self, words: str, do: Callable[[], None]) -> None:
        since, began = self.elapsed(), time.monotonic()
        do()
        if words:
            took = (time.monotonic() - began) / self._clock
            self._done.append(f"{words} at {format_time(since)}, in {format_time(took)}")

    def _of(
        self,
        fault: Fault,
        network: Network,
        launcher: Launcher,
        ranks: Mapping[str, Sequence[int]],
    ) -> Iterator[tuple[float, str, Callable[[], None]]]:
        """Time, description and action of each step of a fault."""
        fabric = network.fabric
        if fault.link is not None:
            links = [ends(fault.link, fabric)]
            what = "impaired" if fault.impairs else "down"
            yield fault.at, f"{fault.link} {what}", partial(self._impair, network, links, fault)
            if fault.until is not None:
                yield fault.until, f"{fault.link} up", partial(self._heal, network, links, fault)
        elif fault.switch is not None and fault.switch in network.p4_switches:
            yield from self._restarted(fault, fault.switch, network)
        elif fault.switch is not None and fault.until is not None:
            links = _links(fault.switch, fabric)
            yield fault.at, f"{fault.switch} off", partial(self._impair, network, links, fault)
            yield fault.until, f"{fault.switch} on", partial(self._heal, network, links, fault)
        elif fault.host is not None:
            own = ranks.get(fault.host, ())
            if fault.until is None:
                down = partial(self._impair, network, _links(fault.host, fabric), fault)
                yield fault.at, f"{fault.host} dead", partial(_die, launcher, own, down)
            else:
                for at, word, change in ((fault.at, "paused", 1), (fault.until, "goes on", -1)):
                    pause = partial(self._pause, launcher, fault.host, own, change)
                    yield at, f"{fault.host} {word}", pause

    def _impair(self, network: Network, links: Sequence[tuple[str, str]], fault: Fault) -> None:
        for link in links:
            self._impairing[link].append(fault)
        self._apply(network, links)

    def _heal(self, network: Network, links: Sequence[tuple[str, str]], fault: Fault) -> None:
        for link in links:
            self._impairing[link].remove(fault)
        self._apply(network, links)

    def _apply(self, network: Network, links: Sequence[tuple[str, str]]) -> None:
        for link in links:
            faults = self._impairing[link]
            losses = [fault.loss if fault.impairs else _DOWN for fault in faults]
            network.impair([link], losses, [fault.duplication for fault in faults])

    def _pause(self, launcher: Launcher, host: str, ranks: Sequence[int], change: int) -> None:
        before = self._pauses[host] > 0
        self._pauses[host] += change
        if (self._pauses[host] > 0) != before:
            for index in ranks:
                launcher.pause(index, not before)

    def _restarted(
        self, fault: Fault, switch: str, network: Network
    ) -> Iterator[tuple[float, str, Callable[[], None]]]:
        told = network.entries(switch)

        def start(told: SwitchEntries) -> None:
            self._starts[switch] += 1
            if not self._offs[switch]:
                network.kill_switch(switch)  # no effect on one that is off
                network.start_switch(switch, told)

        def turn(change: int) -> None:
            self._offs[switch] += change
            if change > 0:
                network.kill_switch(switch)
            else:
                start(told)

        if fault.until is None:
            yield fault.at, f"{switch} killed and started", partial(start, told)
        elif fault.tables is None:
            yield fault.at, f"{switch} killed", partial(turn, 1)
            yield fault.until, f"{switch} started", partial(turn, -1)
        else:
            steps = told.steps()
            random.Random(fault.tables).shuffle(steps)
            own = 0  # the number of the start after which they are told

            def start_untold() -> None:
                nonlocal own
                start(_NO_ENTRIES)
                own = self._starts[switch]

            def tell(step: Callable[[Control], None]) -> None:
                if own == self._starts[switch]:  # else it has lost its tables again
                    network.tell_switch(switch, step)

            yield fault.at, f"{switch} killed and started", start_untold

            lasts = fault.until - fault.at
            for place, step in enumerate(steps, start=1):
                words = f"{switch} told" if place == len(steps) else ""
                yield fault.at + lasts * place / len(steps), words, partial(tell, step)


def _links(node: str, fabric: Fabric) -> list[tuple[str, str]]:
    return [(link.a, link.b) for link in fabric.links if node in (link.a, link.b)]


def _die(launcher: Launcher, ranks: Sequence[int], down: Callable[[], None]) -> None:
    down()  # first: a machine that loses power closes no connection
    for index in ranks:
        launcher.kill(index)

"""Sends the same packets to the program and to the reference, and shortens sequences that show a
difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from testbed.studies.conform.rules import RULES, Rule
from testbed.studies.conform.scene import ADDRESSING, FABRIC, SWITCH, Frame, Scene, registers
from testbed.studies.conform.traffic import Answered, Setting, Step, alike, answered
from testbed.switches.control import Control, ControlError
from testbed.switches.native.target import NativeSwitch

SEQUENCES = 60
"""Sequences drawn for each rule."""
_SHORTEST, _LONGEST = 4, 48
_FAILURES = 4
"""After this many failing sequences, no more are drawn for the rule; the shortest is shown."""


class Switch(Control, Protocol):
    """A target to which packets are given one by one."""

    def process(self, port: int, packet: bytes) -> list[Frame]:
        """The frames that leave when ``packet`` arrives, each with its port."""


@dataclass(frozen=True)
class Exchange:
    """A packet, and the frames that left because of it: from the program, and from the
    reference."""

    arrived: Frame
    found: list[Frame]
    wanted: list[Frame]


@dataclass(frozen=True)
class Counterexample:
    """The packets up to the first one for which the program differs. ``ended`` is the program's
    error, if it did not answer."""

    setting: Setting
    steps: tuple[Step, ...]
    exchanges: tuple[Exchange, ...]
    ended: str = ""


@dataclass(frozen=True)
class Verdict:
    """The result for a rule, which is kept if there is no counterexample."""

    rule: Rule
    packets: int
    counterexample: Counterexample | None


class Trial:
    """Runs sequences of packets through the switch that ``start`` starts, and starts it again if it
    ends."""

    def __init__(self, scene: Scene, program: Path, start: Callable[[], Switch]) -> None:
        self.scene, self.packets = scene, 0
        self._registers, self._start = registers(program), start
        self._switch: Switch | None = None

    def close(self) -> None:
        if self._switch is not None:
            self._switch.close()
            self._switch = None

    def verdict(self, rule: Rule, sequences: int, seed: int) -> Verdict:
        """Draw sequences for the rule, short ones first, until enough of them fail."""
        before, failed = self.packets, list[Counterexample]()
        drawn = 0
        while drawn < sequences and len(failed) < _FAILURES:
            random = Random(f"{rule.name} {seed} {drawn}")
            setting = rule.setting(self.scene, random)
            count = _SHORTEST + (_LONGEST - _SHORTEST) * drawn // sequences
            sequence = rule.drawn(setting, random, count)
            drawn += 1
            if (found := self._difference(setting, sequence)) is not None:
                failed.append(self.shortened(found))
        shortest = min(failed, key=lambda each: len(each.steps), default=None)
        return Verdict(rule, self.packets - before, shortest)

    def run(self, setting: Setting, steps: Sequence[Step]) -> Counterexample | None:
        """The difference that a sequence shows. None if there is none before the first packet that
        a correct host would not send."""
        return self._difference(setting, answered(setting, steps))

    def _difference(self, setting: Setting, sequence: Iterable[Answered]) -> Counterexample | None:
        switch = self._emptied()
        steps: list[Step] = []
        exchanges: list[Exchange] = []
        for each in sequence:
            self.packets += 1
            steps.append(each.step)
            try:
                found = switch.process(*each.arrived)
            except (ControlError, TimeoutError) as error:
                self.close()
                exchanges.append(Exchange(each.arrived, [], each.wanted))
                return Counterexample(setting, tuple(steps), tuple(exchanges), str(error))
            exchanges.append(Exchange(each.arrived, found, each.wanted))
            if not alike(found, each.wanted, self.scene.lanes):
                return Counterexample(setting, tuple(steps), tuple(exchanges))
        return None

    def shortened(self, failed: Counterexample) -> Counterexample:
        """A counterexample from which no packet can be left out."""
        size = len(failed.steps) // 2
        while size:
            shorter = next(self._shorter(failed, size), None)
            if shorter is None:
                size //= 2
            else:
                failed = shorter
                size = min(size, len(failed.steps))
        return failed

    def _shorter(self, failed: Counterexample, size: int) -> Iterator[Counterexample]:
        steps = failed.steps
        for at in range(len(steps) - size, -1, -1):
            found = self.run(failed.setting, steps[:at] + steps[at + size :])
            if found is not None:
                yield found

    def _emptied(self) -> Switch:
        """The switch with empty memory."""
        if self._switch is None:
            self._switch = self._start()
            entries = self.scene.entries
            for group, replicas in entries.groups.items():
                self._switch.multicast_group(group, replicas)
            for entry in entries.entries:
                self._switch.insert(entry)
        for name in self._registers:
            self._switch.reset_register(name)
        return self._switch


@contextmanager
def trial(scene: Scene, program: Path, bmv2: Path | None = None) -> Iterator[Trial]:
    """A trial of a compiled program on the native target, or on BMv2 with the folder ``bmv2`` for
    its log. Raises ControlError if it does not start, or refuses the entries."""
    if bmv2 is None:
        made = Trial(scene, program, lambda: NativeSwitch.offline(program))
        try:
            yield made
        finally:
            made.close()
        return
    from testbed.switches.wired import wired_bmv2

    with wired_bmv2(program, bmv2 / "log", SWITCH, FABRIC, ADDRESSING) as switch:
        yield Trial(scene, program, lambda: switch)


def verdicts(
    made: Trial, rules: Sequence[Rule] = RULES, sequences: int = SEQUENCES, seed: int = 1
) -> Iterator[Verdict]:
    """The verdict on each rule that applies to the scene."""
    for rule in rules:
        if rule.applies(made.scene):
            yield made.verdict(rule, sequences, seed)

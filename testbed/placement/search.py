"""Which switches to make programmable, if only a limited number can be.

Choices are simulated; of equivalent choices, only one is. Two switches are equivalent if the fabric
and its jobs look the same from both. If few choices differ, all are compared. Otherwise switches
are chosen greedily, and then exchanged one for one while that helps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from testbed.backends.flow.scenario import Assumptions, Job
from testbed.backends.flow.simulate import simulate
from testbed.topology.fabric import Fabric, Kind

Jobs = Callable[[Fabric], Sequence[Job]]
"""The jobs as they run on a fabric; ValueError if they cannot."""

EVEN = Assumptions(ecmp="even")
"""A choice of switches should not depend on one draw of ECMP's paths."""

_FAR = 4
"""Differences between switches count up to this many links away: rack to rack over a core."""


@dataclass(frozen=True)
class Placed:
    """A choice of switches.

    Attributes:
        switches: the programmable ones.
        jct_s: the JCT of each job with them.
        without_s, with_all_s: the JCT of each job without any programmable switch, and with all
            candidates; empty if the jobs cannot run then.
        is_exact: whether all choices that differ were compared.
        simulated: how many choices were simulated.
    """

    switches: tuple[str, ...]
    jct_s: tuple[float, ...]
    without_s: tuple[float, ...]
    with_all_s: tuple[float, ...]
    is_exact: bool
    simulated: int

    @property
    def mean_s(self) -> float:
        """The mean of all jobs' JCT, which is minimised."""
        return fmean(self.jct_s)

    @property
    def bound_s(self) -> float:
        """A lower bound for all choices, provided that another programmable switch never hurts."""
        return min(self.mean_s, fmean(self.with_all_s) if self.with_all_s else float("inf"))

    @property
    def gap(self) -> float:
        """The most by which this choice may be slower than the best one, as a ratio; 0 if it is
        exact."""
        return 0.0 if self.is_exact else self.mean_s / self.bound_s - 1


def place(
    fabric: Fabric,
    budget: int,
    jobs: Jobs,
    candidates: Sequence[str] | None = None,
    most_exact: int = 1000,
    assumptions: Assumptions = EVEN,
) -> Placed:
    """At most ``budget`` of the ``candidates``, chosen for the lowest mean JCT.

    The default candidates are the ToRs with workers or servers of the jobs. All choices are
    compared if at most ``most_exact`` differ. Among equally good choices, the one with the fewest
    switches is taken, then the first. Raises ValueError if the jobs cannot run with any choice, or
    if the budget is below 0.
    """
    if budget < 0:
        raise ValueError(f"budget: found {budget}, wanted at least 0")
    search = _Search(fabric, jobs, assumptions)
    switches = search.at_work if candidates is None else tuple(candidates)
    budget = min(budget, len(switches))
    every = _different(search, switches, budget, most_exact)
    best = search.best(_greedy(search, switches, budget) if every is None else every)
    if best is None:
        tried = f"with any {budget} of {len(switches)} switches" if budget else "without INA"
        more = "; allow more" if budget < len(switches) else ""
        raise ValueError(f"the jobs cannot run {tried}{more}")
    simulated = search.simulated
    return Placed(
        tuple(switch for switch in switches if switch in best),
        search.jcts(best),
        search.jcts(()),
        search.jcts(switches),
        every is not None,
        simulated,
    )


class _Search:
    """Simulates choices, each only once."""

    def __init__(self, fabric: Fabric, jobs: Jobs, assumptions: Assumptions) -> None:
        self.fabric, self._jobs, self._assumptions = fabric, jobs, assumptions
        self._known: dict[frozenset[str], tuple[float, ...]] = {}
        self._names: dict[Hashable, int] = {}

    @property
    def simulated(self) -> int:
        return len(self._known)

    def jcts(self, choice: Iterable[str]) -> tuple[float, ...]:
        """The JCT of each job; empty if the jobs cannot run."""
        chosen = frozenset(choice)
        if chosen not in self._known:
            fabric = self.fabric.with_ina(chosen)
            try:
                jobs = self._jobs(fabric)
            except ValueError:
                self._known[chosen] = ()
            else:
                timeline = simulate(fabric, jobs, self._assumptions)
                self._known[chosen] = tuple(map(timeline.jct_s, range(len(jobs))))
        return self._known[chosen]

    def mean(self, choice: Iterable[str]) -> float:
        """The mean JCT; infinity if the jobs cannot run."""
        jcts = self.jcts(choice)
        return fmean(jcts) if jcts else float("inf")

    def best(self, choices: Iterable[frozenset[str]]) -> frozenset[str] | None:
        """The choice with the lowest mean; among equals the fewest switches, then the first."""
        found = min(choices, key=lambda choice: (round(self.mean(choice), 9), len(choice)))
        return found if self.jcts(found) else None

    def alike(self, switches: Iterable[str], chosen: frozenset[str]) -> list[str]:
        """The first of each kind of equivalent ``switches``; ``chosen`` are programmable."""
        looks = self._looks(chosen)
        kinds: dict[int, str] = {}
        for switch in switches:
            kinds.setdefault(looks[switch], switch)
        return list(kinds.values())

    def kind(self, chosen: frozenset[str]) -> Hashable:
        """A value that is equal for equivalent choices."""
        return tuple(sorted(self._looks(chosen).values()))

    def _looks(self, chosen: frozenset[str]) -> dict[str, int]:
        """A number for each switch with its surroundings, equal for equivalent switches.

        This is colour refinement (Weisfeiler and Leman, 1968).
        """
        looks = {
            switch: self._name((switch in chosen, self._alone[switch]))
            for switch in self.fabric.switches
        }
        for _ in range(_FAR):
            looks = {
                switch: self._name(
                    (own, tuple(sorted((looks[other], rate) for other, rate in self._near[switch])))
                )
                for switch, own in looks.items()
            }
        return looks

    def _name(self, look: Hashable) -> int:
        return self._names.setdefault(look, len(self._names))

    @cached_property
    def _near(self) -> dict[str, list[tuple[str, float]]]:
        fabric = self.fabric
        return {
            switch: [
                (other, fabric.link(switch, other).rate)
                for other in fabric.neighbours(switch)
                if fabric.nodes[other].kind is not Kind.HOST
            ]
            for switch in fabric.switches
        }

    @cached_property
    def _on(self) -> dict[str, list[tuple[int, bool]]]:
        """The jobs of each host, each with whether the host is a worker."""
        on: defaultdict[str, list[tuple[int, bool]]] = defaultdict(list)
        for number, job in enumerate(self._anyhow()):
            for rank, host in enumerate(job.plan.hosts):
                on[host].append((number, rank < job.plan.workers))
        return dict(on)

    @property
    def at_work(self) -> tuple[str, ...]:
        """The ToRs of all hosts that work for a job."""
        working = {self.fabric.tor_of(host) for host in self._on}
        return tuple(tor for tor in self.fabric.tors if tor in working)

    @cached_property
    def _alone(self) -> dict[str, Hashable]:
        """The properties of each switch on its own: its kind, its hosts and their jobs."""
        fabric = self.fabric
        return {
            switch: (
                fabric.nodes[switch].kind.value,
                fabric.capacity.get(switch),
                tuple(
                    sorted(
                        (fabric.link(host, switch).rate, tuple(self._on.get(host, ())))
                        for host in fabric.rack_hosts(switch)
                    )
                ),
            )
            for switch in fabric.switches
        }

    def _anyhow(self) -> Sequence[Job]:
        """The jobs, with any INA switches that let them run: only their hosts matter here."""
        for switches in ((), self.fabric.tors, self.fabric.switches):
            with suppress(ValueError):
                return self._jobs(self.fabric.with_ina(switches))
        return ()


def _different(
    search: _Search, switches: Sequence[str], budget: int, most: int
) -> list[frozenset[str]] | None:
    """All choices that differ, smaller ones first; None if there are more than ``most``."""
    last = [frozenset[str]()]
    found, kinds = last.copy(), {search.kind(last[0])}
    for _ in range(budget):
        larger = []
        for choice in last:
            left = [switch for switch in switches if switch not in choice]
            for switch in search.alike(left, choice):
                kind = search.kind(choice | {switch})
                if kind not in kinds:
                    kinds.add(kind)
                    larger.append(choice | {switch})
            if len(found) + len(larger) > most:
                return None
        found, last = found + larger, larger
    return found


def _greedy(search: _Search, switches: Sequence[str], budget: int) -> list[frozenset[str]]:
    """The choices that the greedy search and the exchanges pass through."""
    chosen: frozenset[str] = frozenset()
    passed = [chosen]
    for _ in range(budget):
        left = [switch for switch in switches if switch not in chosen]
        # Among equals, the fullest rack comes first: a job may need several switches before it
        # gains anything.
        left.sort(key=lambda switch: -len(search.fabric.rack_hosts(switch)))
        options = [chosen | {switch} for switch in search.alike(left, chosen)]
        chosen = min(options, key=lambda option: round(search.mean(option), 9))
        passed.append(chosen)
    while True:
        left = [switch for switch in switches if switch not in chosen]
        options = [
            (chosen - {out}) | {switch}
            for out in search.alike(sorted(chosen), chosen)
            for switch in search.alike(left, chosen)
        ]
        better = min(options, key=search.mean, default=chosen)
        if search.mean(better) >= search.mean(chosen) * (1 - 1e-9):
            return passed
        chosen = better
        passed.append(chosen)

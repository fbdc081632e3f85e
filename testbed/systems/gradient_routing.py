"""Gradient routing: where in the network each worker's gradients are summed, and at what rate.

The problem is GRIA of GRID (Fang et al., IEEE/ACM ToN 31(5), 2023, §3.2): every worker picks one
node, a programmable switch or the parameter server itself; the least rate of all is to be as high
as possible. A switch adds only so much, the server's link takes in only so much, and a gradient is
summed in the network at most once. The paper assumes that links suffice; here each link is a
constraint as well, with flows on shortest paths that share ECMP sets evenly.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import coo_array

from testbed.topology.fabric import Fabric

Links = Mapping[tuple[str, str], float]

Row: TypeAlias = tuple[dict[int, float], float, float]
"""Factors of variables, and between what their sum lies."""

EXACT_CHOICES = 40
"""Choices of all workers together up to which the problem is solved exactly."""

DRAWS, KEPT = 32, 4


@dataclass(frozen=True)
class Choice:
    """One way for a worker: to a switch that sums it, or (``switch`` None) to the server alone.

    ``via`` is the neighbour of its ToR that a flow to the server goes to first, None for
    shortest paths. ``links`` is what the worker's own flow puts on each link per unit of rate.
    """

    switch: str | None
    via: str | None
    links: Links

    def __hash__(self) -> int:
        return hash((self.switch, self.via))


@dataclass(frozen=True)
class Routing:
    """What was found: each worker's choices with the share of its gradient, and the least rate.

    ``rate`` is in bit/s of gradients. Shares of a worker add up to 1.
    """

    shares: tuple[Mapping[Choice, float], ...]
    rate: float


def flow(fabric: Fabric, source: str, to: str) -> dict[tuple[str, str], float]:
    """The part of a flow on each directed link, ECMP sets sharing evenly."""
    load: defaultdict[tuple[str, str], float] = defaultdict(float)
    left = {source: 1.0}
    while left:
        node, amount = left.popitem()
        if node == to:
            continue
        hops = fabric.next_hops(node, to)
        for hop in hops:
            load[node, hop] += amount / len(hops)
            left[hop] = left.get(hop, 0.0) + amount / len(hops)
    return dict(load)


def choices(fabric: Fabric, worker: str, server: str, switches: Sequence[str]) -> list[Choice]:
    """To the server by shortest paths, or to any of the ``switches``."""
    direct = Choice(None, None, flow(fabric, worker, server))
    return [direct, *(Choice(s, None, flow(fabric, worker, s)) for s in switches)]


def ways(fabric: Fabric, worker: str, server: str) -> list[Choice]:
    """To the server, by shortest paths or first to another switch beside the worker's ToR."""
    tor = fabric.tor_of(worker)
    found = choices(fabric, worker, server, ())
    if tor == fabric.tor_of(server):
        return found
    for hop in fabric.neighbours(tor):
        if hop in fabric.switches and hop not in fabric.next_hops(tor, server):
            beyond = flow(fabric, hop, server)
            if not any(tor in link for link in beyond):
                links = {(worker, tor): 1.0, (tor, hop): 1.0, **beyond}
                found.append(Choice(None, hop, links))
    return found


class Problem:
    """Workers, each with its choices, on a fabric, towards ``server``.

    ``links_bind``: whether each link is a constraint, or only the server's and the workers' own.
    """

    def __init__(
        self,
        fabric: Fabric,
        workers: Sequence[str],
        server: str,
        options: Sequence[Sequence[Choice]],
        links_bind: bool = True,
    ) -> None:
        self._fabric, self._options = fabric, options
        nic = min(fabric.link(host, fabric.tor_of(host)).rate for host in (*workers, server))
        # A larger bound would let the relaxation cheat.
        self._most = nic
        self._switches = sorted({c.switch for own in options for c in own if c.switch is not None})
        self._rates = {
            ends: link.rate
            for link in fabric.links
            for ends in ((link.a, link.b), (link.b, link.a))
            if links_bind or not {*workers, server}.isdisjoint(ends)
        }
        self._to_server = {switch: flow(fabric, switch, server) for switch in self._switches}

    def rate(self, chosen: Sequence[Choice]) -> float:
        """The rate at which all workers can send if each does as ``chosen``, in bit/s."""
        members = Counter(choice.switch for choice in chosen if choice.switch is not None)
        load: defaultdict[tuple[str, str], float] = defaultdict(float)
        for links in (*(choice.links for choice in chosen), *map(self._to_server.get, members)):
            for ends, amount in (links or {}).items():
                load[ends] += amount
        limits = [
            self._rates[ends] / amount for ends, amount in load.items() if ends in self._rates
        ]
        limits += [
            self._fabric.capacity[switch] / count
            for switch, count in members.items()
            if switch in self._fabric.capacity
        ]
        return min(self._most, *limits)

    def exact(self) -> Routing:
        """The best choice of one way a worker, by mixed-integer programming."""
        _, _, picked = self._solve(whole=True)
        chosen = [max(own, key=own.__getitem__) for own in picked]
        return Routing(tuple({choice: 1.0} for choice in chosen), self.rate(chosen))

    def rounded(self, seed: int) -> Routing:
        """The relaxation, with one way a worker drawn in proportion to its rates (§4.1).

        This project's own additions: of several draws the best is kept, and as the relaxation
        does not see that every switch in use costs a stream to the server, switches are then
        given up as long as that helps.
        """
        _, rates, _ = self._solve(whole=False)
        dice = random.Random(seed)
        draws = [
            [
                dice.choices(list(own), [max(rate, 1e-12) for rate in own.values()])[0]
                for own in rates
            ]
            for _ in range(DRAWS)
        ]
        draws.sort(key=self.rate, reverse=True)
        chosen = max(map(self._with_fewer_switches, draws[:KEPT]), key=self.rate)
        return Routing(tuple({choice: 1.0} for choice in chosen), self.rate(chosen))

    def _with_fewer_switches(self, chosen: list[Choice]) -> list[Choice]:
        rate = self.rate(chosen)
        while True:
            used = {choice.switch for choice in chosen if choice.switch is not None}
            tries = [self._without(switch, chosen, used - {switch}) for switch in sorted(used)]
            found = max(tries, key=self.rate, default=chosen)
            if self.rate(found) <= rate:
                return chosen
            chosen, rate = found, self.rate(found)

    def _without(self, given_up: str, chosen: list[Choice], others: set[str]) -> list[Choice]:
        """As ``chosen``, but the workers of one switch go to the least busy of the ``others``."""
        members = Counter(choice.switch for choice in chosen)
        moved = list(chosen)
        for n, own in enumerate(self._options):
            if chosen[n].switch == given_up:
                left = [choice for choice in own if choice.switch in others] or [own[0]]
                moved[n] = min(left, key=lambda choice: self._fill(choice, members))
                members[moved[n].switch] += 1
        return moved

    def _fill(self, choice: Choice, members: Mapping[str | None, int]) -> float:
        """How busy one more worker makes the switch of ``choice``, and how far it is from there."""
        if choice.switch is None:
            return 1.0
        limit = self._fabric.capacity.get(choice.switch, float("inf"))
        return (members[choice.switch] + 1) * self._most / limit + 1e-3 * sum(choice.links.values())

    def split(self) -> Routing:
        """Workers may divide their gradients over their choices, all of one switch alike."""
        rate, rates, _ = self._solve(whole=False, alike=True)
        shares = []
        for own in rates:
            total = sum(own.values())
            # More than the least rate is of no use to anyone.
            shares.append({choice: part / total for choice, part in own.items() if part > 0})
        return Routing(tuple(shares), rate)

    def _solve(
        self, whole: bool, alike: bool = False
    ) -> tuple[float, list[dict[Choice, float]], list[dict[Choice, float]]]:
        """Rate, rates of all choices, and how far each is picked; rates in bit/s.

        Variables: for each choice whether it is picked and its rate, for each switch the rate of
        its sum, and the least rate. Rates are in units of the largest.
        """
        pairs = [(n, choice) for n, own in enumerate(self._options) for choice in own]
        count, sums = len(pairs), len(self._switches)
        rate_of = {pair: count + index for index, pair in enumerate(pairs)}
        sum_of = {switch: 2 * count + index for index, switch in enumerate(self._switches)}
        least = 2 * count + sums
        rows: list[Row] = []
        per_link: defaultdict[tuple[str, str], dict[int, float]] = defaultdict(dict)
        per_switch: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for n, own in enumerate(self._options):
            mine = [rate_of[n, choice] for choice in own]
            if not alike:
                rows.append(({index - count: 1.0 for index in mine}, 1.0, 1.0))
            rows.append(({**dict.fromkeys(mine, 1.0), least: -1.0}, 0.0, np.inf))
            for choice, rate in zip(own, mine, strict=True):
                if not alike:
                    rows.append(({rate: 1.0, rate - count: -1.0}, -np.inf, 0.0))
                if choice.switch is not None:
                    comparison = (0.0, 0.0) if alike else (-np.inf, 0.0)
                    rows.append(({rate: 1.0, sum_of[choice.switch]: -1.0}, *comparison))
                    per_switch[choice.switch][rate] = 1.0
                for ends, part in choice.links.items():
                    per_link[ends][rate] = part
        for switch, way in self._to_server.items():
            for ends, part in way.items():
                per_link[ends][sum_of[switch]] = part
        for ends, load in per_link.items():
            if ends in self._rates:
                rows.append((load, -np.inf, self._rates[ends] / self._most))
        for switch, load in per_switch.items():
            if switch in self._fabric.capacity:
                rows.append((load, -np.inf, self._fabric.capacity[switch] / self._most))
        found = milp(
            -np.eye(1, least + 1, least).ravel(),
            constraints=_constraint(rows, least + 1),
            integrality=np.array([int(whole)] * count + [0] * (least + 1 - count)),
            bounds=(0, 1),
            options={"time_limit": 20.0},
        )
        if found.x is None:
            raise ValueError(f"no feasible rate: {found.message}")
        rates: list[dict[Choice, float]] = [{} for _ in self._options]
        picked: list[dict[Choice, float]] = [{} for _ in self._options]
        for index, (n, choice) in enumerate(pairs):
            picked[n][choice] = float(found.x[index])
            rates[n][choice] = float(found.x[count + index]) * self._most
        return float(found.x[least]) * self._most, rates, picked


def _constraint(rows: Sequence[Row], width: int) -> LinearConstraint:
    places = [(row, *place) for row, (line, _, _) in enumerate(rows) for place in line.items()]
    row, column, value = zip(*places, strict=True)
    matrix = coo_array((value, (row, column)), shape=(len(rows), width)).tocsr()
    return LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows])

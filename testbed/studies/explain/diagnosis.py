"""Finds what is wrong in a run, from its record and the experiment that was intended.

The intended experiment is run in packets with seeds other than the record's. These runs show what
is normal, and how much it varies. A sign is something in the record that no such run shows. Direct
signs come first: a counter or a rate that names its own cause. Latency, which no link, queue or
processor shows, is looked for last. A run that is slower than others is no sign by itself: because
of TCP's timeouts and ECMP's hashes, healthy runs differ by far more than some faults cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from testbed.deployment.deploy import Deployment
from testbed.plan.cost import flows
from testbed.protocols.events import Event
from testbed.studies.explain.choices import choices
from testbed.studies.explain.record import Record
from testbed.switches.events import CONTRIBUTIONS
from testbed.topology.fabric import Fabric, Kind
from testbed.topology.paths import Link

NEIGHBOUR, RATE, LOSS, DUPLICATES = "other traffic", "slow link", "loss", "duplicates"
SILENT, SLOTS, QUEUE, STRAGGLER = "does not sum", "few slots", "short queue", "straggler"
HOST, SWITCH, WINDOW, HASH = "slow host", "slow switch", "small window", "polarised hash"
LATENCY = "latency"

_CERTAIN = 4.5
"""So many standard deviations that chance practically never reaches them, however many runs are
made."""

_LEAST_FRAMES = 20
"""Fewer frames than this show neither a rate nor a share."""


@dataclass(frozen=True)
class Sign:
    """Something that no run of the intended experiment shows: a ``cause``, and ``where`` it is (a
    node, link or rank). ``said`` is a sentence about it."""

    cause: str
    where: str
    said: str


@dataclass(frozen=True)
class _Case:
    record: Record
    normal: Sequence[Record]
    intended: Deployment

    @property
    def fabric(self) -> Fabric:
        return self.intended.fabric


def diagnose(record: Record, normal: Sequence[Record], intended: Deployment) -> list[Sign]:
    """The signs in ``record``, the most direct first.

    ``normal`` are records of runs of ``intended`` with other seeds.
    """
    case = _Case(record, normal, intended)
    found = [sign for signs in _SIGNS for sign in signs(case)]
    return found or list(_latent(case))


def _neighbours(case: _Case) -> Iterator[Sign]:
    """Hosts that belong to no job send."""
    own = {host for job in case.intended.jobs for host in job.plan.hosts}
    strangers = sorted(
        host
        for host in case.fabric.hosts
        if host not in own and case.record.carried.get((host, case.fabric.tor_of(host)), 0.0)
    )
    if strangers:
        sent = sum(case.record.carried[host, case.fabric.tor_of(host)] for host in strangers) / sum(
            case.record.carried.values()
        )
        yield Sign(
            NEIGHBOUR,
            strangers[0],
            f"{', '.join(strangers)} belong to no job and send {sent:.0%} of all links' bytes",
        )


def _slow_links(case: _Case) -> Iterator[Sign]:
    """A link sends more slowly than it should: its rate while it sends is too low."""
    for (a, b), rate in case.record.rates.items():
        wanted = case.fabric.link(a, b).rate
        if case.record.ports[a, b].sent >= _LEAST_FRAMES and rate < 0.95 * wanted:
            yield Sign(
                RATE, f"{a}-{b}", f"{a}>{b} sends at {rate / 1e9:.3g} of {wanted / 1e9:.3g} Gbit/s"
            )


def _difference(case: _Case, count: Callable[[Record, Link], int]) -> Iterator[tuple[Link, float]]:
    """Links on which ``count`` finds more frames than chance explains at the normal share of their
    tier. Each comes with its share, the worst first."""
    counted: Counter[frozenset[Kind]] = Counter()
    sent: Counter[frozenset[Kind]] = Counter()
    for each in case.normal:
        for link, port in each.ports.items():
            counted[_tier(case, link)] += max(0, count(each, link))
            sent[_tier(case, link)] += port.sent
    found = {}
    for link, port in case.record.ports.items():
        tier = _tier(case, link)
        expected = port.sent * counted[tier] / max(1, sent[tier])
        most = expected + _CERTAIN * expected**0.5 + 2 * bool(expected)
        if port.sent >= _LEAST_FRAMES and count(case.record, link) > most:
            found[link] = count(case.record, link) / port.sent
    yield from sorted(found.items(), key=lambda each: -each[1])


def _tier(case: _Case, link: Link) -> frozenset[Kind]:
    return frozenset(case.fabric.nodes[end].kind for end in link)


def _lossy(case: _Case) -> Iterator[Sign]:
    """Fewer frames arrive than were sent."""
    for link, share in _difference(
        case, lambda record, link: record.ports[link].sent - record.ports[link].arrived
    ):
        yield Sign(LOSS, "-".join(link), f"{'>'.join(link)} loses {share:.2%} of its packets")


def _duplicating(case: _Case) -> Iterator[Sign]:
    """More frames arrive than were sent."""
    for link, share in _difference(
        case, lambda record, link: record.ports[link].arrived - record.ports[link].sent
    ):
        yield Sign(
            DUPLICATES, "-".join(link), f"{'>'.join(link)} delivers {share:.2%} of packets twice"
        )


def _sums(record: Record, switch: str) -> int:
    counts = record.events.get(switch, Counter())
    return sum(counts[event] for event in (Event.STORED, Event.ADDED, Event.COMPLETED))


def _silent(case: _Case) -> Iterator[Sign]:
    """A switch that should sum stores and adds nothing, or almost nothing."""
    for switch in sorted(case.normal[0].events):
        least = min(_sums(each, switch) for each in case.normal)
        if least and _sums(case.record, switch) < 0.05 * least:
            yield Sign(
                SILENT,
                switch,
                f"{switch} adds {_sums(case.record, switch)} packets, where at least {least} are"
                " normal",
            )


def _few_slots(case: _Case) -> Iterator[Sign]:
    """Packets find their slots taken while the switch holds fewer slots than it should have."""
    for switch, counts in case.record.events.items():
        handled = sum(counts[event] for event in CONTRIBUTIONS)
        usual = max(each.events.get(switch, Counter())[Event.COLLISION] for each in case.normal)
        taken = case.record.slots.get(switch, 0)
        normally = max(each.slots.get(switch, 0) for each in case.normal)
        if counts[Event.COLLISION] > 1.5 * usual and taken < 0.8 * normally:
            yield Sign(
                SLOTS,
                switch,
                f"{counts[Event.COLLISION] / max(1, handled):.0%} of packets find their slot taken"
                f" at {switch}, though never more than {taken} of {case.fabric.slots} are;"
                f" {normally} are normal",
            )


def _short_queues(case: _Case) -> Iterator[Sign]:
    """A queue drops frames long before it should be full."""
    for (a, b), port in case.record.ports.items():
        room = case.fabric.link(a, b).queue
        if port.dropped and port.most_waiting < 0.8 * room:
            yield Sign(
                QUEUE,
                f"{a}-{b}",
                f"the queue of {a}>{b} dropped {port.dropped} packets, and never held more than"
                f" {port.most_waiting:,} of {room:,} B",
            )


def _stragglers(case: _Case) -> Iterator[Sign]:
    """A rank computes for longer than any rank normally does: often, or by much."""
    for number, job in case.record.jobs.items():
        usual = max(
            max(own, default=0.0) for each in case.normal for own in each.jobs[number].computed
        )
        for rank, own in enumerate(job.computed):
            slow = [each for each in own if each > 1.1 * usual]
            if slow and usual:
                host = case.intended.jobs[number].plan.hosts[rank]
                yield Sign(
                    STRAGGLER,
                    host,
                    f"rank {rank} ({host}) computes up to {max(slow) / usual:.3g} times as long as"
                    f" any rank does normally, in {len(slow)} of {len(own)} iterations",
                )


def _backlogged(case: _Case) -> Iterator[Sign]:
    """Packets wait inside a node for its processor, or for its adder."""
    found = {}
    for node, waited in case.record.waited.items():
        usual = max(each.waited.get(node, 0) for each in case.normal)
        if waited > 2 * usual + 10_000:
            found[node] = waited
    for node in sorted(found, key=lambda name: -found[name]):
        is_host = case.fabric.nodes[node].kind is Kind.HOST
        yield Sign(
            HOST if is_host else SWITCH,
            node,
            f"up to {found[node]:,} B wait inside {node} for its"
            f" {'processor' if is_host else 'adder'}",
        )


def _small_windows(case: _Case) -> Iterator[Sign]:
    """A host never has as many fragments in flight as it normally does."""
    found = []
    for place, most in case.record.in_flight.items():
        usual = min(each.in_flight.get(place, 0) for each in case.normal)
        if most < 0.75 * usual:
            found.append((most / usual, place, most, usual))
    for _, place, most, usual in sorted(found):
        host = place.partition(" ")[0]
        yield Sign(
            WINDOW,
            host,
            f"{host} never has more than {most} fragments in flight; {usual} are normal",
        )


def _polarised(case: _Case) -> Iterator[Sign]:
    """The hashes of all switches prefer the same next hop: its share is higher than chance explains
    for fair hashes of this many flows."""
    normal = [shares(case.fabric, each.carried) for each in case.normal]
    deviation = _deviation(case.intended)
    for hop, share in shares(case.fabric, case.record.carried).items():
        usual = fmean(each.get(hop, 0.0) for each in normal)
        if hop in deviation and share - usual > _CERTAIN * deviation[hop]:
            yield Sign(
                HASH,
                hop,
                f"{hop} gets {share:.0%} of what its neighbours send to it and its equals, and"
                f" {usual:.0%} normally: {(share - usual) / deviation[hop]:.1f} standard deviations"
                " of fair hashes",
            )


def shares(fabric: Fabric, carried: Mapping[Link, float]) -> dict[str, float]:
    """For each node that is one of several equal next hops, its share of what all switches send to
    these next hops."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for switch, hops in choices(fabric):
        sent = {hop: round(carried.get((switch, hop), 0.0)) for hop in hops}
        own.update(sent)
        total.update(dict.fromkeys(hops, sum(sent.values())))
    return {hop: own[hop] / total[hop] for hop in total if total[hop]}


def _deviation(intended: Deployment) -> dict[str, float]:
    """The standard deviation of `shares` if fair hashes send each host's flow to one next hop."""
    fabric = intended.fabric
    squares: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for job in intended.jobs:
        for (source, to), share in flows(job.plan).items():
            size = round(share * job.gradient_bytes)
            hops = fabric.next_hops(fabric.tor_of(source), to) if source in fabric.hosts else ()
            if len(hops) > 1:
                squares.update(dict.fromkeys(hops, size**2 * (len(hops) - 1) / len(hops) ** 2))
                total.update(dict.fromkeys(hops, size))
    return {hop: squares[hop] ** 0.5 / total[hop] for hop in total if total[hop]}


def _latent(case: _Case) -> Iterator[Sign]:
    """Even the fastest bucket of any rank and iteration, which met no other bucket, is slower."""
    usual = max(map(_fastest, case.normal))
    found = _fastest(case.record)
    if found > 1.5 * usual:
        yield Sign(
            LATENCY,
            "hosts",
            f"the fastest bucket takes {found * 1e3:.3g} ms, and {usual * 1e3:.3g} ms"
            " normally, and no link, queue, slot or processor is busier: dependent steps wait, in"
            " hosts or in the network",
        )


def _fastest(record: Record) -> float:
    return min((each.ended_s - each.begun_s for each in record.units), default=0.0)


_SIGNS: tuple[Callable[[_Case], Iterator[Sign]], ...] = (
    _neighbours,
    _slow_links,
    _short_queues,
    _lossy,
    _duplicating,
    _silent,
    _few_slots,
    _stragglers,
    _backlogged,
    _small_windows,
    _polarised,
)
"""The tests for signs, from those that can have only one cause to those that other faults may also
produce."""

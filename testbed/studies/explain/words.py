"""An explanation as sentences, a table and a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.figure import Figure

from testbed.deployment.deploy import DeployedJob
from testbed.plan import chain
from testbed.plan.cost import flows
from testbed.protocols.events import Event
from testbed.report import canvas
from testbed.studies.explain.attribution import BUSIEST, CHAIN, COMPUTE, Explanation, Part, busiest
from testbed.studies.explain.choices import choices
from testbed.topology.fabric import Fabric
from testbed.topology.paths import EvenPaths, Link

_NAMED = 4
"""The most flows or links that a sentence names."""

_WORTH = 0.005
"""Parts below this share of the JCT get no sentence."""

_INTERACT = 0.1


def text(found: Explanation) -> str:
    """The headline, the table and the sentences."""
    return "\n".join([headline(found), *table(found.parts), "", *sentences(found)])


def headline(found: Explanation) -> str:
    """The job, its JCT, and what it would be without the causes of delay."""
    job, ideal = _job(found), found.ideal.jobs[found.number].jct_s
    said = "no cause of delay found"
    if any(part.instead for part in found.parts):
        said = f"{found.jct_s / ideal:.3g} times the {_time(ideal)} without the causes below"
    return (
        f"{job.system.name} {job.job.workload}, {job.plan.workers} workers on"
        f" {found.deployment.fabric.name}: JCT {_time(found.jct_s)}, {said}"
    )


def table(parts: Sequence[Part]) -> Iterator[str]:
    """A line for each part, and for their sum, which is the JCT."""
    total = sum(part.seconds for part in parts)
    yield f"  {'part':19} {'time':>9} {'share':>6} {'alone':>9} {'least':>9} {'most':>9}"
    for part in parts:
        times = [part.alone_s, part.low_s, part.high_s] if part.instead else []
        yield (
            f"  {part.name:19} {_time(part.seconds):>9} {part.seconds / total:6.1%}"
            + "".join(f" {_time(each):>9}" for each in times)
        )
    yield f"  {'sum':19} {_time(total):>9} {1:6.1%}"


def sentences(found: Explanation) -> Iterator[str]:
    """What each part comes from, according to the records."""
    for part in found.parts:
        if part.name in (COMPUTE, BUSIEST) or abs(part.seconds) > _WORTH * found.jct_s:
            yield f"{part.name}: {_SAID[part.name](found)}"
            if part.instead:
                less = _time(found.jct_s - part.alone_s)
                yield f"  Without it ({part.instead}) the JCT would be {less}."
    causes = [part for part in found.parts if part.instead]
    alone, together = sum(part.alone_s for part in causes), sum(part.seconds for part in causes)
    if abs(alone - together) > _INTERACT * max(abs(together), _WORTH * found.jct_s):
        yield (
            f"The causes interact: removed one at a time they gain {_time(alone)} in sum, all"
            f" together {_time(together)}. A part is the mean of two orders, not a cost of its own."
        )
    yield from found.unknown


def draw(found: Explanation) -> Figure:
    """The parts, one after another, from 0 to the JCT."""
    parts = [part for part in found.parts if part.seconds]
    figure, (axes,) = canvas.panels(
        [headline(found).partition(":")[0]], height=0.22 * len(parts) + 0.2, left=1.3
    )
    start = 0.0
    for row, part in enumerate(parts):
        colour = "#c44e52" if part.instead else "#4c72b0"
        axes.barh(row, part.seconds, left=start, color=colour, height=0.7)
        start += part.seconds
    axes.set_yticks(range(len(parts)), [part.name for part in parts])
    axes.invert_yaxis()
    axes.set_xlabel("JCT (s)")
    axes.grid(axis="x", alpha=0.3)
    return figure


def _job(found: Explanation) -> DeployedJob:
    return found.deployment.jobs[found.number]


def _scale(found: Explanation) -> float:
    return float(found.deployment.experiment.emulation.scale)


def _time(seconds: float) -> str:
    """A time with three digits, in a suitable unit."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(seconds) >= factor or unit == "us":
            return f"{seconds / factor:.3g} {unit}"
    raise AssertionError


def _steps(found: Explanation) -> str:
    fabric, plan = found.deployment.fabric, _job(found).plan
    return f"each of {chain.length(plan)} dependent steps costs {_time(fabric.step_latency)}."


def _delays(found: Explanation) -> str:
    fabric = found.deployment.fabric
    return (
        f"a packet takes {_time(fabric.link_delay)} along a link and"
        f" {_time(fabric.pipeline_latency)} through a switch, in addition to its transmission."
    )


def _compute(found: Explanation) -> str:
    job = found.ideal.jobs[found.number]
    host = _job(found).plan.hosts[job.last]
    took = _time(sum(job.computed[job.last]))
    return f"rank {job.last} ({host}) ends last, and computes for {took}."


def _busiest(found: Explanation) -> str:
    link = busiest(found.ideal)
    if link is None:
        return "no link sent anything."
    job, carried = _job(found), found.ideal.carried[link]
    each = carried / (job.job.iterations + job.job.warmup)
    took = each * 8 / found.ideal.rates[link] / _scale(found)
    paths = EvenPaths(found.deployment.fabric, job.plan.routes)
    every = flows(job.plan)
    count = sum(link in paths.shares(*flow) for flow in every)
    return (
        f"{_name(link)} sends {each / job.gradient_bytes:.3g} times the gradient in each iteration,"
        f" in {_time(took)} at {found.ideal.rates[link] / 1e9:.3g} Gbit/s; {count} of the plan's"
        f" {len(every)} flows may take it. The part above is the time of the measured iterations in"
        " which it sends and the rank that ends last does not compute."
    )


def _chain(found: Explanation) -> str:
    steps = chain.length(_job(found).plan)
    last = max(found.ideal.units, key=lambda unit: unit.ended_s, default=None)
    said = f"each bucket passes {steps} dependent steps, in which the busiest link also waits"
    if last is None:
        return f"{said}."
    return (
        f"{said}; the last sum is that of {last.name} at rank {last.rank}, which took"
        f" {_time(last.ended_s - last.begun_s)}."
    )


def _shared(found: Explanation) -> str:
    """Which flows share the busiest link of the run."""
    sharing = Counter(found.record.shared)
    total = sharing.total()
    link = busiest(found.record)
    if link is None or not total:
        return "no link is shared."
    named = ", ".join(
        f"{source}>{to} {size / total:.0%}" for (source, to), size in sharing.most_common(_NAMED)
    )
    more = f" and {len(sharing) - _NAMED} more" if len(sharing) > _NAMED else ""
    return f"{_name(link)} is the busiest link; its flows are {named}{more}."


def _imbalance(found: Explanation) -> str:
    uneven = imbalances(found.deployment.fabric, found.record.carried)
    return f"{unevenness(uneven[0])} {_shared(found)}" if uneven else _shared(found)


def unevenness(worst: tuple[float, Link, Link, int]) -> str:
    """One of the `imbalances` as a sentence."""
    ratio, link, idlest, count = worst
    return (
        f"{_name(link)} sends {ratio:.3g} times the mean of the {count} equal links of {link[0]},"
        f" and {_name(idlest)} sends the least."
    )


def imbalances(
    fabric: Fabric, carried: Mapping[Link, float]
) -> list[tuple[float, Link, Link, int]]:
    """For each switch with several uplinks: the load of the most loaded one relative to their mean,
    that link, the least loaded link, and the number of uplinks. The worst comes first."""
    found = []
    for switch, hops in choices(fabric):
        loads = {(switch, hop): carried.get((switch, hop), 0.0) for hop in hops}
        if total := sum(loads.values()):
            most = max(loads, key=lambda link: loads[link])
            least = min(loads, key=lambda link: loads[link])
            found.append((loads[most] * len(hops) / total, most, least, len(hops)))
    return sorted(found, reverse=True)


def _others(found: Explanation) -> str:
    of = {host: job.number for job in found.deployment.jobs for host in job.plan.hosts}
    shares: Counter[str] = Counter()
    for (source, to), size in found.record.shared.items():
        number = of.get(source, of.get(to))
        shares["switches" if number is None else f"job {number}"] += size
    total = shares.total()
    if not total:
        return "they share links or slots."
    named = ", ".join(f"{name} {size / total:.0%}" for name, size in shares.most_common())
    return f"on {_name(busiest(found.record) or ('', ''))}, the busiest link: {named}."


def _lost(found: Explanation) -> str:
    lost = Counter({link: port.sent - port.arrived for link, port in found.record.ports.items()})
    return f"{_worst(+lost, 'lost', 'packets')} {_recovered(found)}"


def _lost_at_random(found: Explanation) -> str:
    said = _lost(found)
    if found.deployment.experiment.emulation.faults:
        return f"{said} Packets that faults lost are counted, too."
    return said


def _dropped(found: Explanation) -> str:
    dropped = Counter({link: port.dropped for link, port in found.record.ports.items()})
    return f"{_worst(+dropped, 'dropped', 'packets at its queue')} {_recovered(found)}"


def _worst(counts: Counter[Link], what: str, of: str) -> str:
    if not counts:
        return f"no link {what} any."
    (link, most), *_ = counts.most_common(1)
    return f"{_name(link)} {what} {most} {of}, all links {counts.total()}."


def _recovered(found: Explanation) -> str:
    return f"{found.record.jobs[found.number].retransmitted} packets were retransmitted."


def _stragglers(found: Explanation) -> str:
    computed = found.record.jobs[found.number].computed
    totals = [sum(own) for own in computed]
    slowest = max(range(len(totals)), key=totals.__getitem__)
    middle = sorted(totals)[len(totals) // 2]
    said = (
        f"rank {slowest} ({_job(found).plan.hosts[slowest]}) computes for"
        f" {_time(totals[slowest])}, {totals[slowest] / middle:.3g} times the median."
    )
    if _loses(found):
        return said
    again = found.record.jobs[found.number].retransmitted
    return f"{said} {again} packets were retransmitted although none was lost." if again else said


def _loses(found: Explanation) -> bool:
    """Whether a link or a queue lost packets in the run."""
    return any(port.dropped or port.sent > port.arrived for port in found.record.ports.values())


def _inside(found: Explanation) -> str:
    waited = found.record.waited
    if not waited:
        return "nothing waited inside nodes."
    node = max(waited, key=lambda name: waited[name])
    return f"up to {waited[node]:,} B waited inside {node}."


def _slots(found: Explanation) -> str:
    collisions = Counter(
        {name: counts[Event.COLLISION] for name, counts in found.record.events.items()}
    )
    (name, most), *_ = collisions.most_common(1)
    return (
        f"{most} packets found their slot taken at {name}, {collisions.total()} at all switches;"
        f" up to {found.record.slots.get(name, 0)} of {found.deployment.fabric.slots} slots were"
        " taken. Such packets are forwarded to the server unsummed."
    )


def _windows(found: Explanation) -> str:
    most = max(found.record.in_flight.values(), default=0)
    return f"hosts had at most {most} fragments in flight."


def _name(link: Link) -> str:
    return ">".join(link)


_SAID = {
    COMPUTE: _compute,
    BUSIEST: _busiest,
    CHAIN: _chain,
    "faults": _lost,
    "loss": _lost_at_random,
    "duplicates": _recovered,
    "other jobs": _others,
    "stragglers": _stragglers,
    "switch capacity": _inside,
    "hosts' own cost": _inside,
    "steps of the chain": _steps,
    "delays": _delays,
    "slow links": _shared,
    "ECMP's imbalance": _imbalance,
    "full queues": _dropped,
    "few slots": _slots,
    "small windows": _windows,
}

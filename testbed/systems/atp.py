"""ATP: ToRs sum at best effort; a parameter server sums what they could not."""

from __future__ import annotations

from testbed.plan.program import Plan, SwitchAllReduce
from testbed.plan.trees import Rules, Tree
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.systems.racks import check_apart, jobs_before, turn
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """A chunk and a tree for each server. A tree leads from each worker over its ToR and the
    server's ToR to the server; ToRs without INA are bypassed.

    Raises ValueError without a server, or if a server's host is also a worker's.
    """
    return best_effort(job, fabric, "atp", ATP)


def best_effort(job: Assignment, fabric: Fabric, system: str, protocol: Rules) -> Plan:
    """ATP's plan for ``system``, whose switches and hosts speak ``protocol``."""
    if not job.servers:
        raise ValueError(f"{system} needs at least one server")
    uses = tuple(SwitchAllReduce(chunk=each, tree=each) for each in range(len(job.servers)))
    return Plan(
        system=system,
        hosts=job.workers + job.servers,
        workers=len(job.workers),
        chunks=len(uses),
        programs=(*(uses for _ in job.workers), *((use,) for use in uses)),
        trees=tuple(tree(job, fabric, each, protocol) for each in range(len(uses))),
    )


def tree(job: Assignment, fabric: Fabric, number: int = 0, protocol: Rules = ATP) -> Tree:
    """The tree of server ``number``, with at most two levels of switches. A switch with one child
    would sum nothing, and is left out."""
    server = job.servers[number]
    check_apart([server], job.workers)
    parent: dict[str, str] = {}
    tops: list[str] = []
    for tor in dict.fromkeys(fabric.tor_of(host) for host in job.workers):
        members = [host for host in job.workers if fabric.tor_of(host) == tor]
        sums_here = tor in fabric.ina and tor != fabric.tor_of(server) and len(members) > 1
        if sums_here:
            parent |= dict.fromkeys(members, tor)
        tops += [tor] if sums_here else members
    server_tor = fabric.tor_of(server)
    if server_tor in fabric.ina and len(tops) > 1:
        parent[server_tor] = server
        parent |= dict.fromkeys(tops, server_tor)
    else:
        parent |= dict.fromkeys(tops, server)
    ranks = {host: rank for rank, host in enumerate(job.workers)}
    begins = turn(parent, jobs_before(job.workers, fabric) + number, fabric)
    return Tree(server, ranks, parent, protocol, len(job.workers) + number, turn=begins)


SYSTEM = System(
    name="atp",
    title="ATP",
    colour="#d62728",
    marker="^",
    citation="Lao et al., ATP: In-network Aggregation for Multi-tenant Learning, NSDI 2021",
    published=(
        "Only the workers' ToRs and the server's ToR aggregate; the host names the slot.",
        "A slot taken by another fragment is a collision: the packet goes on to the server.",
        "The server's result is the acknowledgement: it frees the slots and is multicast back.",
        "A retransmitted packet flushes the partial sum to the server and is not summed in the "
        "network.",
        "The server counts each worker's contribution once.",
    ),
    reading=(
        "With up to 64 workers a packet's bitmap has a bit for each, at both levels; with more, a "
        "bit for each child of a switch (the paper has a bitmap of 32 bits for each level).",
        "The workers of a rack whose ToR does not aggregate send to the server's ToR, or to the "
        "server.",
        "A switch that would have a single child is left out of the tree.",
        "Trees between the same racks, of one job or of several, take different links.",
        "With several servers, each sums an equal part of every bucket, on a tree of its own. The "
        "released code gives whole tensors to servers (a tensor's key modulo their number), which "
        "comes to such parts on average. The window counts for each server.",
        "Congestion control is on, as in the paper; in the released code it is switched off. The "
        "largest window is what the fabric's queues and the switch's slots allow.",
        "ECN and timeouts halve the window, as in the paper. A gap in the answers takes an eighth "
        "of a fragment for each one missing, where the paper halves it: under random loss there is "
        "always a gap, because each worker sees the losses of all.",
    ),
    servers=(1, 64),
    aggregates=True,
    carries=True,
    plan=plan,
    options=WithWindow,
)

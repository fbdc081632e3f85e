"""SwitchML: switches sum in a pool of slots reserved for the job, and answer on their own."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from testbed.plan.program import Plan, SwitchAllReduce
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.systems.racks import by_rack, root, tree_to, two_levels
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """One tree. Its root is a switch if one sums, or with ``root: server`` only if the ToRs of all
    workers do; otherwise it is the server."""
    options = SYSTEM.settle({}) | dict(job.options)
    workers = len(job.workers)
    top = root(job.workers, fabric)
    if top and (options["root"] == "switch" or by_rack(job.workers, fabric).keys() <= fabric.ina):
        hosts = job.workers
        tree = tree_to(top, hosts, fabric, SWITCHML)
    else:
        if len(job.servers) != 1:
            raise ValueError(
                f"switchml: found {len(job.servers)} servers, wanted exactly one: no switch is"
                " the root, so a server sums what is left; give a server, or INA to all ToRs"
            )
        hosts = job.workers + job.servers
        tree = two_levels(job.workers, fabric, job.servers[0], SWITCHML, root_rank=workers)
        if not tree.switches and options["without_ina"] == "refuse":
            raise ValueError(
                "switchml: not admitted: no switch would sum for the job, and its pool of slots is"
                " in a switch; give INA to the ToR of two of its workers, leave the job out, or"
                " take the option without_ina: server"
            )
    return Plan(
        system="switchml",
        hosts=hosts,
        workers=workers,
        chunks=1,
        programs=((SwitchAllReduce(chunk=0, tree=0),),) * len(hosts),
        trees=(tree,),
    )


class SwitchMlOptions(WithWindow):
    """How large the pool is, where sums are completed, and what happens without a switch."""

    root: Literal["switch", "server"] = Field(
        default="switch",
        description="where sums are completed if not all workers' ToRs aggregate, one of switch"
        " (one with INA, to which the others send) or server (as GRID's evaluation runs SwitchML)",
        examples=["server"],
    )

    without_ina: Literal["refuse", "server"] = Field(
        default="refuse",
        description="where no switch sums, one of refuse (the job is not admitted) or server (a"
        " parameter server sums)",
        examples=["refuse"],
    )


SYSTEM = System(
    name="switchml",
    title="SwitchML",
    colour="#ff7f0e",
    marker="v",
    citation="Sapio et al., Scaling Distributed Machine Learning with In-Network Aggregation, "
    "NSDI 2021",
    published=(
        "A job has its own pool of slots, in two versions: the sum of one version is kept while "
        "the other is filled, so that a lost result can be retransmitted.",
        "The window is the pool: a result for a slot releases its next packet. There is no other "
        "congestion control.",
        "The switch multicasts a complete sum to the workers and ignores packets that it has "
        "already summed; workers retransmit identical packets after a timeout.",
        "Racks can be composed into a hierarchy (described, not evaluated).",
        "Where no single switch sees all workers, switches send their sums to a parameter server "
        "(as the evaluation of GRID, ToN 2023, runs SwitchML).",
    ),
    reading=(
        "The root is a switch, and no server is needed: the INA switch above the workers' ToRs "
        "that is nearest to all of them or, without one above, the INA ToR with the most workers; "
        "among equals, jobs that share racks have different roots and links. Other INA switches on "
        "the way sum, too. Workers below other ToRs send to the next of these switches, at the "
        "latest to the root.",
        "With root: server, where not all of the workers' ToRs aggregate, those with INA sum their "
        "racks, and the server sums their streams and those of workers in other racks. The "
        "server's ToR sums its own rack's workers only: a second level in front of a server is "
        "specific to ATP.",
        "Where no switch sums for the job, it is not admitted: its pool is a static part of a "
        "switch's memory. The option without_ina: server lets a server sum instead.",
        "A switch that would have a single child is left out of the tree.",
        "Results that arrive out of order indicate a loss: the packet is retransmitted before the "
        "timeout.",
        "Gradients are int32 from the start: exponents are not exchanged.",
    ),
    servers=(1, 1),
    aggregates=True,
    calibrates="switches",
    carries=True,
    plan=plan,
    fallback={"without_ina": "server"},
    options=SwitchMlOptions,
)

"""NetReduce: switches sum the packets of the hosts' own reliable connections."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from testbed import wire
from testbed.experiment.options import Options
from testbed.plan.program import Plan, SwitchAllReduce
from testbed.protocols.netreduce.protocol import PACKETS
from testbed.protocols.netreduce.protocol import PROTOCOL as NETREDUCE
from testbed.systems import ring
from testbed.systems.racks import root, tree_to
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric

MESSAGES = 2


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """One tree with a switch as its root, or plain ring all-reduce if no switch can sum.

    ValueError if the window does not fit into a switch's memory.
    """
    top = root(job.workers, fabric)
    if top is None:
        return replace(ring.plan(replace(job, options={}), fabric), system="netreduce")
    window, message = job.options.get("window", MESSAGES), job.options.get("message")
    if message and (needed := 2 * window * message) > fabric.slots:
        raise ValueError(
            f"netreduce: found a window of {window} messages of {message} packets, wanted at most "
            f"{fabric.slots // 2} packets in flight, half of a switch's {fabric.slots} slots: a "
            f"slot's last sum is kept while the next is made; lower the option window or "
            f"message, or raise fabric.slots to {needed}"
        )
    return Plan(
        system="netreduce",
        hosts=job.workers,
        workers=len(job.workers),
        chunks=1,
        programs=((SwitchAllReduce(chunk=0, tree=0),),) * len(job.workers),
        trees=(tree_to(top, job.workers, fabric, NETREDUCE),),
    )


class NetReduceOptions(Options):
    """The window, which NetReduce counts in messages."""

    window: int = Field(
        default=MESSAGES,
        ge=1,
        le=wire.LIVE_MESSAGES,
        description=f"the messages in flight, a whole number from 1 to {wire.LIVE_MESSAGES}",
        examples=[MESSAGES],
    )
    message: int | None = Field(
        default=None,
        ge=1,
        description=f"the packets of a message, a whole number of at least 1; unset, {PACKETS}, or"
        " fewer if the queues on the way or the switches' slots hold no more",
        examples=[PACKETS],
    )

    def least_slots(self) -> int:
        """The fewest slots that it needs: two for each packet, because a slot's last sum is kept
        while the next is made. A message of which only the number is set has one packet at least.
        """
        return 2 * self.window * (self.message or 1)


SYSTEM = System(
    name="netreduce",
    title="NetReduce",
    colour="#8c564b",
    marker="p",
    citation="Liu et al., In-Network Aggregation with Transport Transparency for Distributed "
    "Training, ASPLOS 2023; arXiv 2009.09736",
    published=(
        "Switches sum below the transport: hosts keep their RoCE connections, whose "
        "retransmission is used unchanged.",
        "Only the first packet of a message carries the INA header; a table of connections and "
        "the sequence numbers identify the others.",
        f"The window is a number of messages, in the paper {MESSAGES} of {PACKETS} packets, so "
        "that no more packets are in flight than a switch has aggregators.",
        "Hosts form a logical ring of connections, and each packet goes on to its destination "
        "with the sum in it; leaf switches aggregate and a spine merges.",
    ),
    reading=(
        "The paper's text was not available to us, only abstracts and quotations. The last of the "
        "rules above is from memory.",
        "A switch keeps a slot's last sum while it makes the next, so memory is twice the window: "
        "no more packets are in flight than half of its slots. The rule above allows all.",
        "Where the queues on the way hold less than the paper's window, messages have fewer "
        "packets; the option message sets their size.",
        "Workers form the ring in rank order.",
        "For workers in one rack, their ToR is the root. For several racks, the root is the INA "
        "switch above the ToRs that is nearest to all of them; without one, the INA ToR with the "
        "most workers; among equals, jobs that share racks have different roots and links.",
        "Every INA switch on the way to the root merges what passes, so in a fat-tree ToRs, "
        "aggregation switches and a core are three tiers of sums; a switch that would have a "
        "single child is left out. The published fabric has leaves and spines, two tiers.",
        "The published deployment has an FPGA at every leaf. Here workers in a rack without INA, "
        "and workers alone in their rack, address their packets to the next switch that sums.",
        "If neither the workers' ToRs nor a switch above them aggregates, the workers run ring "
        "all-reduce: their connections are a ring.",
        "Lost packets are retransmitted one by one. Many RoCE network cards go back to the first "
        "one that is missing instead.",
        "Values are int32 instead of the paper's floats.",
        "A host has one worker, so there is no reduce-scatter among the processors of a host.",
    ),
    servers=(0, 0),
    aggregates=True,
    plan=plan,
    options=NetReduceOptions,
)

"""One run on the emulated fabric: bring up, run every rank, look at the machine, tear down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from testbed.dataplane.entries import Allocation
from testbed.dataplane.events import Event
from testbed.emulation.capture import Capture
from testbed.emulation.network import EmulationError, Network, SwitchTarget
from testbed.emulation.verdict import Sampler
from testbed.endpoint.crew import Crew
from testbed.endpoint.task import Outcome, Task
from testbed.topology.fabric import Fabric
from testbed.topology.pins import Pins


@dataclass(frozen=True)
class Conditions:
    """What a run is made under.

    ``dilation`` divides rates, ``seed`` is that of ECMP, ``pins`` are flows with a way of their
    own, ``loss`` is the share of packets lost on each host's link, ``captures`` links such as h0-t0
    and the files to which what passes on them is written.
    """

    dilation: float
    seed: int
    pins: Pins = field(default_factory=dict)
    loss: float = 0.0
    captures: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """Outcomes of all ranks in the order of the tasks, and what the machine did meanwhile.

    ``idle`` is the idle share of each second, ``lost`` packets lost per switch other than in a
    full link's queue, ``queue_drops`` those in full queues; ``events`` what all switches counted of
    each job.
    """

    outcomes: list[Outcome]
    idle: list[float]
    lost: Mapping[str, int]
    queue_drops: int
    dead: Mapping[str, str]
    events: Mapping[int, Counter[Event]]


def emulate(
    fabric: Fabric,
    targets: Mapping[str, SwitchTarget],
    allocations: Sequence[Allocation],
    make_tasks: Callable[[Network], Sequence[Task]],
    conditions: Conditions,
    timeout: float,
) -> Observation:
    """Run the tasks on ``fabric`` in Mininet, INA switches on ``targets``, and tear all down.

    ``timeout`` is in seconds of the emulator's clock. Raises RankFailed, or EmulationError, also
    when a switch ends in the middle.
    """
    with Network(
        fabric,
        conditions.dilation,
        targets,
        allocations,
        conditions.seed,
        conditions.pins,
        conditions.loss,
    ) as network:
        tasks = make_tasks(network)
        hosts = [task.plan.hosts[task.rank] for task in tasks]
        namespaces = [network.namespace(host) for host in hosts]
        sampler = Sampler()

        def watch() -> None:
            sampler.sample()
            if dead := network.dead():
                raise EmulationError("; ".join(f"{name}: {why}" for name, why in dead.items()))

        with ExitStack() as stack:
            for link, path in conditions.captures.items():
                stack.enter_context(Capture(network, link, path))
            crew = stack.enter_context(Crew(tasks, namespaces))
            outcomes = crew.run(watch, timeout, started=sampler.start)
            sampler.stop()
        statistics = network.statistics()
        return Observation(
            outcomes=outcomes,
            idle=sampler.idle,
            lost=statistics.lost,
            queue_drops=statistics.queue_drops,
            dead=network.dead(),
            events={job: network.events(job) for job in {each.job for each in allocations}},
        )

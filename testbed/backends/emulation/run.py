"""One run on the emulated fabric: bring up, run every rank, observe the machine, tear down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from testbed.backends.emulation.capture import Capture
from testbed.backends.emulation.faults import Faults
from testbed.backends.emulation.network import EmulationError, Network, Statistics
from testbed.backends.emulation.rates import Port, Rates, ports
from testbed.backends.emulation.sampler import Sampler
from testbed.backends.emulation.switch_target import SwitchTarget
from testbed.backends.links import Shares
from testbed.backends.outages import gone
from testbed.hosts.launcher import Launcher, RankFailed
from testbed.hosts.task import RankOutcome, Task
from testbed.protocols.allocation import Allocation
from testbed.protocols.events import Event
from testbed.topology.fabric import Fabric
from testbed.topology.paths import Routes


@dataclass(frozen=True)
class Conditions:
    """The conditions of a run.

    ``dilation`` divides rates, ``seed`` is that of ECMP, ``routes`` are flows with a path of their
    own, ``loss`` and ``duplication`` are the shares of packets that links lose or deliver twice,
    ``captures`` maps links such as h0-t0 to the files for their packets, ``faults`` happen while
    the ranks run.
    """

    dilation: float
    seed: int
    routes: Routes = field(default_factory=dict)
    loss: Shares = field(default_factory=dict)
    duplication: Shares = field(default_factory=dict)
    captures: Mapping[str, Path] = field(default_factory=dict)
    faults: Faults = field(default_factory=lambda: Faults((), 1.0))


@dataclass(frozen=True)
class Observation:
    """The outcomes of all ranks, in the order of the tasks, and what the machine did meanwhile.

    ``machine`` has the processor shares of each second, ``ports`` how links used their rates, and
    ``packets`` the packet counters while the ranks ran. ``dead`` has the switches that ended, with
    the reason; ``events`` what all switches counted for each job. ``spent_s`` is the processor time
    of all ranks and P4 switches together. ``rank_s`` and ``switch_s`` are the times of the busiest
    thread of any rank, and of any switch. ``superframe`` is how many packets the kernel could carry
    as one. ``notes`` says which faults were caused.
    """

    outcomes: list[RankOutcome]
    machine: Sampler
    ports: Mapping[str, Port]
    packets: Statistics
    dead: Mapping[str, str]
    events: Mapping[int, Counter[Event]]
    spent_s: float
    rank_s: float
    switch_s: float
    superframe: int
    notes: str = ""


def emulate(
    fabric: Fabric,
    targets: Mapping[str, SwitchTarget],
    allocations: Sequence[Allocation],
    make_tasks: Callable[[Network], Sequence[Task]],
    conditions: Conditions,
    timeout: float,
) -> Observation:
    """Run the tasks on ``fabric`` in Mininet, with INA switches on ``targets``, and tear everything
    down.

    ``timeout`` is in seconds on the emulator's clock. Raises RankFailed, or EmulationError, which
    also means that a switch ended during the run.
    """
    with Network(
        fabric,
        conditions.dilation,
        targets,
        allocations,
        conditions.seed,
        conditions.routes,
        conditions.loss,
        conditions.duplication,
        whole_frames=bool(conditions.captures) or conditions.faults.by_packet,
    ) as network:
        tasks = make_tasks(network)
        hosts = [task.plan.hosts[task.rank] for task in tasks]
        namespaces = [network.namespace(host) for host in hosts]
        faults = conditions.faults
        ranks = {host: [i for i, each in enumerate(hosts) if each == host] for host in hosts}
        sampler = Sampler()
        ends = ports(fabric, network.addressing, conditions.dilation, network.superframe)
        rates = Rates(ends, network.queues)

        def start() -> None:
            faults.begin()
            sampler.start()
            rates.start()

        def watch() -> None:
            sampler.sample()
            rates.sample()
            if dead := network.dead():
                raise EmulationError("; ".join(f"{name}: {why}" for name, why in dead.items()))

        with ExitStack() as stack:
            for link, path in conditions.captures.items():
                stack.enter_context(Capture(network, link, path))
            launcher = stack.enter_context(Launcher(tasks, namespaces))
            before = network.statistics()
            spent = _spent(launcher.pids), _spent(network.switch_pids())
            actions = faults.actions(network, launcher, ranks)
            try:
                outcomes = launcher.run(watch, timeout, start, actions)
            except RankFailed as error:
                raise RankFailed(f"{gone(faults.faults, faults.elapsed())}{error}") from None
            sampler.stop()
            rates.stop()
            packets = network.statistics().since(before)
            by_ranks = _since(spent[0], _spent(launcher.pids))
            by_switches = _since(spent[1], _spent(network.switch_pids()))
        # A stopped process is late, and its sockets overflow, however fast the machine is.
        lost = {node: n for node, n in packets.lost.items() if node not in faults.paused}
        packets = replace(packets, lost=lost)
        outcomes = [
            replace(each, late_s=0.0) if host in faults.paused else each
            for host, each in zip(hosts, outcomes, strict=True)
        ]
        return Observation(
            outcomes=outcomes,
            machine=sampler,
            ports=rates.ports,
            packets=packets,
            dead=network.dead(),
            events={job: network.events(job) for job in {each.job for each in allocations}},
            spent_s=sum(by_ranks) + sum(by_switches),
            rank_s=max(by_ranks, default=0.0),
            switch_s=max(by_switches, default=0.0),
            superframe=network.superframe,
            notes=faults.notes,
        )


def _spent(pids: Iterable[int]) -> dict[str, float]:
    """Processor time of each thread of these processes so far, in seconds."""
    found = {}
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # it has just ended
                found[str(path)] = int(path.read_text().split()[0]) / 1e9
    return found


def _since(before: Mapping[str, float], now: Mapping[str, float]) -> list[float]:
    return [spent - before.get(thread, 0.0) for thread, spent in now.items()]

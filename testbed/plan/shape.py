"""Whether what a system returned is a plan of its job at all, before anything follows it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import get_args

from testbed.plan.program import Operation, Plan
from testbed.plan.stages import Stages

MOST_CHUNKS = 1 << 20
_SHOWN = 3
"""So many problems are named; the others are only counted."""
_OPERATIONS = get_args(Operation)
_RANKS = ("to", "source", "server")
"""Fields of operations that are ranks."""


def misshapen(
    plan: object, system: str, workers: Sequence[str], hosts: Collection[str]
) -> str | None:
    """What is wrong with the parts of a plan that ``system`` made for ``workers`` on a fabric of
    ``hosts``: their types, and names and numbers of nothing. None if all is well.

    It takes time for each operation, and is meant for users' systems. Stages are made by this
    package, and are not looked at.
    """
    found = _faults(plan, system, workers, hosts)
    named = [*islice(found, _SHOWN)]
    more = sum(1 for _ in found)
    return "; ".join([*named, *([f"and {more} more"] if more else [])]) or None


def _faults(
    plan: object, system: str, workers: Sequence[str], hosts: Collection[str]
) -> Iterator[str]:
    if not isinstance(plan, Plan):
        yield f"found {plan!r}, wanted a Plan: its function has to return one"
        return
    if plan.system != system:
        yield f"system: found {plan.system!r}, wanted {system!r}"
    if type(plan.chunks) is not int or not 1 <= plan.chunks <= MOST_CHUNKS:
        yield f"chunks: found {plan.chunks!r}, wanted a whole number from 1 to {MOST_CHUNKS}"
        return
    if not isinstance(plan.hosts, tuple | list):
        yield f"hosts: found {plan.hosts!r}, wanted a tuple of hosts"
        return
    if unknown := [each for each in plan.hosts if each not in hosts]:
        yield f"hosts: found {unknown[0]!r}, wanted the name of a host of the fabric"
    if plan.workers != len(workers) or [*plan.hosts[: len(workers)]] != [*workers]:
        yield (
            f"found {plan.workers!r} workers on {', '.join(map(str, plan.hosts[: len(workers)]))},"
            f" wanted the job's {len(workers)} workers as the first ranks, in its order"
        )
    gather = [plan.sharding.gather] if plan.sharding else []
    for programs in (plan.programs, *gather):
        yield from _in_programs(programs, plan)


def _in_programs(programs: object, plan: Plan) -> Iterator[str]:
    if isinstance(programs, Stages):
        return
    if not isinstance(programs, tuple | list):
        yield f"programs: found {programs!r}, wanted a tuple with a program for each rank"
        return
    looked_at: set[int] = set()
    for rank, program in enumerate(programs):
        if not isinstance(program, tuple | list):
            yield f"rank {rank}: found the program {program!r}, wanted a tuple of operations"
            continue
        if id(program) in looked_at:  # ranks with the same program
            continue
        looked_at.add(id(program))
        for operation in program:
            if said := _in_operation(operation, plan):
                yield f"rank {rank}: {said}"


def _in_operation(operation: object, plan: Plan) -> str | None:
    if not isinstance(operation, _OPERATIONS):
        names = ", ".join(each.__name__ for each in _OPERATIONS)
        return f"found {operation!r}, wanted an operation: {names}"
    counts = {"chunk": plan.chunks, "tree": len(plan.trees)}
    counts |= dict.fromkeys(_RANKS, len(plan.hosts))
    for name, count in counts.items():
        if not hasattr(operation, name):
            continue
        number = getattr(operation, name)
        if not count:
            return f"found {operation}, wanted a {name} of the plan, which has none"
        if type(number) is not int or not 0 <= number < count:
            return f"found {operation}, wanted a {name} from 0 to {count - 1}"
    return None

"""Whether what a system returned is a plan of its job at all, before anything follows it."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import get_args

from testbed.plan.faults import listed
from testbed.plan.program import Consistency, Operation, Pipelining, Plan, Sharding
from testbed.plan.stages import Stages
from testbed.plan.trees import Rules, Tree

MOST_CHUNKS = 1 << 20
_SHOWN = 3
"""So many problems are named; the others are only counted."""
_OPERATIONS = get_args(Operation)
_RANKS = ("to", "source", "server")
"""Fields of operations that are ranks."""


def misshapen(
    plan: object,
    system: str,
    workers: Sequence[str],
    hosts: Collection[str],
    aggregating: Collection[str],
) -> str | None:
    """What is wrong with the parts of a plan that ``system`` made for ``workers`` on a fabric of
    ``hosts`` and ``aggregating`` switches: their types, names and numbers of nothing, and trees
    that sum elsewhere. None if all is well.

    It takes time for each operation, and is meant for users' systems. Stages are made by this
    package, and are not looked at.
    """
    return listed(_faults(plan, system, workers, hosts, aggregating), _SHOWN) or None


def _faults(
    plan: object,
    system: str,
    workers: Sequence[str],
    hosts: Collection[str],
    aggregating: Collection[str],
) -> Iterator[str]:
    if not isinstance(plan, Plan):
        yield f"found {reprlib.repr(plan)}, wanted a Plan: its function has to return one"
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
    yield from _in_fields(plan)
    yield from _in_trees(plan, hosts, aggregating)
    if isinstance(plan.trees, tuple | list):
        gather = [plan.sharding.gather] if isinstance(plan.sharding, Sharding) else []
        for programs in (plan.programs, *gather):
            yield from _in_programs(programs, plan)


def _in_fields(plan: Plan) -> Iterator[str]:
    shares, sent, deferred = plan.shares, plan.sent, plan.deferred
    if shares is not None:
        if not isinstance(shares, tuple | list) or len(shares) != plan.chunks:
            yield f"shares: found {shares!r}, wanted None or one for each of {plan.chunks} chunks"
        elif wrong := [each for each in shares if not _is_share(each)]:
            yield f"shares: found {wrong[0]!r}, wanted a Fraction from 0 to 1"
    if not isinstance(deferred, frozenset | set) or not all(map(_is_count, deferred)):
        yield f"deferred: found {deferred!r}, wanted a set of numbers of tensors"
    if isinstance(sent, bool) or not isinstance(sent, int | float) or not 0 < sent <= 1:
        yield f"sent: found {sent!r}, wanted a share more than 0 and at most 1"
    if not isinstance(plan.consistency, Consistency | None):
        yield f"consistency: found {plan.consistency!r}, wanted None or a Consistency"
    if not isinstance(plan.sharding, Sharding | None):
        yield f"sharding: found {plan.sharding!r}, wanted None or a Sharding"
    yield from _in_pipelining(plan.pipelining)
    yield from _in_routes(plan.routes)


def _is_count(number: object) -> bool:
    return type(number) is int and number >= 0


def _is_share(share: object) -> bool:
    return isinstance(share, int | Fraction) and 0 <= share <= 1


def _in_pipelining(pipelining: object) -> Iterator[str]:
    if not isinstance(pipelining, Pipelining):
        yield f"pipelining: found {pipelining!r}, wanted a Pipelining"
        return
    for name in ("partition", "credit"):
        number = getattr(pipelining, name)
        if number is not None and (type(number) is not int or number < 1):
            yield (
                f"pipelining: found {name}={number!r}, wanted None or a whole number of at least 1"
            )
    if pipelining.order not in ("backward", "priority"):
        yield f"pipelining: found order={pipelining.order!r}, wanted 'backward' or 'priority'"


def _in_routes(routes: object) -> Iterator[str]:
    if not isinstance(routes, Mapping):
        yield f"routes: found {routes!r}, wanted a dict of flows and the nodes of their paths"
        return
    for flow, route in routes.items():
        if not (_are_names(flow) and len(flow) == 2 and _are_names(route)):
            yield (
                f"routes: found {flow!r}: {route!r}, wanted (source, destination): a tuple of the"
                " nodes on the path"
            )


def _are_names(names: object) -> bool:
    return isinstance(names, tuple | list) and all(isinstance(each, str) for each in names)


def _in_trees(plan: Plan, hosts: Collection[str], aggregating: Collection[str]) -> Iterator[str]:
    if not isinstance(plan.trees, tuple | list):
        yield f"trees: found {plan.trees!r}, wanted a tuple of trees"
        return
    for index, tree in enumerate(plan.trees):
        if isinstance(tree, Tree):
            for said in _in_tree(tree, len(plan.hosts), hosts, aggregating):
                yield f"tree {index}: {said}"
        else:
            yield f"tree {index}: found {tree!r}, wanted a Tree"


def _in_tree(
    tree: Tree, ranks: int, hosts: Collection[str], aggregating: Collection[str]
) -> Iterator[str]:
    if not isinstance(tree.protocol, Rules):
        yield f"found protocol {tree.protocol!r}, wanted the PROTOCOL of one in testbed.protocols"
    if type(tree.turn) is not int:
        yield f"found turn {tree.turn!r}, wanted a whole number"
    if tree.root_rank is not None and not (_is_count(tree.root_rank) and tree.root_rank < ranks):
        yield f"found root_rank {tree.root_rank!r}, wanted None or a rank from 0 to {ranks - 1}"
    if not isinstance(tree.rank_of, Mapping) or not tree.rank_of:
        yield f"found rank_of {tree.rank_of!r}, wanted a dict with the rank of each member's host"
        return
    for host, rank in tree.rank_of.items():
        if not (_is_count(rank) and rank < ranks):
            yield f"found rank {rank!r} for {host!r}, wanted a rank from 0 to {ranks - 1}"
    if not isinstance(tree.parent, Mapping):
        yield f"found parent {tree.parent!r}, wanted a dict with the parent of each node"
        return
    sums = dict.fromkeys(tree.parent.values())
    if tree.root_rank is None:
        sums[tree.root] = None
    else:
        sums.pop(tree.root, None)
    for node in sums:
        if node not in aggregating:
            yield f"found {node!r} as a node that sums, wanted a switch with INA (see fabric.ina)"
    ends = [*tree.rank_of] if tree.root_rank is None else [*tree.rank_of, tree.root]
    if unknown := [each for each in ends if each not in hosts]:
        yield f"found {unknown[0]!r}, wanted the name of a host of the fabric"
    if strangers := [each for each in tree.parent if each not in tree.rank_of and each not in sums]:
        yield f"found {strangers[0]!r} with a parent, wanted members and switches that sum"


def _in_programs(programs: object, plan: Plan) -> Iterator[str]:
    if isinstance(programs, Stages):
        return
    if not isinstance(programs, tuple | list):
        yield f"programs: found {programs!r}, wanted a tuple with a program for each rank"
        return
    if len(programs) != len(plan.hosts):
        yield f"programs: found {len(programs)}, wanted one for each of {len(plan.hosts)} ranks"
    partners: dict[int, set[int]] = {}  # by program: several ranks may have the same
    for rank, program in enumerate(programs):
        if not isinstance(program, tuple | list):
            yield f"rank {rank}: found the program {program!r}, wanted a tuple of operations"
            continue
        if id(program) not in partners:
            partners[id(program)] = set()
            for operation in program:
                named = (getattr(operation, name, None) for name in _RANKS)
                partners[id(program)].update(other for other in named if type(other) is int)
                if said := _in_operation(operation, plan):
                    yield f"rank {rank}: {said}"
        if rank in partners[id(program)]:
            yield f"rank {rank}: found a transfer from or to itself, wanted one of other ranks"


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
            return f"found {operation}, wanted {name} from 0 to {count - 1}"
    return None

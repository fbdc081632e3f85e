"""Finds the wide metadata that must be zero when a packet arrives.

Metadata is zero when a packet arrives, but clearing a kilobyte for every packet would cost more
than the rest of most packets' processing. Only fields that some path reads before it has written
them must be cleared.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.switches.native.expression import (
    Choice,
    Element,
    Field,
    Operation,
    Read,
    SameHeader,
    Valid,
)
from testbed.switches.native.program import (
    Action,
    Advance,
    Assign,
    Calculation,
    Conditional,
    Pipeline,
    Primitive,
    Program,
    Table,
    Verify,
)

# Primitives that always write all of their first argument
_WRITES = frozenset({"assign", "register_read", "modify_field_with_hash_based_offset"})


def read_before_written(program: Program) -> frozenset[Field]:
    """The wide fields that a packet may read before anything has written them."""
    early = set(_listed(program))
    for state in program.states.values():
        for op in state.ops:
            for part in _operands(op):
                early.update(_fields(part))
        for part in state.key:
            early.update(_fields(part))
    for checksum in program.checksums:
        if checksum.verify:
            early.update(_fields(checksum.calculation))
            early.update(_fields(checksum.condition))
    written = _pipeline(program.ingress, frozenset(), early)
    _egress(program, written, early)
    return frozenset(field for field in early if field.wide)


def carried_to_egress(program: Program) -> frozenset[Field]:
    """The wide fields that egress, or what follows it, may read before writing them."""
    early = set(_listed(program))
    _egress(program, frozenset(), early)
    return frozenset(field for field in early if field.wide)


def fields_read(program: Program) -> frozenset[Field]:
    """Every field whose value the program may use."""
    read = set(_listed(program))
    for state in program.states.values():
        for piece in state.key:
            read.update(_fields(piece))
    for op in program.operations():
        for part in _operands(op):
            read.update(_fields(part))
    for pipeline in (program.ingress, program.egress):
        for node in pipeline.nodes.values():
            if isinstance(node, Conditional):
                read.update(_fields(node.expression))
            else:
                for key in node.keys:
                    read.update(_fields(key.value))
    for calculation in program.calculations:
        read.update(_fields(calculation))
    for checksum in program.checksums:
        read.update(_fields(checksum.condition))
    return frozenset(read)


def _listed(program: Program) -> Iterator[Field]:
    """Fields that a clone, or a resubmitted or recirculated packet, keeps."""
    for fields in program.field_lists.values():
        yield from fields


def _egress(program: Program, written: frozenset[Field], early: set[Field]) -> None:
    written = _pipeline(program.egress, written, early)
    for checksum in program.checksums:
        early.update(set(_fields(checksum.calculation)) - written)
        early.update(set(_fields(checksum.condition)) - written)


def _pipeline(pipeline: Pipeline, written: frozenset[Field], early: set[Field]) -> frozenset[Field]:
    """Records early reads; returns the fields that every path through the pipeline writes."""
    arriving: dict[str | None, frozenset[Field]] = {pipeline.first: written}

    def leave(to: str | None, having: frozenset[Field]) -> None:
        arriving[to] = arriving[to] & having if to in arriving else having

    for name in pipeline.order():
        node = pipeline.nodes[name]
        here = arriving[name]
        if isinstance(node, Conditional):
            early.update(set(_fields(node.expression)) - here)
            leave(node.if_true, here)
            leave(node.if_false, here)
            continue
        for key in node.keys:
            early.update(set(_fields(key.value)) - here)
        if node.default is None:
            leave(node.after_miss, here)
        for action in _actions(node):
            after = _action(action, here, early)
            if any(p.op == "exit" for p in action.primitives):
                leave(None, after)
            if node.after_action is not None:
                leave(node.after_action.get(action.name, node.after_miss), after)
            else:
                leave(node.after_hit, after)
                leave(node.after_miss, after)
    return arriving.get(None, written)


def _actions(table: Table) -> tuple[Action, ...]:
    if table.default is not None and table.default.action not in table.actions:
        return (*table.actions, table.default.action)
    return table.actions


def _action(action: Action, written: frozenset[Field], early: set[Field]) -> frozenset[Field]:
    jumps = any(p.op in ("_jump", "_jump_if_zero") for p in action.primitives)
    for primitive in action.primitives:
        for operand in _operands(primitive):
            early.update(set(_fields(operand)) - written)
        target = primitive.arguments[0] if primitive.arguments else None
        if primitive.op in _WRITES and isinstance(target, Read) and not jumps:
            written |= {target.field}
    return written


def _operands(op: object) -> Iterator[object]:
    """The operands that an operation reads; a field that it writes is left out."""
    match op:
        case Assign(target, value):
            yield from (target.where, value)
        case Verify(condition, error):
            yield from (condition, error)
        case Advance(bits):
            yield bits
        case Primitive(name, arguments):
            if name in _WRITES and isinstance(arguments[0], Read):
                yield arguments[0].where
                yield from arguments[1:]
            else:
                yield from arguments


def _fields(part: object) -> Iterator[Field]:
    """The fields that an expression, or another operand, depends on."""
    match part:
        case Read(where, field):
            yield field
            yield from _fields(where)
        case Element(_, index):
            yield from _fields(index)
        case Choice(condition, left, right):
            yield from (*_fields(condition), *_fields(left), *_fields(right))
        case Valid(where):
            yield from _fields(where)
        case SameHeader(left, right):
            yield from (*_fields(left), *_fields(right))
        case Operation(_, operands):
            for operand in operands:
                yield from _fields(operand)
        case Calculation(inputs=inputs):
            for piece in inputs:
                yield from _fields(piece)
        case _:
            return

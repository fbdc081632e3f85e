"""Reads the operands of BMv2's JSON: fields, headers, constants and the expressions over them."""

from __future__ import annotations

from typing import Any

from testbed.switches.native.expression import (
    COMPARISONS,
    Bool,
    Choice,
    Const,
    Element,
    Expression,
    Header,
    Instance,
    Last,
    LastIndex,
    Operation,
    Parameter,
    Read,
    SameHeader,
    Stack,
    Valid,
    Where,
    header_of,
)
from testbed.switches.native.program import Argument, Calculation, Counter, Meter, Register

Json = dict[str, Any]

_UNARY = frozenset({"~", "not", "d2b", "b2d"})
_BINARY = COMPARISONS | {"+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "and", "or"}
_BINARY |= {"two_comp_mod", "sat_cast", "usat_cast"}
_ALGORITHMS = frozenset(
    {"csum16", "crc16", "crc16_custom", "crc32", "crc32_custom", "crcCCITT", "xor16", "xor32"}
    | {"identity"}
)
_DEREFERENCES = frozenset({"dereference_header_stack", "dereference_stack"})


def number(text: str | int) -> int:
    return text if isinstance(text, int) else int(text, 16)


def position(item: Json) -> str:
    """A position in the P4 program, ``file:line:column``, or empty if the JSON has none."""
    info = item.get("source_info") or {}
    if "line" not in info:
        return ""
    return f"{info['filename']}:{info['line']}:{info['column'] + 1}"


class Operands:
    """The names that a program declares, and the operands that refer to them.

    ``problems`` collects unsupported features.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.headers: dict[str, Header] = {}
        self.stacks: dict[str, Stack] = {}
        self.registers: dict[str, Register] = {}
        self.counters: dict[str, Counter] = {}
        self.meters: dict[str, Meter] = {}
        self.calculations: dict[str, Calculation] = {}
        self.parameters: tuple[Parameter, ...] = ()  # of the action being read
        self.at = ""  # position of what is being read

    def refuse(self, what: str, item: Json | None = None) -> None:
        at = (position(item) if item is not None else "") or self.at
        problem = f"{at}: {what}" if at else what
        if problem not in self.problems:
            self.problems.append(problem)

    def field(self, header_name: str, field_name: str) -> Expression:
        where = Instance(self.headers[header_name])
        if field_name == "$valid$":
            return Operation("b2d", (Valid(where),))
        if field_name not in where.header.fields:  # a varbit, refused already
            return Const(0)
        return Read(where, where.header.fields[field_name])

    def where(self, item: Json) -> Where:
        item = _unwrapped(item)
        if item["type"] == "header":
            return Instance(self.headers[item["value"]])
        value = item["value"]
        if item["type"] == "expression" and value["op"] in _DEREFERENCES:
            stack = self.stacks[value["left"]["value"]]
            return Element(stack, self.expression(value["right"]))
        if item["type"] == "expression" and value["op"] == "?":
            condition = self.expression(value["cond"])
            return Choice(condition, self.where(value["left"]), self.where(value["right"]))
        self.refuse(f"header given by {item['type']} {value}")
        return Instance(next(iter(self.headers.values())))

    def expression(self, item: Json) -> Expression:
        kind, value = item["type"], item["value"]
        if kind == "expression":
            return self.expression(value) if "type" in value else self.operation(value)
        if kind == "field":
            return self.field(*value)
        if kind == "hexstr":
            return Const(number(value))
        if kind == "bool":
            return Bool(value)
        if kind in ("runtime_data", "local"):
            return self.parameters[value]
        if kind == "stack_field":
            where = Last(self.stacks[value[0]])
            fields = header_of(where).fields
            if value[1] in fields:
                return Read(where, fields[value[1]])
            self.refuse(f"{value[0]}.{value[1]} as a whole header")
            return Const(0)
        self.refuse(f"{kind} in an expression")
        return Const(0)

    def operation(self, value: Json) -> Expression:
        op, left, right = value["op"], value["left"], value["right"]
        if op == "?":
            parts = (value["cond"], left, right)
            return Operation("?", tuple(self.expression(part) for part in parts))
        if op == "valid":
            return Valid(self.where(right))
        if op == "access_field":
            where = self.where(left)
            fields = list(header_of(where).fields.values())
            if right == len(fields):  # the hidden validity bit comes last
                return Operation("b2d", (Valid(where),))
            return Read(where, fields[right])
        if op == "last_stack_index":
            return LastIndex(self.stacks[right["value"]])
        if op == "size_stack":
            return Operation("+", (LastIndex(self.stacks[right["value"]]), Const(1)))
        if op in ("==", "!=") and _is_header(left):
            same = SameHeader(self.where(left), self.where(right))
            return same if op == "==" else Operation("not", (same,))
        if op in _UNARY:
            return Operation(op, (self.expression(right),))
        if op in _BINARY:
            return Operation(op, (self.expression(left), self.expression(right)))
        self.refuse(f"operation {op}")
        return Const(0)

    def argument(self, item: Json) -> Argument:
        kind, value = item["type"], item["value"]
        if kind == "header_stack":
            return self.stacks[value]
        if kind == "register_array":
            return self.registers[value]
        if kind == "counter_array":
            return self.counters[value]
        if kind == "meter_array":
            return self.meters[value]
        if kind == "calculation":
            return self.supported(self.calculations[value])
        return self.where(item) if _is_header(item) else self.expression(item)

    def supported(self, calculation: Calculation) -> Calculation:
        if calculation.algorithm not in _ALGORITHMS:
            self.refuse(f"hash algorithm {calculation.algorithm}")
        return calculation


def _unwrapped(item: Json) -> Json:
    """The expression without the others into which p4c wraps it."""
    while item["type"] == "expression" and "type" in item["value"]:
        item = item["value"]
    return item


def _is_header(item: Json) -> bool:
    item = _unwrapped(item)
    if item["type"] != "expression":
        return bool(item["type"] == "header")
    value = item["value"]
    return value["op"] in _DEREFERENCES or (value["op"] == "?" and _is_header(value["left"]))

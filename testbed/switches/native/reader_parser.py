"""Reads the actions and the parser of BMv2's JSON."""

from __future__ import annotations

from testbed.switches.native.expression import Const, Expression, Parameter, Read
from testbed.switches.native.operands import Json, Operands, number, position
from testbed.switches.native.program import (
    Action,
    Advance,
    Assign,
    Case,
    Extract,
    Lookahead,
    ParserOp,
    Primitive,
    State,
    Verify,
)

_PRIMITIVES = frozenset(
    {
        *("assign", "assign_header", "assign_header_stack", "add_header", "remove_header"),
        *("push", "pop", "drop", "mark_to_drop", "exit", "no_op"),
        *("register_read", "register_write", "count", "modify_field_rng_uniform"),
        *("modify_field_with_hash_based_offset", "_jump", "_jump_if_zero"),
        *("clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress", "resubmit", "recirculate"),
        *("truncate", "assert", "assume", "execute_meter"),
    }
)
_IN_P4 = {  # names of primitives where P4 has another
    "generate_digest": "digest()",
    "assign_VL": "assignment of a varbit",
    "assign_union": "assignment of a header union",
    "assign_union_stack": "assignment of a stack of header unions",
}


class States(Operands):
    def primitive(self, item: Json) -> Primitive:
        op = item["op"]
        self.at = position(item)
        if op == "log_msg":
            return Primitive("no_op", (), self.at)
        if op not in _PRIMITIVES:
            self.refuse(_IN_P4.get(op, str(op)))
            return Primitive("no_op", (), self.at)
        arguments = tuple(self.argument(p) for p in item["parameters"])
        read = Primitive(op, arguments, self.at)
        self.at = ""
        return read

    def action(self, item: Json) -> Action:
        parameters: list[Parameter] = []
        word = 0
        for index, parameter in enumerate(item["runtime_data"]):
            parameters.append(Parameter(index, parameter["bitwidth"], word))
            word += -(-parameter["bitwidth"] // 64)
        self.parameters = tuple(parameters)
        primitives = tuple(self.primitive(p) for p in item["primitives"])
        self.parameters = ()
        return Action(item["name"], item["id"], tuple(parameters), primitives)

    def state(self, item: Json) -> State:
        self.at = f"parser state {item['name']}"
        key: list[Expression | Lookahead] = []
        widths: list[int] = []
        for part in item["transition_key"]:
            if part["type"] == "lookahead":
                look = Lookahead(*part["value"])
                key.append(look)
                widths.append(look.width)
            elif part["type"] in ("field", "stack_field"):
                value = self.expression(part)
                key.append(value)
                widths.append(value.field.width if isinstance(value, Read) else 1)
            else:
                self.refuse(f"select over {part['type']}")
        cases: list[Case] = []
        default = None
        for transition in item["transitions"]:
            if transition["type"] == "default":
                default = transition["next_state"]
            elif transition["type"] == "hexstr":
                mask = transition["mask"]
                cases.append(
                    Case(
                        _split(number(transition["value"]), widths),
                        None if mask is None else _split(number(mask), widths),
                        transition["next_state"],
                    )
                )
            else:
                self.refuse("select over a value set")
        ops = tuple(self.parser_op(op) for op in item["parser_ops"])
        self.at = ""
        return State(item["name"], ops, tuple(key), tuple(cases), default)

    def parser_op(self, item: Json) -> ParserOp:
        op, parameters = item["op"], item["parameters"]
        if op == "extract" and parameters[0]["type"] == "regular":
            return Extract(self.headers[parameters[0]["value"]])
        if op == "extract" and parameters[0]["type"] == "stack":
            return Extract(self.stacks[parameters[0]["value"]])
        if op == "set":
            target = self.expression(parameters[0])
            if isinstance(target, Read):
                if parameters[1]["type"] == "lookahead":
                    return Assign(target, Lookahead(*parameters[1]["value"]))
                return Assign(target, self.expression(parameters[1]))
        if op == "verify":
            return Verify(self.expression(parameters[0]), self.expression(parameters[1]))
        if op == "advance":
            return Advance(self.expression(parameters[0]))
        if op == "shift":
            return Advance(Const(8 * parameters[0]))
        if op == "primitive":
            at, primitive = self.at, self.primitive(parameters[0])
            self.at = at
            return primitive
        if op == "extract_VL":
            self.refuse("extract of a header with a varbit field")
        else:
            self.refuse(f"{op} of {parameters[0].get('type', 'this kind')}")
        return Advance(Const(0))


def _split(value: int, widths: list[int]) -> tuple[int, ...]:
    """Splits a select value into its fields, each of which p4c has padded to whole bytes."""
    parts: list[int] = []
    for width in reversed(widths):
        size = 8 * -(-width // 8)
        parts.append(value & (1 << size) - 1)
        value >>= size
    return tuple(reversed(parts))

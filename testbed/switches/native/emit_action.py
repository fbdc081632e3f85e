"""Emits a C function per action."""

from __future__ import annotations

import json
from collections.abc import Callable

from testbed.switches.native.emit_hash import function_of as hash_function
from testbed.switches.native.emit_wide import Expressions
from testbed.switches.native.expression import (
    Choice,
    Const,
    Expression,
    Instance,
    Last,
    Operation,
    Read,
    Stack,
    Where,
    header_of,
)
from testbed.switches.native.layout import Code, Layout, identifier
from testbed.switches.native.program import (
    DROP_PORT,
    Action,
    Calculation,
    Counter,
    Meter,
    Primitive,
    Register,
)

SIGNATURE = "struct state *s, struct wide *w, const uint64_t *data"


def function_of(action: Action) -> str:
    return f"action_{action.id}_{identifier(action.name)}"


def register_array(register: Register) -> str:
    return f"register_{register.index}_{identifier(register.name)}"


def metered(meter: Meter) -> str:
    """The amount that a packet takes from the meter's buckets."""
    return "s->received" if meter.bytes else "1"


def exits(action: Action) -> bool:
    return any(p.op == "exit" for p in action.primitives)


class Actions:
    def __init__(self, code: Code, layout: Layout, problems: list[str]) -> None:
        self.code = code
        self.layout = layout
        self.expressions = Expressions(code, layout, problems)
        self.primitives: dict[str, Callable[..., None]] = {
            "assign": self.assign,
            "assign_header": self.assign_header,
            "assign_header_stack": self.assign_stack,
            "add_header": self.add_header,
            "remove_header": self.remove_header,
            "push": self.push,
            "pop": self.pop,
            "drop": self.drop,
            "mark_to_drop": self.drop,
            "exit": lambda: self.code("s->exit = true;"),
            "no_op": lambda *_: None,
            "register_read": self.register_read,
            "register_write": self.register_write,
            "count": self.count,
            "execute_meter": self.meter,
            "modify_field_rng_uniform": self.random,
            "modify_field_with_hash_based_offset": self.hash,
            "clone_ingress_pkt_to_egress": self.clone,
            "clone_egress_pkt_to_egress": self.clone,
            "resubmit": lambda fields: self.again("resubmit", fields),
            "recirculate": lambda fields: self.again("recirculate", fields),
            "truncate": self.truncate,
            "assert": self.claim,
            "assume": self.claim,
        }

    def action(self, action: Action) -> None:
        with self.code.block(f"INLINE void {function_of(action)}({SIGNATURE})"):
            targets = {
                p.arguments[-1].value
                for p in action.primitives
                if p.op in ("_jump", "_jump_if_zero") and isinstance(p.arguments[-1], Const)
            }
            for index, primitive in enumerate(action.primitives):
                if index in targets:
                    self.code(f"step_{index}:;")
                self.primitive(primitive)
            for target in targets:
                if target >= len(action.primitives):
                    self.code(f"step_{target}:;")

    def primitive(self, primitive: Primitive) -> None:
        if primitive.op == "_jump":
            (target,) = primitive.arguments
            assert isinstance(target, Const)
            self.code(f"goto step_{target.value};")
        elif primitive.op == "_jump_if_zero":
            condition, target = primitive.arguments
            assert isinstance(target, Const)
            holds = self.expressions.boolean(Operation("d2b", (condition,)))  # type: ignore[arg-type]
            self.code(f"if (!{holds})")
            self.code(f"    goto step_{target.value};")
        else:
            with self.code.block(""):
                self.expressions.at = primitive.at
                self.primitives[primitive.op](*primitive.arguments)

    # Headers

    def slot(self, where: Where) -> str:
        """The address, in C, of the pointer to a header's image."""
        if isinstance(where, Instance):
            return f"&{self.layout.slot(where.header)}"
        assert not isinstance(where, Choice)
        stack = where.stack
        if isinstance(where, Last):
            index = f"(uint64_t)s->next[{stack.index}] - 1"
        else:
            index = self.expressions.scalar(where.index)
        return f"element_slot({self.layout.first(stack)}, {len(stack.headers)}, {index})"

    def assign(self, target: Expression, value: Expression) -> None:
        if isinstance(target, Read):
            self.expressions.assign(target, value)
        else:
            self.expressions.refuse("assignment to something other than a field")

    def assign_header(self, target: Where, source: Where) -> None:
        size = header_of(target).bytes
        image = self.expressions.image(source)
        self.code(f"header_copy({self.slot(target)}, {image}, {size});")

    def assign_stack(self, target: Stack, source: Stack) -> None:
        for to, origin in zip(target.headers, source.headers, strict=True):
            self.assign_header(Instance(to), Instance(origin))
        self.code(f"s->next[{target.index}] = s->next[{source.index}];")

    def add_header(self, where: Where) -> None:
        size = header_of(where).bytes
        self.code(f"if (header_add({self.slot(where)}, {size}))")
        self.code(f"    s->length += {size};")

    def remove_header(self, where: Where) -> None:
        self.code(f"if (header_remove({self.slot(where)}))")
        self.code(f"    s->length -= {header_of(where).bytes};")

    def shift(self, function: str, stack: Stack, count: Expression) -> None:
        first, size = self.layout.first(stack), len(stack.headers)
        amount = self.expressions.scalar(count)
        self.code(f"{function}({first}, {size}, {amount}, &s->next[{stack.index}]);")

    def push(self, stack: Stack, count: Expression) -> None:
        self.shift("stack_push", stack, count)

    def pop(self, stack: Stack, count: Expression) -> None:
        self.shift("stack_pop", stack, count)

    def drop(self, metadata: Instance | None = None) -> None:
        """Marks the packet as dropped: in the standard metadata, or in the copy that a block with a
        parameter works on."""
        for name, value in (("egress_spec", DROP_PORT), ("mcast_grp", 0)):
            field = self.layout.program.standard(name)
            if metadata is not None:
                field = metadata.header.fields.get(name)
            if field is not None:
                self.code(f"{self.layout.member(field)} = {value};")

    # The packet's fate: requested here, carried out by pipeline.h

    def clone(self, session: Expression, fields: Expression) -> None:
        """Requests a clone. Sessions have 15 bits; the bit above them says that there is one."""
        self.code(f"s->clone = ({self.expressions.scalar(session)} & 0x7fff) | 0x8000;")
        self.code(f"s->clone_list = (unsigned)({self.expressions.scalar(fields)});")

    def again(self, member: str, fields: Expression) -> None:
        self.code(f"s->{member} = (unsigned)({self.expressions.scalar(fields)});")

    def truncate(self, length: Expression) -> None:
        self.code(f"const size_t limit = {self.expressions.scalar(length)};")
        self.code("s->limit = limit < s->limit ? limit : s->limit;")

    def claim(self, holds: Expression) -> None:
        """Emits an assert or assume. The switch aborts if it is false, as BMv2 does."""
        text = json.dumps(f"{self.expressions.at}: assertion failed")
        self.code(f"if (!{self.expressions.boolean(holds)})")
        self.code(f"    claim_failed({text});")

    # State that outlives the packet

    def register_read(self, target: Expression, register: Register, index: Expression) -> None:
        """Emits the read of a cell. A cell outside the array reads as 0; in BMv2 it is
        undefined."""
        assert isinstance(target, Read)
        array, code = register_array(register), self.code
        code(f"const uint32_t at = (uint32_t){self.expressions.scalar(index)};")
        if register.wide:
            code(f"const uint8_t *const cell = at < {register.size} ? {array}[at] : zeros;")
            self.expressions.store_wide(target, "cell", register.limbs)
        else:
            fits = register.width <= target.field.width
            value = f"at < {register.size} ? {array}[at] : 0"
            code(f"const uint64_t cell = {value};")
            self.expressions.store(target, "cell", fits)

    def register_write(self, register: Register, index: Expression, value: Expression) -> None:
        array, code = register_array(register), self.code
        code(f"const uint32_t at = (uint32_t){self.expressions.scalar(index)};")
        with code.block(f"if (at < {register.size})"):
            if register.wide:
                self.expressions.wide_into(value, register.limbs, f"{array}[at]")
                if register.width % 64:
                    code(
                        f"set_limb({array}[at], 0, "
                        f"limb({array}[at], 0) & ones({register.width % 64}));"
                    )
            else:
                cell = f"({self.expressions.scalar(value)}) & ones({register.width})"
                code(f"{array}[at] = {cell};")

    def count(self, counter: Counter, index: Expression) -> None:
        self.code(f"const uint32_t at = (uint32_t){self.expressions.scalar(index)};")
        with self.code.block(f"if (at < {counter.size})"):
            self.code(f"counter_{counter.index}[at].packets++;")
            self.code(f"counter_{counter.index}[at].bytes += s->received;")

    def meter(self, meter: Meter, index: Expression, target: Expression) -> None:
        assert isinstance(target, Read)
        self.code(f"const uint32_t at = (uint32_t){self.expressions.scalar(index)};")
        with self.code.block(f"if (at < {meter.size})"):
            colour = f"meter_execute(&meter_{meter.index}[at], {metered(meter)}, now)"
            self.expressions.store(target, colour)

    # Computed values

    def random(self, target: Expression, low: Expression, high: Expression) -> None:
        assert isinstance(target, Read)
        self.code(f"const uint64_t low = {self.expressions.scalar(low)};")
        self.code(f"const uint64_t high = {self.expressions.scalar(high)};")
        with self.code.block("if (low <= high)"):
            self.expressions.store(target, "random_between(low, high)")

    def hash(
        self, target: Expression, base: Expression, calculation: Calculation, size: Expression
    ) -> None:
        assert isinstance(target, Read)
        self.code(f"const uint64_t size = {self.expressions.scalar(size)};")
        hashed = f"{hash_function(calculation)}(s, w)"
        value = f"{hashed} % (size ? size : 1) + {self.expressions.scalar(base)}"
        self.expressions.store(target, value)

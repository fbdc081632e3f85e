"""Emits the parser: a label per state, and a jump per transition."""

from __future__ import annotations

from testbed.switches.native.emit_action import Actions
from testbed.switches.native.emit_hash import function_of as hash_function
from testbed.switches.native.expression import LIMB, Expression, Read, Stack, bounds
from testbed.switches.native.layout import Code, Layout, identifier
from testbed.switches.native.program import (
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

_MAX_STEPS = 4096  # jumps backwards; a parser that consumes nothing must end, too


class Parser:
    def __init__(self, code: Code, layout: Layout, actions: Actions) -> None:
        self.code = code
        self.layout = layout
        self.actions = actions
        self.expressions = actions.expressions

    def parser(self) -> None:
        code, program = self.code, self.layout.program
        order = self.order()
        with code.block("INLINE void parse(struct state *s, struct wide *w)"):
            code("(void)w;")
            code("unsigned steps = 0;")
            code(f"uint64_t error = {program.errors.get('NoError', 0)};")
            self.jump(program.first_state, order, -1)
            for position, name in enumerate(order):
                self.state(program.states[name], order, position)
            code.depth -= 1
            code("parsed:;")
            code.depth += 1
            code("(void)steps;")
            field = program.standard("parser_error")
            code(f"{self.layout.member(field)} = error;" if field else "(void)error;")
            for checksum in program.checksums:
                field = program.standard("checksum_error")
                if checksum.verify and field is not None:
                    hashed = f"{hash_function(checksum.calculation)}(s, w)"
                    holds = ""
                    if checksum.condition is not None:
                        holds = f" && {self.expressions.boolean(checksum.condition)}"
                    image = self.expressions.image(checksum.target.where)
                    found = self.expressions.scalar(checksum.target)
                    code(f"if ({image} != zeros{holds} && {hashed} != {found})")
                    code(f"    {self.layout.member(field)} = 1;")
        code("")

    def order(self) -> list[str]:
        """Reachable states; without loops in the parser, each comes before those that follow it."""
        program = self.layout.program
        seen: list[str] = []
        visited: set[str] = set()

        def visit(name: str | None) -> None:
            if name is None or name in visited:
                return
            visited.add(name)
            state = program.states[name]
            for following in (state.default, *(case.next for case in reversed(state.cases))):
                visit(following)
            seen.append(name)

        visit(program.first_state)
        return seen[::-1]

    def fail(self, error: str) -> None:
        value = self.layout.program.errors.get(error, 1)
        self.code(f"    {{ error = {value}; goto parsed; }}")

    def jump(self, name: str | None, order: list[str], position: int) -> None:
        if name is None:
            self.code("goto parsed;")
            return
        if order.index(name) <= position:
            self.code(f"if (++steps > {_MAX_STEPS})")
            self.fail("ParserTimeout")
        self.code(f"goto state_{identifier(name)};")

    def state(self, state: State, order: list[str], position: int) -> None:
        code = self.code
        code.depth -= 1
        code(f"state_{identifier(state.name)}:;")
        code.depth += 1
        with code.block(""):
            for op in state.ops:
                self.op(op)
            words = self.key(state)
            for case in state.cases:
                with code.block(f"if ({self.condition(state, case, words)})"):
                    self.jump(case.next, order, position)
            self.jump(state.default, order, position)

    def op(self, op: ParserOp) -> None:
        code = self.code
        match op:
            case Extract(Stack() as stack):
                first, size, header = self.layout.first(stack), len(stack.headers), stack.headers[0]
                code(f"if (s->next[{stack.index}] >= {size})")
                self.fail("StackOutOfBounds")
                self.need(str(header.bytes))
                code(f"{first}[s->next[{stack.index}]++] = s->cursor;")
                code(f"s->cursor += {header.bytes};")
            case Extract(header):
                assert not isinstance(header, Stack)
                self.need(str(header.bytes))
                code(f"{self.layout.slot(header)} = s->cursor;")
                code(f"s->cursor += {header.bytes};")
            case Assign(target, Lookahead() as look):
                with code.block(""):
                    self.look(look)
                    if look.width <= LIMB:
                        value = f"get_bits(s->cursor, {look.offset}, {look.width})"
                        self.expressions.store(target, value, look.width <= target.field.width)
                    else:
                        limbs = -(-look.width // LIMB)
                        name = self.expressions.temporary(limbs)
                        code(
                            f"wide_get({name}, {limbs}, s->cursor, {look.offset}, {look.width}, 0);"
                        )
                        self.expressions.store_wide(target, name, limbs)
            case Assign(target, value):
                with code.block(""):
                    self.expressions.assign(target, value)  # type: ignore[arg-type]
            case Verify(condition, error):
                holds = self.expressions.boolean(condition)
                code(f"if (!{holds})")
                code(f"    {{ error = {self.expressions.scalar(error)}; goto parsed; }}")
            case Advance(bits):
                with code.block(""):
                    code(f"const uint64_t bits = {self.expressions.scalar(bits)};")
                    code("if (bits % 8)")
                    self.fail("ParserInvalidArgument")
                    self.need("bits / 8")
                    code("s->cursor += bits / 8;")
            case Primitive():
                self.actions.primitive(op)

    def need(self, size: str) -> None:
        self.code(f"if ((uint64_t)(s->end - s->cursor) < {size})")
        self.fail("PacketTooShort")

    def look(self, look: Lookahead) -> None:
        self.need(str(-(-(look.offset + look.width) // 8)))

    def key(self, state: State) -> list[list[str]]:
        """Names of the words of each part of the key, most significant first."""
        parts: list[list[str]] = []
        for part in state.key:
            if isinstance(part, Lookahead):
                self.look(part)
            parts.append(self.words(part))
        return parts

    def words(self, part: Expression | Lookahead) -> list[str]:
        code = self.code
        width = part.width if isinstance(part, Lookahead) else bounds(part)[1].bit_length()
        limbs = -(-width // LIMB)
        if limbs > 1:
            if isinstance(part, Lookahead):
                place = self.expressions.temporary(limbs)
                code(f"wide_get({place}, {limbs}, s->cursor, {part.offset}, {width}, 0);")
            else:
                place = self.expressions.wide(part, limbs)
            return [f"limb({place}, {i})" for i in range(limbs)]
        name = code.fresh("key")
        if isinstance(part, Lookahead):
            value = f"get_bits(s->cursor, {part.offset}, {width})"
        else:
            value = self.expressions.scalar(part)
            if isinstance(part, Read) and part.field.signed:
                value = f"{value} & ones({part.field.width})"
        code(f"const uint64_t {name} = {value};")
        return [name]

    def condition(self, state: State, case: Case, words: list[list[str]]) -> str:
        terms: list[str] = []
        for n, names in enumerate(words):
            for i, name in enumerate(names):
                shift = LIMB * (len(names) - 1 - i)
                value = case.values[n] >> shift & (1 << LIMB) - 1
                if case.masks is None:
                    terms.append(f"{name} == {value:#x}u")
                    continue
                mask = case.masks[n] >> shift & (1 << LIMB) - 1
                if mask:
                    terms.append(f"({name} & {mask:#x}u) == {value & mask:#x}u")
        return " && ".join(terms) or "true"

"""Emits a C function per action, and a hash function per calculation."""

from __future__ import annotations

from collections.abc import Callable

from testbed.dataplane.native.emit_wide import Expressions
from testbed.dataplane.native.expression import (
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
from testbed.dataplane.native.layout import Code, Layout, identifier
from testbed.dataplane.native.program import (
    DROP_PORT,
    Action,
    Calculation,
    Constant,
    Counter,
    Primitive,
    Register,
)

SIGNATURE = "struct state *s, struct wide *w, const uint64_t *data"


def function_of(action: Action) -> str:
    return f"action_{action.id}_{identifier(action.name)}"


def register_array(register: Register) -> str:
    return f"register_{register.index}_{identifier(register.name)}"


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
            "modify_field_rng_uniform": self.random,
            "modify_field_with_hash_based_offset": self.hash,
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
                self.primitives[primitive.op](*primitive.arguments)

    # Headers

    def slot(self, where: Where) -> str:
        """The C lvalue's address of a header's image pointer."""
        if isinstance(where, Instance):
            return f"&{self.layout.slot(where.header)}"
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

    def drop(self, *_: Where) -> None:
        for name, value in (("egress_spec", DROP_PORT), ("mcast_grp", 0)):
            field = self.layout.program.standard(name)
            if field is not None:
                self.code(f"{self.layout.member(field)} = {value};")

    # State that outlives the packet

    def register_read(self, target: Expression, register: Register, index: Expression) -> None:
        """A cell outside the array reads as 0, where BMv2 leaves it undefined."""
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
        hashed = f"calculation_{identifier(calculation.name)}(s, w)"
        value = f"{hashed} % (size ? size : 1) + {self.expressions.scalar(base)}"
        self.expressions.store(target, value)

    def calculation(self, calculation: Calculation) -> None:
        """A function that hashes the inputs, laid side by side without those of invalid headers."""
        code, pieces = self.code, list(_pieces(calculation))
        payload = 65536 if calculation.payload else 0
        size = sum(piece.width for piece in pieces) // 8 + 9 + payload
        name = f"calculation_{identifier(calculation.name)}"
        aligned = all(p.width % 8 == 0 and (p.member or p.offset % 8 == 0) for p in pieces)
        storage = "static uint8_t" if payload else "uint8_t"
        with code.block(f"INLINE uint64_t {name}(struct state *s, struct wide *w)"):
            code("(void)w;")
            code(f"{storage} buffer[{size}];")
            if aligned:
                code("uint8_t *to = buffer;")
            else:
                code("memset(buffer, 0, sizeof buffer);")
                code("unsigned bits = 0;")
            for piece in pieces:
                if aligned:
                    self.piece_of_bytes(piece)
                else:
                    self.piece_of_bits(piece)
            if not aligned:
                code("uint8_t *to = buffer + (bits + 7) / 8;")
            if payload:
                code("memcpy(to, s->cursor, (size_t)(s->end - s->cursor));")
                code("to += s->end - s->cursor;")
            code(f"return hash_{calculation.algorithm}(buffer, (size_t)(to - buffer));")
        code("")

    def piece_of_bytes(self, piece: _Piece) -> None:
        code, size = self.code, piece.width // 8
        if piece.read is not None and piece.member is False:
            with code.block(f"if ({self.expressions.image(piece.read.where)} != zeros)"):
                image = self.expressions.image(piece.read.where)
                code(f"memcpy(to, {image} + {piece.offset // 8}, {size});")
                code(f"to += {size};")
        elif piece.read is not None and piece.read.field.wide:
            place, offset = self.expressions.bits(piece.read)
            code(f"memcpy(to, {place} + {offset // 8}, {size});")
            code(f"to += {size};")
        elif piece.width <= 64:
            value: Expression = piece.read or Const(piece.value)
            code(f"store_bytes(to, {size}, {self.expressions.scalar(value)});")
            code(f"to += {size};")
        else:
            limbs = -(-piece.width // 64)
            start = f"{code.constant(piece.value, limbs)} + {8 * limbs - size}"
            code(f"memcpy(to, {start}, {size});")
            code(f"to += {size};")

    def piece_of_bits(self, piece: _Piece) -> None:
        code = self.code
        guard = ""
        place, offset = code.constant(piece.value, -(-piece.width // 64)), -piece.width % 64
        if piece.read is not None and (piece.member is False or piece.read.field.wide):
            place, offset = self.expressions.bits(piece.read)
            offset = piece.offset if piece.member is False else offset
            if piece.member is False:
                guard = f"if ({self.expressions.image(piece.read.where)} != zeros)"
        elif piece.read is not None:
            value = f"{self.expressions.scalar(piece.read)} & ones({piece.width})"
            code(f"append_bits(buffer, &bits, {piece.width}, {value});")
            return
        with code.block(guard):
            for start in range(0, piece.width, 64):
                part = min(64, piece.width - start)
                value = f"get_bits({place}, {offset + start}, {part})"
                code(f"append_bits(buffer, &bits, {part}, {value});")


class _Piece:
    """Neighbouring bits of one header, a metadata field, or a constant."""

    def __init__(self, part: Read | Constant, member: bool) -> None:
        self.read = part if isinstance(part, Read) else None
        self.value = part.value if isinstance(part, Constant) else 0
        self.member = member
        self.width = part.width if isinstance(part, Constant) else part.field.width
        self.offset = part.field.offset if isinstance(part, Read) else 0


def _pieces(calculation: Calculation) -> list[_Piece]:
    pieces: list[_Piece] = []
    for part in calculation.inputs:
        if isinstance(part, Constant):
            pieces.append(_Piece(part, True))
            continue
        last = pieces[-1] if pieces else None
        member = header_of(part.where).metadata
        if (
            last is not None
            and last.read is not None
            and not member
            and last.read.where == part.where
            and last.offset + last.width == part.field.offset
        ):
            last.width += part.field.width
        else:
            pieces.append(_Piece(part, member))
    return pieces

"""Emits C for expressions whose value fits a machine word, and for conditions.

A scalar is a ``uint64_t`` that equals the value modulo 2^64, negative values in two's complement.
That is enough for sums, products and masks. Where the exact value matters (comparisons, right
shifts, saturation), its bounds select unsigned, signed, 128-bit or wide arithmetic.
"""

from __future__ import annotations

from testbed.switches.native.expression import (
    COMPARISONS,
    LIMB,
    Bool,
    Choice,
    Const,
    Element,
    Expression,
    Instance,
    LastIndex,
    Operation,
    Parameter,
    Read,
    SameHeader,
    Valid,
    Where,
    bounds,
    header_of,
    is_boolean,
)
from testbed.switches.native.layout import Code, Layout

_WORD = 1 << 64
_LIMIT = 4096  # bits; beyond it only a shift by a run-time amount can reach


def fits_unsigned(low: int, high: int) -> bool:
    return low >= 0 and high < _WORD


def fits_signed(low: int, high: int) -> bool:
    return low >= -_WORD // 2 and high < _WORD // 2


def literal(value: int) -> str:
    value %= _WORD
    return str(value) if value < 10 else f"{value:#x}u" + ("ll" if value >> 31 else "")


class Scalars:
    """Emits expressions as C text; statements that they need first go to ``code``."""

    def __init__(self, code: Code, layout: Layout, problems: list[str]) -> None:
        self.code = code
        self.layout = layout
        self.problems = problems
        self.at = ""  # position, in the P4 program, of what is being emitted

    def refuse(self, what: str) -> str:
        problem = f"{self.at}: {what}" if self.at else what
        if problem not in self.problems:
            self.problems.append(problem)
        return "0"

    # Places

    def image(self, where: Where) -> str:
        """Pointer to a header's bytes; ``zeros`` while it is invalid."""
        if isinstance(where, Instance):
            return self.layout.slot(where.header)
        if isinstance(where, Choice):
            left, right = self.image(where.left), self.image(where.right)
            return f"({self.boolean(where.condition)} ? {left} : {right})"
        first, size = self.layout.first(where.stack), len(where.stack.headers)
        if isinstance(where, Element):
            return f"element({first}, {size}, {self.scalar(where.index)})"
        return f"element({first}, {size}, (uint64_t)s->next[{where.stack.index}] - 1)"

    def bits(self, read: Read) -> tuple[str, int]:
        """The position of a header field or a wide metadata field: bytes and bit offset."""
        member = self.layout.member(read.field)
        if member is not None:
            return member, LIMB * read.field.limbs - read.field.width
        return self.image(read.where), read.field.offset

    # Values

    def scalar(self, node: Expression) -> str:
        if is_boolean(node):
            return f"(uint64_t)({self.boolean(node)})"
        match node:
            case Const(value):
                return literal(value)
            case Read():
                return self.read(node)
            case Parameter(width=width, word=word):
                limbs = -(-width // LIMB)
                if limbs == 1:
                    return f"data[{word}]"
                return f"limb((const uint8_t *)(data + {word}), {limbs - 1})"
            case LastIndex(stack):
                return f"((uint64_t)s->next[{stack.index}] - 1)"
            case Operation(op, operands):
                return self.operation(op, operands)
        raise AssertionError(node)

    def read(self, node: Read) -> str:
        field = node.field
        member = self.layout.member(field)
        if field.wide:
            place, offset = self.bits(node)
            return f"get_bits({place}, {offset + field.width - LIMB}, {LIMB})"
        if member is not None:
            text = member
        else:
            text = f"get_bits({self.image(node.where)}, {field.offset}, {field.width})"
        return f"sign_extend({text}, {field.width})" if field.signed else text

    def operation(self, op: str, operands: tuple[Expression, ...]) -> str:
        if op == "b2d":
            return f"(uint64_t)({self.boolean(operands[0])})"
        if op == "?":
            condition = self.boolean(operands[0])
            return f"({condition} ? {self.scalar(operands[1])} : {self.scalar(operands[2])})"
        if op == "~":
            return f"~{self.scalar(operands[0])}"
        left, right = operands
        if op in ("+", "-", "*", "&", "|", "^"):
            return f"({self.scalar(left)} {op} {self.scalar(right)})"
        if op == "<<":
            if isinstance(right, Const):
                shifted = f"({self.scalar(left)} << {right.value})"
                return shifted if right.value < LIMB else "0"
            return f"shift_left({self.scalar(left)}, {self.amount(right)})"
        if op == ">>":
            return self.shift_right(left, right)
        if op in ("/", "%"):
            if fits_unsigned(*bounds(left)) and fits_unsigned(*bounds(right)):
                function = "quotient" if op == "/" else "remainder_of"
                return f"{function}({self.scalar(left)}, {self.scalar(right)})"
            return self.refuse("division of values beyond 64 bits")
        width = bounds(right)[1]
        if op == "two_comp_mod":
            return f"sign_extend({self.scalar(left)}, {min(width, LIMB)})"
        if op in ("usat_cast", "sat_cast"):
            if width > LIMB:
                return self.refuse("saturating arithmetic beyond 64 bits")
            low, high = bounds(Operation(op, operands))
            value = self.wider(left)
            return (
                f"(uint64_t)clamp({value}, (__int128)(int64_t){literal(low)}, "
                f"(__int128){literal(high)})"
            )
        raise AssertionError(op)

    def amount(self, node: Expression) -> str:
        if not fits_unsigned(*bounds(node)):
            return self.refuse("shift by an amount beyond 64 bits")
        return self.scalar(node)

    def shift_right(self, left: Expression, right: Expression) -> str:
        limits = bounds(left)
        if fits_unsigned(*limits):
            if isinstance(right, Const):
                text = f"({self.scalar(left)} >> {right.value})"
                return text if right.value < LIMB else "0"
            return f"shift_right({self.scalar(left)}, {self.amount(right)})"
        if fits_signed(*limits):
            return f"shift_right_signed({self.scalar(left)}, {self.amount(right)})"
        if isinstance(left, Read) and isinstance(right, Const) and not left.field.signed:
            rest = left.field.width - right.value  # a slice of a wide field
            if rest <= 0:
                return "0"
            place, offset = self.bits(left)
            taken = min(rest, LIMB)
            return f"get_bits({place}, {offset + rest - taken}, {taken})"
        limbs = self.limbs(*limits)
        shifted = self.wide(Operation(">>", (left, right)), limbs)
        return f"limb({shifted}, {limbs - 1})"

    def exact(self, node: Expression) -> str:
        """The exact value, as an unsigned or signed 64-bit integer."""
        return self.scalar(node) if bounds(node)[0] >= 0 else f"(int64_t)({self.scalar(node)})"

    def wider(self, node: Expression) -> str:
        """The exact value as an ``__int128``."""
        limits = bounds(node)
        if fits_unsigned(*limits) or fits_signed(*limits):
            return f"(__int128)({self.exact(node)})"
        fits = limits[0] >= -(1 << 127) and limits[1] < 1 << 127
        if fits and isinstance(node, Operation) and node.op in ("+", "-", "*", "|", "&", "^"):
            left, right = map(self.wider, node.operands)
            return f"({left} {node.op} {right})"
        return self.refuse("saturating arithmetic beyond 64 bits")

    # Conditions

    def boolean(self, node: Expression) -> str:
        match node:
            case Bool(value):
                return "true" if value else "false"
            case Valid(where):
                return f"({self.image(where)} != zeros)"
            case SameHeader(left, right):
                size = header_of(left).bytes
                return f"same_header({self.image(left)}, {self.image(right)}, {size})"
            case Operation("and" | "or" as op, (left, right)):
                symbol = "&&" if op == "and" else "||"
                return f"({self.boolean(left)} {symbol} {self.boolean(right)})"
            case Operation("not", (operand,)):
                return f"!{self.boolean(operand)}"
            case Operation("d2b", (operand,)):
                return self.comparison("!=", operand, Const(0))
            case Operation("?", (condition, left, right)):
                parts = map(self.boolean, (condition, left, right))
                return "({} ? {} : {})".format(*parts)
            case Operation(op, (left, right)) if op in COMPARISONS:
                if is_boolean(left):
                    return f"({self.boolean(left)} {op} {self.boolean(right)})"
                return self.comparison(op, left, right)
        return self.comparison("!=", node, Const(0))

    def comparison(self, op: str, left: Expression, right: Expression) -> str:
        (low1, high1), (low2, high2) = bounds(left), bounds(right)
        low, high = min(low1, low2), max(high1, high2)
        if fits_unsigned(low, high):
            return f"({self.scalar(left)} {op} {self.scalar(right)})"
        if fits_signed(low, high):
            return f"((int64_t){self.scalar(left)} {op} (int64_t){self.scalar(right)})"
        limbs = self.limbs(low, high)
        if op in ("==", "!="):
            difference = self.wide_difference(left, right, limbs)
            return f"({difference} {op} 0)"
        first, second = self.wide(left, limbs), self.wide(right, limbs)
        return f"(wide_compare({first}, {second}, {limbs}, {int(low < 0)}) {op} 0)"

    # Wide numbers: emit_wide

    def limbs(self, low: int, high: int) -> int:
        """Words that hold every value between the two."""
        size = high.bit_length()
        if low < 0:
            size = max(size, (-low - 1).bit_length()) + 1
        if size > _LIMIT:
            self.refuse(f"value of more than {_LIMIT} bits (a shift by a run-time amount?)")
            size = LIMB
        return max(1, -(-size // LIMB))

    def wide(self, node: Expression, limbs: int) -> str:
        raise NotImplementedError

    def wide_difference(self, left: Expression, right: Expression, limbs: int) -> str:
        raise NotImplementedError

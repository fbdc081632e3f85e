"""Expressions of a program, and the bounds of their values that are known at compile time.

BMv2 computes with integers of any size; p4c adds the masks that P4's fixed widths need. Every
value here is therefore an integer with bounds, and the emitter picks the narrowest C arithmetic
that gives the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

LIMB = 64  # bits of a machine word
_HUGE = 1 << 8192  # bound of what a shift by a run-time amount can reach


@dataclass(frozen=True)
class Field:
    """``offset`` counts bits from the header's first bit on the wire."""

    header: str
    name: str
    width: int
    offset: int
    signed: bool = False

    @property
    def limbs(self) -> int:
        return -(-self.width // LIMB)

    @property
    def wide(self) -> bool:
        return self.width > LIMB


@dataclass(frozen=True)
class Header:
    """A header or metadata instance; ``index`` counts headers alone, and is -1 for metadata."""

    name: str
    type: str
    index: int
    bits: int
    metadata: bool
    fields: dict[str, Field] = field(compare=False, hash=False)

    @property
    def bytes(self) -> int:
        return self.bits // 8


@dataclass(frozen=True)
class Stack:
    name: str
    index: int
    headers: tuple[Header, ...]


@dataclass(frozen=True)
class Instance:
    header: Header


@dataclass(frozen=True)
class Element:
    """``stack[index]``, with an index known only at run time."""

    stack: Stack
    index: Expression


@dataclass(frozen=True)
class Last:
    """The element of a stack that was extracted last."""

    stack: Stack


@dataclass(frozen=True)
class Choice:
    """One of two headers of the same type; it is only read, never written."""

    condition: Expression
    left: Where
    right: Where


Where = Instance | Element | Last | Choice


def header_of(where: Where) -> Header:
    """The header, or for a stack one of its (equal) elements."""
    if isinstance(where, Choice):
        return header_of(where.left)
    return where.header if isinstance(where, Instance) else where.stack.headers[0]


@dataclass(frozen=True)
class Const:
    value: int


@dataclass(frozen=True)
class Bool:
    value: bool


@dataclass(frozen=True)
class Read:
    where: Where
    field: Field


@dataclass(frozen=True)
class Parameter:
    """An action's parameter; ``word`` is where it starts in the entry's data."""

    index: int
    width: int
    word: int


@dataclass(frozen=True)
class Valid:
    where: Where


@dataclass(frozen=True)
class LastIndex:
    """Index of the last valid element, -1 when there is none."""

    stack: Stack


@dataclass(frozen=True)
class SameHeader:
    left: Where
    right: Where


@dataclass(frozen=True)
class Operation:
    op: str
    operands: tuple[Expression, ...]


Expression = Const | Bool | Read | Parameter | Valid | LastIndex | SameHeader | Operation

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_BOOLEAN = COMPARISONS | {"and", "or", "not", "d2b"}


@cache
def is_boolean(node: Expression) -> bool:
    if isinstance(node, Operation):
        return is_boolean(node.operands[1]) if node.op == "?" else node.op in _BOOLEAN
    return isinstance(node, Bool | Valid | SameHeader)


def _bit_bounds(lows: list[int], highs: list[int]) -> tuple[int, int]:
    size = max(max(-low - 1, high).bit_length() for low, high in zip(lows, highs, strict=True))
    return (-(1 << size) if min(lows) < 0 else 0), (1 << size) - 1


@cache
def bounds(node: Expression) -> tuple[int, int]:
    """The least and the greatest possible value of the expression."""
    match node:
        case Const(value):
            return value, value
        case Read(_, field):
            half = 1 << field.width - 1
            return (-half, half - 1) if field.signed else (0, 2 * half - 1)
        case Parameter(width=width):
            return 0, (1 << width) - 1
        case LastIndex(stack):
            return -1, len(stack.headers) - 1
        case Operation(op, operands) if not is_boolean(node):
            return _operation_bounds(op, operands)
        case _:
            return 0, 1


def _operation_bounds(op: str, operands: tuple[Expression, ...]) -> tuple[int, int]:
    if op == "?":
        (low1, high1), (low2, high2) = map(bounds, operands[1:])
        return min(low1, low2), max(high1, high2)
    lows, highs = map(list, zip(*map(bounds, operands), strict=True))
    low, high = lows[0], highs[0]
    if op in ("two_comp_mod", "sat_cast"):
        half = 1 << highs[1] - 1
        return -half, half - 1
    if op == "usat_cast":
        return 0, (1 << highs[1]) - 1
    if op == "b2d":
        return 0, 1
    if op == "~":
        return -high - 1, -low - 1
    if op == "+":
        return low + lows[1], high + highs[1]
    if op == "-":
        return low - highs[1], high - lows[1]
    if op == "*":
        products = [a * b for a in (low, high) for b in (lows[1], highs[1])]
        return min(products), max(products)
    if op == "<<":
        if highs[1] > 4096:
            return (-_HUGE if low < 0 else 0), _HUGE
        return min(low, low << highs[1]), max(high, high << highs[1])
    if op == ">>":
        return min(low, 0), max(high, 0)
    if op == "&":
        positive = [h for lo, h in zip(lows, highs, strict=True) if lo >= 0]
        return (0, min(positive)) if positive else _bit_bounds(lows, highs)
    if op in ("|", "^"):
        return _bit_bounds(lows, highs)
    if op == "/":
        return 0, max(high, 0)
    if op == "%":
        return 0, max(min(high, highs[1]), 0)
    raise AssertionError(op)


@cache
def possible_ones(node: Expression, limbs: int) -> int:
    """The bits, of ``limbs`` words, that are not known to be zero."""
    everything = (1 << LIMB * limbs) - 1
    low, high = bounds(node)
    if isinstance(node, Const):
        return node.value & everything
    if low < 0:
        return everything
    bound = ((1 << high.bit_length()) - 1) & everything
    if isinstance(node, Operation):
        if node.op == "&":
            left, right = (possible_ones(x, limbs) for x in node.operands)
            return left & right & bound
        if node.op in ("|", "^"):
            left, right = (possible_ones(x, limbs) for x in node.operands)
            return (left | right) & bound
        if node.op == "+" and carries_stay(node, limbs):
            left, right = (possible_ones(x, limbs) for x in node.operands)
            word = (1 << LIMB) - 1
            total = 0
            for shift in range(0, LIMB * limbs, LIMB):
                top = (left >> shift & word) + (right >> shift & word)
                total |= (1 << top.bit_length()) - 1 << shift
            return total & bound
    return bound


@cache
def carries_stay(node: Operation, limbs: int) -> bool:
    """Whether an addition never carries from one word into the next.

    True for ``(a & L) + (b & L)`` where L leaves the top bit of every word free; the words can
    then be added side by side.
    """
    left, right = (possible_ones(x, limbs) for x in node.operands)
    word = (1 << LIMB) - 1
    return all(
        (left >> shift & word) + (right >> shift & word) <= word
        for shift in range(0, LIMB * limbs, LIMB)
    )

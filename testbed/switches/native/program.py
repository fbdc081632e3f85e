"""A v1model program as typed values, read from BMv2's JSON.

``reader.read`` makes one. Everything in it is supported, and every name is resolved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.switches.native.expression import (
    Expression,
    Field,
    Header,
    Parameter,
    Read,
    Stack,
    Valid,
    Where,
)

DROP_PORT = 511  # BMv2's mark_to_drop sets egress_spec to it

Match = tuple[int, ...]


class Unsupported(Exception):
    """The program uses features that the native target lacks; ``problems`` lists them all."""

    def __init__(self, program: str, problems: list[str]) -> None:
        self.problems = tuple(problems)
        lines = "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(f"{program}: not supported by the native switch target:{lines}")


@dataclass(frozen=True)
class Register:
    name: str
    index: int
    size: int
    width: int

    @property
    def wide(self) -> bool:
        return self.width > 64

    @property
    def limbs(self) -> int:
        return -(-self.width // 64)


@dataclass(frozen=True)
class Counter:
    """``table`` names the table whose entries are counted, if it is a direct counter."""

    name: str
    index: int
    size: int
    table: str | None


@dataclass(frozen=True)
class Meter:
    """``table`` names the table whose entries are metered, if it is a direct meter."""

    name: str
    index: int
    size: int
    bytes: bool  # it meters bytes, not packets
    table: str | None


@dataclass(frozen=True)
class Constant:
    """A literal among the inputs of a calculation."""

    value: int
    width: int


@dataclass(frozen=True)
class Calculation:
    """A hash over fields, except those of invalid headers, and perhaps over the payload."""

    name: str
    algorithm: str
    inputs: tuple[Read | Valid | Constant, ...]
    payload: bool


@dataclass(frozen=True)
class Checksum:
    target: Read
    calculation: Calculation
    condition: Expression | None
    verify: bool
    update: bool


Argument = Expression | Where | Stack | Register | Counter | Meter | Calculation


@dataclass(frozen=True)
class Primitive:
    """``at`` is its position in the P4 program, ``file:line:column``, or empty."""

    op: str
    arguments: tuple[Argument, ...]
    at: str = ""


@dataclass(frozen=True)
class Action:
    name: str
    id: int
    parameters: tuple[Parameter, ...]
    primitives: tuple[Primitive, ...]

    @property
    def words(self) -> int:
        """64-bit words of an entry's data."""
        return sum(-(-p.width // 64) for p in self.parameters)


@dataclass(frozen=True)
class Lookahead:
    """Bits of the packet that are read but not consumed; ``offset`` is from the cursor."""

    offset: int
    width: int


@dataclass(frozen=True)
class Extract:
    target: Header | Stack


@dataclass(frozen=True)
class Assign:
    target: Read
    value: Expression | Lookahead


@dataclass(frozen=True)
class Verify:
    condition: Expression
    error: Expression


@dataclass(frozen=True)
class Advance:
    bits: Expression


ParserOp = Extract | Assign | Verify | Advance | Primitive


@dataclass(frozen=True)
class Case:
    """``next`` is None if the parser accepts. ``masks`` is None for an exact comparison."""

    values: Match
    masks: Match | None
    next: str | None


@dataclass(frozen=True)
class State:
    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[Expression | Lookahead, ...]
    cases: tuple[Case, ...]
    default: str | None


@dataclass(frozen=True)
class Key:
    """``kind`` is exact, lpm, ternary or range; ``mask`` is the program's own, or None."""

    name: str
    kind: str
    value: Expression
    width: int
    mask: int | None

    @property
    def words(self) -> int:
        return -(-self.width // 64)


@dataclass(frozen=True)
class Entry:
    """An entry or default in the program's text; ``parts`` has a pair per key.

    A pair is (value, mask), and (low, high) where the key's kind is range.
    """

    parts: tuple[tuple[int, int], ...]
    prefix: int
    action: Action
    data: tuple[int, ...]
    priority: int


@dataclass(frozen=True)
class Table:
    name: str
    index: int
    kind: str
    keys: tuple[Key, ...]
    size: int
    actions: tuple[Action, ...]
    default: Entry | None
    default_fixed: bool
    entries: tuple[Entry, ...]
    fixed: bool
    counted: bool
    meter: tuple[Meter, Expression] | None  # its direct meter, and the colour's destination
    after_hit: str | None
    after_miss: str | None
    after_action: dict[str, str | None] | None  # None: depends on hit or miss

    @property
    def inline(self) -> bool:
        """Whether the table only wraps one action, and that action cannot be changed."""
        return not self.keys and self.default_fixed and self.default is not None

    @property
    def following(self) -> list[str | None]:
        after = list((self.after_action or {}).values())
        return [self.after_miss, self.after_hit, *after]

    @property
    def key_words(self) -> int:
        return sum(key.words for key in self.keys)

    @property
    def data_words(self) -> int:
        return max((action.words for action in self.actions), default=0)


@dataclass(frozen=True)
class Conditional:
    name: str
    expression: Expression
    if_true: str | None
    if_false: str | None
    at: str = ""

    @property
    def following(self) -> list[str | None]:
        return [self.if_false, self.if_true]


@dataclass(frozen=True)
class Pipeline:
    name: str
    first: str | None
    nodes: dict[str, Table | Conditional]

    def order(self) -> list[str]:
        """The reachable nodes, each before those that follow it."""
        seen: list[str] = []
        visited: set[str] = set()

        def visit(name: str | None) -> None:
            if name is None or name in visited:
                return
            visited.add(name)
            for following in self.nodes[name].following:
                visit(following)
            seen.append(name)

        visit(self.first)
        return seen[::-1]


@dataclass(frozen=True)
class Program:
    name: str
    headers: tuple[Header, ...]
    stacks: tuple[Stack, ...]
    errors: dict[str, int]
    first_state: str | None
    states: dict[str, State]
    ingress: Pipeline
    egress: Pipeline
    actions: tuple[Action, ...]
    tables: tuple[Table, ...]
    registers: tuple[Register, ...]
    counters: tuple[Counter, ...]
    meters: tuple[Meter, ...]
    calculations: tuple[Calculation, ...]
    checksums: tuple[Checksum, ...]
    deparse: tuple[Header, ...]
    field_lists: dict[int, tuple[Field, ...]]  # metadata that clones and further passes keep

    def operations(self) -> Iterator[ParserOp]:
        """The operations of parser states and actions, in no order."""
        for state in self.states.values():
            yield from state.ops
        for action in self.actions:
            yield from action.primitives

    def primitives(self) -> Iterator[Primitive]:
        return (op for op in self.operations() if isinstance(op, Primitive))

    def standard(self, name: str) -> Field | None:
        """A field of the standard metadata, if the program has it."""
        for header in self.headers:
            if header.name == "standard_metadata":
                return header.fields.get(name)
        return None

"""The names and places of a program's parts in the emitted C, and the text that is being written.

A packet's headers stay in its buffer, in wire order: ``s->h[i]`` points to header ``i``, or to
``zeros`` while it is invalid, so that a read needs no test. Metadata of up to 64 bits are members
of ``struct metadata``, ``s->m``; wider ones are big-endian byte arrays of whole 64-bit limbs in
``struct wide``, like wide registers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.switches.native.expression import Field, Header, Stack
from testbed.switches.native.program import Program


def identifier(name: str) -> str:
    """``name`` as part of a C identifier; no two names give the same one.

    An underscore is doubled; any other character that C does not allow becomes its code in hex
    between two underscores. A prefix avoids C's keywords and the emitted code's own names.
    """
    return re.sub(
        r"[^0-9A-Za-z]", lambda found: "__" if found[0] == "_" else f"_{ord(found[0]):x}_", name
    )


class Layout:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.headers = tuple(h for h in program.headers if not h.metadata)
        self.metadata: dict[Field, str] = {}
        for header in program.headers:
            if header.metadata:
                for field in header.fields.values():
                    self.metadata[field] = f"m_{identifier(f'{header.name}.{field.name}')}"

    def member(self, field: Field) -> str | None:
        """The C lvalue of a metadata field; None for a header's field."""
        name = self.metadata.get(field)
        return None if name is None else ("w->" if field.wide else "s->m.") + name

    def slot(self, header: Header) -> str:
        return f"s->h[{header.index}]"

    def first(self, stack: Stack) -> str:
        return f"(s->h + {stack.headers[0].index})"


class Code:
    """Lines of C, with fresh names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.names = 0
        self.constants: dict[bytes, str] = {}

    def __call__(self, line: str) -> None:
        self.lines.append("    " * self.depth + line if line else "")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        self(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self(tail)

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def constant(self, value: int, limbs: int) -> str:
        """A pointer to a wide constant."""
        data = (value & (1 << 64 * limbs) - 1).to_bytes(8 * limbs, "big")
        return self.constants.setdefault(data, f"constant_{len(self.constants)}")

"""Emits a function per calculation: it concatenates the inputs and hashes them.

Inputs from invalid headers are left out. If all inputs are whole bytes they are copied; otherwise
bit strings are appended.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.switches.native.emit_wide import Expressions
from testbed.switches.native.expression import Const, Read, Valid, Where, header_of
from testbed.switches.native.layout import Code, identifier
from testbed.switches.native.program import Calculation, Constant


def function_of(calculation: Calculation) -> str:
    return f"calculation_{identifier(calculation.name)}"


@dataclass
class _Piece:
    """Adjacent bits of one header, from ``offset`` on; or a metadata field; or a constant."""

    width: int
    header: Where | None = None
    offset: int = 0
    member: Read | None = None
    value: int = 0

    @property
    def on_bytes(self) -> bool:
        return self.width % 8 == 0 and self.offset % 8 == 0


def _pieces(calculation: Calculation) -> list[_Piece]:
    pieces: list[_Piece] = []
    for part in calculation.inputs:
        last = pieces[-1] if pieces else None
        if isinstance(part, Constant):
            pieces.append(_Piece(part.width, value=part.value))
        elif isinstance(part, Valid):  # a bit that is there, and 1, if the header is
            pieces.append(_Piece(1, part.where, value=1))
        elif header_of(part.where).metadata:
            pieces.append(_Piece(part.field.width, member=part))
        elif (
            last is not None
            and last.header == part.where
            and last.value == 0
            and last.offset + last.width == part.field.offset
        ):
            last.width += part.field.width
        else:
            pieces.append(_Piece(part.field.width, part.where, part.field.offset))
    return pieces


class Calculations:
    def __init__(self, code: Code, expressions: Expressions) -> None:
        self.code = code
        self.expressions = expressions

    def calculation(self, calculation: Calculation) -> None:
        code, pieces = self.code, _pieces(calculation)
        size = -(-sum(piece.width for piece in pieces) // 8)
        aligned = all(piece.on_bytes for piece in pieces)
        function = function_of(calculation)
        with code.block(f"INLINE uint64_t {function}(struct state *s, struct wide *w)"):
            code("(void)s, (void)w;")
            if calculation.payload:
                code(f"static uint8_t buffer[{size} + MAX_PACKET];")
            else:
                code(f"uint8_t buffer[{max(1, size)}];")
            if aligned:
                code("uint8_t *to = buffer;")
                for piece in pieces:
                    self.piece_of_bytes(piece)
            else:
                code(f"memset(buffer, 0, {size});")
                code("unsigned bits = 0;")
                for piece in pieces:
                    self.piece_of_bits(piece)
                code("uint8_t *to = buffer + (bits + 7) / 8;")
            if calculation.payload:
                code("const size_t payload = payload_bytes(s);")
                code("memcpy(to, s->cursor, payload);")
                code("to += payload;")
            code(f"return hash_{calculation.algorithm}(buffer, (size_t)(to - buffer));")
        code("")

    def piece_of_bytes(self, piece: _Piece) -> None:
        code, size = self.code, piece.width // 8
        if piece.header is not None:
            image = self.expressions.image(piece.header)
            with code.block(f"if ({image} != zeros)"):
                code(f"memcpy(to, {image} + {piece.offset // 8}, {size});")
                code(f"to += {size};")
            return
        if piece.width <= 64:
            value = self.expressions.scalar(piece.member or Const(piece.value))
            code(f"store_bytes(to, {size}, {value});")
        else:
            place, offset = self.place(piece)
            code(f"memcpy(to, {place} + {offset // 8}, {size});")
        code(f"to += {size};")

    def piece_of_bits(self, piece: _Piece) -> None:
        code = self.code
        if piece.member is not None and not piece.member.field.wide:
            value = f"{self.expressions.scalar(piece.member)} & ones({piece.width})"
            code(f"append_bits(buffer, &bits, {piece.width}, {value});")
            return
        place, offset = self.place(piece)
        guard = (
            "" if piece.header is None else f"if ({self.expressions.image(piece.header)} != zeros)"
        )
        with code.block(guard):
            for start in range(0, piece.width, 64):
                part = min(64, piece.width - start)
                value = f"get_bits({place}, {offset + start}, {part})"
                code(f"append_bits(buffer, &bits, {part}, {value});")

    def place(self, piece: _Piece) -> tuple[str, int]:
        """The position of the piece's bits: bytes and bit offset."""
        if piece.member is not None:
            return self.expressions.bits(piece.member)
        if piece.header is not None and piece.value == 0:
            return self.expressions.image(piece.header), piece.offset
        limbs = -(-piece.width // 64)
        return self.code.constant(piece.value, limbs), 64 * limbs - piece.width

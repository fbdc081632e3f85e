"""Emits C for expressions over wide fields: loops over 64-bit limbs, one loop per statement.

Operations that work limb by limb (masks, exclusive ors, sums) are fused into a single loop without
temporaries. A sum whose operands cannot carry from one limb into the next needs no carry chain,
and the compiler turns such a loop into vector instructions.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from testbed.switches.native.emit_scalar import Scalars, literal
from testbed.switches.native.expression import (
    LIMB,
    Const,
    Expression,
    Operation,
    Parameter,
    Read,
    bounds,
    carries_stay,
    possible_ones,
)


@dataclass
class _Loop:
    limbs: int
    pointers: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)  # declarations ahead of the loop
    inside: list[str] = field(default_factory=list)  # sums with carry, least limb first

    def pointer(self, place: str) -> str:
        return self.pointers.setdefault(place, f"p{len(self.pointers)}")


class Expressions(Scalars):
    def plain(self, node: Expression, limbs: int) -> str | None:
        """A pointer to the value in memory, if it is there as a wide number."""
        if isinstance(node, Const):
            return self.code.constant(node.value, limbs)
        if isinstance(node, Parameter) and node.width > LIMB * (limbs - 1):
            return f"(const uint8_t *)(data + {node.word})" if node.width > LIMB else None
        if not isinstance(node, Read) or node.field.limbs != limbs or not node.field.wide:
            return None
        place, offset = self.bits(node)
        if node.field.width % LIMB:
            return place if self.layout.member(node.field) and not node.field.signed else None
        return None if offset % 8 else f"{place} + {offset // 8}"

    def temporary(self, limbs: int) -> str:
        name = self.code.fresh("t")
        self.code(f"uint8_t {name}[{8 * limbs}];")
        return name

    def wide(self, node: Expression, limbs: int) -> str:
        """A pointer to the value modulo 2^(64 limbs), two's complement."""
        place = self.plain(node, limbs)
        if place is not None:
            return place
        into = self.temporary(limbs)
        self.wide_into(node, limbs, into)
        return into

    def wide_into(self, node: Expression, limbs: int, into: str) -> None:
        """Emits statements that put the value, modulo 2^(64 limbs), at ``into``."""
        code = self.code
        place = self.plain(node, limbs)
        low, high = bounds(node)
        if place is not None:
            code(f"copy_limbs({into}, {place}, {limbs});")
        elif isinstance(node, Read) and node.field.wide:
            place, offset = self.bits(node)
            f = node.field
            if f.limbs <= limbs:
                code(f"wide_get({into}, {limbs}, {place}, {offset}, {f.width}, {int(f.signed)});")
            else:
                offset += f.width - LIMB * limbs
                code(f"wide_get({into}, {limbs}, {place}, {offset}, {LIMB * limbs}, 0);")
        elif isinstance(node, Parameter) and node.width > LIMB:
            own = -(-node.width // LIMB)
            place = f"(const uint8_t *)(data + {node.word})"
            code(f"wide_resize({into}, {limbs}, {place}, {own}, 0);")
        elif limbs == 1 or (low >= 0 and high < 1 << LIMB):
            code(f"wide_set({into}, {limbs}, {self.scalar(node)}, 0);")
        elif low >= -1 << LIMB - 1 and high < 1 << LIMB - 1:
            code(f"wide_set({into}, {limbs}, {self.scalar(node)}, 1);")
        elif isinstance(node, Operation) and node.op in ("<<", ">>", "*"):
            self.wide_shift_or_product(node, limbs, into)
        elif isinstance(node, Operation) and node.op in ("&", "|", "^", "~", "+", "-", "?"):
            loop = _Loop(limbs)
            value = self.limb(node, loop)
            self.emit(loop, f"set_limb(to, i, {value});", f"uint8_t *const to = {into};")
        else:
            what = node.op if isinstance(node, Operation) else type(node).__name__
            self.refuse(f"{what} of values beyond 64 bits")

    def wide_shift_or_product(self, node: Operation, limbs: int, into: str) -> None:
        left, right = node.operands
        if node.op == "*":
            target = self.temporary(limbs)  # neither factor may be overwritten
            first, second = self.wide(left, limbs), self.wide(right, limbs)
            self.code(f"wide_multiply({target}, {first}, {second}, {limbs});")
            self.code(f"copy_limbs({into}, {target}, {limbs});")
        elif node.op == "<<":
            source = self.wide(left, limbs)
            self.code(f"wide_shift_left({into}, {source}, {limbs}, {self.amount(right)});")
        else:
            low, high = bounds(left)
            own = max(limbs, self.limbs(low, high))
            source = self.wide(left, own)
            target = into if own == limbs else self.temporary(own)
            amount = self.amount(right)
            self.code(f"wide_shift_right({target}, {source}, {own}, {amount}, {int(low < 0)});")
            if own > limbs:
                self.code(f"wide_resize({into}, {limbs}, {target}, {own}, 0);")

    def wide_difference(self, left: Expression, right: Expression, limbs: int) -> str:
        """A word that is zero exactly if the two values are equal."""
        name = self.code.fresh("different")
        self.code(f"uint64_t {name} = 0;")
        loop = _Loop(limbs)
        first, second = self.limb(left, loop), self.limb(right, loop)
        value = first if right == Const(0) else f"{first} ^ {second}"
        self.emit(loop, f"{name} |= {value};", "")
        return name

    def limb(self, node: Expression, loop: _Loop) -> str:
        """The i-th limb of a value, within a loop over i."""
        everything = (1 << LIMB * loop.limbs) - 1
        if isinstance(node, Const):
            word = node.value & (1 << LIMB) - 1
            if node.value & everything == word * (everything // ((1 << LIMB) - 1)):
                return literal(word)
        if isinstance(node, Operation) and not self.small(node):
            if node.op == "&":
                for mask, other in (node.operands, node.operands[::-1]):
                    ones = possible_ones(other, loop.limbs)
                    if isinstance(mask, Const) and ones & ~mask.value & everything == 0:
                        return self.limb(other, loop)
            if node.op in ("&", "|", "^"):
                left, right = (self.limb(x, loop) for x in node.operands)
                return f"({left} {node.op} {right})"
            if node.op == "~":
                return f"~{self.limb(node.operands[0], loop)}"
            if node.op in ("+", "-"):
                left, right = (self.limb(x, loop) for x in node.operands)
                if node.op == "+" and carries_stay(node, loop.limbs):
                    return f"({left} + {right})"
                carry, result = self.code.fresh("carry"), self.code.fresh("sum")
                function = "add_carry" if node.op == "+" else "subtract_borrow"
                loop.before.append(f"uint64_t {carry} = 0;")
                loop.inside.append(
                    f"const uint64_t {result} = {function}({left}, {right}, &{carry});"
                )
                return result
            if node.op == "?":
                name = self.code.fresh("chosen")
                self.code(f"const bool {name} = {self.boolean(node.operands[0])};")
                left, right = (self.limb(x, loop) for x in node.operands[1:])
                return f"({name} ? {left} : {right})"
        return f"limb({loop.pointer(self.wide(node, loop.limbs))}, i)"

    def small(self, node: Expression) -> bool:
        low, high = bounds(node)
        return low >= -1 << LIMB - 1 and high < 1 << LIMB

    def emit(self, loop: _Loop, statement: str, declaration: str) -> None:
        code = self.code
        with code.block(""):
            for place, name in loop.pointers.items():
                code(f"const uint8_t *const {name} = {place};")
            for line in (declaration, *loop.before):
                if line:
                    code(line)
            if loop.inside:
                head = f"for (unsigned i = {loop.limbs}; i-- > 0;)"
            else:
                code("INDEPENDENT")
                head = f"for (unsigned i = 0; i < {loop.limbs}; i++)"
            with code.block(head):
                for line in (*loop.inside, statement):
                    code(line)

    # Stores

    def assign(self, target: Read, value: Expression) -> None:
        f = target.field
        if not f.wide:
            low, high = bounds(value)
            self.store(target, self.scalar(value), low >= 0 and high < 1 << f.width)
            return
        with self.guarded(target):
            place, offset = self.bits(target)
            if self.layout.member(f) is None and (offset % 8 or f.width % LIMB):
                source = self.wide(value, f.limbs)
                self.code(f"wide_put({place}, {offset}, {f.width}, {source}, {f.limbs});")
            else:
                member = self.layout.member(f)
                self.wide_into(value, f.limbs, member or f"{place} + {offset // 8}")
                if f.width % LIMB and not 0 <= bounds(value)[0] <= bounds(value)[1] < 1 << f.width:
                    self.code(f"set_limb({place}, 0, limb({place}, 0) & ones({f.width % LIMB}));")

    def store(self, target: Read, value: str, fits: bool = False) -> None:
        """Stores a word into a field, cut to the field's width."""
        f = target.field
        member = self.layout.member(f)
        if f.wide:
            name = self.temporary(f.limbs)
            self.code(f"wide_set({name}, {f.limbs}, {value}, 0);")
            self.store_wide(target, name, f.limbs)
        elif member is not None:
            mask = "" if fits or f.width == LIMB else f" & ones({f.width})"
            self.code(
                f"{member} = {value}{mask};" if mask == "" else f"{member} = ({value}){mask};"
            )
        else:
            with self.guarded(target):
                image = self.image(target.where)
                self.code(f"put_bits({image}, {f.offset}, {f.width}, {value});")

    def store_wide(self, target: Read, source: str, limbs: int) -> None:
        """Stores a wide number into a field, cut to the field's width."""
        f = target.field
        if not f.wide:
            self.store(target, f"limb({source}, {limbs - 1})")
            return
        if limbs < f.limbs:
            name = self.temporary(f.limbs)
            self.code(f"wide_resize({name}, {f.limbs}, {source}, {limbs}, 0);")
            source, limbs = name, f.limbs
        with self.guarded(target):
            place, offset = self.bits(target)
            if offset % 8 == 0 and f.width % LIMB == 0:
                start = f"{source} + {8 * (limbs - f.limbs)}"
                self.code(f"copy_limbs({place} + {offset // 8}, {start}, {f.limbs});")
            else:
                self.code(f"wide_put({place}, {offset}, {f.width}, {source}, {limbs});")

    def guarded(self, target: Read) -> AbstractContextManager[None]:
        """A block that is skipped if the field's header is invalid."""
        if self.layout.member(target.field) is not None:
            return self.code.block("")
        return self.code.block(f"if ({self.image(target.where)} != zeros)")

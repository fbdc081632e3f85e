"""Emits one C file for a program.

The file includes the runtime's headers, defines the packet's state, the program's tables,
registers, actions, parser, ingress, egress and deparser, and ends with the switch that calls
``process``. What a packet goes through is what BMv2's simple_switch does: multicast before
unicast, drop port 511, egress once per copy, checksums updated at the very end.
"""

from __future__ import annotations

from testbed.dataplane.native.emit_action import Actions, register_array
from testbed.dataplane.native.emit_parser import Parser
from testbed.dataplane.native.emit_table import Tables
from testbed.dataplane.native.expression import Header, Instance, Read, Stack, header_of
from testbed.dataplane.native.layout import Code, Layout, identifier
from testbed.dataplane.native.liveness import read_before_written
from testbed.dataplane.native.program import (
    Action,
    Calculation,
    Counter,
    Pipeline,
    Program,
    Register,
    Table,
    Unsupported,
)

_MULTICAST = 5  # instance_type of a copy, in simple_switch


def emit(program: Program) -> str:
    """C source of the program; raises ``Unsupported`` for what only shows while emitting."""
    problems: list[str] = []
    body = _Emitter(program, problems)
    text = body.text()
    if problems:
        raise Unsupported(program.name, problems)
    return text


class _Emitter:
    def __init__(self, program: Program, problems: list[str]) -> None:
        self.program = program
        self.layout = Layout(program)
        self.code = Code()
        self.actions = Actions(self.code, self.layout, problems)
        self.tables = Tables(self.code, self.layout, self.actions)
        self.parser = Parser(self.code, self.layout, self.actions)

    def text(self) -> str:
        program, code = self.program, self.code
        self.state()
        self.storage()
        for calculation in program.calculations:
            self.actions.calculation(calculation)
        for action in program.actions:
            self.actions.action(action)
            code("")
        self.parser.parser()
        self.tables.pipeline(program.ingress)
        self.tables.pipeline(program.egress)
        self.checksums()
        self.leave()
        self.process()
        self.tables.install(program.tables)
        lines = [f"// Made from {program.name}; do not edit.", '#include "packet.h"', ""]
        for data, name in code.constants.items():
            values = ", ".join(map(str, data))
            lines.append(
                f"static const uint8_t {name}[] __attribute__((aligned(64))) = {{{values}}};"
            )
        return "\n".join([*lines, "", *code.lines, '#include "switch.h"', ""])

    def state(self) -> None:
        code, layout = self.code, self.layout
        with code.block("struct state", "};"):
            code("uint8_t *cursor, *end; // what the parser has not taken: the payload")
            code("uint64_t received, length; // bytes as they came, and with headers added or not")
            code("bool exit;")
            for field, name in layout.metadata.items():
                if not field.wide:
                    code(f"uint64_t {name};")
            if self.program.stacks:
                code(f"uint64_t next[{len(self.program.stacks)}];")
            code(f"uint8_t *h[{max(1, len(layout.headers))}];")
        with code.block("struct wide", "};"):
            for field, name in layout.metadata.items():
                if field.wide:
                    code(f"uint8_t {name}[{8 * field.limbs}] __attribute__((aligned(64)));")
            code("uint8_t none;")
        for header in layout.headers:
            code(f"// s->h[{header.index}]: {header.name}, {header.bytes} bytes")
        code("")

    def storage(self) -> None:
        code, program = self.code, self.program
        for register in program.registers:
            name, size = register_array(register), register.size
            if register.wide:
                cell = f"[{size}][{8 * register.limbs}] __attribute__((aligned(4096)))"
                code(f"static uint8_t {name}{cell};")
            else:
                code(f"static uint64_t {name}[{size}];")
        for counter in program.counters:
            if counter.table is None:
                code(f"static struct counter counter_{counter.index}[{counter.size}];")
        for table in program.tables:
            self.tables.declare(table)
        self.directory(
            "struct registers registers", [self.register_entry(r) for r in program.registers]
        )
        self.directory(
            "struct counters counters", [self.counter_entry(c) for c in program.counters]
        )
        self.directory("struct table *tables", [f"&table_{t.index}" for t in program.tables])
        code("")

    def directory(self, name: str, entries: list[str]) -> None:
        """An array that the control plane indexes; a C array has one element at least."""
        filler = "NULL" if "*" in name else "{0}"
        self.code(f"static {name}[] = {{{', '.join(entries) or filler}}};")
        count = name.split()[-1].lstrip("*").removesuffix("s") + "_count"
        self.code(f"static const unsigned {count} = {len(entries)};")

    def register_entry(self, register: Register) -> str:
        size = 8 * register.limbs
        return f"{{{register_array(register)}, {register.size}, {size}}}"

    def counter_entry(self, counter: Counter) -> str:
        if counter.table is None:
            return f"{{counter_{counter.index}, {counter.size}, NULL}}"
        (table,) = (t for t in self.program.tables if t.name == counter.table)
        return f"{{NULL, {counter.size}, &table_{table.index}}}"

    def checksums(self) -> None:
        with self.code.block("INLINE void update_checksums(struct state *s, struct wide *w)"):
            self.code("(void)w;")
            for checksum in self.program.checksums:
                if checksum.update:
                    condition = "true"
                    if checksum.condition is not None:
                        condition = self.actions.expressions.boolean(checksum.condition)
                    with self.code.block(f"if ({condition})"):
                        name = identifier(checksum.calculation.name)
                        value = f"calculation_{name}(s, w)"
                        self.actions.expressions.store(checksum.target, value)
        self.code("")

    def set(self, name: str, value: str) -> None:
        """Sets a field of the standard metadata, where the program has it."""
        field = self.program.standard(name)
        if field is not None:
            self.code(f"{self.layout.member(field)} = {value};")

    def get(self, name: str) -> str:
        field = self.program.standard(name)
        return "0" if field is None else self.layout.member(field) or "0"

    def leave(self) -> None:
        """Egress and deparser: what a packet, or one copy of it, does on its way out."""
        code = self.code
        with code.block("INLINE void leave(struct state *s, struct wide *w, unsigned port)"):
            self.set("egress_port", "port")
            self.set("egress_spec", "0")
            self.set("packet_length", "s->length")
            self.set("egress_global_timestamp", "now")
            code("egress(s, w);")
            code("s->exit = false;")
            code(f"if ({self.get('egress_spec')} == DROP_PORT)")
            code("    return;")
            code("update_checksums(s, w);")
            code("output_begin(port);")
            for header in self.program.deparse:
                slot = self.layout.slot(header)
                code(f"if ({slot} != zeros)")
                code(f"    output_segment({slot}, {header.bytes});")
            code("output_segment(s->cursor, (size_t)(s->end - s->cursor));")
            code("output_end();")
        code("")

    def process(self) -> None:
        code, layout = self.code, self.layout
        segments = len(self.program.deparse) + 1
        owned = egress_writes(self.program)
        scratch = sum(h.bytes for h in owned) + _added(self.program.egress, layout)
        with code.block("static void process(unsigned port, uint8_t *packet, size_t length)"):
            code("struct state state = {0}, *const s = &state;")
            code("struct wide wide, *const w = &wide;")
            early = read_before_written(self.program)
            for field, name in layout.metadata.items():
                if field in early:
                    code(f"memset(w->{name}, 0, {8 * field.limbs});")
            code("s->cursor = packet;")
            code("s->end = packet + length;")
            code("s->received = s->length = length;")
            for header in layout.headers:
                code(f"{layout.slot(header)} = zeros;")
            self.set("ingress_port", "port")
            self.set("packet_length", "length")
            self.set("ingress_global_timestamp", "now")
            code(f"output_room({segments}, ARENA / 2, 0);")
            code("parse(s, w);")
            code("ingress(s, w);")
            code("s->exit = false;")
            with code.block(f"if ({self.get('mcast_grp')} != 0)"):
                self.multicast(segments, scratch, owned)
            with code.block(f"else if ({self.get('egress_spec')} != DROP_PORT)"):
                self.set("instance_type", "0")
                code(f"leave(s, w, (unsigned){self.get('egress_spec')});")
        code("")

    def multicast(self, segments: int, scratch: int, owned: list[Header]) -> None:
        """A copy shares the header images that egress leaves as they are, and the payload."""
        code = self.code
        wide = any(f.wide for f in self.layout.metadata)
        self.set("instance_type", str(_MULTICAST))
        code(f"const struct group *const group = groups[{self.get('mcast_grp')}];")
        code("const size_t keep = arena_used;")
        with code.block("for (unsigned i = 0; group != NULL && i < group->count; i++)"):
            code("struct state copy = state, *const s = &copy;")
            if wide:
                code("struct wide wide_copy = wide, *const w = &wide_copy;")
            code(f"output_room({segments}, {scratch}, keep);")
            with code.block("if (i + 1 < group->count)"):
                for header in owned:
                    code(f"header_own(&{self.layout.slot(header)}, {header.bytes});")
            self.set("egress_rid", "group->replicas[i].rid")
            code("leave(s, w, group->replicas[i].port);")


def pipeline_actions(pipeline: Pipeline) -> list[Action]:
    return [a for node in pipeline.nodes.values() if isinstance(node, Table) for a in node.actions]


def egress_writes(program: Program) -> list[Header]:
    """Headers whose image the egress pipeline or a checksum may change."""
    written: set[Header] = set()
    targets: list[object] = [c.target for c in program.checksums if c.update]
    for action in pipeline_actions(program.egress):
        for primitive in action.primitives:
            targets += primitive.arguments[:1]
            if primitive.op == "assign_header_stack" or primitive.op in ("push", "pop"):
                targets += program.stacks
    for target in targets:
        where = target.where if isinstance(target, Read) else target
        if isinstance(where, Instance):
            written.add(where.header)
        elif isinstance(where, Stack):
            written.update(where.headers)
        elif not isinstance(where, Register | Counter | Calculation | int) and hasattr(
            where, "stack"
        ):
            written.update(where.stack.headers)
    return sorted((h for h in written if not h.metadata), key=lambda h: h.index)


def _added(egress: Pipeline, layout: Layout) -> int:
    """Bytes of the headers that egress may add to one packet."""
    total = 0
    for action in pipeline_actions(egress):
        for primitive in action.primitives:
            where = primitive.arguments[0] if primitive.arguments else None
            if primitive.op in ("add_header", "assign_header"):
                total += header_of(where).bytes  # type: ignore[arg-type]
            elif primitive.op == "assign_header_stack" and isinstance(where, Stack):
                total += sum(h.bytes for h in where.headers)
    return total

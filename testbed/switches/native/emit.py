"""Emits one C file for a program.

The file defines the packet's state, the program's tables, registers, actions, parser, ingress,
egress and deparser. It then includes ``runtime/pipeline.h``, which runs them on a packet as BMv2's
simple_switch does, and ``runtime/switch.h``, which supplies the packets.
"""

from __future__ import annotations

from testbed.switches.native.emit_action import Actions, register_array
from testbed.switches.native.emit_hash import Calculations
from testbed.switches.native.emit_hash import function_of as hash_function
from testbed.switches.native.emit_parser import Parser
from testbed.switches.native.emit_table import Tables
from testbed.switches.native.expression import (
    Element,
    Field,
    Header,
    Instance,
    Last,
    Read,
    Stack,
    header_of,
)
from testbed.switches.native.layout import Code, Layout
from testbed.switches.native.liveness import carried_to_egress, fields_read, read_before_written
from testbed.switches.native.program import (
    Action,
    Counter,
    Meter,
    Pipeline,
    Program,
    Register,
    Table,
    Unsupported,
)

# Fields of the standard metadata that the switch itself reads and writes
_STANDARD = (
    *("ingress_port", "egress_spec", "egress_port", "instance_type", "packet_length"),
    *("mcast_grp", "egress_rid", "ingress_global_timestamp", "egress_global_timestamp"),
    *("enq_timestamp", "enq_qdepth", "deq_qdepth"),
)
_PASSES = frozenset(
    {"clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress", "resubmit", "recirculate"}
)


def emit(program: Program, around: str = "switch.h") -> str:
    """C source of the program, with the header ``around`` it: switch.h, or embedded.h.

    Raises ``Unsupported`` for features whose lack of support shows only while emitting.
    """
    problems: list[str] = []
    body = _Emitter(program, problems, around)
    text = body.text()
    if problems:
        raise Unsupported(program.name, problems)
    return text


class _Emitter:
    def __init__(self, program: Program, problems: list[str], around: str) -> None:
        self.program, self.around = program, around
        self.layout = Layout(program)
        self.code = Code()
        self.actions = Actions(self.code, self.layout, problems)
        self.tables = Tables(self.code, self.layout, self.actions)
        self.parser = Parser(self.code, self.layout, self.actions)
        operations = {primitive.op for primitive in program.primitives()}
        self.passes = bool(operations & _PASSES)
        self.truncates = "truncate" in operations

    def text(self) -> str:
        program, code = self.program, self.code
        self.features()
        self.state()
        self.storage()
        calculations = Calculations(code, self.actions.expressions)
        for calculation in program.calculations:
            calculations.calculation(calculation)
        for action in program.actions:
            self.actions.action(action)
            code("")
        self.parser.parser()
        self.tables.pipeline(program.ingress)
        self.tables.pipeline(program.egress)
        self.checksums()
        self.deparser()
        self.copies()
        self.tables.install(program.tables)
        lines = [f"// Made from {program.name}; do not edit.", '#include "packet.h"', ""]
        for data, name in code.constants.items():
            values = ", ".join(map(str, data))
            lines.append(
                f"static const uint8_t {name}[] __attribute__((aligned(64))) = {{{values}}};"
            )
        tail = [f'#include "{self.around}"', ""]
        return "\n".join([*lines, "", *code.lines, *tail])

    def features(self) -> None:
        """The constants with which the runtime is compiled."""
        code, layout = self.code, self.layout
        queue = {self.program.standard(f"{end}_qdepth") for end in ("enq", "deq")}
        code(f"#define PASSES {int(self.passes)}")
        code(f"#define TRUNCATES {int(self.truncates)}")
        code(f"#define QUEUE_DEPTH {int(not queue.isdisjoint(fields_read(self.program)))}")
        code(f"#define HEADERS {max(1, len(layout.headers))}")
        code(f"#define SEGMENTS {len(self.program.deparse) + 1}")
        owned = egress_writes(self.program)
        scratch = sum(h.bytes for h in owned) + _added(self.program.egress)
        code(f"#define EGRESS_SCRATCH {scratch}")
        for name in _STANDARD:
            field = self.program.standard(name)
            member = layout.member(field) if field is not None else None
            if field is None or member is None:
                code(f"#define SET_{name}(value) ((void)(value))")
                code(f"#define GET_{name} 0")
            else:
                code(f"#define SET_{name}(value) ({member} = (value) & ones({field.width}))")
                code(f"#define GET_{name} {member}")
        code("")

    def state(self) -> None:
        code, layout = self.code, self.layout
        with code.block("struct metadata", "};"):
            for field, name in layout.metadata.items():
                if not field.wide:
                    code(f"uint64_t {name};")
        with code.block("struct state", "};"):
            code("uint8_t *cursor, *end; // not consumed by the parser: the payload")
            code("uint64_t received, length; // bytes on arrival; with headers added or removed")
            code("bool exit;")
            if self.passes:
                code("unsigned port; // where the packet came in")
                code("unsigned clone, clone_list, resubmit, recirculate; // requested, or 0")
            if self.truncates:
                code("size_t limit; // bytes that may leave")
            if self.program.stacks:
                code(f"uint64_t next[{len(self.program.stacks)}];")
            code("uint8_t *h[HEADERS];")
            code("struct metadata m;")
        with code.block("struct wide", "};"):
            for field, name in layout.metadata.items():
                if field.wide:
                    code(f"uint8_t {name}[{8 * field.limbs}] __attribute__((aligned(64)));")
            code("uint8_t none;")
        with code.block("INLINE size_t payload_bytes(const struct state *s)"):
            code("const size_t left = (size_t)(s->end - s->cursor);")
            code(f"return {'left < s->limit ? left : s->limit' if self.truncates else 'left'};")
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
        for meter in program.meters:
            if meter.table is None:
                code(f"static struct meter meter_{meter.index}[{meter.size}];")
        for table in program.tables:
            self.tables.declare(table)
        self.directory(
            "struct registers registers", [self.register_entry(r) for r in program.registers]
        )
        self.directory(
            "struct counters counters", [self.counter_entry(c) for c in program.counters]
        )
        self.directory("struct meters meters", [self.meter_entry(m) for m in program.meters])
        self.directory("struct table *tables", [f"&table_{t.index}" for t in program.tables])
        code("")

    def directory(self, name: str, entries: list[str]) -> None:
        """An array that the control plane indexes; a C array has at least one element."""
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
        return f"{{NULL, 0, {self.table_named(counter.table)}}}"

    def meter_entry(self, meter: Meter) -> str:
        if meter.table is None:
            return f"{{meter_{meter.index}, {meter.size}, NULL}}"
        return f"{{NULL, 0, {self.table_named(meter.table)}}}"

    def table_named(self, name: str) -> str:
        """NULL for a table that the program declares and never applies."""
        tables = [t for t in self.program.tables if t.name == name]
        return f"&table_{tables[0].index}" if tables else "NULL"

    def checksums(self) -> None:
        with self.code.block("INLINE void update_checksums(struct state *s, struct wide *w)"):
            self.code("(void)s, (void)w;")
            for checksum in self.program.checksums:
                if checksum.update:
                    condition = "true"
                    if checksum.condition is not None:
                        condition = self.actions.expressions.boolean(checksum.condition)
                    with self.code.block(f"if ({condition})"):
                        value = f"{hash_function(checksum.calculation)}(s, w)"
                        self.actions.expressions.store(checksum.target, value)
        self.code("")

    def deparser(self) -> None:
        code, layout = self.code, self.layout
        with code.block("INLINE void deparse(struct state *s)"):
            code("(void)s;")
            for header in self.program.deparse:
                code(f"if ({layout.slot(header)} != zeros)")
                code(f"    output_segment({layout.slot(header)}, {header.bytes});")
        code("")

    def copies(self) -> None:
        """Emits the functions that clear metadata for a packet, copy it, and give a copy its own
        headers."""
        code, layout = self.code, self.layout
        if self.passes:
            sizes = [header.bytes for header in layout.headers] or [0]
            code(f"static const unsigned header_bytes[] = {{{', '.join(map(str, sizes))}}};")
            self.preserve()
        with code.block("INLINE void clear_wide(struct wide *w)"):
            code("(void)w;")
            early = read_before_written(self.program)
            for field, name in layout.metadata.items():
                if field in early:
                    code(f"memset(w->{name}, 0, {8 * field.limbs});")
        with code.block("INLINE void copy_wide(struct wide *to, const struct wide *from)"):
            code("(void)to, (void)from;")
            carried = carried_to_egress(self.program)
            for field, name in layout.metadata.items():
                if field in carried:
                    code(f"copy_limbs(to->{name}, from->{name}, {field.limbs});")
        with code.block("INLINE void own_headers(struct state *s)"):
            code("(void)s;")
            for header in egress_writes(self.program):
                code(f"header_own(&{layout.slot(header)}, {header.bytes});")
        code("")
        code('#include "pipeline.h"')
        code("")

    def preserve(self) -> None:
        """Copies the metadata of a field list."""
        code = self.code
        arguments = (
            "const struct state *s, const struct wide *w, struct state *to, struct wide *wide"
        )
        with code.block(f"static void preserve(unsigned list, {arguments})"):
            code("(void)s, (void)w, (void)to, (void)wide;")
            with code.block("switch (list)"):
                for number, fields in self.program.field_lists.items():
                    code(f"case {number}:")
                    code.depth += 1
                    for field in fields:
                        self.preserve_field(field)
                    code("break;")
                    code.depth -= 1

    def preserve_field(self, field: Field) -> None:
        name = self.layout.metadata[field]
        if field.wide:
            self.code(f"copy_limbs(wide->{name}, w->{name}, {field.limbs});")
        else:
            self.code(f"to->m.{name} = s->m.{name};")


def pipeline_actions(pipeline: Pipeline) -> list[Action]:
    return [a for node in pipeline.nodes.values() if isinstance(node, Table) for a in node.actions]


def egress_writes(program: Program) -> list[Header]:
    """Headers whose bytes the egress pipeline or a checksum may change."""
    written: set[Header] = set()
    targets: list[object] = [c.target for c in program.checksums if c.update]
    for action in pipeline_actions(program.egress):
        for primitive in action.primitives:
            targets += primitive.arguments[2:] if primitive.op == "execute_meter" else ()
            targets += primitive.arguments[:1]
            if primitive.op in ("assign_header_stack", "push", "pop"):
                targets += program.stacks
    for target in targets:
        where = target.where if isinstance(target, Read) else target
        if isinstance(where, Instance):
            written.add(where.header)
        elif isinstance(where, Stack):
            written.update(where.headers)
        elif isinstance(where, Element | Last):
            written.update(where.stack.headers)
    return sorted((h for h in written if not h.metadata), key=lambda h: h.index)


def _added(egress: Pipeline) -> int:
    """Size in bytes of the headers that egress may add to one packet."""
    total = 0
    for action in pipeline_actions(egress):
        for primitive in action.primitives:
            where = primitive.arguments[0] if primitive.arguments else None
            if primitive.op in ("add_header", "assign_header"):
                total += header_of(where).bytes  # type: ignore[arg-type]
            elif primitive.op == "assign_header_stack" and isinstance(where, Stack):
                total += sum(h.bytes for h in where.headers)
    return total

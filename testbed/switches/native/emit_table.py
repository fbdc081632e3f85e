"""Emits a pipeline: a label per table and condition, and the tables' contents as compiled."""

from __future__ import annotations

from testbed.switches.native.emit_action import Actions, exits, function_of, metered
from testbed.switches.native.expression import Expression, Read, bounds
from testbed.switches.native.layout import Code, Layout, identifier
from testbed.switches.native.program import Action, Conditional, Entry, Key, Meter, Pipeline, Table


class Tables:
    def __init__(self, code: Code, layout: Layout, actions: Actions) -> None:
        self.code = code
        self.layout = layout
        self.actions = actions
        self.expressions = actions.expressions

    def declare(self, table: Table) -> None:
        ranges = 0
        word = 0
        for key in table.keys:
            if key.kind == "range":
                ranges |= 1 << word
            word += key.words
        scanned = table.kind in ("ternary", "range")
        with self.code.block(f"static struct table table_{table.index} =", "};"):
            self.code(f'.name = "{table.name}",')
            self.code(f".key_words = {table.key_words},")
            self.code(f".data_words = {table.data_words},")
            self.code(f".capacity = {table.size},")
            self.code(f".scanned = {int(scanned)},")
            self.code(f".ranges = {ranges},")

    def install(self, tables: tuple[Table, ...]) -> None:
        code = self.code
        with code.block("static void install(void)"):
            for table in tables:
                with code.block(""):
                    code(f"struct table *const t = &table_{table.index};")
                    if table.default is None:
                        code(f"const uint64_t data[{max(1, table.data_words)}] = {{0}};")
                        code("table_set_miss(t, NO_ACTION, data);")
                    else:
                        self.data(table, table.default)
                        code(f"table_set_miss(t, {_position(table, table.default.action)}, data);")
                for entry in table.entries:
                    with code.block(""):
                        self.entry(table, entry)
        code("")

    def data(self, table: Table, entry: Entry) -> None:
        words = entry_data(table, entry.action, entry.data)
        self.code(f"const uint64_t data[] = {{{_words(words)}}};")

    def entry(self, table: Table, entry: Entry) -> None:
        self.data(table, entry)
        key, mask = entry_key(table.keys, entry.parts)
        self.code(f"const uint64_t key[] = {{{_words(key)}}};")
        self.code(f"const uint64_t mask[] = {{{_words(mask)}}};")
        priority = entry.priority if table.kind in ("ternary", "range") else entry.prefix
        position = _position(table, entry.action)
        self.code(f"table_insert(&table_{table.index}, {position}, {priority}, key, mask, data);")

    # Control flow

    def pipeline(self, pipeline: Pipeline) -> None:
        code = self.code
        with code.block(f"INLINE void {pipeline.name}(struct state *s, struct wide *w)"):
            code("(void)w;")
            self.jump(pipeline.first)
            for name in pipeline.order():
                node = pipeline.nodes[name]
                code.depth -= 1
                code(f"{_label(name)}:;")
                code.depth += 1
                with code.block(""):
                    if isinstance(node, Conditional):
                        self.conditional(node)
                    elif node.inline:
                        assert node.default is not None
                        self.run(node, node.default.action, False, node.default)
                    else:
                        self.table(node)
            code.depth -= 1
            code("done:;")
            code.depth += 1
        code("")

    def jump(self, name: str | None) -> None:
        self.code(f"goto {'done' if name is None else _label(name)};")

    def conditional(self, node: Conditional) -> None:
        self.expressions.at = node.at
        self.code(f"const bool holds = {self.expressions.boolean(node.expression)};")
        self.code("if (holds)")
        self.code.depth += 1
        self.jump(node.if_true)
        self.code.depth -= 1
        self.jump(node.if_false)

    def run(self, table: Table, action: Action, jump: bool, constant: Entry | None = None) -> None:
        """Calls the action, and jumps to the node that follows in the table."""
        data = "e->data"
        if constant is not None:
            data = "NULL"
            if constant.data:
                self.data(table, constant)
                data = "data"
        self.code(f"{function_of(action)}(s, w, {data});")
        if exits(action):
            self.code("if (s->exit)")
            self.code("    goto done;")
        if table.after_action is not None:
            self.jump(table.after_action.get(action.name, table.after_miss))
        elif constant is not None:
            self.jump(table.after_miss)
        elif jump:
            self.code("break;")

    def table(self, table: Table) -> None:
        code = self.code
        name, words = f"table_{table.index}", table.key_words
        if table.keys:
            parts = [part for key in table.keys for part in self.key(key)]
            code(f"const uint64_t key[{words}] = {{{', '.join(parts)}}};")
            scanned = table.kind in ("ternary", "range")
            function = "table_scan" if scanned else f"table_{_HASHED[table.kind]}"
            code(f"struct entry *const e = {function}(&{name}, key, {words});")
        else:
            code(f"struct entry *const e = {name}.miss;")
        if table.counted:
            code("e->packets++;")
            code("e->bytes += s->received;")
        if table.meter is not None:
            self.colour(name, *table.meter)
        with code.block("switch (e->action)"):
            for position, action in enumerate(table.actions):
                code(f"case {position}:")
                code.depth += 1
                self.run(table, action, True)
                code.depth -= 1
        if table.after_action is not None:
            self.jump(table.after_miss)  # no action at all
        else:
            code(f"if (e != {name}.miss)")
            code.depth += 1
            self.jump(table.after_hit)
            code.depth -= 1
            self.jump(table.after_miss)

    def colour(self, name: str, meter: Meter, target: Expression) -> None:
        """Emits the colour of a direct meter. A miss does not change the colour."""
        assert isinstance(target, Read)
        with self.code.block(f"if (e != {name}.miss)"):
            colour = f"meter_execute(e->meter, {metered(meter)}, now)"
            self.expressions.store(target, f"(e->meter ? {colour} : 0)")

    def key(self, key: Key) -> list[str]:
        if key.words == 1:
            text = self.expressions.scalar(key.value)
            if key.width < 64 and bounds(key.value)[0] < 0:
                text = f"({text}) & ones({key.width})"
            return [text if key.mask is None else f"({text}) & {key.mask:#x}u"]
        place = self.expressions.wide(key.value, key.words)
        texts = [f"limb({place}, {i})" for i in range(key.words)]
        if key.mask is not None:
            masks = split(key.mask, key.words)
            texts = [f"{text} & {mask:#x}u" for text, mask in zip(texts, masks, strict=True)]
        return texts


def _label(node: str) -> str:
    return f"node_{identifier(node)}"


_HASHED = {"exact": "exact", "lpm": "longest"}


def split(value: int, words: int) -> list[int]:
    """The 64-bit words of a number, most significant first."""
    return [value >> 64 * (words - 1 - i) & (1 << 64) - 1 for i in range(words)]


def entry_key(
    keys: tuple[Key, ...], parts: tuple[tuple[int, int], ...]
) -> tuple[list[int], list[int]]:
    """Words of an entry's values and masks (of least and greatest values for a range)."""
    values: list[int] = []
    masks: list[int] = []
    for key, (value, mask) in zip(keys, parts, strict=True):
        values += split(value, key.words)
        masks += split(mask, key.words)
    return values, masks


def entry_data(table: Table, action: Action, data: tuple[int, ...]) -> list[int]:
    """Words of an action's parameters, padded to the table's longest.

    A parameter beyond 64 bits is a big-endian array of limbs, and so is byte-swapped here.
    """
    words: list[int] = []
    for parameter, value in zip(action.parameters, data, strict=True):
        if parameter.width <= 64:
            words.append(value & (1 << parameter.width) - 1)
        else:
            limbs = split(value & (1 << parameter.width) - 1, -(-parameter.width // 64))
            words += [int.from_bytes(limb.to_bytes(8, "big"), "little") for limb in limbs]
    return words + [0] * (max(1, table.data_words) - len(words))


def _position(table: Table, action: Action) -> int:
    return table.actions.index(action)


def _words(words: list[int]) -> str:
    return ", ".join(f"{word:#x}u" for word in words) or "0"

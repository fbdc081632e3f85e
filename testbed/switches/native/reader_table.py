"""Reads the pipelines of BMv2's JSON: tables, their entries, and the conditions between them."""

from __future__ import annotations

from testbed.switches.native.expression import Expression, Instance, Read, Valid
from testbed.switches.native.operands import Json, Operands, number, position
from testbed.switches.native.program import Action, Conditional, Entry, Key, Meter, Pipeline, Table

_MAX_KEY_WORDS = 64  # as in runtime/table.h


class Pipelines(Operands):
    def __init__(self) -> None:
        super().__init__()
        self.table_index = 0
        self.colours: dict[str, tuple[Meter, Expression]] = {}  # of a table's direct meter

    def pipeline(self, item: Json, actions: dict[int, Action]) -> Pipeline:
        nodes: dict[str, Table | Conditional] = {}
        for table in item["tables"]:
            nodes[table["name"]] = self.table(table, actions)
        for conditional in item["conditionals"]:
            self.at = position(conditional)
            nodes[conditional["name"]] = Conditional(
                conditional["name"],
                self.expression(conditional["expression"]),
                conditional["true_next"],
                conditional["false_next"],
                self.at,
            )
            self.at = ""
        for call in item.get("action_calls") or ():
            self.refuse(f"action call {call['name']} outside a table", call)
        return Pipeline(item["name"], item["init_table"], nodes)

    def key(self, item: Json) -> Key:
        mask = item.get("mask")
        if item["match_type"] == "valid":
            header = Instance(self.headers[item["target"]])
            return Key(item.get("name", header.header.name), "exact", Valid(header), 1, None)
        value = self.field(*item["target"])
        width = value.field.width if isinstance(value, Read) else 1
        if item["match_type"] not in ("exact", "lpm", "ternary", "range", "optional"):
            self.refuse(f"match kind {item['match_type']}")
        if width > 64 and item["match_type"] == "range":
            self.refuse(f"range match over the {width} bits of {'.'.join(item['target'])}")
        kind = "ternary" if item["match_type"] == "optional" else item["match_type"]
        name = item.get("name", ".".join(item["target"]))
        return Key(name, kind, value, width, None if mask is None else number(mask))

    def table(self, item: Json, actions: dict[int, Action]) -> Table:
        name = item["name"]
        self.at = position(item)
        if item["type"] != "simple":
            self.refuse(f"action profile or selector of table {name}")
        if item.get("support_timeout"):
            self.refuse(f"idle timeout of table {name}")
        keys = tuple(self.key(k) for k in item["key"])
        default = None
        default_fixed = False
        if "default_entry" in item:
            entry = item["default_entry"]
            action = actions[entry["action_id"]]
            data = tuple(number(v) for v in entry.get("action_data") or ())
            default = Entry((), 0, action, data, 0)
            default_fixed = bool(entry.get("action_const") and entry.get("action_entry_const"))
        following = dict(item["next_tables"])
        by_hit = "__HIT__" in following or "__MISS__" in following
        base = item.get("base_default_next")
        table = Table(
            name=name,
            index=self.table_index,
            kind=item["match_type"],
            keys=keys,
            size=item["max_size"],
            actions=tuple(actions[i] for i in item["action_ids"]),
            default=default,
            default_fixed=default_fixed,
            entries=tuple(self.entry(e, keys, actions) for e in item.get("entries") or ()),
            fixed="entries" in item,
            counted=bool(item.get("with_counters")),
            meter=self.colours.get(name) if item.get("direct_meters") else None,
            after_hit=following.get("__HIT__", base) if by_hit else base,
            after_miss=following.get("__MISS__", base) if by_hit else base,
            after_action=None if by_hit else following,
        )
        if table.key_words > _MAX_KEY_WORDS:
            self.refuse(f"key of table {name}: {table.key_words} words, more than {_MAX_KEY_WORDS}")
        if not table.inline:
            self.table_index += 1
        self.at = ""
        return table

    def entry(self, item: Json, keys: tuple[Key, ...], actions: dict[int, Action]) -> Entry:
        parts: list[tuple[int, int]] = []
        prefix = 0
        for match, key in zip(item["match_key"], keys, strict=True):
            everything = (1 << key.width) - 1
            if match["match_type"] == "range":
                parts.append((number(match["start"]), number(match["end"])))
                continue
            value = match["key"]
            value = int(value) if isinstance(value, bool) else number(value)
            mask = everything
            if match["match_type"] == "lpm":
                prefix = match["prefix_length"]
                mask ^= everything >> prefix
            elif "mask" in match:
                mask = number(match["mask"])
            parts.append((value & mask, mask))
        action = item["action_entry"]
        data = tuple(number(v) for v in action["action_data"])
        priority = item.get("priority", 0)
        return Entry(tuple(parts), prefix, actions[action["action_id"]], data, priority)

"""Reads BMv2's JSON, as p4c-bm2-ss writes it, into a ``Program``.

The format is described in behavioral-model's docs/JSON_format.md. Whatever is not supported is
collected, and reported together.
"""

from __future__ import annotations

import json
from pathlib import Path

from testbed.dataplane.native.expression import (
    Const,
    Expression,
    Field,
    Header,
    Instance,
    Parameter,
    Read,
    Stack,
    Valid,
)
from testbed.dataplane.native.operands import Json, Operands, number
from testbed.dataplane.native.program import (
    Action,
    Advance,
    Assign,
    Calculation,
    Case,
    Checksum,
    Conditional,
    Constant,
    Counter,
    Entry,
    Extract,
    Key,
    Lookahead,
    ParserOp,
    Pipeline,
    Primitive,
    Program,
    Register,
    State,
    Table,
    Unsupported,
    Verify,
)

_MAX_HEADER = 32768  # bits: 4096 bytes, as in runtime/packet.h
_MAX_KEY_WORDS = 64  # as in runtime/table.h
_ALGORITHMS = frozenset({"csum16", "crc16", "crc32", "xor16", "identity"})
_PRIMITIVES = frozenset(
    {
        *("assign", "assign_header", "assign_header_stack", "add_header", "remove_header"),
        *("push", "pop", "drop", "mark_to_drop", "exit", "no_op", "log_msg"),
        *("register_read", "register_write", "count", "modify_field_rng_uniform"),
        *("modify_field_with_hash_based_offset", "_jump", "_jump_if_zero"),
    }
)
# What v1model offers and this target does not; the reason says what a user can do about it.
_REFUSED = {
    "header_union_types": "header unions",
    "parse_vsets": "parser value sets (use a select over constants)",
    "meter_arrays": "meters",
    "learn_lists": "digests",
    "extern_instances": "extern instances",
}


def read(path: Path) -> Program:
    """The program in a JSON file.

    Raises ``Unsupported`` with everything in it that the native target lacks, and ``ValueError``
    where the file is no output of p4c-bm2-ss.
    """
    try:
        document = json.loads(path.read_bytes())
        return _Reader(document).program()
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected JSON of p4c-bm2-ss for v1model, found {error!r}"
        ) from error


class _Reader(Operands):
    def __init__(self, document: Json) -> None:
        super().__init__()
        self.document = document
        self.by_id: dict[int, Header] = {}
        self.table_index = 0

    def program(self) -> Program:
        document = self.document
        for key, words in _REFUSED.items():
            if document.get(key):
                self.refuse(words)
        self.read_headers()
        self.read_state_arrays()
        self.calculations = {c["name"]: self.calculation(c) for c in document["calculations"]}
        actions = {a["id"]: self.action(a) for a in document["actions"]}
        parser = document["parsers"][0] if document["parsers"] else {"parse_states": []}
        states = {s["name"]: self.state(s) for s in parser["parse_states"]}
        pipelines = {p["name"]: self.pipeline(p, actions) for p in document["pipelines"]}
        checksums = tuple(self.checksum(c) for c in document["checksums"])
        deparser = document["deparsers"][0]
        if deparser.get("primitives"):
            self.refuse("calls in the deparser")
        program = Program(
            name=document.get("program", "program"),
            headers=tuple(self.headers.values()),
            stacks=tuple(self.stacks.values()),
            errors={name: value for name, value in document["errors"]},
            first_state=parser.get("init_state"),
            states=states,
            ingress=pipelines["ingress"],
            egress=pipelines["egress"],
            actions=tuple(actions.values()),
            tables=tuple(
                node
                for pipeline in pipelines.values()
                for node in pipeline.nodes.values()
                if isinstance(node, Table) and not node.inline
            ),
            registers=tuple(self.registers.values()),
            counters=tuple(self.counters.values()),
            calculations=tuple(self.calculations.values()),
            checksums=checksums,
            deparse=tuple(self.headers[name] for name in deparser["order"]),
        )
        if self.problems:
            raise Unsupported(program.name, self.problems)
        return program

    # Declarations

    def read_headers(self) -> None:
        types = {t["name"]: t for t in self.document["header_types"]}
        for item in self.document["headers"]:
            fields: dict[str, Field] = {}
            offset = 0
            for name, width, *signs in types[item["header_type"]]["fields"]:
                if not isinstance(width, int):
                    self.refuse(f"varbit field {item['name']}.{name}")
                    continue
                if len(signs) > 1 and signs[1]:
                    self.refuse(f"saturating field {item['name']}.{name}")
                signed = bool(signs and signs[0])
                fields[name] = Field(item["name"], name, width, offset, signed)
                offset += width
            metadata = item["metadata"]
            if not metadata and offset > _MAX_HEADER:
                self.refuse(f"header {item['name']} of {offset} bits, more than {_MAX_HEADER}")
            index = -1 if metadata else sum(not h.metadata for h in self.headers.values())
            header = Header(item["name"], item["header_type"], index, offset, metadata, fields)
            self.headers[header.name] = self.by_id[item["id"]] = header
        for stack in self.document["header_stacks"]:
            elements = tuple(self.by_id[i] for i in stack["header_ids"])
            self.stacks[stack["name"]] = Stack(stack["name"], len(self.stacks), elements)

    def read_state_arrays(self) -> None:
        for item in self.document["register_arrays"]:
            index = len(self.registers)
            register = Register(item["name"], index, item["size"], item["bitwidth"])
            self.registers[register.name] = register
        for item in self.document["counter_arrays"]:
            table = item["binding"] if item.get("is_direct") else None
            index = len(self.counters)
            counter = Counter(item["name"], index, item.get("size", 0), table)
            self.counters[counter.name] = counter

    def calculation(self, item: Json) -> Calculation:
        if item["algo"] not in _ALGORITHMS:
            self.refuse(f"hash algorithm {item['algo']}")
        inputs: list[Read | Constant] = []
        payload = False
        for part in item["input"]:
            if part["type"] == "field":
                field = self.field(*part["value"])
                if isinstance(field, Read):
                    inputs.append(field)
                else:
                    self.refuse(f"validity bit in the input of {item['name']}")
            elif part["type"] == "hexstr":
                inputs.append(Constant(number(part["value"]), part["bitwidth"]))
            elif part["type"] == "header":
                header = self.headers[part["value"]]
                inputs += [Read(Instance(header), f) for f in header.fields.values()]
            elif part["type"] == "payload":
                payload = True
            else:
                self.refuse(f"{part['type']} in the input of {item['name']}")
        return Calculation(item["name"], item["algo"], tuple(inputs), payload)

    def checksum(self, item: Json) -> Checksum:
        condition = item.get("if_cond")
        target = self.field(*item["target"])
        assert isinstance(target, Read)
        return Checksum(
            target=target,
            calculation=self.calculations[item["calculation"]],
            condition=None if condition is None else self.expression(condition),
            verify=item.get("verify", True),
            update=item.get("update", True),
        )

    # Actions

    def primitive(self, item: Json) -> Primitive:
        op = item["op"]
        if op not in _PRIMITIVES:
            self.refuse(f"primitive {op}")
            return Primitive("no_op", ())
        if op == "log_msg":
            return Primitive("no_op", ())
        return Primitive(op, tuple(self.argument(p) for p in item["parameters"]))

    def action(self, item: Json) -> Action:
        parameters: list[Parameter] = []
        word = 0
        for index, parameter in enumerate(item["runtime_data"]):
            parameters.append(Parameter(index, parameter["bitwidth"], word))
            word += -(-parameter["bitwidth"] // 64)
        self.parameters = tuple(parameters)
        primitives = tuple(self.primitive(p) for p in item["primitives"])
        self.parameters = ()
        return Action(item["name"], item["id"], tuple(parameters), primitives)

    # Parser

    def state(self, item: Json) -> State:
        key: list[Expression | Lookahead] = []
        widths: list[int] = []
        for part in item["transition_key"]:
            if part["type"] == "lookahead":
                look = Lookahead(*part["value"])
                key.append(look)
                widths.append(look.width)
            elif part["type"] in ("field", "stack_field"):
                value = self.expression(part)
                key.append(value)
                widths.append(value.field.width if isinstance(value, Read) else 1)
            else:
                self.refuse(f"select over {part['type']} in state {item['name']}")
        cases: list[Case] = []
        default = None
        for transition in item["transitions"]:
            if transition["type"] == "default":
                default = transition["next_state"]
            elif transition["type"] == "hexstr":
                mask = transition["mask"]
                cases.append(
                    Case(
                        _split(number(transition["value"]), widths),
                        None if mask is None else _split(number(mask), widths),
                        transition["next_state"],
                    )
                )
            else:
                self.refuse(f"select over a value set in state {item['name']}")
        ops = tuple(self.parser_op(op) for op in item["parser_ops"])
        return State(item["name"], ops, tuple(key), tuple(cases), default)

    def parser_op(self, item: Json) -> ParserOp:
        op, parameters = item["op"], item["parameters"]
        if op == "extract" and parameters[0]["type"] == "regular":
            return Extract(self.headers[parameters[0]["value"]])
        if op == "extract" and parameters[0]["type"] == "stack":
            return Extract(self.stacks[parameters[0]["value"]])
        if op == "set":
            target = self.expression(parameters[0])
            if isinstance(target, Read):
                if parameters[1]["type"] == "lookahead":
                    return Assign(target, Lookahead(*parameters[1]["value"]))
                return Assign(target, self.expression(parameters[1]))
        if op == "verify":
            return Verify(self.expression(parameters[0]), self.expression(parameters[1]))
        if op == "advance":
            return Advance(self.expression(parameters[0]))
        if op == "shift":
            return Advance(Const(8 * parameters[0]))
        if op == "primitive":
            return self.primitive(parameters[0])
        self.refuse(f"{op} of {parameters[0].get('type', 'this kind')} in the parser")
        return Advance(Const(0))

    # Control flow

    def pipeline(self, item: Json, actions: dict[int, Action]) -> Pipeline:
        nodes: dict[str, Table | Conditional] = {}
        for table in item["tables"]:
            nodes[table["name"]] = self.table(table, actions)
        for conditional in item["conditionals"]:
            nodes[conditional["name"]] = Conditional(
                conditional["name"],
                self.expression(conditional["expression"]),
                conditional["true_next"],
                conditional["false_next"],
            )
        for call in item.get("action_calls") or ():
            self.refuse(f"action call {call['name']} outside a table")
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
            self.refuse(f"range match over the {width} bits of {item['target']}")
        kind = "ternary" if item["match_type"] == "optional" else item["match_type"]
        name = item.get("name", ".".join(item["target"]))
        return Key(name, kind, value, width, None if mask is None else number(mask))

    def table(self, item: Json, actions: dict[int, Action]) -> Table:
        name = item["name"]
        if item["type"] != "simple":
            self.refuse(f"action profile or selector of table {name}")
        if item.get("support_timeout"):
            self.refuse(f"idle timeout of table {name}")
        if item.get("direct_meters"):
            self.refuse(f"direct meter of table {name}")
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
            after_hit=following.get("__HIT__", base) if by_hit else base,
            after_miss=following.get("__MISS__", base) if by_hit else base,
            after_action=None if by_hit else following,
        )
        if table.key_words > _MAX_KEY_WORDS:
            self.refuse(f"key of table {name}: {table.key_words} words, more than {_MAX_KEY_WORDS}")
        if not table.inline:
            self.table_index += 1
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


def _split(value: int, widths: list[int]) -> tuple[int, ...]:
    """Takes a select value apart; p4c pads each of its fields to whole bytes."""
    parts: list[int] = []
    for width in reversed(widths):
        size = 8 * -(-width // 8)
        parts.append(value & (1 << size) - 1)
        value >>= size
    return tuple(reversed(parts))

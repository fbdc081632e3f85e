"""Reads BMv2's JSON, as p4c-bm2-ss writes it, into a ``Program``.

The format is described in behavioral-model's docs/JSON_format.md. Unsupported features are
collected and reported together.
"""

from __future__ import annotations

import json
from pathlib import Path

from testbed.switches.native.expression import Field, Header, Instance, Read, Stack, Valid
from testbed.switches.native.operands import Json, number, position
from testbed.switches.native.program import (
    Calculation,
    Checksum,
    Constant,
    Counter,
    Meter,
    Program,
    Register,
    Table,
    Unsupported,
)
from testbed.switches.native.reader_parser import States
from testbed.switches.native.reader_table import Pipelines

_MAX_HEADER = 32768  # bits: 4096 bytes, as in runtime/packet.h
# Features of v1model that this target lacks; the text says what a user can do instead.
_REFUSED = {
    "header_union_types": "header unions",
    "parse_vsets": "parser value sets (use a select over constants)",
    "learn_lists": "digests",
    "extern_instances": "extern instances",
}


def read(path: Path) -> Program:
    """The program in a JSON file.

    Raises ``Unsupported`` with all features that the native target lacks, and ``ValueError`` if
    the file is not an output of p4c-bm2-ss.
    """
    try:
        document = json.loads(path.read_bytes())
        return _Reader(document).program()
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected JSON of p4c-bm2-ss for v1model, found {error!r}"
        ) from error


class _Reader(States, Pipelines):
    def __init__(self, document: Json) -> None:
        super().__init__()
        self.document = document
        self.by_id: dict[int, Header] = {}

    def program(self) -> Program:
        document = self.document
        for key, words in _REFUSED.items():
            for item in document.get(key) or ():
                name = item["name"].removeprefix(".")
                self.refuse(f"{words}: {name}", item)
        self.read_headers()
        self.read_state_arrays()
        self.calculations = {c["name"]: self.calculation(c) for c in document["calculations"]}
        field_lists = {f["id"]: self.field_list(f) for f in document.get("field_lists") or ()}
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
            meters=tuple(self.meters.values()),
            calculations=tuple(self.calculations.values()),
            checksums=checksums,
            deparse=tuple(self.headers[name] for name in deparser["order"]),
            field_lists=field_lists,
        )
        if self.problems:
            raise Unsupported(program.name, self.problems)
        return program

    def read_headers(self) -> None:
        types = {t["name"]: t for t in self.document["header_types"]}
        for item in self.document["headers"]:
            fields: dict[str, Field] = {}
            offset = 0
            for name, width, *signs in types[item["header_type"]]["fields"]:
                if not isinstance(width, int):
                    self.refuse(f"varbit field {item['header_type']}.{name}", item)
                    continue
                if len(signs) > 1 and signs[1]:
                    self.refuse(f"saturating field {item['name']}.{name}", item)
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
        for item in self.document["meter_arrays"]:
            table = item["binding"] if item.get("is_direct") else None
            if item["rate_count"] != 2:
                self.refuse(f"meter {item['name']} of {item['rate_count']} rates, not 2", item)
            meter = Meter(
                item["name"], len(self.meters), item.get("size", 0), item["type"] == "bytes", table
            )
            self.meters[meter.name] = meter
            if table is not None:
                self.colours[table] = meter, self.field(*item["result_target"])

    def field_list(self, item: Json) -> tuple[Field, ...]:
        fields: list[Field] = []
        for element in item["elements"]:
            header, name = element["value"] if element["type"] == "field" else ("", "")
            if header in self.headers and self.headers[header].metadata:
                fields.append(self.headers[header].fields[name])
            elif element["type"] != "hexstr":  # constants mean nothing there
                self.refuse(f"{'.'.join(element['value'])} in a field list: expected metadata")
        return tuple(fields)

    def calculation(self, item: Json) -> Calculation:
        inputs: list[Read | Valid | Constant] = []
        payload = False
        for part in item["input"]:
            kind, value = part["type"], part.get("value", "")
            if kind == "field":
                where = Instance(self.headers[value[0]])
                if value[1] == "$valid$":
                    inputs.append(Valid(where))
                elif value[1] in where.header.fields:  # else a varbit, refused already
                    inputs.append(Read(where, where.header.fields[value[1]]))
            elif kind == "hexstr":
                inputs.append(Constant(number(value), part["bitwidth"]))
            elif kind == "header":
                header = self.headers[value]
                inputs += [Read(Instance(header), f) for f in header.fields.values()]
            elif kind == "payload":
                payload = True
            else:
                self.refuse(f"{kind} in the input of {item['name']}", item)
        return Calculation(item["name"], item["algo"], tuple(inputs), payload)

    def checksum(self, item: Json) -> Checksum:
        self.at = position(item)
        condition = item.get("if_cond")
        target = self.field(*item["target"])
        assert isinstance(target, Read)
        checksum = Checksum(
            target=target,
            calculation=self.supported(self.calculations[item["calculation"]]),
            condition=None if condition is None else self.expression(condition),
            verify=item.get("verify", True),
            update=item.get("update", True),
        )
        self.at = ""
        return checksum

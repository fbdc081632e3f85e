"""The control plane's requests to a native switch, as the bytes that runtime/requests.h reads."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TypeVar

from testbed.protocols.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from testbed.switches.control import ControlError, Replica
from testbed.switches.native.emit_table import entry_data, entry_key
from testbed.switches.native.program import Action, Key, Program, Register, Table

REFUSALS = {1: "malformed request", 2: "no such index", 3: "the table is full"}
REFUSALS |= {4: "an entry of the same match exists"}

_T = TypeVar("_T")


class Requests:
    """Implements ``Control`` for ``program``, over :meth:`_request`."""

    def __init__(self, program: Program) -> None:
        self._tables = {table.name: table for table in program.tables}
        self._registers = {register.name: register for register in program.registers}
        self._counters = {counter.name: counter for counter in program.counters}
        self._meters = {meter.name: meter for meter in program.meters}

    def _request(self, request: bytes, what: str = "") -> bytes:
        """Send a request and return the answer. Raises ControlError, which says why ``what`` was
        refused."""
        raise NotImplementedError

    def insert(self, entry: TableEntry) -> None:
        table = self._table(entry.table)
        if table.fixed:
            raise ControlError(f"table {table.name}: its entries are fixed by the program")
        if len(entry.match) != len(table.keys):
            raise ControlError(
                f"table {table.name}: expected {len(table.keys)} keys "
                f"({', '.join(key.name for key in table.keys)}), found {len(entry.match)}"
            )
        parts = [
            _part(table, key, match) for key, match in zip(table.keys, entry.match, strict=True)
        ]
        key, mask = entry_key(table.keys, tuple(parts))
        scanned = table.kind in ("ternary", "range")
        priority = entry.priority
        if not scanned:
            priority = sum(m.prefix for m in entry.match if isinstance(m, Lpm))
        position, data = self._action(table, entry.action, entry.params)
        words = [*key, *mask, *data]
        request = struct.pack(f"=cHHi{len(words)}Q", b"I", table.index, position, priority, *words)
        self._request(request, f"table {table.name}: {entry.match}")

    def set_default(self, table: str, action: str, params: Sequence[int] = ()) -> None:
        target = self._table(table)
        if target.default_fixed:
            raise ControlError(f"table {table}: its default action is fixed by the program")
        position, data = self._action(target, action, params)
        request = struct.pack(f"=cHH{len(data)}Q", b"D", target.index, position, *data)
        self._request(request, f"table {table}")

    def multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        if not 0 < group < 1 << 16:
            raise ControlError(f"multicast group {group}: expected 1 to 65535")
        request = struct.pack("=cHH", b"G", group, len(replicas))
        for replica in replicas:
            request += struct.pack("=HH", replica.port, replica.rid)
        self._request(request, f"multicast group {group}")

    def mirror_session(
        self, session: int, *, port: int | None = None, group: int | None = None
    ) -> None:
        if not 0 <= session < 1 << 15:
            raise ControlError(f"mirror session {session}: expected 0 to 32767")
        if (port is None) == (group is None):
            raise ControlError(f"mirror session {session}: expected a port or a multicast group")
        request = struct.pack("=cHHH", b"M", session, group is not None, group or port or 0)
        self._request(request, f"mirror session {session}")

    def read_register(self, name: str, index: int) -> int:
        register = self._register(name)
        request = struct.pack("=cHI", b"R", register.index, index)
        return int.from_bytes(self._request(request, f"register {name}[{index}]"), "big")

    def write_register(self, name: str, index: int, value: int) -> None:
        register = self._register(name)
        if not 0 <= value < 1 << register.width:
            raise ControlError(f"register {name}: {value} does not fit {register.width} bits")
        request = struct.pack("=cHI", b"W", register.index, index)
        request += value.to_bytes(8 * register.limbs, "big")
        self._request(request, f"register {name}[{index}]")

    def reset_register(self, name: str) -> None:
        register = self._register(name)
        self._request(struct.pack("=cHI", b"Z", register.index, 0), f"register {name}")

    def read_counter(self, name: str, index: int) -> tuple[int, int]:
        """Packets and bytes. For a direct counter, ``index`` counts its table's entries."""
        counter = _named(self._counters, name, "counter")
        request = struct.pack("=cHI", b"C", counter.index, index)
        packets, size = struct.unpack("=QQ", self._request(request, f"counter {name}[{index}]"))
        return packets, size

    def meter_rates(
        self, name: str, index: int, committed: tuple[float, int], peak: tuple[float, int]
    ) -> None:
        meter = _named(self._meters, name, "meter")
        if not 0 <= committed[0] <= peak[0] or min(committed[1], peak[1]) < 0:
            raise ControlError(
                f"meter {name}: committed {committed}, peak {peak}: expected rates and bursts of 0 "
                "or more, and no committed rate above the peak rate"
            )
        request = struct.pack("=cHI", b"E", meter.index, index)
        for rate, burst in (committed, peak):
            request += struct.pack("=dQ", rate / 1e6, burst)
        self._request(request, f"meter {name}[{index}]")

    def _table(self, name: str) -> Table:
        return _named(self._tables, name, "table")

    def _register(self, name: str) -> Register:
        return _named(self._registers, name, "register")

    def _action(self, table: Table, name: str, params: Sequence[int]) -> tuple[int, list[int]]:
        """The action's position among the table's actions, and the entry's words of data."""
        action: Action = _named({a.name: a for a in table.actions}, name, "action", table.name)
        if len(params) != len(action.parameters):
            raise ControlError(
                f"action {name}: expected {len(action.parameters)} parameters, found {len(params)}"
            )
        for parameter, value in zip(action.parameters, params, strict=True):
            if not 0 <= value < 1 << parameter.width:
                raise ControlError(
                    f"action {name}: parameter {parameter.index}: {value} does not fit "
                    f"{parameter.width} bits"
                )
        data = entry_data(table, action, tuple(params))[: table.data_words]
        return table.actions.index(action), data


def _named(objects: Mapping[str, _T], name: str, kind: str, where: str = "the program") -> _T:
    try:
        return objects[name]
    except KeyError:
        known = ", ".join(objects) or "none"
        raise ControlError(f"no {kind} {name!r} in {where}; there are: {known}") from None


def _part(table: Table, key: Key, found: Match) -> tuple[int, int]:
    """Value and mask (least and greatest value for a range) of one key of an entry."""
    everything = (1 << key.width) - 1
    numbers: tuple[int, ...]
    match found:
        case Exact(value) if key.kind in ("exact", "ternary"):
            numbers = (value, everything)
        case Exact(value) if key.kind == "range":
            numbers = (value, value)
        case Lpm(value, prefix) if key.kind == "lpm":
            if not 0 <= prefix <= key.width:
                raise ControlError(
                    f"table {table.name}: key {key.name}: prefix {prefix} of {key.width} bits"
                )
            mask = everything ^ (everything >> prefix)
            numbers = (value, mask)
        case Ternary(value, mask) if key.kind == "ternary":
            numbers = (value, mask)
        case Range(low, high) if key.kind == "range" and low <= high:
            numbers = (low, high)
        case _:
            raise ControlError(
                f"table {table.name}: key {key.name}: expected {key.kind}, found {found}"
            )
    if not all(0 <= number <= everything for number in numbers):
        raise ControlError(
            f"table {table.name}: key {key.name}: {found} does not fit {key.width} bits"
        )
    first, second = numbers
    return (first, second) if key.kind == "range" else (first & second, second)

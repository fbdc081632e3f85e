"""Convert traces to and from Chakra execution traces (mlcommons/chakra 1.0.0, et_def.proto).

A Chakra file holds a ``GlobalMetadata`` message, and then a ``Node`` for each computation and each
collective of one worker. A node names the nodes that it depends on. For data-parallel training,
`save` writes names and attributes like Chakra's own text converter: ``COMP_NODE_<tensor>_FWD``,
``COMP_NODE_<tensor>_BWD`` and ``COMM_COLL_NODE_<tensor>_ALLREDUCE`` with ``comm_type`` and
``comm_size`` (bytes). Durations are whole microseconds.

`load` reads any graph of computations and all-reduces. Each all-reduce of the first iteration
becomes a tensor, which is ready when the computations that it depends on are done. Computations run
one at a time; those named ``..._FWD`` or ``...forward...`` are the forward pass, all others, and
those that end with ``_BWD``, ``_BWD_IG`` or ``_BWD_WG``, the backward pass.
"""

from __future__ import annotations

import heapq
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.located import reason
from testbed.workload import protobuf
from testbed.workload.compressed import contents
from testbed.workload.trace import Tensor, Trace, TraceError

VERSION = "1.0.0"
Attributes = dict[str, "int | str"]
_COMP, _COLLECTIVE = 4, 7
_KINDS = {5: "a COMM_SEND_NODE", 6: "a COMM_RECV_NODE"}
_ALL_REDUCE = 0
# Fields of AttributeProto's value that hold whole numbers, booleans and text.
_INT64, _BOOL, _STRING = 9, 27, 29
_WHOLE = (7, _INT64, 11, 13, _BOOL)
_FORWARD = re.compile(
    r"(?:COMP_NODE_)?(?P<tensor>.+?)_FWD"
    r"|(?!.*_BWD(?:_[IW]G)?$).*(?<![a-z])forward(?![a-z]).*",  # a tensor may be named feed_forward
    re.I,
)
_ALL_REDUCED = re.compile(r"COMM_COLL_NODE_(?P<tensor>.+)_ALLREDUCE")


@dataclass
class Node:
    """A node of a Chakra graph. Times are in microseconds; ``parents`` has both kinds of
    dependency."""

    id: int = 0
    name: str = ""
    kind: int = 0
    parents: list[int] = field(default_factory=list)
    start: int = 0
    duration: int = 0
    attributes: Attributes = field(default_factory=dict)

    @property
    def collective(self) -> bool:
        return self.kind == _COLLECTIVE

    @property
    def on_cpu(self) -> bool:
        return bool(self.attributes.get("is_cpu_op", 0))


def save(trace: Trace, path: Path) -> None:
    """Write an iteration of ``trace`` as one worker's execution trace."""
    facts: Attributes = {"name": trace.name, "batch": trace.batch, "dtype_bytes": trace.dtype_bytes}
    metadata = protobuf.field(1, VERSION) + _attributes(facts)
    nodes = [_message(node) for node in _graph(trace)]
    path.write_bytes(protobuf.delimited([metadata, *nodes]))


def _graph(trace: Trace) -> Iterator[Node]:
    number, last = 0, -1
    end_s, end = 0.0, 0
    forward = [(i, "FWD", tensor.forward_s) for i, tensor in enumerate(trace.tensors)]
    backward = [(i, "BWD", trace.tensors[i].backward_s) for i in trace.ready]
    for index, phase, seconds in forward + backward:
        name = trace.tensors[index].name
        # End times are rounded, not durations, so that rounding errors do not add up.
        end_s += seconds
        begun, end = end, round(end_s * 1e6)
        parents = [last] if last >= 0 else []
        comp = Node(number, f"COMP_NODE_{name}_{phase}", _COMP, parents, 0, end - begun)
        comp.attributes["is_cpu_op"] = 0
        yield comp
        last, number = number, number + 1
        if phase == "BWD":
            reduce = Node(number, f"COMM_COLL_NODE_{name}_ALLREDUCE", _COLLECTIVE, [last])
            size = trace.tensors[index].elements * trace.dtype_bytes
            reduce.attributes |= {"comm_type": _ALL_REDUCE, "comm_size": size}
            yield reduce
            number += 1


def _message(node: Node) -> bytes:
    return b"".join(
        [
            protobuf.field(1, node.id) if node.id else b"",
            protobuf.field(2, node.name),
            protobuf.field(3, node.kind),
            protobuf.packed(5, node.parents),
            protobuf.field(7, node.duration) if node.duration else b"",
            _attributes(node.attributes, number=10),
        ]
    )


def _attributes(attributes: Attributes, number: int = 2) -> bytes:
    out = b""
    for name, value in attributes.items():
        kind = _BOOL if name.startswith("is_") else _INT64 if isinstance(value, int) else _STRING
        out += protobuf.field(number, protobuf.field(1, name) + protobuf.field(kind, value))
    return out


def load(path: Path) -> Trace:
    """Read an execution trace, plain or compressed by gzip.

    Raises TraceError for a file that is truncated or not an execution trace, for a collective other
    than all-reduce, and for missing or circular dependencies.
    """
    try:
        data = contents(path)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError([f"{path}: cannot be read: {reason(error)}"]) from error
    messages: list[bytes] = []
    try:
        messages.extend(protobuf.undelimited(data))
        metadata = _metadata(messages[0]) if messages else {}
        nodes = [_node(message) for message in messages[1:]]
    except ValueError as error:
        raise TraceError([f"{path}: not a complete Chakra execution trace: {error}"]) from error
    try:
        return _trace(path.name.split(".")[0], metadata, _ordered(nodes))
    except ValueError as error:
        raise TraceError([f"{path}: {error}"]) from error


def _metadata(message: bytes) -> Attributes:
    pairs = [_attribute(v) for n, v in protobuf.fields(message) if n == 2 and isinstance(v, bytes)]
    return dict(pairs)


def _attribute(message: bytes) -> tuple[str, int | str]:
    """An attribute's name and value; 0 for values of kinds that are not used here."""
    name, value = "", 0
    text: str | None = None
    for number, found in protobuf.fields(message):
        if number == 1 and isinstance(found, bytes):
            name = found.decode()
        elif number in _WHOLE and isinstance(found, int):
            value = found
        elif number == _STRING and isinstance(found, bytes):
            text = found.decode()
    return name, value if text is None else text


def _node(message: bytes) -> Node:
    node = Node()
    for number, value in protobuf.fields(message):
        if number in (4, 5):
            node.parents += protobuf.whole_numbers(value)
        elif isinstance(value, int):
            if number == 1:
                node.id = value
            elif number == 3:
                node.kind = value
            elif number == 6:
                node.start = value
            elif number == 7:
                node.duration = value
        elif number == 2:
            node.name = value.decode()
        elif number == 10:
            name, found = _attribute(value)
            node.attributes[name] = found
    return node


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    """The first iteration's nodes: parents before children, otherwise by start and number.

    A computation that depends on an all-reduce belongs to the next iteration (or the optimizer).
    Raises ValueError for a graph that cannot be replayed.
    """
    known = {node.id: node for node in nodes}
    if len(known) != len(nodes):
        raise ValueError("two nodes have the same id")
    children: dict[int, list[int]] = {node.id: [] for node in nodes}
    for node in nodes:
        collective = node.attributes.get("comm_type", _ALL_REDUCE)
        if node.kind in _KINDS or (node.collective and collective != _ALL_REDUCE):
            kind = _KINDS.get(node.kind, f"a collective of type {collective}")
            raise ValueError(f"node {node.id} ({node.name}) is {kind}, wanted only all-reduces")
        node.parents = sorted(set(node.parents))
        for parent in node.parents:
            if parent not in known:
                raise ValueError(f"node {node.id} depends on {parent}, which does not exist")
            children[parent].append(node.id)
    missing = {node.id: len(node.parents) for node in nodes}
    ready = [(node.start, node.id) for node in nodes if not node.parents]
    heapq.heapify(ready)
    order: list[Node] = []
    later: set[int] = set()
    done = 0
    while ready:
        node = known[heapq.heappop(ready)[1]]
        done += 1
        if any(p in later or (known[p].collective and not node.collective) for p in node.parents):
            later.add(node.id)
        else:
            order.append(node)
        for child in children[node.id]:
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready, (known[child].start, child))
    if done < len(nodes):
        raise ValueError("dependencies are circular")
    return order


def _trace(fallback: str, metadata: Attributes, order: Sequence[Node]) -> Trace:
    """One iteration. If any computation is on the GPU, only such computations count: launches take
    no time."""
    reduces = [node for node in order if node.collective]
    if not reduces:
        raise ValueError("no all-reduce, wanted one for each tensor")
    on_gpu = any(node.kind == _COMP and not node.on_cpu for node in order)
    dtype_bytes = _positive(metadata.get("dtype_bytes", 4))
    names = _tensor_names(reduces)
    reduced = set(names.values())
    forward: dict[str, int] = {}  # microseconds, in the order of the forward pass
    unnamed = clock = 0
    ends: dict[int, int] = {}
    for node in order:
        took = 0 if node.collective or (on_gpu and node.on_cpu) else node.duration
        match = _FORWARD.fullmatch(node.name)
        if node.collective:
            ends[node.id] = max((ends[parent] for parent in node.parents), default=0)
        elif match:
            tensor = match["tensor"]
            if tensor in reduced:
                forward[tensor] = forward.get(tensor, 0) + took
            else:
                unnamed += took
            ends[node.id] = 0
        else:
            clock += took
            ends[node.id] = clock
    reduces.sort(key=lambda node: ends[node.id])
    ready = [ends[node.id] for node in reduces]
    ready[-1] = clock  # remaining time counts to the last tensor, as in a recorded trace
    ordered = [
        *forward,
        *(names[node.id] for node in reversed(reduces) if names[node.id] not in forward),
    ]
    forward[ordered[0]] = forward.get(ordered[0], 0) + unnamed
    backward = {
        names[node.id]: end - begun
        for node, end, begun in zip(reduces, ready, [0, *ready[:-1]], strict=True)
    }
    elements = {
        names[node.id]: -(-_positive(node.attributes.get("comm_size", 0)) // dtype_bytes)
        for node in reduces
    }
    return Trace(
        name=str(metadata.get("name", fallback)),
        batch=_positive(metadata.get("batch", 1)),
        tensors=tuple(
            Tensor(name, elements[name], forward.get(name, 0) / 1e6, backward[name] / 1e6)
            for name in ordered
        ),
        ready=tuple(ordered.index(names[node.id]) for node in reduces),
        dtype_bytes=dtype_bytes,
        provenance={"imported_from": "a Chakra execution trace; durations in whole microseconds"},
    )


def _tensor_names(reduces: Sequence[Node]) -> dict[int, str]:
    """A name for each all-reduce's tensor; a number is appended if names are not unique."""
    names: dict[int, str] = {}
    given = set[str]()
    for node in reduces:
        match = _ALL_REDUCED.fullmatch(node.name)
        name = "_".join((match["tensor"] if match else node.name).split())
        names[node.id] = f"{name}#{node.id}" if not name or name in given else name
        given.add(names[node.id])
    return names


def _positive(value: int | str) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"found {value!r} for a size, wanted a whole number of at least 1")
    return value

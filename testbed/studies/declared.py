"""What the registered systems declare about themselves, as text: a table of all, or one in full."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed import extensions
from testbed.plan.program import Plan
from testbed.protocols import on_trees, protocol_of, registry
from testbed.systems import Assignment, System
from testbed.topology.builders import leaf_spine
from testbed.workload import catalogue

_WIDTH = 100
_PLAIN = {"array": "list", "boolean": "true or false", "object": "mapping", "string": "text"}
_EXAMPLE = "resnet50"
_COLUMNS = ("name", "title", "protocols", "INA", "servers", "citation")


def table(systems: Mapping[str, System]) -> Iterator[str]:
    """A line for each system, below a heading."""
    rows = [_COLUMNS, *(_row(system) for system in systems.values())]
    *narrow, _ = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in narrow]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[-1]])


def _row(system: System) -> Sequence[str]:
    protocols = ", ".join(protocols_of(system))
    return (
        system.name, system.title, protocols, _ina(system), _servers(system), system.citation,
    )  # fmt: skip


def _ina(system: System) -> str:
    if not system.aggregates:
        return "no"
    return "needed" if system.fallback else "used"


def _servers(system: System) -> str:
    least, most = system.servers
    if not most:
        return "none"
    return str(least) if least == most else f"{least} to {most}"


def protocols_of(system: System) -> list[str]:
    """The protocols of the system's plan, with default options, for workers in two racks with INA;
    none if it has no plan for these."""
    fabric = leaf_spine(2, 2, 4, 1e10, 1e10, 256_000)
    fabric = fabric.with_ina(fabric.tors)
    hosts, count = fabric.hosts, max(1, system.servers[0])
    workers = (*hosts[:3], *hosts[4:7])
    servers = tuple(host for host in hosts if host not in workers)[:count]
    trace = catalogue.load(_EXAMPLE)
    asked = Assignment(workers, servers if system.servers[1] else (), system.settle({}), trace)
    try:
        plan = system.plan(asked, fabric)
    except Exception as error:
        if isinstance(error, ValueError) or extensions.place_of(error):
            return []
        raise
    if not isinstance(plan, Plan):  # of a user who is still writing it
        return []
    found = {protocol_of(tree).name for tree in plan.trees}
    used = {type(operation) for program in plan.programs for operation in program}
    plain = registry.keys() - on_trees().keys()
    return sorted(found | {name for name in plain if used & {*registry[name].operations}})


def full(system: System) -> Iterator[str]:
    """Everything that a system declares: source, rules, our reading, and options."""
    yield f"{system.name}: {system.title}"
    yield from _filled(f"source: {system.citation}", "  ")
    yield from (f"  {fact}" for fact in facts(system))
    for heading, rules in (("Published", system.published), ("Our reading", system.reading)):
        yield f"\n{heading}"
        for rule in rules:
            yield from _filled(rule, "  - ", "    ")
    yield "\nOptions of a job (options: {...})"
    yield from options(system) if system.options.model_fields else ["  none"]


def facts(system: System) -> Iterator[str]:
    """A system's protocols, its needs, and whether its workers wait; a line for each."""
    found = ", ".join(protocols_of(system)) or "unknown, its plan fails"
    yield f"protocols: {found} (by default, in racks with INA)"
    yield f"INA: {_ina_said(system)}"
    yield f"parameter servers: {_servers(system)}"
    yield "workers: " + (
        "wait for one another in each iteration" if system.waits else "do not wait for one another"
    )


def _ina_said(system: System) -> str:
    if not system.aggregates:
        return "not used"
    if not system.fallback:
        return "used where available"
    instead = ", ".join(f"{name}: {value}" for name, value in system.fallback.items())
    return f"needed, or options: {{{instead}}}"


def options(system: System) -> Iterator[str]:
    """Name, type, default and meaning of each option of ``system``."""
    schema = system.options.model_json_schema()
    for name, option in schema["properties"].items():
        default = option.get("default")
        written = "unset" if default is None else json.dumps(default).strip('"')
        yield f"  {name}: {_type(option)}; default {written}"
        yield from _filled(option.get("description", ""), "      ")


def _type(option: Mapping[str, Any]) -> str:
    """A JSON schema as words: ``one of a, b``, ``integer`` or ``integer, or unset``."""
    if "anyOf" in option:
        kinds = [_type(each) for each in option["anyOf"]]
        return ", or ".join("unset" if kind == "null" else kind for kind in kinds)
    if "enum" in option:
        return f"one of {', '.join(map(str, option['enum']))}"
    kind = str(option.get("const", option.get("type", "any")))
    return _PLAIN.get(kind, kind)


def _filled(text: str, first: str, rest: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest or first,
        break_on_hyphens=False,
    )

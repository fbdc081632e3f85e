"""A sweep: its paths, its combinations, and the experiment's data for each combination."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from testbed.experiment.fabrics import KINDS
from testbed.experiment.fields import Model, model_of
from testbed.experiment.findings import Finding, shown, suggestion
from testbed.experiment.schema import Emulation, Job, Sweep, is_short_sweep
from testbed.located import Place

Settings = dict[str, Any]
Check = Callable[[dict[str, Any]], list[Finding]]
MOST_CELLS = 10_000


def settings(sweep: Sweep | None) -> Iterator[Settings]:
    """Every combination, as path to value; the first paths vary slowest. Without a sweep, one empty
    combination."""
    if sweep is None:
        yield {}
        return
    factors: list[list[Settings]] = [
        [{path: value} for value in values] for path, values in sweep.product.items()
    ]
    if sweep.zip:
        steps = zip(*sweep.zip.values(), strict=True)
        factors.append([dict(zip(sweep.zip, step, strict=True)) for step in steps])
    for factor in itertools.product(*factors):
        combination = {path: value for part in factor for path, value in part.items()}
        if not any(_matches(combination, left_out) for left_out in sweep.exclude):
            yield combination


def _matches(combination: Settings, left_out: Mapping[str, Any]) -> bool:
    return all(
        path in combination and combination[path] in _any_of(value, [combination[path]])
        for path, value in left_out.items()
    )


def _any_of(value: Any, known: Sequence[Any]) -> Sequence[Any]:
    """The values that a value in ``exclude`` stands for: if it is a list and not ``known``, each of
    its items, else itself. A swept value may itself be a list, such as the names of switches."""
    return value if isinstance(value, list) and value not in known else [value]


def apply(data: Mapping[str, Any], combination: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment's data without its sweep, with a combination's values applied."""
    result: dict[str, Any] = _copied({key: data[key] for key in data if key != "sweep"})
    for path, value in combination.items():
        _put(result, place_of(path), _copied(value))
    return result


def _copied(value: Any) -> Any:
    """A copy of plain data. This is much faster than copy.deepcopy, and sweeps have thousands of
    cells."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def written(combination: Settings) -> str:
    """``jobs.0.system: ring, jobs.0.workers: 4``"""
    return ", ".join(
        f"{path}: {value if isinstance(value, str) else shown(value)}"
        for path, value in combination.items()
    )


def with_first_values(data: Mapping[str, Any], sweep: Sweep) -> dict[str, Any]:
    """``data`` with the first value of every swept path that is missing in ``data``."""
    first = {path: values[0] for path, values in sweep.values.items() if not _has(data, path)}
    return {**data, **apply(data, first)}


def place_of(path: str) -> Place:
    """``jobs.0.system`` -> ("jobs", 0, "system")."""
    return tuple(int(part) if part.isdecimal() else part for part in path.split("."))


def _put(data: Any, place: Place, value: Any) -> None:
    """Set ``value`` in nested data, adding mappings on the way. If that is impossible, change
    nothing."""
    part, *rest = place
    if isinstance(data, dict) and isinstance(part, str):
        data[part] = value if not rest else data.get(part, {})
    elif isinstance(data, list) and isinstance(part, int) and part < len(data):
        data[part] = value if not rest else data[part]
    else:
        return
    if rest:
        _put(data[part], tuple(rest), value)


def _has(data: Any, path: str) -> bool:
    for part in place_of(path):
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _known_paths(data: Mapping[str, Any]) -> list[str]:
    fabric, jobs = data.get("fabric"), data.get("jobs")
    kind = fabric.get("kind") if isinstance(fabric, Mapping) else None
    kinds = [KINDS[kind]] if isinstance(kind, str) and kind in KINDS else KINDS.values()
    paths = ["backend", "fabric"]
    paths += dict.fromkeys(path for kind in kinds for path in _below("fabric", kind, fabric))
    for index, job in enumerate(jobs if isinstance(jobs, list) else []):
        paths += [f"jobs.{index}", *_below(f"jobs.{index}", Job, job)]
    # Repeats are not a setting of a cell: they run the same cell several times.
    without = _below("emulation", Emulation, data.get("emulation"))
    return paths + [path for path in without if path != "emulation.repeats"]


def _below(path: str, model: type[Model], data: Any) -> Iterator[str]:
    """The paths of a model's fields; in a list, as many as the list in ``data`` has."""
    for name, field in model.model_fields.items():
        inner_path, inner = f"{path}.{name}", model_of(field.annotation)
        inner_data = data.get(name) if isinstance(data, Mapping) else None
        yield inner_path
        if inner is None:
            continue
        if isinstance(inner_data, list):
            for index, each in enumerate(inner_data):
                yield from _below(f"{inner_path}.{index}", inner, each)
        else:
            yield from _below(inner_path, inner, inner_data)


def check_values(data: Mapping[str, Any], sweep: Sweep, fields: Check) -> list[Finding]:
    """The errors in a sweep's paths and values, each by itself.

    ``data`` is the whole experiment as in the file; ``fields`` checks each field of such data.
    """
    short = is_short_sweep(data["sweep"])
    findings = [_in_file(finding, short) for finding in _shape(data, sweep)]
    if findings:
        return findings
    filled = with_first_values(data, sweep)
    for part, path, index, value in _all_values(sweep):
        place = place_of(path)
        for finding in fields(apply(filled, {path: value})):
            if finding.place[: len(place)] == place:
                at = Finding(("sweep", part, path, index), finding.message)
                findings.append(_in_file(at, short))
    return findings


def check_cells(data: Mapping[str, Any], sweep: Sweep, between: Check) -> list[Finding]:
    """The errors across the fields of cells, each at the swept value that causes it.

    The sweep must have passed `check_values`. ``between`` checks the fields of an experiment's data
    against one another.
    """
    filled, short = with_first_values(data, sweep), is_short_sweep(data["sweep"])
    return [_in_file(finding, short) for finding in _combinations(filled, sweep, between)]


def _all_values(sweep: Sweep) -> Iterator[tuple[str, str, int, Any]]:
    for part in ("product", "zip"):
        for path, values in getattr(sweep, part).items():
            for index, value in enumerate(values):
                yield part, path, index, value


def _in_file(finding: Finding, short: bool) -> Finding:
    """The finding at its place in the file: the short form has no key ``product``."""
    place = finding.place
    if short and place[:2] == ("sweep", "product"):
        place = ("sweep", *place[2:])
    return Finding(place, finding.message, finding.at_key)


def _shape(data: Mapping[str, Any], sweep: Sweep) -> Iterator[Finding]:
    known = _known_paths(data)
    swept = sweep.values
    if not swept:
        yield Finding(("sweep",), "found no path, wanted some; write jobs.0.system: [ps, ring]")
    for part in ("product", "zip"):
        for path, values in getattr(sweep, part).items():
            place: Place = ("sweep", part, path)
            if path not in known and not any(path.startswith(f"{p}.") for p in _free(known)):
                wanted = "the path of a field of this experiment"
                fix = suggestion(path, known)
                if path.startswith("emulation.repeats"):
                    fix = "set it under emulation"
                yield Finding(place, f"found {path!r}, wanted {wanted}; {fix}", at_key=True)
            elif part == "zip" and path in sweep.product:
                message = f"found {path!r} in product as well, wanted it once; remove one"
                yield Finding(place, message, at_key=True)
            elif outer := [p for p in swept if path.startswith(f"{p}.")]:
                message = f"found {path!r} inside {outer[0]!r}, which is swept too; remove one"
                yield Finding(place, message, at_key=True)
            if path == "fabric.ina" and (mixed := list(_one_among_fractions(place, values))):
                yield from mixed
                continue
            # In a zip, equal values may be paired with different values.
            for index, value in enumerate(values if part == "product" else ()):
                if value in values[:index]:
                    message = f"found {shown(value)} again, wanted each value once; remove one"
                    yield Finding((*place, index), message)
    lengths = {path: len(values) for path, values in sweep.zip.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} for {path}" for path, length in lengths.items())
        message = f"found lists of different lengths ({found}), wanted equal ones; fill them up"
        yield Finding(("sweep", "zip"), message, at_key=True)
        return
    if wrong := list(_excluded(sweep)):
        yield from wrong
        return
    zipped = min(lengths.values(), default=1)
    cells = math.prod(len(values) for values in sweep.product.values()) * zipped
    if cells > MOST_CELLS:
        message = f"found {cells} cells, wanted at most {MOST_CELLS}; split the experiment"
        yield Finding(("sweep",), message, at_key=True)
    elif next(settings(sweep), None) is None:
        message = "found no cell left, wanted at least one; exclude fewer"
        yield Finding(("sweep", "exclude"), message, at_key=True)


def _one_among_fractions(place: Place, values: Sequence[Any]) -> Iterator[Finding]:
    """Refuse [0.5, 1]: 1 is one switch there, and 1.0 all of them."""
    if any(isinstance(value, float) for value in values):
        for index, value in enumerate(values):
            if value == 1 and isinstance(value, int):
                message = (
                    "found 1, which is one switch, among fractions, wanted 1.0 or its name;"
                    " write 1.0 for all switches, or [t0] for one"
                )
                yield Finding((*place, index), message)


def _free(known: list[str]) -> list[str]:
    """Paths below which any path may be swept, because the system defines the options there."""
    return [path for path in known if path.endswith(".options")]


def _excluded(sweep: Sweep) -> Iterator[Finding]:
    swept = sweep.values
    for index, left_out in enumerate(sweep.exclude):
        if not left_out:
            message = "found nothing, wanted at least one path: value; remove the entry"
            yield Finding(("sweep", "exclude", index), message)
        for path, value in left_out.items():
            place = ("sweep", "exclude", index, path)
            if path not in swept:
                fix = suggestion(path, list(swept))
                message = f"found {path!r}, wanted a path that is swept; {fix}"
                yield Finding(place, message, at_key=True)
                continue
            for each in _any_of(value, swept[path]):
                if each not in swept[path]:
                    fix = suggestion(each, [str(v) for v in swept[path]])
                    message = f"found {shown(each)}, wanted a value of {path} in this sweep; {fix}"
                    yield Finding(place, message)


def _combinations(data: Mapping[str, Any], sweep: Sweep, between: Check) -> Iterator[Finding]:
    cells = list(settings(sweep))
    blamed: dict[Finding, list[Settings]] = {}
    for cell in cells:
        for finding in between(apply(data, cell)):
            blamed.setdefault(finding, []).append(cell)
    for finding, guilty in blamed.items():
        place = _to_blame(finding.place, sweep, guilty, cells)
        if place is None:
            yield finding
        else:
            share = f"in {len(guilty)} of {len(cells)} cells, first {written(guilty[0])}"
            inside = _inside(finding.place, place)
            yield Finding(place, f"{inside}{finding.message} ({share})")


def _inside(place: Place, blamed: Place) -> str:
    """``deferred: `` for a place inside the swept value at fault; empty for the value itself."""
    swept = place_of(str(blamed[2])) if len(blamed) > 2 else place
    inner = place[len(swept) :] if place[: len(swept)] == swept else ()
    return f"{'.'.join(map(str, inner))}: " if inner else ""


def _to_blame(
    place: Place, sweep: Sweep, guilty: list[Settings], cells: list[Settings]
) -> Place | None:
    """The swept value that makes ``guilty`` cells wrong; None if all are wrong without it."""
    where = {
        (path, index): ("sweep", part, path, index) for part, path, index, _ in _all_values(sweep)
    }
    for path, value in guilty[0].items():
        swept = place_of(path)
        length = min(len(swept), len(place))
        if swept[:length] == place[:length]:
            return where[path, sweep.values[path].index(value)]
    if len(guilty) == len(cells):
        return None
    for path, value in guilty[0].items():
        if all(cell in guilty for cell in cells if cell[path] == value):
            return where[path, sweep.values[path].index(value)]
    return ("sweep",)

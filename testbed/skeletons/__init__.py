"""Commented files to start from. Each validates and runs as it is."""

from __future__ import annotations

import keyword
import re
import runpy
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from testbed import extensions, protocols, systems
from testbed.deployment.users_code import MARKERS, names_of
from testbed.deployment.users_protocols import NUMBERS, engine_files
from testbed.shipped import folder as shipped
from testbed.switches.compile import COMPILER
from testbed.workload import catalogue

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 40
_COLOURS = ("#444444", "#0b6e4f", "#7b3f00", "#5f4b8b", "#b8860b", "#006d77", "#9d0208", "#3a5a40")

_EXPERIMENT = {"{name}.yaml": "experiment.yaml.j2"}
_SYSTEM = {
    "extensions/systems/{module}.py": "system.py.j2",
    "{name}.yaml": "system.yaml.j2",
}
_PROTOCOL = {
    "extensions/protocols/{module}/__init__.py": "protocol/__init__.py.j2",
    "extensions/protocols/{module}/protocol.py": "protocol/protocol.py.j2",
    "extensions/protocols/{module}/reference.py": "protocol/reference.py.j2",
    "extensions/protocols/{module}/{module}.p4": "protocol/control.p4.j2",
    "extensions/systems/{module}.py": "protocol/system.py.j2",
    "{name}.yaml": "protocol/experiment.yaml.j2",
}
_WORKLOAD = {"make_{module}.py": "workload.py.j2", "{name}.yaml": "workload.yaml.j2"}
KINDS = {
    "experiment": _EXPERIMENT,
    "system": _SYSTEM,
    "protocol": _PROTOCOL,
    "workload": _WORKLOAD,
}
"""The files of each kind, with their templates; the last one is an experiment."""


class Refused(ValueError):
    """Nothing was written; the message says why."""


def write(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the files of a ``kind`` into ``folder``, and return them; the last is an experiment.

    Raises Refused if the name cannot be used, or if one of the files exists.
    """
    module = name.replace("-", "_")
    _check(kind, name, module)
    paths = {
        folder / path.format(name=name, module=module): own for path, own in KINDS[kind].items()
    }
    made = [folder / f"{name}.trace"] if kind == "workload" else []
    if taken := [str(path) for path in (*made, *paths) if path.exists()]:
        raise Refused(
            f"found {', '.join(taken)}, wanted nothing there; take another name or folder"
        )
    homes = {
        "system": f"extensions/systems/{module}.py",
        "protocol": f"extensions/protocols/{module}",
    }
    words = [word.capitalize() for word in name.split("-")]
    environment = Environment(
        loader=PackageLoader(__name__, ""),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    texts = {}
    for path, template in paths.items():
        texts[path] = environment.get_template(template).render(
            name=name,
            module=module,
            title=" ".join(words),
            camel="".join(words),
            number=_free_number(),
            colour=_free("colour", _COLOURS),
            marker=_free("marker", MARKERS),
            file=homes.get(kind),
            p4c=shutil.which(COMPILER),
        )
    written: list[Path] = []
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x") as file:
                written.append(path)
                file.write(text)
        if kind == "workload":
            written += made
            runpy.run_path(str(next(iter(paths))))
    except BaseException:  # Ctrl-C, too
        for path in written:  # half of the files would be in the way of the next attempt
            path.unlink(missing_ok=True)
        raise
    return [*made, *paths]


def _check(kind: str, name: str, module: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise Refused(
            f"found the name {name!r}, wanted lower-case letters and digits, with single dashes"
            f" between words, at most {_LONGEST} characters; write for example my-{kind}"
        )
    words = {module, module.capitalize()}  # the latter names a class: None, True
    if any(keyword.iskeyword(word) or keyword.issoftkeyword(word) for word in words):
        raise Refused(f"found {name}, a word of Python, wanted another name; write my-{name}")
    if name == "null":
        raise Refused(f"found {name}, a word of YAML, wanted another name; write my-{name}")
    if kind == "protocol" and (shipped("p4") / f"{module}.p4").exists():
        raise Refused(f"found {name}, a P4 file of the testbed, wanted another name")
    if kind == "protocol" and f"{module}.c" in engine_files():
        raise Refused(f"found {name}, a C file of the testbed, wanted another name")
    if kind == "workload" and name in (*catalogue.names(), *catalogue.trained()):
        raise Refused(f"found {name}, a workload of the testbed, wanted another name")
    packages = {"system": [systems], "protocol": [systems, protocols]}
    for package in packages.get(kind, []):
        what = package.__name__.rpartition(".")[2]
        if module in names_of(package.__name__):
            raise Refused(f"found {name}, a name that the package of {what} uses, wanted another")
        if name in package.registry or find_spec(f"{package.__name__}.{module}") is not None:
            raise Refused(f"found {name}, which {what} have already, wanted another name")


def _free(field: str, choices: Sequence[str]) -> str:
    """A colour or marker that no system has; the first one if all are taken."""
    taken = {getattr(system, field) for system in systems.registry.values()}
    return next((each for each in choices if each not in taken), choices[0])


def _free_number() -> int:
    taken = {protocol.number for protocol in protocols.on_trees().values()}
    free = next((number for number in NUMBERS if number not in taken), None)
    if free is None:
        raise Refused(f"found all numbers of protocols taken, {NUMBERS[0]} to {NUMBERS[-1]}")
    return free


def are_found(folder: Path) -> bool:
    """Whether a process in ``folder`` finds its extensions."""
    return (
        not extensions.is_listed() or (folder / extensions.FOLDER).absolute() in extensions.roots()
    )

"""The version of a row: the code that its cell runs, and the files that the experiment names.

A cell runs one back end and the systems of its jobs. Another back end's code, and another system's
or protocol's, can change without making the row stale. So can the code that reads experiments and
plans, as long as its result is the same (`deployed`).
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from testbed import extensions, protocols
from testbed.experiment.schema import Experiment
from testbed.shipped import folder
from testbed.systems import home, registry
from testbed.workload.catalogue import path_of
from testbed.workload.synthetic import SYNTHETIC

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOTS = ("testbed.placement.deployments", "testbed.campaign.cell")
"""The modules that make a cell's deployment and run it."""
_PREPARING = re.compile(
    r"testbed\.(extensions$|located$|experiment\.(findings|nodes|options|sweep)$"
    r"|systems\.(?!system$)|placement\.|topology\.placement$|switches\.entries$"
    r"|deployment\.(compute|places|routing|windows)$)"
)
"""The modules whose whole effect on a run is in its cell's id or in the digest of its deployment:
they read experiments and users' code, or plan."""
_BETWEEN_RANKS = [
    f"testbed.protocols.{name}.protocol"
    for name in protocols.registry.keys() - protocols.on_trees()
]
"""The protocols that no system names, because any may use them."""
_BACK_ENDS = {"simulate": "flow", "packet": "packet", "emulate": "emulation"}
_OF_C = re.compile(rb"^[ \t]*(?://.*|/\*(?:[^*]|\*(?!/))*\*/)?[ \t]*\n", re.MULTILINE)
_COMMENTS = {".py": re.compile(rb"^[ \t]*(?:#.*)?\n", re.MULTILINE), ".c": _OF_C, ".h": _OF_C}
_IMPORT = re.compile(
    r"^ *(?:from (testbed[\w.]*) import (\([^)]*\)|.*)|import (testbed[\w.]*))", re.MULTILINE
)
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:.*\n(?:(?: .*)?\n)*", re.MULTILINE)
"""Imports that no cell runs."""


def version(experiment: Experiment) -> str:
    """Ten hexadecimal digits for everything that a cell's result depends on besides its
    configuration.

    Rows with the same cell and version are repeats of one another.
    """
    systems = frozenset(_systems(experiment))
    return _digest(_code_of(experiment.backend, systems), experiment)[:10]


def deployed(experiment: Experiment, deployment: str) -> str:
    """Sixteen hexadecimal digits for a deployment, given by its digest, and for the code that runs
    it; the code that made it does not count.

    Rows of a cell with the same digits would be the same in virtual time, and repeats elsewhere.
    """
    systems = frozenset(_systems(experiment))
    running = _code_of(experiment.backend, systems, plans=False)
    return _digest(f"{running} {deployment}", experiment)[:16]


def _digest(code: str, experiment: Experiment) -> str:
    """Digest of ``code`` and of the files that an experiment names."""
    digest = hashlib.sha256(code.encode())
    files = {job.workload for job in experiment.jobs}
    files |= {
        job.training.script for job in experiment.jobs if job.training and job.training.script
    }
    if experiment.emulation.p4_program is not None:
        files.add(experiment.emulation.p4_program)
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + _content(name))
    return digest.hexdigest()


def _systems(experiment: Experiment) -> Iterator[str]:
    """The systems of the jobs, and those that an option names, such as OSP's carrier."""
    for job in experiment.jobs:
        if job.system in registry:  # else, a resumed run of another version
            yield job.system
            fields = registry[job.system].options.model_fields.items()
            options = {name: field.default for name, field in fields} | job.options
            values = filter(lambda value: isinstance(value, str), options.values())
            yield from registry.keys() & values


def code() -> str:
    """Digest of all code that a result may depend on, users' extensions included."""
    return _code_of(None, frozenset(registry))


@cache
def _code_of(backend: str | None, systems: frozenset[str], plans: bool = True) -> str:
    """Digest of the code of cells on a back end, or on any, with ``systems``; with ``plans``, of
    the code that makes their deployments, too.

    Users' extensions count if they define one of the systems, or if any back end is meant.
    """
    found = {path for path in map(home, systems) if path}
    compiled = folder("p4") / "build"
    digest = hashlib.sha256(digest_of(_PACKAGE, compiled, backend, found, plans).encode())
    users = list(extensions.files())
    if backend is None or any(path in found for _, path in users):
        for name, path in users:
            digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def digest_of(
    package: Path,
    compiled: Path,
    backend: str | None,
    systems: Collection[Path],
    plans: bool = True,
) -> str:
    """Digest of the modules of ``package`` that a cell may run, of C sources beside them, and of
    compiled P4.

    Args:
        backend: the cell's; None for any.
        systems: the files of the systems that it runs.
        plans: whether modules that only make its deployment count.
    """
    found = modules(package, backend, systems)
    sources = {path for name, path in found.items() if plans or not _PREPARING.match(name)}
    folders = {path.parent for path in sources}
    sources |= {path for path in package.rglob("*.[ch]") if _package_of(path) in folders}
    digest = hashlib.sha256()
    for root, paths in ((package, sources), (compiled, filter(Path.is_file, compiled.rglob("*")))):
        for path in sorted(paths):
            digest.update(str(path.relative_to(root)).encode() + b"\0")
            digest.update(
                hashlib.sha256(_without_comments(path.suffix, path.read_bytes())).digest()
            )
    return digest.hexdigest()


def _package_of(source: Path) -> Path:
    """The nearest folder of modules above a C file."""
    return next(each for each in source.parents if any(each.glob("*.py")))


@cache
def _without_comments(suffix: str, content: bytes) -> bytes:
    """A file without docstrings, comments on lines of their own and empty lines: no result depends
    on them."""
    comment = _COMMENTS.get(suffix)
    if suffix == ".py":
        content = _without_docstrings(content)
    return comment.sub(b"", content) if comment else content


def _without_docstrings(content: bytes) -> bytes:
    """A module without the lines of strings that are statements, such as docstrings of
    attributes."""
    lines = content.splitlines(keepends=True)
    for node in ast.walk(ast.parse(content)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines[node.lineno - 1 : node.end_lineno] = [b""] * (
                    (node.end_lineno or node.lineno) - node.lineno + 1
                )
    return b"".join(lines)


def modules(package: Path, backend: str | None, systems: Collection[Path]) -> dict[str, Path]:
    """Every module of ``package`` that a cell may run, directly or indirectly, and its file.

    The cell runs on ``backend``, or on any if None, and the files ``systems`` define its systems.
    Registries import all systems and protocols, and ``testbed.campaign`` all back ends. Only what
    the cell uses counts here. The package itself is left out: it imports `testbed.api`, which no
    cell uses.
    """
    others = {name for known, name in _BACK_ENDS.items() if backend not in (None, known)}
    left_out = tuple(f"testbed.backends.{name}." for name in others)
    found: dict[str, Path] = {}
    waiting = [*_ROOTS, *_BETWEEN_RANKS]
    for path in systems:
        if path.is_relative_to(package):
            waiting.append(".".join(("testbed", *path.relative_to(package).with_suffix("").parts)))
        else:
            waiting += _imported("", path)
    while waiting:
        name = waiting.pop()
        if name in found or name in ("", "testbed"):
            continue
        chooses = name.startswith("testbed.campaign.")
        way = package.joinpath(*name.split(".")[1:])
        for path in (way.with_suffix(".py"), way / "__init__.py"):
            if path.is_file():
                found[name] = path
                waiting += (
                    each
                    for each in _imported(name, path)
                    if not (chooses and f"{each}.".startswith(left_out))
                )
    return found


def _imported(name: str, path: Path) -> Iterator[str]:
    """Possible names of the modules that a module imports, inside its functions, too."""
    yield name.rpartition(".")[0]
    for module, parts, alone in _IMPORT.findall(_FOR_TYPES.sub("", path.read_text())):
        yield module or alone
        yield from (f"{module}.{each}" for each in re.findall(r"\w+", parts))


@cache
def _content(name: str) -> bytes:
    """Digest of a workload's files or of a P4 program; empty for synthetic workloads."""
    if name.startswith(SYNTHETIC):
        return b""
    path = path_of(name)
    digest = hashlib.sha256()
    # Next to a trace there may be gradients or a training script, with the same name but another
    # suffix.
    beside = (each for each in path.parent.iterdir() if each.name.startswith(f"{path.stem}."))
    for each in sorted(filter(Path.is_file, beside)):
        digest.update(each.name.encode() + b"\0" + hashlib.sha256(each.read_bytes()).digest())
    return digest.digest()

"""The version of a row: the code, and the files that the experiment names."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from testbed import extensions
from testbed.experiment.schema import Experiment
from testbed.shipped import folder
from testbed.workload.catalogue import path_of
from testbed.workload.synthetic import SYNTHETIC

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOTS = ("testbed.placement.deployments", "testbed.campaign.cell")
"""The modules that make a cell's deployment and run it."""
_OF_C = re.compile(rb"^[ \t]*(?://.*|/\*(?:[^*]|\*(?!/))*\*/)?[ \t]*\n", re.MULTILINE)
_COMMENTS = {".py": re.compile(rb"^[ \t]*(?:#.*)?\n", re.MULTILINE), ".c": _OF_C, ".h": _OF_C}
_IMPORT = re.compile(
    r"^ *(?:from (testbed[\w.]*) import (\([^)]*\)|.*)|import (testbed[\w.]*))", re.MULTILINE
)


def version(experiment: Experiment) -> str:
    """Ten hexadecimal digits for everything that a cell's result depends on besides its
    configuration.

    Rows with the same cell and version are repeats of one another.
    """
    digest = hashlib.sha256(code().encode())
    files = {job.workload for job in experiment.jobs}
    files |= {
        job.training.script for job in experiment.jobs if job.training and job.training.script
    }
    if experiment.emulation.p4_program is not None:
        files.add(experiment.emulation.p4_program)
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + _content(name))
    return digest.hexdigest()[:10]


@cache
def code() -> str:
    """Digest of all code that a result may depend on, users' extensions included."""
    digest = hashlib.sha256(digest_of(_PACKAGE, folder("p4") / "build").encode())
    for name, path in extensions.files():
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def digest_of(package: Path, compiled: Path) -> str:
    """Digest of the modules of ``package`` that a cell may import, of C sources in the same layers,
    and of compiled P4."""
    sources = set(modules(package).values())
    layers = {path.relative_to(package).parts[0] for path in sources}
    sources |= {
        path for path in package.rglob("*.[ch]") if path.relative_to(package).parts[0] in layers
    }
    digest = hashlib.sha256()
    for root, paths in ((package, sources), (compiled, filter(Path.is_file, compiled.rglob("*")))):
        for path in sorted(paths):
            digest.update(str(path.relative_to(root)).encode() + b"\0")
            digest.update(hashlib.sha256(_without_comments(path)).digest())
    return digest.hexdigest()


def _without_comments(path: Path) -> bytes:
    """A file without docstrings, comments on lines of their own and empty lines: no result depends
    on them."""
    comment = _COMMENTS.get(path.suffix)
    content = path.read_bytes()
    if path.suffix == ".py":
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


def modules(package: Path = _PACKAGE) -> dict[str, Path]:
    """Every module of ``package`` that a cell may import, directly or indirectly, and its file.

    The package itself is left out: it imports `testbed.api`, which no cell uses.
    """
    found: dict[str, Path] = {}
    waiting = list(_ROOTS)
    while waiting:
        name = waiting.pop()
        way = package.joinpath(*name.split(".")[1:])
        for path in (way.with_suffix(".py"), way / "__init__.py"):
            if way != package and name not in found and path.is_file():
                found[name] = path
                waiting += _imported(name, path)
    return found


def _imported(name: str, path: Path) -> Iterator[str]:
    """Possible names of the modules that a module imports, inside its functions, too."""
    yield name.rpartition(".")[0]
    text = path.read_text()
    for module, parts, alone in _IMPORT.findall(text):
        yield module or alone
        yield from (f"{module}.{each}" for each in re.findall(r"\w+", parts))
    if "import pkgutil" in text:  # a registry, which imports all modules in its folder
        for below in path.parent.rglob("*.py"):
            yield ".".join((name, *below.relative_to(path.parent).with_suffix("").parts))


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

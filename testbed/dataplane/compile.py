"""Compiles the P4 program for BMv2; the native target reads the same JSON.

``python -m testbed.dataplane.compile`` writes ``p4/build/ina.json`` and beside it ``ina.sha256``:
the digests of the sources and of the JSON made from them, so that a JSON that is stale, or was
touched by hand, is noticed where no compiler is installed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.compiler import cache

COMPILER = "p4c-bm2-ss"
SOURCES = Path(__file__).resolve().parents[2] / "p4"
PROGRAM = SOURCES / "build" / "ina.json"
DIGESTS = PROGRAM.with_suffix(".sha256")


class CompileError(Exception):
    """The compiler is missing, or refused the program; the message is what it said."""


def compile_program(sources: Path = SOURCES, defines: Sequence[str] = ()) -> bytes:
    """The JSON of ``ina.p4`` in the folder ``sources``. CompileError if there is none.

    ``defines`` change what a switch has: ``("VALUES=64", "SLOTS=1024", "SATURATE")``.
    It depends on nothing but the sources and the compiler: places are told by file name alone,
    because the compiler runs in the folder.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise CompileError(f"{COMPILER} is not installed: p4lang's package p4lang-p4c has it")
    flags = [f"-D{each}" for each in defines]
    done = subprocess.run(
        [compiler, "--std", "p4-16", *flags, "-o", "/dev/stdout", "ina.p4"],
        cwd=sources,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise CompileError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def compile_user_program(source: Path) -> Path:
    """The JSON of a user's program, made where it was not made before. CompileError if refused.

    Its includes are looked for beside it, and then in ``p4/``.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise CompileError(
            f"{COMPILER} is not installed: p4lang's package p4lang-p4c has it; or give the .json"
        )
    done = subprocess.run(
        [compiler, "--std", "p4-16", f"-I{SOURCES}", "-o", "/dev/stdout", source.name],
        cwd=source.parent,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise CompileError(done.stderr.decode(errors="replace").strip())
    made = cache() / f"{source.stem}-{hashlib.sha256(done.stdout).hexdigest()[:16]}.json"
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_bytes(done.stdout)
    return made


def check_interface(program: Path) -> None:
    """CompileError unless a compiled program has the tables and actions that entries name."""
    try:
        theirs, ours = (_interface(json.loads(path.read_bytes())) for path in (program, PROGRAM))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CompileError(f"not a program that p4c compiled for BMv2: {error}") from error
    if missing := sorted(ours - theirs):
        raise CompileError(
            f"lacks {', '.join(missing)}, which the testbed fills or reads; keep the names of p4/"
        )


def _interface(compiled: dict[str, Any]) -> set[str]:
    tables = {
        f"table {table['name']}" for part in compiled["pipelines"] for table in part["tables"]
        if not table["name"].startswith("tbl_")
    }  # fmt: skip
    actions = {
        f"action {action['name']} with {len(action['runtime_data'])} parameters"
        for action in compiled["actions"]
        if action["runtime_data"]
    }
    counters = {f"counter {each['name']}" for each in compiled["counter_arrays"]}
    return tables | actions | counters


def sources_digest(sources: Path = SOURCES) -> str:
    """SHA-256 over every P4 file of the folder, by name, each with its name before it."""
    digest = hashlib.sha256()
    for path in sorted(sources.glob("*.p4")):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def digests(sources: str, program: bytes) -> str:
    """The content of ``ina.sha256``."""
    return f"{sources}  *.p4\n{hashlib.sha256(program).hexdigest()}  {PROGRAM.name}\n"


def main() -> None:
    try:
        program = compile_program()
    except CompileError as error:
        sys.exit(str(error))
    PROGRAM.parent.mkdir(exist_ok=True)
    PROGRAM.write_bytes(program)
    DIGESTS.write_text(digests(sources_digest(), program))


if __name__ == "__main__":
    main()

"""Compiles the P4 program for BMv2; the native target reads the same JSON.

``python -m testbed.switches.compile`` writes ``p4/build/*.json``, one for each packet size, and
``ina.sha256``: the digests of the sources and of the JSON files, so that a stale or hand-edited
JSON is detected even without a compiler.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed import wire
from testbed.compiler import cache
from testbed.shipped import folder

COMPILER = "p4c-bm2-ss"
SOURCES = folder("p4")
PROGRAM = SOURCES / "build" / "ina.json"
PROGRAMS = {
    values: PROGRAM if values == wire.VALUES else PROGRAM.with_name(f"ina_{values}.json")
    for values in (wire.FEW, *wire.SIZES)
}
"""The compiled programs, by the number of values in a packet."""
DIGESTS = PROGRAM.with_suffix(".sha256")


class CompileError(Exception):
    """The compiler is missing, or refused the program; the message is its output."""


def compile_program(sources: Path = SOURCES, defines: Sequence[str] = ()) -> bytes:
    """The JSON of ``ina.p4`` in the folder ``sources``. CompileError if compiling fails.

    ``defines`` change the switch's resources: ``("VALUES=64", "SLOTS=1024", "SATURATE")``.
    The JSON depends only on the sources and the compiler: its source positions have file names
    without a path, because the compiler runs in the folder.
    """
    return compile_source(sources / "ina.p4", [f"-D{each}" for each in defines])


def compile_source(source: Path, flags: Sequence[str], instead: str = "") -> bytes:
    """The JSON of any P4 file. CompileError if compiling fails; if no compiler is installed, its
    message ends with ``instead``, an alternative."""
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise CompileError(
            f"{COMPILER} is not installed: p4lang's package p4lang-p4c has it{instead}"
        )
    done = subprocess.run(
        [compiler, "--std", "p4-16", *flags, "-o", "/dev/stdout", source.name],
        cwd=source.parent,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise CompileError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def compile_user_program(source: Path, values: int = wire.VALUES) -> Path:
    """The file with the JSON of a user's program. CompileError if it is refused.

    Includes are searched for beside the program, then in ``p4/``; ``VALUES`` is the number of
    values in a packet.
    """
    # Relative, because p4c writes the paths of sources into its output.
    ours = os.path.relpath(SOURCES, source.resolve().parent)
    flags = ["-I.", f"-I{ours}", f"-DVALUES={values}"]
    return kept(source.stem, compile_source(source, flags, "; or give the .json"))


def kept(name: str, program: bytes) -> Path:
    """A file in the cache with the content ``program``, named by its digest."""
    made = cache() / f"{name}-{hashlib.sha256(program).hexdigest()[:16]}.json"
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=made.parent, prefix="build-", delete=False) as part:
        part.write(program)
    Path(part.name).rename(made)  # as a whole, for whoever reads it now
    return made


def program(wanted: str | None, values: int = wire.VALUES) -> Path:
    """The compiled program of an experiment for packets of ``values``: the user's own, compiled now
    if it is P4 source, or ours.

    CompileError if it does not compile, or lacks tables that the testbed fills.
    """
    if wanted is None:
        return PROGRAMS[values]
    path = Path(wanted)
    try:
        if path.suffix == ".p4":
            path = compile_user_program(path, values)
        check_interface(path, values)
    except CompileError as error:
        raise CompileError(f"p4_program {wanted}: {error}") from error
    return path


def check_program(wanted: str) -> None:
    """Raise CompileError, as `program` does, if a user's program does not compile or lacks tables
    that the testbed fills. The number of values in its packets is not checked."""
    path = Path(wanted)
    try:
        if path.suffix == ".p4":
            path = compile_user_program(path, wire.FEW)
        check_interface(path, None)
    except CompileError as error:
        raise CompileError(f"p4_program {wanted}: {error}") from error


def check_interface(program: Path, values: int | None = wire.VALUES) -> None:
    """Raise CompileError unless a compiled program has the tables and actions that entries name,
    and packets of ``values`` (None: any number)."""
    try:
        compiled = json.loads(program.read_bytes())
        theirs, ours = interface(compiled), interface(json.loads(PROGRAM.read_bytes()))
        found = packet_values(compiled)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CompileError(f"not a program that p4c compiled for BMv2: {error}") from error
    if missing := sorted(ours - theirs):
        raise CompileError(
            f"lacks {', '.join(missing)}, which the testbed fills or reads; keep the names of p4/"
        )
    if values is not None and found and found != values:
        raise CompileError(
            f"has packets of {found} values, and the fabric's are of {values}; set fabric.values to"
            f" {found}, or compile it with -DVALUES={values}"
        )


def interface(compiled: dict[str, Any]) -> set[str]:
    """The tables, actions with parameters, and counters of p4c's JSON."""
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


def packet_values(compiled: dict[str, Any]) -> int:
    """The number of values in a packet; 0 if a program has no such header."""
    lanes = [each["fields"] for each in compiled["header_types"] if each["name"] == "values_t"]
    found: int = sum(bits for fields in lanes for _, bits, _ in fields) // 32
    return found


def sources_digest(sources: Path = SOURCES) -> str:
    """SHA-256 over the names and contents of the folder's P4 files, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(sources.glob("*.p4")):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def digests(sources: str) -> str:
    """The content of ``ina.sha256`` for the existing programs."""
    made = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in PROGRAMS.values()
    ]
    return f"{sources}  *.p4\n{''.join(made)}"


def main() -> None:
    PROGRAM.parent.mkdir(exist_ok=True)
    try:
        for values, path in PROGRAMS.items():
            path.write_bytes(compile_program(defines=[f"VALUES={values}"]))
    except CompileError as error:
        sys.exit(str(error))
    DIGESTS.write_text(digests(sources_digest()))


if __name__ == "__main__":
    main()

"""Compiles the P4 program for BMv2; the native target reads the same JSON.

``python -m testbed.dataplane.compile`` writes ``p4/build/ina.json`` and beside it ``ina.sha256``:
the digests of the sources and of the JSON made from them, so that a JSON that is stale, or was
touched by hand, is noticed where no compiler is installed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

COMPILER = "p4c-bm2-ss"
SOURCES = Path(__file__).resolve().parents[2] / "p4"
PROGRAM = SOURCES / "build" / "ina.json"
DIGESTS = PROGRAM.with_suffix(".sha256")


class CompileError(Exception):
    """The compiler is missing, or refused the program; the message is what it said."""


def compile_program(sources: Path = SOURCES) -> bytes:
    """The JSON of ``ina.p4`` in the folder ``sources``. CompileError if there is none.

    It depends on nothing but the sources and the compiler: places are told by file name alone,
    because the compiler runs in the folder.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise CompileError(f"{COMPILER} is not installed: p4lang's package p4lang-p4c has it")
    done = subprocess.run(
        [compiler, "--std", "p4-16", "-o", "/dev/stdout", "ina.p4"],
        cwd=sources,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise CompileError(done.stderr.decode(errors="replace").strip())
    return done.stdout


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

"""The measured P4 programs: the project's, also with fewer values, and one for comparison.

    python -m benchmarks.programs

compiles ``per_value.p4`` for 32 and 64 values into ``benchmarks/build/``, which is in git.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from testbed.switches.compile import (
    COMPILER,
    PROGRAMS,
    SOURCES,
    CompileError,
    compile_source,
    kept,
)

HERE = Path(__file__).resolve().parent


class NoCompiler(Exception):
    """p4c is needed, but is not installed."""


def ina(values: int, saturate: bool = False) -> Path:
    """``p4/ina.p4`` for packets of ``values`` values; p4c compiles it if git does not have it."""
    if values in PROGRAMS and not saturate:
        return PROGRAMS[values]
    defined = [f"-DVALUES={values}", *(["-DSATURATE"] if saturate else [])]
    return kept("ina", _compile(SOURCES / "ina.p4", defined))


def per_value(values: int) -> Path:
    """The compiled ``per_value.p4`` for 32 or 64 values, from git."""
    return HERE / "build" / f"per_value_{values}.json"


def _compile(source: Path, defined: list[str]) -> bytes:
    if shutil.which(COMPILER) is None:
        raise NoCompiler(f"{COMPILER} is not installed")
    try:
        return compile_source(source, defined)
    except CompileError as error:
        sys.exit(str(error))


def main() -> None:
    for values in (32, 64):
        program = json.loads(_compile(HERE / "per_value.p4", [f"-DVALUES={values}"]))
        per_value(values).parent.mkdir(exist_ok=True)
        per_value(values).write_text(json.dumps(program, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

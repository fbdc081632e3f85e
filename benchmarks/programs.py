"""The P4 programs that are measured: the project's, built for less, and one for comparison.

    python -m benchmarks.programs

compiles ``per_value.p4`` for 32 and 64 values into ``benchmarks/build/``, which is committed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

from testbed.compiler import cache
from testbed.dataplane.compile import COMPILER, PROGRAMS, SOURCES

HERE = Path(__file__).resolve().parent


class NoCompiler(Exception):
    """p4c is needed and not installed."""


def ina(values: int, saturate: bool = False) -> Path:
    """``p4/ina.p4`` for ``values`` values a packet; p4c makes what is not committed."""
    if values in PROGRAMS and not saturate:
        return PROGRAMS[values]
    defined = [f"-DVALUES={values}", *(["-DSATURATE"] if saturate else [])]
    program = _compile(SOURCES / "ina.p4", defined)
    made = cache() / f"ina-{hashlib.sha256(program).hexdigest()[:16]}.json"
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_bytes(program)
    return made


def per_value(values: int) -> Path:
    """``per_value.p4`` for 32 or 64 values, as committed."""
    return HERE / "build" / f"per_value_{values}.json"


def _compile(source: Path, defined: list[str]) -> bytes:
    if shutil.which(COMPILER) is None:
        raise NoCompiler(f"{COMPILER} is not installed")
    command = [COMPILER, *defined, "-o", "/dev/stdout", source.name]
    done = subprocess.run(command, cwd=source.parent, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.decode(errors="replace"))
    return done.stdout


def main() -> None:
    for values in (32, 64):
        program = json.loads(_compile(HERE / "per_value.p4", [f"-DVALUES={values}"]))
        per_value(values).parent.mkdir(exist_ok=True)
        per_value(values).write_text(json.dumps(program, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

"""The toy's program, compiled from ``loud.p4`` like a user's own program.

``python tests/protocols/toys/loud/switch.py`` compiles it again (needs p4c).
"""

from __future__ import annotations

from pathlib import Path

from testbed.switches.compile import compile_user_program

SOURCE = Path(__file__).with_name("loud.p4")


def program() -> Path:
    """The path of the program, for ``emulation.p4_program`` of an experiment."""
    return SOURCE.with_suffix(".json")


if __name__ == "__main__":
    program().write_bytes(compile_user_program(SOURCE).read_bytes())

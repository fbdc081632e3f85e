"""The toy's program, compiled from ``loud.p4`` as a user's own.

``python tests/protocols/toys/loud/switch.py`` compiles it anew (needs p4c).
"""

from __future__ import annotations

from pathlib import Path

from testbed.switches.compile import compile_user_program

SOURCE = Path(__file__).with_name("loud.p4")


def program() -> Path:
    """A program that experiments may name as their own (``emulation.p4_program``)."""
    return SOURCE.with_suffix(".json")


if __name__ == "__main__":
    program().write_bytes(compile_user_program(SOURCE).read_bytes())

"""Processor time of verbs with little to do, mostly for imports: the minimum of several runs.

``python -m benchmarks.startup`` prints milliseconds of user and system time. For the time of each
import, run ``python -X importtime -m testbed.cli validate FILE``.
"""

from __future__ import annotations

import os
import subprocess
import sys

from testbed.shipped import folder

RUNS = 9
RING = str(folder("experiments") / "ring.yaml")


def main() -> None:
    for arguments in (["--help"], ["validate", RING], ["run", "--dry-run", RING], ["schema"]):
        print(f"{min(map(processor_s, [arguments] * RUNS)) * 1e3:6.0f} ms  {arguments[0]}")


def processor_s(arguments: list[str]) -> float:
    """Seconds of user and system time that one call takes."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "testbed.cli", *arguments], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    after = os.times()
    used = after.children_user + after.children_system
    return used - before.children_user - before.children_system


if __name__ == "__main__":
    main()

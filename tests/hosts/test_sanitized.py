"""The engine's tests again, with AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def _runtime(name: str) -> str | None:
    """The path of a sanitizer's library, with which Python itself is not linked."""
    command = [os.environ.get("CC") or "cc", f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found if Path(found).is_absolute() and Path(found).exists() else None


@pytest.mark.slow
def test_the_engine_touches_only_its_own_memory():
    runtimes = [_runtime("libasan.so"), _runtime("libubsan.so")]
    if None in runtimes:
        pytest.skip("the compiler has no shared sanitizer libraries")
    environment = os.environ | {
        "LD_PRELOAD": " ".join(map(str, runtimes)),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python leaks on purpose
        "PYTHONPATH": str(HERE),
    }
    tests = [
        "test_ina_packets.py", "test_ring_packets.py", "test_lanes_packets.py",
        "test_pairs_packets.py",
        "test_engine_virtual_time.py",
    ]  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "sanitized", *tests]
    result = subprocess.run(
        command, cwd=HERE, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-6000:]
    assert "AddressSanitizer" not in result.stderr

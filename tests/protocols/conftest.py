"""Puts the switches' scene and reference within reach."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "switches" / "ina"))

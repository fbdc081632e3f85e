"""The coverage of each package, and the files with less than 80 %."""

from __future__ import annotations

import io
import json
import tempfile
from collections import defaultdict
from pathlib import Path

import coverage

LEAST = 80


def main() -> None:
    measured = coverage.Coverage()
    measured.load()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "coverage.json")
        # Tests put their own modules into the package, and some of these no longer exist.
        measured.json_report(outfile=str(path), include=["testbed/*"])
        files = json.loads(path.read_text())["files"]
    packages: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for name, found in files.items():
        parts = Path(name).parts
        package = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
        summary = found["summary"]
        packages[package].append((name, summary["covered_lines"], summary["num_statements"]))
    table = io.StringIO()
    for package, own in sorted(packages.items()):
        covered, lines = _sum(own)
        table.write(f"{package:32} {_percent(covered, lines):4.0f} %  {lines:6} lines\n")
    everything = [each for own in packages.values() for each in own]
    covered, lines = _sum(everything)
    table.write(f"{'all':32} {_percent(covered, lines):4.0f} %  {lines:6} lines\n")
    few = [(_percent(covered, lines), name) for name, covered, lines in everything]
    for share, name in sorted(few):
        if share < LEAST:
            table.write(f"under {LEAST} %: {name} {share:.0f} %\n")
    print(table.getvalue(), end="")


def _sum(files: list[tuple[str, int, int]]) -> tuple[int, int]:
    return sum(covered for _, covered, _ in files), sum(lines for _, _, lines in files)


def _percent(covered: int, lines: int) -> float:
    return 100 * covered / lines if lines else 100.0


if __name__ == "__main__":
    main()

"""Fill numbers in documents from the files of the reference evaluation.

``python -m testbed.report.quote FILE...`` replaces the text between two marks:

    <!-- quote winners.md -->a whole table<!-- /quote -->
    <!-- quote winners.md ResNet-50 -->the rows of its table that have this<!-- /quote -->
    <!-- quote claims.csv claim=rina-over-atp shown -->one value of a row<!-- /quote -->
    <!-- quote evaluation/run.json took -->how long a run took<!-- /quote -->

Files are those in ``reports/reference/``. In a table, the first row with the given values counts,
and the last word names the column. Reals are rounded as in the report. For a JSON file, the last
word names a key; ``took`` is the time that its sessions took.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from testbed.report.runs import duration, seconds
from testbed.report.tables import number
from testbed.shipped import folder

REFERENCE = folder("reports") / "reference"
_REAL = re.compile(r"-?[0-9]+\.[0-9]+(e[-+][0-9]+)?")
_QUOTE = re.compile(r"(<!-- quote ([^>]+?) -->)(.*?)(<!-- /quote -->)", re.DOTALL)


class Unquotable(ValueError):
    """A mark names something that does not exist; the message says what."""


def filled(text: str, reference: Path = REFERENCE) -> str:
    """``text`` with every quotation filled from the files. Raises Unquotable if one cannot be
    filled."""
    return _QUOTE.sub(lambda found: found[1] + quoted(found[2], reference) + found[4], text)


def quoted(asked: str, reference: Path) -> str:
    """The text for a mark: a file or rows of its table, on their own lines, or one value."""
    name, *words = asked.split()
    path = reference / name
    if not path.is_file():
        raise Unquotable(f"{asked}: found no {name} in {reference}")
    if path.suffix == ".md":
        title, rule, *rows = path.read_text().strip().splitlines()
        return "\n".join(["", title, rule, *_with(asked, rows, " ".join(words)), ""])
    if path.suffix == ".json":
        return _of_run(asked, path, words[0])
    *conditions, column = words
    wanted = dict(condition.partition("=")[::2] for condition in conditions)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if column not in row:
                raise Unquotable(f"{asked}: {name} has no column {column}")
            if all(row.get(key) == each for key, each in wanted.items()):
                value = row[column]
                return number(float(value)) if _REAL.fullmatch(value) else value
    raise Unquotable(f"{asked}: {name} has no such row")


def _with(asked: str, rows: list[str], words: str) -> list[str]:
    if not (found := [row for row in rows if words in row]):
        raise Unquotable(f"{asked}: found no row with {words}")
    return found


def _of_run(asked: str, path: Path, key: str) -> str:
    """A value of a run's metadata."""
    content = json.loads(path.read_text())
    try:
        return _took(content) if key == "took" else str(content[key])
    except (KeyError, TypeError) as error:
        raise Unquotable(f"{asked}: {path.name} has no {key}") from error


def _took(run: Mapping[str, Any]) -> str:
    """How long a run took. Raises KeyError if its metadata do not say."""
    if (taken := seconds(run)) is None:
        raise KeyError("ended_at")
    return duration(taken)


@click.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--check", is_flag=True, help="change nothing; exit with 1 if a file is out of date")
def main(files: tuple[Path, ...], check: bool) -> None:
    """Fill quotations of the reference evaluation in documents."""
    try:
        outdated = [path for path in files if filled(path.read_text()) != path.read_text()]
    except Unquotable as error:
        raise click.ClickException(str(error)) from error
    for path in outdated:
        click.echo(f"{path}: {'out of date' if check else 'filled'}")
        if not check:
            path.write_text(filled(path.read_text()))
    if check and outdated:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

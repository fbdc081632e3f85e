"""One page on published claims: the claim, our number with its interval, and the verdict."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from testbed.report import template
from testbed.report.tables import number
from testbed.studies.claims.schema import CANNOT, DIRECTION, NOT, NOT_RUN, REPRODUCED, Claim, Claims
from testbed.studies.claims.verdict import Verdict

WORDS = (REPRODUCED, DIRECTION, NOT, CANNOT, NOT_RUN)
PAGE, TABLE = "claims", "claims.csv"


@dataclass(frozen=True)
class Judged:
    """A claim of a file with its verdict; ``is_old`` if other code made any of its results."""

    file: Claims
    claim: Claim
    verdict: Verdict
    is_old: bool = False

    @property
    def command(self) -> str:
        """The command that tests it again."""
        return f"ina-testbed claims {self.claim.name}"

    @property
    def number(self) -> str:
        """``1.52 (1.50 to 1.54)``, the number with its interval; a dash if there is none."""
        verdict = self.verdict
        if verdict.number is None:
            return "–"
        if verdict.low is None:
            return number(verdict.number)
        return f"{number(verdict.number)} ({number(verdict.low)} to {number(verdict.high)})"

    @property
    def basis(self) -> str:
        """The results behind the number, as text."""
        return self.verdict.basis + (", by another version of the testbed" if self.is_old else "")


def write(judged: Sequence[Judged], folder: Path) -> Path:
    """Write ``claims.html``, ``claims.md`` and ``claims.csv``; the path of the first."""
    counts = Counter(each.verdict.word for each in judged)
    context = {
        "files": [(file, list(own)) for file, own in groupby(judged, lambda each: each.file)],
        "counts": [(word, counts[word]) for word in WORDS if counts[word]],
        "judged": judged,
    }
    environment = template.environment()
    environment.filters["number"] = number
    for end in ("html", "md"):
        text = environment.get_template(f"claims.{end}.j2").render(context)
        (folder / f"{PAGE}.{end}").write_text(text)
    _table(judged, folder / TABLE)
    return folder / f"{PAGE}.html"


def _table(judged: Sequence[Judged], path: Path) -> None:
    columns = ["file", "claim", "verdict", "number", "low", "high", "shown", "reads", "basis"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for each in judged:
            verdict, measure = each.verdict, each.claim.measure
            writer.writerow(
                [
                    each.file.name,
                    each.claim.name,
                    verdict.word,
                    *(
                        "" if value is None else f"{value:.6g}"
                        for value in (verdict.number, verdict.low, verdict.high)
                    ),
                    each.number,
                    "" if measure is None else measure.reads,
                    each.basis,
                ]
            )

"""One page on published claims: each with our number, its interval and the verdict.

Observations, which no paper claims, have a section of their own.
"""

from __future__ import annotations

import csv
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import results
from testbed.experiment.findings import counted
from testbed.report import template
from testbed.report.tables import number
from testbed.studies.claims.schema import (
    CANNOT,
    DIRECTION,
    DIRECTION_FACTOR,
    GAIN_FACTOR,
    MORE,
    NOT,
    NOT_RUN,
    REPRODUCED,
    VALUE_FACTOR,
    Claim,
    Claims,
    Drawn,
    Observation,
)
from testbed.studies.claims.verdict import Crossing, Number, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from testbed.report.page import Shown

WORDS = (REPRODUCED, DIRECTION, MORE, NOT, CANNOT, NOT_RUN)
PAGE, TABLE = "claims", "claims.csv"
_PUBLISHED, _OURS = "#b8bec6", "#1f77b4"
_OTHER = ", by another version of the testbed"


def shown(found: Number | str | None) -> str:
    """``1.52 (1.50 to 1.54)``, the number with its interval; a dash if there is none."""
    if not isinstance(found, Number):
        return "–"
    if found.low is None:
        return number(found.value)
    return f"{number(found.value)} ({number(found.low)} to {number(found.high)})"


@dataclass(frozen=True)
class Judged:
    """A claim of a file with its verdict; ``is_old`` if other code made any of its results."""

    file: Claims
    claim: Claim
    verdict: Verdict
    crossing: Crossing | None = None
    is_old: bool = False

    @property
    def command(self) -> str:
        """The command that tests it again."""
        return f"ina-testbed claims {self.claim.name}"

    @property
    def number(self) -> str:
        """See `shown`."""
        return shown(self.verdict.number)

    @property
    def basis(self) -> str:
        """The results behind the number, as text."""
        basis = self.verdict.number.basis if self.verdict.number is not None else ""
        return basis + (_OTHER if self.is_old else "")

    @property
    def break_even(self) -> str:
        """``latency of a step: reproduced from 40us on (1.2 at 0s; 1.52 at 40us)``; or empty."""
        even = self.claim.break_even
        if self.crossing is None or even is None:
            return ""
        word = REPRODUCED if self.claim.published and self.claim.published.reproduced else "holds"
        values = "; ".join(
            f"{found if isinstance(found, str) else shown(found)} at {value}"
            for value, found in self.crossing.numbers
        )
        return f"{even.means}: {word} {self.crossing.where} ({values})"


@dataclass(frozen=True)
class Observed:
    """An observation with its number, or the reason for having none."""

    file: Claims
    observation: Observation
    found: Number | str
    is_old: bool = False

    @property
    def number(self) -> str:
        """See `shown`, or the reason for no number."""
        return self.found if isinstance(self.found, str) else shown(self.found)

    @property
    def basis(self) -> str:
        """The results behind the number, as text."""
        basis = "" if isinstance(self.found, str) else self.found.basis
        return basis + (_OTHER if self.is_old else "")


@dataclass(frozen=True)
class Beside:
    """A published figure with our number for each bar, or the reason for having none."""

    file: Claims
    figure: Drawn
    found: list[Number | str]
    is_old: bool = False

    @property
    def image(self) -> str:
        """The name of the image's files; empty if a bar has no number."""
        whole = all(isinstance(each, Number) for each in self.found)
        return f"{PAGE}-{self.figure.name}" if whole else ""

    @property
    def bars(self) -> list[tuple[str, float, str]]:
        """Each bar's label, the published value, and ours as text."""
        return [
            (bar.label, bar.published, each if isinstance(each, str) else shown(each))
            for bar, each in zip(self.figure.bars, self.found, strict=True)
        ]

    @property
    def basis(self) -> str:
        """The results behind the numbers, as text."""
        made = sorted({each.basis for each in self.found if isinstance(each, Number)})
        return " and ".join(made) + (_OTHER if self.is_old else "")

    def drawn(self) -> Figure:
        """Published and ours, side by side, from 0."""
        from matplotlib.patches import Patch  # slow to import

        from testbed.report import canvas

        ours = [each for each in self.found if isinstance(each, Number)]
        both = [bar.published for bar in self.figure.bars], [each.value for each in ours]
        sides = list(zip(("published", "ours"), (_PUBLISHED, _OURS), both, strict=True))
        legend = [Patch(color=colour, label=label) for label, colour, _ in sides]
        figure, (axes,) = canvas.panels([self.figure.title], legend=legend, left=0.8)
        for place, (label, colour, heights) in enumerate(sides):
            for at, (bar, height) in enumerate(zip(self.figure.bars, heights, strict=True)):
                (shape,) = axes.bar(at + 0.4 * place - 0.2, height, 0.4, color=colour)
                canvas.note(shape, "mark", words=f"{bar.label}: {label} {number(height)}")
                axes.text(
                    at + 0.4 * place - 0.2, height, number(height), ha="center", va="bottom",
                    fontsize=5.5,
                )  # fmt: skip
        axes.set_xticks(range(len(ours)), [bar.label for bar in self.figure.bars])
        axes.set_ylabel(textwrap.fill(self.figure.axis, 30))
        return figure


@dataclass
class Made:
    """What a page was made from: the facts of its experiments' runs."""

    runs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, runs: Sequence[Path]) -> None:
        """Count the runs in these directories, too."""
        self.runs += map(results.read_metadata, runs)

    def __str__(self) -> str:
        """Commit, machine, dates and the time that the experiments took, in sentences."""
        if not self.runs:
            return "No experiment has been run."
        calls = [call for run in self.runs for call in (run, *run.get("resumed", []))]
        commits = sorted(
            {
                f"{(call['git_commit'] or 'unknown')[:10]}"
                + (" with uncommitted changes" if call["git_dirty"] else "")
                for call in calls
            }
        )
        machines = sorted({f"{call['cpu']} ({counted(call['cores'], 'core')})" for call in calls})
        begun = min(run["started_at"] for run in self.runs)
        finished = [run for run in self.runs if run.get("finished_at")]
        resumed = [run for run in finished if "resumed" in run]
        took = sum(_seconds(run) for run in finished if "resumed" not in run)
        said = (
            f"{counted(len(self.runs), 'experiment')} at commit {' and '.join(commits)}, on"
            f" {' and '.join(machines)}, from {begun}"
        )
        if finished:
            said += f" to {max(run['finished_at'] for run in finished)}"
        said += f"; they took {took // 60:.0f} min {took % 60:.0f} s"
        if resumed:
            said += f" without {counted(len(resumed), 'experiment')} that ran in several parts"
        if len(finished) < len(self.runs):
            said += f"; {len(self.runs) - len(finished)} did not finish"
        return said + "."


def _seconds(run: dict[str, Any]) -> float:
    """How long a run took, to the second."""
    begun, ended = (
        datetime.strptime(run[key], "%Y-%m-%dT%H:%M:%SZ") for key in ("started_at", "finished_at")
    )
    return (ended - begun).total_seconds()


@dataclass
class Page:
    """All verdicts, observations and figures, and what they were made from."""

    judged: list[Judged] = field(default_factory=list)
    observed: list[Observed] = field(default_factory=list)
    beside: list[Beside] = field(default_factory=list)
    made: Made = field(default_factory=Made)


def write(page: Page, folder: Path) -> Path:
    """Write ``claims.html``, ``.md`` and ``.csv``, and figures; the path of the first."""
    counts = Counter(each.verdict.word for each in page.judged)
    words = [word for word in WORDS if counts[word]]
    of_paper = Counter((each.file.title, each.verdict.word) for each in page.judged)
    papers = list(dict.fromkeys(each.file.title for each in page.judged))
    shown, variables = _figures(page.beside, folder)
    context = {
        "files": [(file, list(own)) for file, own in groupby(page.judged, lambda each: each.file)],
        "words": WORDS,
        "counts": [(word, counts[word]) for word in words],
        "matrix": [(paper, [(word, of_paper[paper, word]) for word in words]) for paper in papers],
        "facets": [("paper", papers), ("verdict", words)],
        "judged": page.judged,
        "observed": page.observed,
        "beside": page.beside,
        "figures": shown,
        "variables": variables,
        "made": str(page.made),
        "rule": RULE,
    }
    environment = template.environment()
    environment.filters["number"] = number
    for end in ("html", "md"):
        text = environment.get_template(f"claims.{end}.j2").render(context)
        (folder / f"{PAGE}.{end}").write_text(text)
    _table(page.judged, folder / TABLE)
    return folder / f"{PAGE}.html"


def _figures(beside: Sequence[Beside], folder: Path) -> tuple[list[Shown], str]:
    """Figures written into ``folder``, for the page; and the CSS of their colours."""
    from testbed.report import canvas, figures, vector  # slow to import
    from testbed.report.page import Shown

    own = {each.image: each for each in beside if each.image}
    words = {name: f"{each.figure.ours} Values: {each.figure.axis}." for name, each in own.items()}
    with canvas.paper():
        drawn = {name: each.drawn() for name, each in own.items()}
        said = {name: f"{own[name].figure.title}. {words[name]}" for name in own}
        vectors = figures.publish(drawn, folder, said)
    shown = [
        Shown(
            name,
            own[name].figure.title,
            words[name],
            made.panels,
            made.legend,
            False,
            [(end.upper(), f"{name}.{end}") for end in ("pdf", "svg")],
        )
        for name, made in vectors.items()
    ]
    return shown, vector.variables(set[str]().union(*(made.colours for made in vectors.values())))


RULE = (
    "The same rule applies to all claims. A published gain says how many times as much. It is"
    f" reproduced if our gain less 1 is between 1/{GAIN_FACTOR:g} and {GAIN_FACTOR:g} times the"
    " published gain less 1; hardly any set-up is published in full, so a closer match would be"
    f" chance. Within a factor of {DIRECTION_FACTOR:g} it is reproduced in direction. Above that it"
    " is much more than published, which is a different finding. A value that follows from a"
    f" formula or a worked example is reproduced within a factor of {VALUE_FACTOR:g}. A statement"
    ' without a figure can be reproduced in direction only. "Up to" is the best of a stated family'
    " of set-ups. The whole 95 % bootstrap interval must be within the bounds. It is over seeds or"
    " repeats; a single seed or repeat has none. A break-even says for which values of one setting"
    " the claim holds."
)


def _table(judged: Sequence[Judged], path: Path) -> None:
    columns = ["file", "claim", "published", "verdict", "number", "low", "high", "shown"]
    columns += ["reads", "basis", "break_even"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for each in judged:
            found, measure = each.verdict.number, each.claim.measure
            values = (None,) * 3 if found is None else (found.value, found.low, found.high)
            writer.writerow(
                [
                    each.file.name,
                    each.claim.name,
                    each.claim.published or "",
                    each.verdict.word,
                    *("" if value is None else f"{value:.6g}" for value in values),
                    each.number,
                    "" if measure is None else measure.reads,
                    each.basis,
                    each.break_even,
                ]
            )

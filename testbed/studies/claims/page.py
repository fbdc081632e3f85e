"""One page on published claims, each with our number, its interval and the verdict.

Observations, which are not claims of any paper, have a section of their own.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import run_tables
from testbed.experiment.findings import counted
from testbed.replaced import replacing
from testbed.report import template
from testbed.report.runs import duration, seconds
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
    UNDECIDED,
    VALUE_FACTOR,
    Bar,
    Claim,
    Claims,
    Drawn,
    Observation,
)
from testbed.studies.claims.verdict import Crossing, Number, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from testbed.report.page import Shown

WORDS = (REPRODUCED, DIRECTION, MORE, UNDECIDED, NOT, CANNOT, NOT_RUN)
_FAILED = (NOT, MORE, UNDECIDED)
"""Verdicts that ask for a break-even."""
PAGE, TABLE = "claims", "claims.csv"
_PUBLISHED, _OURS = "#b8bec6", "#1f77b4"
_DASHES = (0, (4, 1.5))
_LINE = 0.14
"""The space that a line of an axis label takes, in inches."""
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
        """The command that tests the claim again."""
        return " ".join(filter(None, ["ina-testbed claims", self.file.path, self.claim.name]))

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
        """`would_hold` with the number at each value, as text; empty if nothing was varied."""
        even, found = self.claim.break_even, self.crossing
        if found is None or even is None:
            return ""
        values = "; ".join(
            f"{each if isinstance(each, str) else shown(each)} at {value}"
            for value, each in found.numbers
        )
        return f"{self.would_hold}: {values}"

    @property
    def would_hold(self) -> str:
        """``It would be reproduced from 40us to 200us (latency of a step)``.

        Empty if nothing was varied, except for a claim that is not reproduced.
        """
        even, published = self.claim.break_even, self.claim.published
        if self.crossing is None or even is None or published is None:
            lacks = self.verdict.word in _FAILED
            return "Nothing was varied to see where it would hold" if lacks else ""
        what = "be reproduced" if published.reproduced else "hold"
        where = self.crossing.where or "at none of the values tried"
        return f"It would {what} {where} ({even.means})"


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
    """A published figure, with our number for each bar, or the reason why there is none.

    ``found`` has the numbers bar by bar, and of each bar place by place.
    """

    file: Claims
    figure: Drawn
    found: list[Number | str]
    is_old: bool = False

    @property
    def image(self) -> str:
        """The name of the image's files; empty if a bar is missing, or every point of all lines."""
        known = [isinstance(each, Number) for each in self.found]
        is_drawn = any(known) if self.figure.along else all(known)
        return f"{PAGE}-{self.figure.name}" if is_drawn else ""

    @property
    def head(self) -> list[str]:
        """The titles of a table's columns, of which each row is one of ``rows``."""
        across = [self.figure.across] if self.figure.along else []
        return ["", *across, "published", "ours"]

    @property
    def rows(self) -> list[list[str]]:
        """Each bar's label, the place, the published value, and ours, as text."""
        return [
            [
                bar.label,
                *([place] if self.figure.along else []),
                "–" if published is None else number(published),
                found if isinstance(found, str) else shown(found),
            ]
            for bar, place, published, found in self._each()
        ]

    def _each(self) -> Iterator[tuple[Bar, str, float | None, Number | str]]:
        """Each bar at each place, with the published value and ours."""
        found = iter(self.found)
        places = self.figure.places
        for bar in self.figure.bars:
            for place, published in zip(places, bar.published or [None] * len(places), strict=True):
                yield bar, place, published, next(found)

    @property
    def basis(self) -> str:
        """The results behind the numbers, as text."""
        made = sorted({each.basis for each in self.found if isinstance(each, Number)})
        return " and ".join(made) + (_OTHER if self.is_old else "")

    def drawn(self) -> Figure:
        """The published values and ours: bars side by side, or lines along the other axis."""
        return self._lines() if self.figure.along else self._bars()

    def _bars(self) -> Figure:
        from matplotlib.patches import Patch  # slow to import

        from testbed.report import canvas

        colours = {"published": _PUBLISHED, "ours": _OURS}
        legend = [Patch(color=colour, label=label) for label, colour in colours.items()]
        axis = canvas.beside(self.figure.axis)
        left = 0.65 + _LINE * axis.count("\n")
        figure, (axes,) = canvas.panels([self.figure.title], legend=legend, left=left)
        for at, (bar, _, published, ours) in enumerate(self._each()):
            heights = {"published": published, "ours": getattr(ours, "value", None)}
            for side, (label, height) in enumerate(heights.items()):
                if height is None:
                    continue
                place = at + 0.4 * side - 0.2
                (shape,) = axes.bar(place, height, 0.4, color=colours[label])
                canvas.note(shape, "mark", words=f"{bar.label}: {label} {number(height)}")
                axes.text(place, height, number(height), ha="center", va="bottom", fontsize=5.5)
            _whisker(axes, at + 0.2, ours, "black")
        canvas.set_scale(axes, "y", (0.0, axes.get_ylim()[1], False))
        axes.set_xticks(range(len(self.figure.bars)), [bar.label for bar in self.figure.bars])
        axes.set_ylabel(axis)
        return figure

    def _lines(self) -> Figure:
        from matplotlib.lines import Line2D  # slow to import

        from testbed.report import canvas

        def line(colour: str, label: str, is_ours: bool) -> Line2D:
            """A line through no points, as an entry of the legend."""
            own = Line2D(
                [], [], color=colour, label=label, linestyle="-" if is_ours else _DASHES,
                marker="o", mfc=colour if is_ours else "white",
            )  # fmt: skip
            canvas.note(own, "entry", dashes="" if is_ours else " ".join(map(str, _DASHES[1])))
            return own

        colours = {bar.label: f"C{at}" for at, bar in enumerate(self.figure.bars)}
        legend = [line(colour, label, True) for label, colour in colours.items()]
        if any(bar.published for bar in self.figure.bars):
            legend += [line("#606060", "ours", True), line("#606060", "published", False)]
        axis = canvas.beside(self.figure.axis)
        left = 0.6 + _LINE * axis.count("\n")
        figure, (axes,) = canvas.panels([self.figure.title], legend=legend, left=left, below=0.47)
        places = self.figure.places
        for label, colour in colours.items():
            own = [each for each in self._each() if each[0].label == label]
            for is_ours in (False, True):
                side = "ours" if is_ours else "published"
                known: dict[int, float] = {}
                for at, (_, _, published, ours) in enumerate(own):
                    height = getattr(ours, "value", None) if is_ours else published
                    if height is not None:
                        known[at] = height
                axes.plot(
                    [*known], [*known.values()], color=colour, linestyle="-" if is_ours else _DASHES
                )
                for at, height in known.items():
                    (mark,) = axes.plot(
                        at, height, "o", color=colour, mfc=colour if is_ours else "white"
                    )
                    if is_ours:
                        _whisker(axes, at, own[at][3], colour)
                    words = f"{label} at {places[at]}: {side} {number(height)}"
                    canvas.note(mark, "mark", words=words)
        axes.set_xticks(range(len(places)), places)
        canvas.set_scale(axes, "y", (0.0, axes.get_ylim()[1], False))
        axes.set_xlabel(self.figure.across, labelpad=1)
        axes.set_ylabel(axis)
        return figure


def _whisker(axes: Axes, at: float, ours: Number | str | None, colour: str) -> None:
    """The interval of our number, if it has one."""
    if isinstance(ours, Number) and ours.low is not None and ours.high is not None:
        axes.vlines(at, ours.low, ours.high, colors=colour, linewidth=0.8)


@dataclass
class Made:
    """What a page was made from: the facts of its experiments' runs."""

    runs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, runs: Sequence[Path]) -> None:
        """Add the facts of the runs in these directories. Those killed at once have none."""
        self.runs += filter(None, map(run_tables.read_metadata, runs))

    def __str__(self) -> str:
        """Commit, machine, dates and the time that the experiments took, in sentences."""
        if not self.runs:
            return "No experiment has been run."
        calls = [call for run in self.runs for call in (run, *(run.get("resumed") or []))]
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
        known = [taken for run in finished if (taken := seconds(run)) is not None]
        said = (
            f"{counted(len(self.runs), 'experiment')} at commit {' and '.join(commits)}, on"
            f" {' and '.join(machines)}, from {begun}"
        )
        if finished:
            said += f" to {max(run['finished_at'] for run in finished)}"
        said += f"; they took {duration(sum(known))}"
        if unknown := len(finished) - len(known):
            said += f" without {counted(unknown, 'experiment')} that ran in several parts"
        if len(finished) < len(self.runs):
            said += f"; {len(self.runs) - len(finished)} did not finish"
        return said + "."


@dataclass
class Page:
    """All verdicts, observations and figures, and what they were made from."""

    judged: list[Judged] = field(default_factory=list)
    observed: list[Observed] = field(default_factory=list)
    beside: list[Beside] = field(default_factory=list)
    made: Made = field(default_factory=Made)


def write(page: Page, folder: Path) -> Path:
    """Write ``claims.html``, ``.md`` and ``.csv``, and figures; returns the path of the first."""
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
        "failed": [each for each in page.judged if each.verdict.word in _FAILED],
        "observed": page.observed,
        "beside": page.beside,
        "figures": shown,
        "variables": variables,
        "made": str(page.made),
        "rule": RULE,
    }
    environment = template.environment()
    for end in ("html", "md"):
        text = environment.get_template(f"claims.{end}.j2").render(context)
        with replacing(folder / f"{PAGE}.{end}") as made:
            made.write_text(text)
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
    " of set-ups. The whole 95 % bootstrap interval must be within the bounds; if only a part of it"
    " is, the claim is undecided. The interval is over seeds or repeats; a single one has none. A"
    " break-even says for which values of one setting the claim holds."
)


def _table(judged: Sequence[Judged], path: Path) -> None:
    columns = ["file", "claim", "published", "verdict", "number", "low", "high", "shown"]
    columns += ["reads", "basis", "break_even"]
    with replacing(path) as made, made.open("w", newline="") as file:
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

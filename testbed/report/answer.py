"""A summary of the evaluation: one figure, one table, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.report import data, names, template
from testbed.report.backends import FLOOR, mark
from testbed.report.differences import Record
from testbed.report.evaluated import evaluated
from testbed.report.ranking import Ranking
from testbed.report.system_style import Series, Styles
from testbed.report.tables import Table, interval, number
from testbed.workload.catalogue import title

WINNERS = "winners.md"
FIGURE = "jct-ina"


def write(run_dirs: Sequence[Path], out: Path, styles: Styles, claims: bool) -> Path:
    """Write ``README.md``, and its table alone as ``winners.md``, beside a report in ``out``.

    ``claims`` says whether the folder also has a page on claims. FileNotFoundError if a directory
    holds no results.
    """
    found = evaluated(run_dirs, styles)
    rows = found.rows
    table = winners(found.rankings, found.titles)
    context: dict[str, Any] = {
        "table": table,
        "runs": list(found.about.values()),
        "figure": (out / "figures" / f"{FIGURE}.svg").exists(),
        "figure_name": FIGURE,
        "claims": claims,
        "valid": int(data.is_valid(rows).sum()),
        "total": len(rows),
        "most_workers": int(rows["workers"].max()),
        "repeats": sorted(set(found.means["used_rows"].astype(int))),
        "dilations": sorted({f"{value:g}" for value in rows["dilation"]}),
        "scales": sorted({template.fraction(value) for value in rows["scale"]}),
        "workloads": [title(each) for each in sorted(set(rows["workload"]))],
        "floors": {each: FLOOR[each] for each in sorted(set(rows["backend"]))},
    }
    environment = template.environment()
    page = out / "README.md"
    page.write_text(environment.get_template("answer.md.j2").render(context))
    (out / WINNERS).write_text(markdown(table))
    return page


def winners(rankings: Sequence[Ranking], titles: Mapping[Series, str]) -> Table:
    """The fastest systems in each setting and place of INA, and their lead."""
    columns = ["fabric", "workload", "INA", "fastest", "JCT (s)", "95 % interval", "next"]
    columns += ["times as fast", "95 % interval", "how sure"]
    found = []
    for ranking in rankings:
        best, place = ranking.best, ranking.place
        names = [titles[row["system"], row["variant"]] for row in _leaders(ranking)]
        row = [_fabric(place), title(place["workload"]), place["ina"], " = ".join(names)]
        row += [number(best["jct_s"]), interval(best["jct_low"], best["jct_high"])]
        if lead := ranking.next:
            row += [titles[lead.slower["system"], lead.slower["variant"]], number(lead.ratio)]
            row += [interval(*lead.interval), lead.sure]
        found.append([*row, *[""] * (len(columns) - len(row))])
    return columns, found


def _leaders(ranking: Ranking) -> list[Record]:
    return [ranking.best, *(each.slower for each in ranking.tied)]


def _fabric(place: Mapping[str, Any]) -> str:
    own = names.fabric(place["fabric"]), names.settings(place["conditions"])
    named = ", ".join(part for part in own if part)
    return named + mark(place["backend"])


def markdown(table: Table) -> str:
    """A table in Markdown."""
    columns, rows = table
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )

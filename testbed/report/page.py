"""The report: one HTML file that needs nothing else, and the same in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import yaml

from testbed import results
from testbed.report import data, drawing, figures
from testbed.report.look import Look, of

_CAPTIONS = {
    "jct": "Job completion time per system: mean of the valid repeats. Whiskers: {interval}.",
    "throughput": "Training throughput of all workers together. Whiskers: {interval}.",
    "ina-tors": "Job completion time against the number of ToRs that aggregate.",
    "closed-form": "Measured against closed form; the band is 10 % either way. Hollow: not valid.",
    "timeline": "Every worker's iterations in the first repeat: compute in grey, exposed"
    " communication in the system's colour.",
}
_FACTS = {
    "command": "command",
    "started_at": "started",
    "finished_at": "finished",
    "git_commit": "commit",
    "git_dirty": "uncommitted changes",
    "python": "Python",
    "kernel": "kernel",
    "cpu": "processor",
    "cores": "cores",
    "memory_bytes": "memory (bytes)",
    "compiler": "C compiler",
    "bmv2": "BMv2",
    "p4c": "p4c",
}


def build(run_dirs: Sequence[Path], out: Path, looks: Mapping[str, Look]) -> Path:
    """Write ``report.html``, ``report.md`` and ``figures/`` over ``run_dirs`` into ``out``.

    Returns the path of the page. FileNotFoundError if a directory holds no results.
    """
    tables = results.read(run_dirs)
    rows = tables.results
    summary = data.summary(rows)
    drawn = figures.draw(summary, tables.iterations, looks)
    out.mkdir(parents=True, exist_ok=True)
    svg = figures.save(drawn, out / "figures")
    systems = list(dict.fromkeys(rows["system"]))
    titles = {system: of(system, looks).title for system in systems}
    repeats = int(summary["valid_rows"].min()) if len(summary) else 0
    interval = "95 % bootstrap interval of the mean"
    if repeats < data.ENOUGH_REPEATS:
        interval += f"; the range where fewer than {data.ENOUGH_REPEATS} repeats are valid"
    context = {
        "name": ", ".join(dict.fromkeys(rows["experiment"])),
        "headlines": data.headlines(summary, titles),
        "figures": [
            (name, _CAPTIONS[name].format(interval=interval), svg[name])
            for name in _CAPTIONS
            if name in svg
        ],
        "summary": _summary_table(summary, titles),
        "speed_ups": _speed_up_table(data.speed_ups(summary), titles),
        "problems": _problem_table(data.problems(rows), titles),
        "rows": _row_table(rows, titles),
        "valid": len(data.valid(rows)),
        "total": len(rows),
        "failed": int((rows["verdict"] == "failed").sum()),
        "runs": [_run(Path(run)) for run in dict.fromkeys(rows["run"])],
        "systems": [of(system, looks) for system in systems],
        "dilations": sorted(set(rows["dilation"])),
        "scales": sorted(set(rows["scale"])),
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = out / "report.html"
    for template, path in (("report.html.j2", page), ("report.md.j2", out / "report.md")):
        path.write_text(environment.get_template(template).render(context))
    return page


Table = tuple[list[str], list[list[str]]]
"""Column titles and rows of text."""


_PLACE = ["workload", "workers", "INA ToRs"]


def _number(value: Any) -> str:
    return "–" if pd.isna(value) else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _count(value: Any) -> str:
    return "–" if pd.isna(value) else str(int(value))


def _percent(value: Any) -> str:
    return "–" if pd.isna(value) else f"{value:+.1%}"


def _place(row: Any) -> list[str]:
    return [str(row.workload), str(row.workers), f"{row.ina_tors}/{row.tors}"]


def _summary_table(summary: pd.DataFrame, titles: Mapping[str, str]) -> Table:
    columns = [*_PLACE, "system", "JCT (s)", "from", "to", "samples/s", "algbw (Gbit/s)"]
    columns += ["exposed comm. (s)", "closed form (s)", "error", "valid rows"]
    return columns, [
        [
            *_place(row),
            titles[row.system] + ("" if row.shown == data.VALID else " (not valid)"),
            *map(_number, (row.jct_s, row.jct_low, row.jct_high, row.throughput, row.algbw)),
            *map(_number, (row.exposed_s, row.expected_jct_s)),
            _percent(row.error),
            f"{row.valid_rows}/{row.rows}",
        ]
        for row in summary.itertuples()
    ]


def _speed_up_table(table: pd.DataFrame, titles: Mapping[str, str]) -> Table:
    baselines = [name for name in ("ps", "ring") if table[name].notna().any()]
    columns = [*_PLACE, "system"]
    columns += [f"against {titles.get(name, name)}" for name in baselines]
    return columns, [
        [
            *_place(row),
            titles[row.system],
            *(_number(getattr(row, name)) for name in baselines),
        ]
        for row in table.itertuples()
    ]


def _problem_table(rows: pd.DataFrame, titles: Mapping[str, str]) -> Table:
    columns = ["cell", "repeat", "system", "workload", "reason"]
    return columns, [
        [row.cell, str(row.repeat + 1), titles[row.system], row.workload, str(row.reason)]
        for row in rows.itertuples()
    ]


def _row_table(rows: pd.DataFrame, titles: Mapping[str, str]) -> Table:
    columns = [*_PLACE, "system", "target", "cell", "repeat", "JCT (s)", "closed form (s)"]
    columns += ["resent", "collisions", "sums exact", "verdict"]
    return columns, [
        [
            *_place(row),
            titles[row.system],
            str(row.switch_target) if isinstance(row.switch_target, str) else "–",
            str(row.cell),
            str(row.repeat + 1),
            _number(row.jct_s),
            _number(row.expected_jct_s),
            _count(row.retransmitted),
            _count(row.collisions),
            "yes" if row.verified else "no",
            str(row.verdict),
        ]
        for row in rows.itertuples()
    ]


def _run(directory: Path) -> dict[str, Any]:
    """What one run was, and what it ran on."""
    metadata = results.read_metadata(directory)
    path = directory / results.EXPERIMENT
    text = path.read_text() if path.exists() else ""
    experiment = yaml.safe_load(text) or {}
    facts = [
        (title, str(metadata[key]))
        for key, title in _FACTS.items()
        if metadata.get(key) is not None
    ]
    facts += [
        ("versions", ", ".join(f"{k} {v}" for k, v in metadata.get("versions", {}).items() if v)),
        ("seeds", ", ".join(f"{k} {v}" for k, v in metadata.get("seeds", {}).items())),
    ]
    return {
        "directory": f"{directory.parent.name}/{directory.name}",
        "description": experiment.get("description", ""),
        "experiment": text,
        "facts": [(title, text) for title, text in facts if text],
        "fabric": drawing.words(experiment.get("fabric", {})),
        "drawing": drawing.svg(experiment.get("fabric", {})),
    }

"""Made-up results with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from testbed import run_tables
from testbed.report import settings
from testbed.report.system_style import SystemStyle
from testbed.results import Iteration, LinkLoad, Row, RunDirectory

STYLES = {
    "ps": SystemStyle(
        "PS",
        "#777777",
        "s",
        "Li et al.",
        ("push",),
        ("pull",),
        baseline=1,
        reference=True,
        aggregates=False,
    ),
    "ring": SystemStyle("Ring", "#1f77b4", "o", baseline=2, reference=True, aggregates=False),
    "atp": SystemStyle("ATP", "#d62728", "^"),
    "asp": SystemStyle("ASP", "#bcbd22", "<", aggregates=False, waits=False),
}
ROW = Row(
    experiment="made-up",
    cell="c0",
    repeat=0,
    job=0,
    system="ps",
    workload="resnet50",
    topology="leaf-spine 2x5, 2 spines",
    workers=8,
    servers=1,
    ina_tors=2,
    tors=2,
    backend="emulate",
    switch_target="",
    dilation=200,
    scale=1 / 128,
    iterations=3,
    jct_s=4.0,
    iteration_s=4 / 3,
    throughput_samples_s=100.0,
    algbw_gbit_s=1.0,
    exposed_comm_s=0.5,
    retransmitted=0,
    collisions=0,
    verified=True,
    verdict="valid",
    expected_jct_s=3.9,
    switches=4,
    ina_switches=2,
)
EXPERIMENT = {
    "name": "made-up",
    "fabric": {
        "kind": "leaf-spine",
        "spines": 2,
        "leaves": 2,
        "hosts_per_leaf": 5,
        "host_rate": "10Gbit",
        "ina": "all",
        "ina_policy": "fullest",
        "ina_tier": "tor",
    },
    "jobs": [{"system": "ps", "workload": "resnet50", "workers": 8, "overlap": True}],
    "emulation": {"dilation": 200, "scale": "1/128", "seed": 1},
}


def rows(system: str, *times: float, **changes: Any) -> list[Row]:
    """One row for each of ``times``; they are repeats of one cell."""
    changes = {"cell": system, **changes}
    if "ina_tors" in changes:
        changes.setdefault("ina_switches", changes["ina_tors"])
    return [
        replace(
            ROW, system=system, repeat=i, jct_s=time, throughput_samples_s=400 / time, **changes
        )
        for i, time in enumerate(times)
    ]


def run(
    root: Path, all_rows: Sequence[Row], name: str = "made-up", experiment: Any = EXPERIMENT
) -> Path:
    """The directory of a run with these rows, each with iterations of two workers and links."""
    directory = RunDirectory.create(root, name)
    directory.append(all_rows)
    finished = [row for row in all_rows if row.jct_s is not None]
    directory.append_iterations(
        Iteration(row.cell, row.repeat, row.job, row.system, row.workload, rank, 0, 0.0, 0.2, 0.3)
        for row in finished
        for rank in range(2)
    )
    directory.append_links(
        LinkLoad(row.cell, row.repeat, *ends, *kinds, 10.0, 1e9 * busy, busy)
        for row in finished
        for ends, kinds, busy in [
            (("h0", "t0"), ("host", "tor"), 0.5),
            (("h1", "t0"), ("host", "tor"), 0.1),
            (("t0", "h0"), ("tor", "host"), 0.2),
        ]
    )
    directory.write_metadata({"python": "3.11", "seeds": {"experiment": 1}})
    directory.write("experiment.yaml", yaml.safe_dump(experiment))
    return directory.path


def labelled(root: Path, all_rows: Sequence[Row], experiment: Any = EXPERIMENT) -> pd.DataFrame:
    """The table of these rows with its labels."""
    path = run(root, all_rows, experiment=experiment)
    return settings.label(run_tables.read(path).results, {str(path): experiment})

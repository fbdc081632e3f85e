"""Rows measured in Mininet, beside rows of the same setting in packets, and BMv2 beside native
switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from testbed.report import data, names, template
from testbed.report.evaluated import Evaluated, evaluated
from testbed.report.settings import PLACE, SERIES, SETTING
from testbed.report.system_style import Styles
from testbed.report.tables import Table, number, percent, share
from testbed.workload.catalogue import title

_PLACE = ["fabric", "workload", "INA", "system"]
_TARGET = r"(?:, )?target=(\w+)"


@dataclass(frozen=True)
class Comparison:
    """Pairs of rows, and by how much the times of those that are valid differ.

    Attributes:
        cells: how many cells ran in Mininet, and ``valid`` of ``rows`` are their valid rows.
        how: scale and dilation of these, and the queues of their ports.
        median: of the differences' absolute values; ``most`` is the largest.
    """

    table: Table
    cells: int
    how: str
    valid: int
    rows: int
    median: str
    most: str


def against_packets(run_dirs: Sequence[Path], styles: Styles) -> Comparison:
    """Mininet against packets in virtual time, setting by setting."""
    found = evaluated(run_dirs, styles)
    both = data.beside(found.means)
    keys = [*SETTING, *PLACE, *SERIES]
    every = found.means[found.means["backend"] == "emulate"]
    every = every.merge(both[[*keys, "packets_jct_s", "difference"]], on=keys, how="left")
    lines = [
        [
            *_place(row, found.titles[row["system"], row["variant"]]),
            number(row["jct_s"]),
            number(row["packets_jct_s"]),
            percent(row["difference"]),
            row["shown"],
        ]
        for row in every.to_dict("records")
    ]
    columns = [*_PLACE, "Mininet (s)", "packets (s)", "difference", "verdict"]
    return _comparison((columns, lines), found, both[both["is_valid"]]["difference"])


def bmv2_against_native(run_dirs: Sequence[Path], styles: Styles) -> Comparison:
    """BMv2 against native switches, setting by setting."""
    found = evaluated(run_dirs, styles)
    means = found.means.assign(
        target=found.means["variant"].str.extract(_TARGET)[0],
        variant=found.means["variant"].str.replace(_TARGET, "", regex=True),
        valid=data.is_shown(found.means),
    )
    keys = [*SETTING, *PLACE, *SERIES]
    each = {target: own for target, own in means.groupby("target")}
    nothing = means[:0]
    both = each.get("bmv2", nothing).merge(
        each.get("native", nothing), on=keys, suffixes=("_bmv2", "_native")
    )
    both["difference"] = both["jct_s_bmv2"] / both["jct_s_native"] - 1
    lines = [
        [
            *_place(row, names.variant(styles[row["system"]].title, row["variant"])),
            number(row["jct_s_bmv2"]),
            number(row["jct_s_native"]),
            percent(row["difference"]),
            f"{row['retransmitted_bmv2']:.0f}",
            f"{row['retransmitted_native']:.0f}",
            row["shown_bmv2"],
            row["shown_native"],
        ]
        for row in both.to_dict("records")
    ]
    columns = [*_PLACE, "BMv2 (s)", "native (s)", "difference"]
    columns += ["retransmitted, BMv2", "native", "verdict, BMv2", "native"]
    good = both[both["valid_bmv2"] & both["valid_native"]]["difference"]
    return _comparison((columns, lines), found, good)


def _place(row: Mapping[Any, Any], system: str) -> list[str]:
    return [names.fabric(row["fabric"]), title(row["workload"]), row["ina"], system]


def _comparison(table: Table, found: Evaluated, differences: pd.Series) -> Comparison:
    emulated = found.rows[found.rows["backend"] == "emulate"]
    apart = differences.abs()
    return Comparison(
        table=table,
        cells=int(emulated.groupby(["run", "cell"]).ngroups),
        how=_how(emulated, found),
        valid=int(data.is_valid(emulated).sum()),
        rows=len(emulated),
        median=share(apart.median()),
        most=share(apart.max()),
    )


def _how(emulated: pd.DataFrame, found: Evaluated) -> str:
    """``scale 1/256, dilation 1600, queues of 512KB``."""
    fabrics = [found.about[run].experiment.get("fabric") or {} for run in {*emulated["run"]}]
    queues = sorted({str(fabric["queue"]) for fabric in fabrics if "queue" in fabric})
    scales = map(template.fraction, sorted({*emulated["scale"]}))
    parts = [
        f"scale {' or '.join(scales)}",
        f"dilation {' or '.join(f'{value:g}' for value in sorted({*emulated['dilation']}))}",
    ]
    return ", ".join(parts + [f"queues of {' or '.join(queues)}"] * bool(queues))

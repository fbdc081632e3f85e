"""The figures, in fixed colours and markers. Rows that are not valid are hatched."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from testbed.report.data import VALID, everywhere
from testbed.report.look import Look, of

Looks = Mapping[str, Look]

_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "pdf.fonttype": 42,  # TrueType: Type 3 fonts are refused by publishers
    "svg.fonttype": "none",
    "figure.dpi": 150,
}
_MOST_TIMELINES = 8


def draw(table: pd.DataFrame, iterations: pd.DataFrame, looks: Looks) -> dict[str, Figure]:
    """All figures that the data allows, by name."""
    with plt.rc_context(_STYLE):
        figures: dict[str, Figure] = {}
        if len(table):
            figures["jct"] = _bars(table, looks, "jct", "JCT (s)")
            figures["throughput"] = _bars(table, looks, "throughput", "samples/s")
            figures["closed-form"] = _against_closed_form(table, looks)
        if table["ina_tors"].nunique() > 1:
            figures["ina-tors"] = _against_tors(table, looks)
        if len(iterations):
            figures["timeline"] = _timelines(iterations, looks)
        return figures


def save(figures: Mapping[str, Figure], directory: Path) -> dict[str, str]:
    """Write each as PDF and PNG into ``directory``; return each as text of an SVG element."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = {}
    for name, figure in figures.items():
        with plt.rc_context(_STYLE):
            for suffix in ("pdf", "png"):
                figure.savefig(directory / f"{name}.{suffix}", bbox_inches="tight")
            buffer = io.StringIO()
            figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
        text = buffer.getvalue()
        texts[name] = text[text.index("<svg") :]
    return texts


def _bars(table: pd.DataFrame, looks: Looks, value: str, label: str) -> Figure:
    """A panel per workload, a group of bars per number of INA ToRs, a bar per system."""
    column = "jct_s" if value == "jct" else value
    workloads = list(table["workload"].unique())
    systems = list(table.sort_values("system")["system"].unique())
    figure, panels = plt.subplots(
        1, len(workloads), figsize=(3.6 * len(workloads), 3), squeeze=False
    )
    for axes, workload in zip(panels[0], workloads, strict=True):
        part = table[table["workload"] == workload]
        places = part.groupby(["topology", "workers", "ina_tors", "tors"], sort=True)
        width = 0.8 / len(systems)
        labels = []
        for place, (key, group) in enumerate(places):
            labels.append(f"INA {key[2]}/{key[3]} ToRs")
            for _, row in group.drop_duplicates("system").iterrows():
                at = place + (systems.index(row["system"]) - (len(systems) - 1) / 2) * width
                look = of(row["system"], looks)
                low = row[column] - row[f"{value}_low"]
                high = row[f"{value}_high"] - row[column]
                axes.bar(
                    at,
                    row[column],
                    width * 0.92,
                    color=look.colour,
                    hatch="" if row["shown"] == VALID else "////",
                    alpha=1.0 if row["shown"] == VALID else 0.45,
                    edgecolor="white",
                    yerr=[[max(low, 0)], [max(high, 0)]],
                    error_kw={"elinewidth": 1, "capsize": 2},
                )
                axes.annotate(
                    f"{row[column]:.3g}", (at, row[f"{value}_high"]), (0, 2),
                    textcoords="offset points", ha="center", va="bottom", fontsize=7,
                )  # fmt: skip
        axes.set_xticks(range(len(labels)), labels)
        axes.set_title(workload)
        axes.set_ylabel(label)
        axes.margins(y=0.12)
    _legend(figure, systems, looks, bool((table["shown"] != VALID).any()))
    return figure


def _against_tors(table: pd.DataFrame, looks: Looks) -> Figure:
    workloads = list(table["workload"].unique())
    figure, panels = plt.subplots(
        1, len(workloads), figsize=(3.6 * len(workloads), 3), squeeze=False
    )
    for axes, workload in zip(panels[0], workloads, strict=True):
        for system, group in everywhere(table[table["workload"] == workload]).groupby("system"):
            look = of(str(system), looks)
            line = group.groupby("ina_tors")["jct_s"].mean()
            axes.plot(line.index, line, color=look.colour, marker=look.marker, label=look.title)
            hollow = group[group["shown"] != VALID]
            axes.plot(hollow["ina_tors"], hollow["jct_s"], look.marker, mfc="white",
                      color=look.colour)  # fmt: skip
        axes.set_ylim(bottom=0)
        axes.set_xticks(sorted(table["ina_tors"].unique()))
        axes.set_xlabel("ToRs with INA")
        axes.set_ylabel("JCT (s)")
        axes.set_title(workload)
    systems = list(table.sort_values("system")["system"].unique())
    _legend(figure, systems, looks, bool((table["shown"] != VALID).any()))
    return figure


def _against_closed_form(table: pd.DataFrame, looks: Looks) -> Figure:
    figure, axes = plt.subplots(figsize=(3.6, 3.2))
    for system, group in table.groupby("system"):
        look = of(str(system), looks)
        for shown, part in group.groupby("shown"):
            axes.plot(
                part["expected_jct_s"],
                part["jct_s"],
                look.marker,
                color=look.colour,
                mfc=look.colour if shown == VALID else "white",
            )
    limits = np.array([table[["expected_jct_s", "jct_s"]].min().min() * 0.8,
                       table[["expected_jct_s", "jct_s"]].max().max() * 1.25])  # fmt: skip
    axes.plot(limits, limits, color="grey", linewidth=0.8)
    axes.fill_between(limits, limits * 0.9, limits * 1.1, color="grey", alpha=0.15, linewidth=0)
    axes.set(xscale="log", yscale="log", xlim=limits, ylim=limits)
    axes.set_xlabel("closed form, JCT (s)")
    axes.set_ylabel("measured, JCT (s)")
    systems = list(table.sort_values("system")["system"].unique())
    _legend(figure, systems, looks, bool((table["shown"] != VALID).any()))
    return figure


def _timelines(iterations: pd.DataFrame, looks: Looks) -> Figure:
    """A panel per cell's first repeat: each worker's compute and the communication it waits for."""
    first = iterations[iterations["repeat"] == iterations["repeat"].min()]
    cells = list(first.groupby(["run", "cell", "job"], sort=False))
    cells = sorted(cells, key=lambda each: (each[1]["workload"].iloc[0], each[1]["system"].iloc[0]))
    cells = cells[:_MOST_TIMELINES]
    ranks = int(first["rank"].max()) + 1
    figure, panels = plt.subplots(
        len(cells), 1, figsize=(7.2, 0.5 + len(cells) * (0.6 + 0.09 * ranks)), squeeze=False
    )
    for axes, (_, rows) in zip(panels[:, 0], cells, strict=True):
        _timeline(axes, rows, of(rows["system"].iloc[0], looks))
    panels[-1, 0].set_xlabel("time (s)")
    figure.tight_layout()
    return figure


def _timeline(axes: Axes, rows: pd.DataFrame, look: Look) -> None:
    for rank, own in rows.groupby("rank"):
        compute = [(a, b - a) for a, b in zip(own["start_s"], own["compute_end_s"], strict=True)]
        waiting = [(a, b - a) for a, b in zip(own["compute_end_s"], own["end_s"], strict=True)]
        axes.broken_barh(compute, (float(str(rank)) - 0.4, 0.8), color="#c9d3de")
        axes.broken_barh(waiting, (float(str(rank)) - 0.4, 0.8), color=look.colour)
    axes.set_title(f"{look.title}, {rows['workload'].iloc[0]}", fontsize=8, loc="left", pad=2)
    axes.set_ylabel("rank", fontsize=7)
    axes.tick_params(labelsize=7)
    axes.grid(visible=False)


def _legend(figure: Figure, systems: list[str], looks: Looks, hatched: bool) -> None:
    handles = [
        Patch(color=of(system, looks).colour, label=of(system, looks).title) for system in systems
    ]
    if hatched:
        handles.append(
            Patch(facecolor="#dddddd", hatch="////", label="not valid", edgecolor="white")
        )
    figure.tight_layout()
    figure.legend(
        handles=handles, loc="lower center", ncols=len(handles), frameon=False,
        bbox_to_anchor=(0.5, 1),
    )  # fmt: skip

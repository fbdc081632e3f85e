"""How busy links are, by layer of the fabric."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from testbed.report import canvas, names
from testbed.report.complete import check_numbers
from testbed.report.data import is_valid
from testbed.report.drawing import Load
from testbed.report.panels import Panel, Panels, SeriesStyles
from testbed.report.settings import SERIES, SETTING
from testbed.report.system_style import series_of
from testbed.results import LINKS
from testbed.workload import catalogue

BUSY = "#d0252b"
_UPWARDS = ("host", "tor", "aggregation", "spine", "core")
_RUN = ["run", "cell", "repeat"]


def labelled(links: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """``links`` of valid rows of jobs that ran alone, with their labels and ``layer``."""
    check_numbers(links, ["busy"], LINKS)
    good = rows[is_valid(rows) & (rows["beside"] == "")]
    found = links.merge(good[[*_RUN, *SETTING, "ina", *SERIES]], on=_RUN)
    return found.assign(layer=found["source_kind"] + "→" + found["target_kind"])


def by_layer(found: pd.DataFrame) -> pd.DataFrame:
    """The mean and the largest busy share of links, for each series and layer."""
    keys = [*SETTING, "ina", *SERIES, "layer"]
    each = found.groupby([*keys, "source", "target"], sort=False)["busy"].mean().reset_index()
    return each.groupby(keys, sort=False)["busy"].agg(["mean", "max"]).reset_index()


def drawn(settings: Panels, layers: pd.DataFrame, styles: SeriesStyles) -> Figure | None:
    """A heat map for each setting: a row for each system, a column for each layer, with the mean
    and the busiest link."""
    panels: list[Panel] = []
    for title, part in settings:
        moved = part[part["moved"]].drop(columns=["ina"]).merge(layers, on=[*SETTING, *SERIES])
        found = pd.concat(
            [part[~part["moved"]].merge(layers, on=[*SETTING, "ina", *SERIES]), moved]
        )
        if len(found):
            panels.append(Panel(title, found.sort_values(["order", "variant"])))
    if not panels:
        return None
    most = max(len(part[SERIES].drop_duplicates()) for _, part in panels)
    named = {
        key: canvas.wrapped(styles[key].title)
        for _, part in panels
        for key in zip(part["system"], part["variant"], strict=True)
    }
    longest = max(len(line) for name in named.values() for line in name.split("\n"))
    tall = 0.19 + 0.11 * max(name.count("\n") for name in named.values())
    figure, all_axes = canvas.panels(
        [panel.title for panel in panels], height=tall * most, below=0.12, head=0.24,
        left=0.15 + 0.055 * longest, facets=[panel.facets for panel in panels],
    )  # fmt: skip
    for axes, (_, part) in zip(all_axes, panels, strict=True):
        layers_of = sorted(part["layer"].unique(), key=_upwards)
        systems = series_of(part)
        cells = part.set_index([*SERIES, "layer"])[["mean", "max"]]
        cells = cells[~cells.index.duplicated()]
        for down, key in enumerate(systems):
            for across, layer in enumerate(layers_of):
                cell = (*key, layer)
                if cell not in cells.index:
                    continue
                mean, high = cells.loc[cell]
                box = Rectangle(
                    (across - 0.48, down - 0.45), 0.96, 0.9, alpha=0.08 + 0.6 * min(high, 1),
                    facecolor=BUSY, linewidth=0,
                )  # fmt: skip
                text = f"{styles[key].title}: links {layer} busy {mean:.0%}, the busiest {high:.0%}"
                axes.add_patch(box)
                canvas.note(box, "mark", system=key[0], words=text)
                written = axes.text(
                    across, down, f"{100 * mean:.0f} | {100 * high:.0f}", ha="center", va="center",
                    fontsize=6,
                )  # fmt: skip
                canvas.note(written, "mark", system=key[0])
        axes.set_xlim(-0.5, len(layers_of) - 0.5)
        axes.set_xticks(range(len(layers_of)), [_short(layer) for layer in layers_of])
        axes.xaxis.tick_top()
        axes.set_ylim(most - 0.5, -0.5)
        axes.spines[:].set_visible(False)
        axes.set_yticks(range(len(systems)), [named[key] for key in systems])
        axes.tick_params(length=0, labelsize=6.5, pad=2)
        axes.grid(visible=False)
    return figure


def of_fabric(found: pd.DataFrame, fabric: str, ina: str, styles: SeriesStyles) -> list[Load]:
    """The loads to draw on a fabric: for one workload, each system's mean over its repeats."""
    found = found[(found["fabric"] == fabric) & (found["ina"] == ina)]
    if not len(found):
        return []
    workload = found.groupby("workload")["system"].nunique().idxmax()
    found = found[found["workload"] == workload]
    panels: list[Load] = []
    for key, style in styles.items():
        own = found[(found["system"] == key[0]) & (found["variant"] == key[1])]
        ends = own["source"] + " " + own["target"]
        busy = own.groupby(ends)["busy"].mean()
        loads: dict[frozenset[str], float] = {}
        for ends_, share in busy.items():
            link = frozenset(str(ends_).split())
            loads[link] = max(share, loads.get(link, 0.0))
        panels.append(
            Load(
                f"{style.title}, {catalogue.title(workload)}\n{names.fabric(fabric)}", key[0], loads
            )
        )
    return panels


def _short(layer: str) -> str:
    return layer.replace("aggregation", "agg.").replace("tor", "ToR").replace("→", "\n→")


def _upwards(layer: str) -> tuple[bool, int]:
    """The order of layers: from hosts up, then from the top down."""
    source, _, target = layer.partition("→")
    one, other = (
        _UPWARDS.index(kind) if kind in _UPWARDS else len(_UPWARDS) for kind in (source, target)
    )
    return (one > other, one if one <= other else -one)

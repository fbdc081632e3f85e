"""How busy links are, by layer of the fabric."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from testbed.report import canvas
from testbed.report.bars import Panel, Panels, SeriesStyles
from testbed.report.data import is_valid
from testbed.report.drawing import COLOURS, Loads, colour_bar
from testbed.report.settings import SERIES, SETTING
from testbed.workload import catalogue

_UPWARDS = ("host", "tor", "aggregation", "spine", "core")
_RUN = ["run", "cell", "repeat"]


def labelled(links: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """``links`` of valid rows of jobs that ran alone, with their labels and ``layer``."""
    good = rows[is_valid(rows) & (rows["beside"] == "")]
    found = links.merge(good[[*_RUN, *SETTING, "ina", *SERIES]], on=_RUN)
    return found.assign(layer=found["source_kind"] + "→" + found["target_kind"])


def by_layer(found: pd.DataFrame) -> pd.DataFrame:
    """The mean and the largest busy share of links, for each series and layer."""
    keys = [*SETTING, "ina", *SERIES, "layer"]
    each = found.groupby([*keys, "source", "target"], sort=False)["busy"].mean().reset_index()
    return each.groupby(keys, sort=False)["busy"].agg(["mean", "max"]).reset_index()


def drawn(settings: Panels, layers: pd.DataFrame, styles: SeriesStyles) -> Figure | None:
    """A heat map for each setting: systems down, layers across, mean and busiest link."""
    panels: list[Panel] = []
    for title, part in settings:
        moved = part[part["moved"]].drop(columns=["ina"]).merge(layers, on=[*SETTING, *SERIES])
        found = pd.concat(
            [part[~part["moved"]].merge(layers, on=[*SETTING, "ina", *SERIES]), moved]
        )
        if len(found):
            panels.append((title, found.sort_values(["order", "variant"])))
    if not panels:
        return None
    most = max(len(part[SERIES].drop_duplicates()) for _, part in panels)
    figure, all_axes = canvas.panels(
        [title for title, _ in panels], height=0.17 * most, below=0.1, left=1.1, head=0.25,
        foot=0.5,
    )  # fmt: skip
    for axes, (_, part) in zip(all_axes, panels, strict=True):
        names = sorted(part["layer"].unique(), key=_upwards)
        systems = list(dict.fromkeys(zip(part["system"], part["variant"], strict=True)))
        cells = part.set_index([*SERIES, "layer"])[["mean", "max"]]
        cells = cells[~cells.index.duplicated()]
        grid = [[cells["max"].get((*key, name), 0.0) for name in names] for key in systems]
        axes.imshow(grid, cmap=COLOURS, vmin=0, vmax=1, aspect="auto")
        for down, key in enumerate(systems):
            for across, name in enumerate(names):
                mean, high = (cells[what].get((*key, name), 0.0) for what in ("mean", "max"))
                axes.text(
                    across, down, f"{100 * mean:.0f} | {100 * high:.0f}", ha="center", va="center",
                    fontsize=5.5, color="white" if high > 0.7 else "black",
                )  # fmt: skip
        axes.set_xticks(range(len(names)), [_short(name) for name in names])
        axes.xaxis.tick_top()
        axes.set_ylim(most - 0.5, -0.5)
        axes.spines[:].set_visible(False)
        axes.set_yticks(range(len(systems)), [styles[key].title for key in systems])
        axes.tick_params(length=0, labelsize=6)
        axes.grid(visible=False)
    colour_bar(figure, "busy share of the busiest link")
    return figure


def of_fabric(
    found: pd.DataFrame, fabric: str, ina: str, styles: SeriesStyles
) -> list[tuple[str, Loads]]:
    """The loads to draw on a fabric: one workload, each system's mean over its repeats."""
    found = found[(found["fabric"] == fabric) & (found["ina"] == ina)]
    if not len(found):
        return []
    workload = found.groupby("workload")["system"].nunique().idxmax()
    found = found[found["workload"] == workload]
    panels: list[tuple[str, Loads]] = []
    for key, style in styles.items():
        own = found[(found["system"] == key[0]) & (found["variant"] == key[1])]
        ends = own["source"] + " " + own["target"]
        busy = own.groupby(ends)["busy"].mean()
        loads: dict[frozenset[str], float] = {}
        for names, share in busy.items():
            link = frozenset(str(names).split())
            loads[link] = max(share, loads.get(link, 0.0))
        panels.append((f"{style.title}, {catalogue.title(workload)}", loads))
    return panels


def _short(layer: str) -> str:
    return layer.replace("aggregation", "agg.").replace("tor", "ToR").replace("→", "\n→")


def _upwards(layer: str) -> tuple[bool, int]:
    """Layers from hosts up, then from the top down."""
    source, _, target = layer.partition("→")
    one, other = (
        _UPWARDS.index(kind) if kind in _UPWARDS else len(_UPWARDS) for kind in (source, target)
    )
    return (one > other, one if one <= other else -one)

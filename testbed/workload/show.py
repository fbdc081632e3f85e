"""A workload as text and as a drawing: its contents, and when it computes and communicates.

The timeline replays two iterations in which each bucket is synchronised at a fixed rate on a
separate channel. It is an estimate before anything is emulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.replaced import replacing
from testbed.units import format_rate, format_size, format_time, parse_rate, parse_size
from testbed.workload import formats, quantise
from testbed.workload.buckets import Bucket, fill
from testbed.workload.catalogue import FAMILIES
from testbed.workload.replay import Iteration, Span, priorities, replay
from testbed.workload.trace import Trace
from testbed.workload.values import Sample, load

_ITERATIONS = 2
_DRAWINGS = (".png", ".pdf", ".svg")
_COLOURS = {"forward": "#4477aa", "wait": "#ee6677", "backward": "#228833", "network": "#ccbb44"}


def show(
    name_or_path: str,
    output: Path | None = None,
    *,
    bucket: str = "25MB",
    first_bucket: str = "1MB",
    rate: str = "10Gbit",
    priority: bool = False,
    tensors: bool = False,
) -> None:
    """Print a workload's overview, and draw its timeline into ``output`` if given.

    Sizes and rates are text with a unit. Raises ValueError (TraceError) for errors in them or in
    the workload, OSError if ``output`` cannot be written.
    """
    trace = formats.load(name_or_path)
    buckets = fill(trace, parse_size(bucket), parse_size(first_bucket))
    if output is not None and output.suffix not in _DRAWINGS:
        raise ValueError(f"found {output}, wanted a name that ends in {', '.join(_DRAWINGS)}")
    if not (bits := parse_rate(rate)) > 0:
        raise ValueError(f"found {rate!r}, wanted a rate above 0; write for example 10Gbit")
    shown = timeline(trace, buckets, bits, priority)
    console = Console(highlight=False)
    console.print(overview(trace, buckets, shown, console.width, tensors))
    if trace.name in FAMILIES:
        console.print(values(load(trace.name)))
    if output is not None:
        draw(trace, shown, output)
        click.echo(f"timeline: {output}")


@dataclass(frozen=True)
class Bar:
    """A bar in a row of the timeline; in the network's row, ``label`` is the bucket's number."""

    lane: str
    span: Span
    label: str = ""


@dataclass(frozen=True)
class Timeline:
    """Bars, and their iterations. ``rate``: bit/s of a bucket's all-reduce."""

    bars: tuple[Bar, ...]
    iterations: tuple[Iteration, ...]
    rate: float

    @property
    def end_s(self) -> float:
        return max(bar.span.end_s for bar in self.bars)


def timeline(
    trace: Trace, buckets: Sequence[Bucket], rate: float, priority: bool = False
) -> Timeline:
    """Two iterations, each bucket synchronised at ``rate`` bit/s (its bytes over its time)."""
    seconds = [bucket.bytes * 8 / rate for bucket in buckets]
    done = replay(trace, buckets, seconds, _ITERATIONS, priority)
    bars: list[Bar] = []
    for ran, sent in done:
        begun = ran.start_s
        for wait in ran.waits:
            bars += [Bar("forward", Span(begun, wait.start_s)), Bar("wait", wait)]
            begun = wait.end_s
        bars.append(Bar("forward", Span(begun, ran.forward_end_s)))
        bars.append(Bar("backward", Span(ran.forward_end_s, ran.compute_end_s)))
        bars += [
            Bar("network", span, str(bucket.index))
            for bucket, span in zip(buckets, sent, strict=True)
        ]
    return Timeline(tuple(bars), tuple(ran for ran, _ in done), rate)


def drawn(shown: Timeline, width: int) -> list[str]:
    """A line of ``width`` characters for each row; the network's shows the last digits of buckets'
    numbers.

    A bar shorter than a character is drawn as one character.
    """
    per_s = width / shown.end_s if shown.end_s else 0.0
    lanes = {lane: [" "] * width for lane in _COLOURS}
    for bar in shown.bars:
        if bar.span.end_s > bar.span.start_s:
            first = min(int(bar.span.start_s * per_s), width - 1)
            last = min(max(first + 1, math.ceil(bar.span.end_s * per_s - 1e-9)), width)
            lanes[bar.lane][first:last] = (bar.label[-1:] or "█") * (last - first)
    return [f"{lane:9}{''.join(cells)}" for lane, cells in lanes.items()]


def overview(
    trace: Trace, buckets: Sequence[Bucket], shown: Timeline, width: int, tensors: bool
) -> RenderableType:
    """Facts, buckets (and tensors), and the timeline, for rich to print."""
    first, second = shown.iterations
    length = second.compute_end_s - first.compute_end_s
    facts = (
        f"{trace.name}: {len(trace.tensors)} tensors, {trace.elements:,} values,"
        f" {format_size(trace.bytes)} of gradients; batch {trace.batch}\n"
        f"forward {format_time(trace.forward_s)}, backward {format_time(trace.backward_s)},"
        f" together {format_time(trace.compute_s)}"
    )
    caption = (
        f"Two iterations in {format_time(shown.end_s)}, buckets at {format_rate(shown.rate)}/s:"
        f" {format_time(length)} an iteration, {format_time(second.exposed_s)} of it waiting"
    )
    parts: list[RenderableType] = [Text(facts)]
    if known := _provenance(trace):
        parts.append(Text(known, style="dim"))
    if tensors:
        parts.append(_tensors(trace))
    parts += [_buckets(buckets), Text(caption), *(Text(line) for line in drawn(shown, width - 9))]
    return Group(*parts)


def _provenance(trace: Trace) -> str:
    keys = ("model", "recorded_on", "recorded_batch", "iteration_time_source", "imported_from")
    return "\n".join(f"{key}: {trace.provenance[key]}" for key in keys if key in trace.provenance)


def _tensors(trace: Trace) -> Table:
    place = {tensor: number for number, tensor in enumerate(trace.ready)}
    rows = (
        (
            *(t.name, f"{t.elements:,}", str(place[i])),
            *(format_time(s) for s in (t.forward_s, t.backward_s, t.backward_spread_s)),
        )
        for i, t in enumerate(trace.tensors)
    )
    return _table(("tensor", "values", "ready", "forward", "backward", "spread"), rows)


def _buckets(buckets: Sequence[Bucket]) -> Table:
    rows = (
        (
            str(b.index),
            str(len(b.tensors)),
            format_size(b.bytes),
            format_time(b.ready_s),
            str(place),
        )
        for b, place in zip(buckets, priorities(buckets), strict=True)
    )
    return _table(("bucket", "tensors", "size", "ready after", "needed as"), rows)


def values(sample: Sample) -> RenderableType:
    """The distribution of the sample's values, and the error of each way of summing them."""
    facts = sample.statistics()
    quantiles = ", ".join(f"{q:g}: {size:.2e}" for q, size in facts.magnitudes.items())
    text = (
        f"Real gradients ({sample.name}, {facts.values:,} values of {sample.workers} workers):"
        f" rms {facts.rms:.2e}, {facts.zeros:.2%} zero, {facts.tiny:.2%} below rms/10^6;"
        f" workers' correlation {facts.likeness:.2f}\nquantiles of magnitude: {quantiles}"
    )
    found = quantise.errors(sample.by_worker())
    rows = ((scheme, f"{error:.1e}") for scheme, error in found.items())
    return Group(Text(text), _table((f"sum of {sample.workers} workers as", "L2 error"), rows))


def _table(columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*map(Text, row))  # a tensor's name is no markup
    return table


def draw(trace: Trace, shown: Timeline, path: Path) -> None:
    """Draw the timeline into ``path``, in the format of its suffix (.pdf, .png, .svg).

    Raises ValueError for a suffix that matplotlib cannot write.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 2), layout="constrained")
    axes = figure.add_subplot()
    lanes = list(_COLOURS)
    for bar in shown.bars:
        start, length = bar.span.start_s * 1e3, (bar.span.end_s - bar.span.start_s) * 1e3
        lane = lanes.index(bar.lane)
        axes.barh(lane, length, left=start, color=_COLOURS[bar.lane], edgecolor="white", lw=0.5)
        if bar.label and length > shown.end_s * 1e3 / 60:
            where = (start + length / 2, lane)
            axes.annotate(bar.label, where, ha="center", va="center", fontsize=7)
    axes.set_yticks(range(len(lanes)), lanes)
    axes.invert_yaxis()
    axes.set_xlim(0, shown.end_s * 1e3)
    axes.set_xlabel("time (ms)")
    rate = f"{format_rate(shown.rate)}/s"
    axes.set_title(f"{trace.name}, two iterations, buckets at {rate}", fontsize=9, loc="left")
    with replacing(path) as made:
        figure.savefig(made, dpi=200)

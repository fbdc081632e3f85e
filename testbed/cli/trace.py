"""``trace``: show workloads, and exchange them with other tools."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from testbed.cli.arguments import FILE, check_suffix
from testbed.cli.failures import reading

MOST_BATCH = 10**18 - 1
"""A trace has 18 digits for it."""
_OUT = click.argument("out", type=click.Path(dir_okay=False, path_type=Path))


@click.group()
def trace() -> None:
    """Show workloads, and exchange them with other tools."""


@trace.command()
@click.argument("workload")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="draw the timeline: .png, .pdf or .svg"
)
@click.option("--bucket", default="25MB", show_default=True, help="size of a bucket")
@click.option("--first-bucket", default="1MB", show_default=True, help="size of the first bucket")
@click.option(
    "--rate", default="10Gbit", show_default=True, help="the rate at which buckets are transferred"
)
@click.option(
    "--priority",
    is_flag=True,
    help="send buckets in the order in which the next forward pass needs them",
)
@click.option("--tensors", is_flag=True, help="also list every tensor")
def show(workload: str, output: Path | None, **how: Any) -> None:
    """Show a workload's buckets and timeline; WORKLOAD is a name or a file."""
    from testbed.workload.show import show

    with reading(ValueError):
        show(workload, output, **how)


@trace.command(name="import")
@click.argument("file")
@click.option(
    "--batch",
    type=click.IntRange(1, MOST_BATCH),
    help="samples in a worker's iteration, if FILE does not say",
)
@_OUT
def import_(file: str, out: Path, batch: int | None) -> None:
    """Make a trace from another tool's file.

    FILE is a Chakra execution trace (.et), SwitchML's layer list (.csv), or an export of PyTorch's
    profiler (.json, .json.gz), recorded with record_shapes=True.
    """
    if _convert(file, out, batch) == 1 and batch is None:
        click.echo("its batch is 1, as the file names none; --batch says another", err=True)


@trace.command()
@click.argument("workload")
@_OUT
def export(workload: str, out: Path) -> None:
    """Write a workload as a Chakra execution trace (.et) or SwitchML's layer list (.csv)."""
    _convert(workload, out)


@trace.command()
@click.argument("file", type=FILE)
@click.option(
    "--compute",
    help="the time of a forward and backward pass, such as 2ms; without it, measured",
)
@click.option(
    "--device",
    help="where to measure: cpu means one core  [default: cuda where there is a GPU, or cpu]",
)
@click.option(
    "--batch",
    type=click.IntRange(1, MOST_BATCH),
    default=16,
    show_default=True,
    help="samples in a worker's iteration",
)
@_OUT
def script(file: Path, compute: str | None, device: str | None, batch: int, out: Path) -> None:
    """Make a trace of a training script's model, with times from --compute, or measured."""
    from testbed.training.errors import TrainingError
    from testbed.training.profile import trace_of
    from testbed.units import parse_time
    from testbed.workload import formats

    if device is not None and compute is not None:
        raise click.UsageError(
            "found --device beside --compute, wanted one: a stated time is not measured"
        )
    check_suffix(out, ".trace")
    with reading(ValueError, TrainingError):
        compute_s = None if compute is None else parse_time(compute)
        formats.save(trace_of(file, compute_s, batch, device=device), out)
    click.echo(f"wrote {out}")


def _convert(workload: str, out: Path, batch: int | None = None) -> int:
    """Write a workload in another format; returns its batch."""
    from testbed.workload import formats

    with suppress(OSError):  # a name is no file, and a new file does not exist
        if out.samefile(workload):
            raise click.BadParameter(f"found {out}, the file to read, wanted another name")
    with reading(ValueError):
        trace = formats.load(workload)
        trace = trace if batch is None else replace(trace, batch=batch)
        formats.save(trace, out)
    click.echo(f"wrote {out}")
    return trace.batch

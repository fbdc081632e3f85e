"""``bench``: collectives of growing size, in the columns of nccl-tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from testbed.cli.arguments import FILE, check_suffix, experiments
from testbed.cli.failures import reading, running


class _Size(click.ParamType):  # type: ignore[type-arg]  # click 8.2 has no type argument
    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        from testbed.studies.bench import parse

        try:
            return value if isinstance(value, int) else parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group()
def bench() -> None:
    """Measure collectives of growing size, in the columns of nccl-tests."""


@bench.command(name="all-reduce")
@click.option("-b", "first", type=_Size(), default="32M", show_default=True, help="the first size")
@click.option("-e", "last", type=_Size(), help="the last size; if not given, the first")
@click.option(
    "-f",
    "factor",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    help="the factor from a size to the next",
)
@click.option(
    "--system",
    "systems",
    metavar="NAME",
    multiple=True,
    help="a system; may be repeated [ps, or FILE's]",
)
@click.option(
    "--experiment",
    "path",
    metavar="FILE",
    type=FILE,
    help="an experiment file whose fabric, loss, faults and first job (placement, servers, options)"
    " are used; if not given, two racks of five hosts at 10 Gbit/s whose ToRs aggregate",
)
@click.option("--workers", type=click.IntRange(min=2), help="number of workers [8, or FILE's]")
@click.option(
    "--backend", type=click.Choice(["flow", "packet"]),
    help="flows that share links, or every packet and every sum [flow, or FILE's]",
)  # fmt: skip
@click.option(
    "-n", "iterations", type=click.IntRange(1, 1000), default=1, show_default=True,
    help="how many all-reduces to measure",
)  # fmt: skip
@click.option(
    "-w", "warmup", type=click.IntRange(0, 1000), default=1, show_default=True,
    help="how many all-reduces to run before, to warm up",
)  # fmt: skip
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="also write the rows to a file: .csv or .json",
)
def all_reduce(
    first: int,
    last: int | None,
    factor: int,
    systems: tuple[str, ...],
    path: Path | None,
    output: Path | None,
    **how: Any,
) -> None:
    """Run all-reduces of growing size; print time, bandwidths and the busiest link's bytes.

    A SIZE is in bytes, or in K, M or G (powers of 1024), as in nccl-tests. Needs no root.
    """
    from testbed.studies import bench as study

    if output is not None:
        check_suffix(output, ".csv", ".json")
        if not output.parent.is_dir():  # said before minutes of running
            raise click.BadParameter(f"found no folder {output.parent}, wanted one to write into")
    (base,) = experiments([path]) if path else (None,)
    with reading(ValueError):
        wanted = study.sizes(first, first if last is None else last, factor)
        asked = study.experiment(base, [*dict.fromkeys(systems)], wanted, **how)
    rows: list[study.Measured] = []
    with running(lambda: "" if output is None else f"{output} is not written"):
        cells = study.planned(asked)
        for text in study.head(cells):
            click.echo(text)
        for row in study.run(cells):
            if not rows or rows[-1].system != row.system:
                click.echo("\n".join([f"#\n# {row.system}", *study.heads()]))
            click.echo(study.line(row))
            rows.append(row)
        if output is not None:
            study.save(rows, output)
            click.echo(f"#\n# wrote {output}")
    sys.exit(1 if any(row.error for row in rows) else 0)

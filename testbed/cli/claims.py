"""``claims``: verdicts on papers' claims."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from testbed.cli.arguments import FILE
from testbed.cli.failures import running
from testbed.located import Invalid

SUFFIXES = (".yaml", ".yml")


@click.command()
@click.argument("asked", nargs=-1, metavar="[NAME|FILE]...")
@click.option("--any-version", is_flag=True, help="also count rows that other code made")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="where to write the page and results; a later call adds missing results  "
    "[default: results/claims, or results/claims-NAME for NAME.yaml of your own]",
)
def claims(asked: tuple[str, ...], any_version: bool, output: Path | None) -> None:
    """Test papers' claims.

    NAME is a file in experiments/claims, without .yaml, or a claim in one. FILE is a claims file of
    your own; then NAME is a claim in it.
    """
    from testbed.campaign.resume import Rules
    from testbed.studies.claims import run as judging

    own = [FILE.convert(each, None, None) for each in asked if each.endswith(SUFFIXES)]
    names = [each for each in asked if not each.endswith(SUFFIXES)]
    output = output or Path("results", "-".join(["claims", *(each.stem for each in own)]))
    rules = Rules(any_version=any_version)
    try:
        with running(lambda: "finished rows are kept, and the same command continues"):
            page = judging.run(judging.read(own=own), output, names, rules)
            path = judging.write(page, output)
    except Invalid as invalid:
        click.echo(str(invalid), err=True)
        sys.exit(2)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    for each in page.judged:
        if not names or {each.file.name, each.claim.name} & set(names):
            click.echo(f"{each.claim.name}: {each.number}, {each.verdict.word}")
            if each.break_even:
                click.echo(f"  {each.break_even}")
    for found in page.observed:
        if not names or {found.file.name, found.observation.name} & set(names):
            click.echo(f"{found.observation.name}: {found.number}")
    click.echo(str(page.made))
    click.echo(f"page: {path}")

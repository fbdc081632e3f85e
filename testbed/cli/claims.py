"""``claims``: verdicts on papers' claims."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from testbed.cli.failures import running
from testbed.located import Invalid


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--any-version", is_flag=True, help="also count rows that other code made")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results/claims"),
    show_default=True,
    help="where to write the page and results; a later call adds missing results",
)
def claims(names: tuple[str, ...], any_version: bool, output: Path) -> None:
    """Test papers' claims. NAME is a file in experiments/claims, or a claim in one."""
    from testbed.campaign.resume import Rules
    from testbed.studies.claims import run as judging

    rules = Rules(any_version=any_version)
    try:
        with running(lambda: "finished rows are kept, and the same command continues"):
            page = judging.run(judging.read(), output, names, rules)
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

"""``schema``: the JSON schema of experiment files."""

from __future__ import annotations

import click


@click.command()
def schema() -> None:
    """Print the JSON schema of experiment files, for editors."""
    from testbed.experiment.jsonschema import text
    from testbed.systems import registry

    click.echo(text(registry), nl=False)

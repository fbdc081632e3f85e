"""``systems``: what each system is."""

from __future__ import annotations

import click

from testbed import extensions


def _names(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """The names of systems that begin with ``begun``, for the shell's completion; none while a
    user's file is broken, which the verb will say."""
    try:
        from testbed.systems import registry
    except extensions.Broken:
        return []
    return [name for name in registry if name.startswith(begun)]


@click.command()
@click.argument("name", required=False, shell_complete=_names)
def systems(name: str | None) -> None:
    """List the systems, or show one: source, published rules, our reading, options.

    The column INA says whether switches sum for it: "needed" if it does not run without INA, "used"
    if it also runs without, "no" if it never uses INA.
    """
    from testbed.deployment import users_code
    from testbed.experiment.findings import suggestion
    from testbed.studies.declared import full, table
    from testbed.systems import registry

    users_code.check()
    if name is not None and name not in registry:
        near = suggestion(name, registry)
        fix = near if near.startswith("did") else f"{near}; {extensions.searched('systems')}"
        raise click.UsageError(f"found {name!r}, wanted a system; {fix}")
    for line in full(registry[name]) if name else table(registry):
        click.echo(line)

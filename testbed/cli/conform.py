"""``conform``: a P4 program against a protocol's rules."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from testbed.cli.arguments import FILE, check_suffix
from testbed.cli.failures import reading


@click.command()
@click.argument("program", type=FILE)
@click.option("--protocol", required=True, help="the protocol whose rules to test")
@click.option(
    "--target",
    type=click.Choice(["native", "bmv2"]),
    default="native",
    show_default=True,
    help="how to run it: compiled to C, or in simple_switch (as root)",
)
@click.option("--rule", "names", multiple=True, help="test this rule only; may be repeated")
@click.option(
    "--sequences",
    type=click.IntRange(1, 100_000),
    default=60,
    show_default=True,
    help="sequences of packets for each rule",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="the seed that sequences are drawn from"
)
@click.option(
    "--pcap",
    type=click.Path(dir_okay=False, path_type=Path),
    help="write the packets that show broken rules into this file",
)
def conform(
    program: Path,
    protocol: str,
    target: str,
    names: tuple[str, ...],
    sequences: int,
    seed: int,
    pcap: Path | None,
) -> None:
    """Test a P4 program against a protocol's rules.

    PROGRAM is P4 source, or the JSON that p4c made from it. Hosts and unknown senders send it
    packets over a network that loses, duplicates and reorders. Each packet that leaves is compared
    with the protocol's reference. For each broken rule the shortest failing sequence is shown.
    Exits with 0 if all rules are kept, and with 1 if one is broken.

    Root: needed with --target bmv2.
    """
    from testbed.campaign.planning import own_control
    from testbed.compiler import BuildError
    from testbed.protocols import on_trees
    from testbed.studies.conform import text
    from testbed.studies.conform.rules import RULES
    from testbed.studies.conform.scene import Unusable, prepared
    from testbed.studies.conform.trial import trial, verdicts
    from testbed.switches.control import ControlError
    from testbed.switches.native.program import Unsupported

    if pcap is not None:
        check_suffix(pcap, ".pcap")
    known = on_trees()
    if protocol not in known:
        raise click.UsageError(f"--protocol: found {protocol!r}, wanted one of {', '.join(known)}")
    for name in names:
        if name not in (every := [rule.name for rule in RULES]):
            raise click.UsageError(f"--rule: found {name!r}, wanted one of {', '.join(every)}")
    chosen = [rule for rule in RULES if not names or rule.name in names]
    if target == "bmv2":
        _may_use_bmv2()
    if own_control(known[protocol]) is None and _has_own(program):
        click.echo(
            f"note: this tests the testbed's own control of {protocol} in {program}; for yours,"
            " write --protocol with your protocol's name",
            err=True,
        )
    found = []
    try:
        with reading(), tempfile.TemporaryDirectory() as folder:
            compiled, scene = prepared(program, known[protocol])
            where = Path(folder) if target == "bmv2" else None
            with trial(scene, compiled, where) as made:
                for verdict in verdicts(made, chosen, sequences, seed):
                    found.append(verdict)
                    click.echo(text.row(verdict))
    except (ControlError, Unsupported, Unusable, ValueError) as error:
        raise click.UsageError(f"{program}: {error}") from error
    except BuildError as error:
        raise click.ClickException(str(error)) from error
    for example in text.counterexamples(found):
        click.echo(f"\n{example}")
    broken = sum(verdict.counterexample is not None for verdict in found)
    packets = sum(verdict.packets for verdict in found)
    click.echo(
        f"\n{program}: {protocol}: {len(found) - broken} of {len(found)} rules kept,"
        f" {broken} broken ({packets:,} packets)"
    )
    if broken:
        click.echo("where the paper is silent, the reference follows our reading:")
        for line in known[protocol].reading:
            click.echo(f"  {line}")
    if pcap is not None and broken:
        with reading():
            text.capture(pcap, found)
        click.echo(f"packets: {pcap}")
    elif pcap is not None:
        click.echo(f"packets: none, so {pcap} is not written")
    sys.exit(1 if broken else 0)


def _has_own(program: Path) -> bool:
    """Whether P4 source includes a user's protocol."""
    return program.suffix == ".p4" and "OWN_PROTOCOL" in program.read_text(errors="replace")


def _may_use_bmv2() -> None:
    import os

    from testbed.switches import bmv2

    if not bmv2.installed():
        raise click.UsageError(
            "--target bmv2: simple_switch is not installed (p4lang's package p4lang-bmv2 has it);"
            " --target native needs only a C compiler"
        )
    if os.geteuid() != 0:
        raise click.UsageError("--target bmv2: needs root, for its own network namespace; use sudo")

"""Loss that an experiment asks for, but few connections survive: reported before and after a
run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from testbed.deployment.deploy import Deployment
from testbed.topology.framing import framing

TRIES = 16
"""How often TCP sends a segment: once, and 15 times after a timeout (Linux, tcp_retries2)."""
_LIKELY = 0.5
"""A run is expected to fail if at least this many connections are expected to break."""


def warning(deployment: Deployment) -> str | None:
    """A warning that TCP probably gives up, or None. Only the loss on hosts' links counts, so more
    connections may break.

    A try fails if the segment or its acknowledgement is lost on the link of either host. One
    worker's gradients are taken to cross the two worst links.
    """
    worst = sorted(_lost(deployment).values())[-2:]
    comes_through = 1.0
    for share in worst:
        comes_through *= (1 - share) ** 2
    segments = max(
        job.gradient_bytes * job.job.iterations / framing(deployment.fabric).mss
        for job in deployment.jobs
    )
    if segments * (1 - comes_through) ** TRIES < _LIKELY:
        return None
    return (
        f"{_said(deployment)}: a TCP segment and its acknowledgement come through in"
        f" {comes_through:.0%} of all tries, and TCP gives up after {TRIES}. Connections will"
        " probably break, which fails the cell; sums in switches take many times as long as"
        " expected. Lower emulation.loss"
    )


@contextmanager
def named(deployment: Deployment) -> Iterator[None]:
    """Add the loss that the experiment asks for to errors of a run that did not end."""
    from testbed.backends.measurements import BrokenConnection, Stalled  # slow: not for `validate`
    from testbed.hosts.launcher import RankFailed

    try:
        yield
    except (BrokenConnection, RankFailed, Stalled) as error:
        if not _lost(deployment):
            raise
        raise type(error)(f"{error}; {_said(deployment)}") from error


def _lost(deployment: Deployment) -> dict[tuple[str, str], float]:
    asked = deployment.experiment.emulation.loss
    if not asked:
        return {}
    from testbed.backends.links import shares  # back ends are not loaded to plan without loss

    return dict(shares(asked, deployment.fabric))


def _said(deployment: Deployment) -> str:
    (a, b), most = max(_lost(deployment).items(), key=lambda each: each[1])
    return f"link {a}-{b} loses {100 * most:.3g}% of its packets (emulation.loss)"

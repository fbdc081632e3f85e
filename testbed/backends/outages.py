"""What faults took away for good, in the same words for every back end."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.experiment.schema import Fault
from testbed.units import format_time


def gone(faults: Iterable[Fault], until_s: float) -> str:
    """The hosts and links that were gone for good at ``until_s`` (in the experiment's time),
    followed by ": "; empty if none were."""
    found = [
        (f"host {fault.host} died" if fault.host else f"link {fault.link} went down for good")
        + f" at {format_time(fault.at)}"
        for fault in sorted(faults, key=lambda each: each.at)
        if fault.lasts and fault.at <= until_s
    ]
    return f"{', '.join(found)}: " if found else ""


def missed(faults: Iterable[Fault], until_s: float) -> str:
    """The faults that a run did not see because it ended at ``until_s`` (in the experiment's time);
    empty if it saw all."""
    found = [
        f"{fault.link or fault.switch or fault.host} at {format_time(fault.at)}"
        for fault in faults
        if fault.wrap is None and fault.at > until_s
    ]
    return (
        f"ended at {format_time(until_s)}, before the faults of {', '.join(found)}" if found else ""
    )

"""Names for readers: of fabrics, and of the settings in which rows differ."""

from __future__ import annotations

import re
from functools import cache

from testbed.experiment.findings import counted

_FABRICS = (
    (re.compile(r"leaf-spine ([\dx+]+), (\d+) spines?"), "Leaf-spine, {1} spines, {0}"),
    (re.compile(r"fat-tree k=(\d+), ([\dx+]+)"), "Fat-tree of {0} pods, {1}"),
)
PLAIN = ("job", "fabric", "emulation", "options", "compute")
"""Parts of a path that labels leave out."""
_MOST_RACKS = 4
"""Up to this many racks, sizes are listed one by one."""


@cache
def fabric(label: str) -> str:
    """``Leaf-spine, 2 spines, 2 racks of 5 hosts, host rate 100Gbit`` for the label
    ``leaf-spine 2x5, 2 spines, host_rate=100Gbit`` of `settings.label`."""
    for pattern, words in _FABRICS:
        if found := pattern.match(label):
            parts = [_counted(part) for part in found.groups()]
            named = words.format(*parts).replace(" 1 spines", " 1 spine")
            return named + settings(label[found.end() :])
    return label[:1].upper() + settings(label[1:])


def settings(label: str, between: str = " ") -> str:
    """``loss 0.01, first bucket 1MB`` for ``loss=0.01, first_bucket=1MB``."""
    return label.replace("=", between).replace("_", " ")


def of_any(path: str) -> str:
    """``job 1 start`` for ``jobs.1.start``, a field of one of several jobs; other paths as they
    are."""
    first, *rest = path.split(".")
    if first != "jobs":
        return path
    return " ".join(["job", *(part for part in rest if part not in PLAIN)])


def variant(system: str, options: str) -> str:
    """``GRID (solver: milp)``; only the system's name if every option has its default."""
    given = [each for each in options.split(", ") if each and not each.endswith("=default")]
    return f"{system} ({settings(', '.join(given), ': ')})" if given else system


def _counted(part: str) -> str:
    """The racks for ``8x2`` or ``3+3+4``, the spines or pods for a single number."""
    if part.isdigit():
        return part
    if "+" not in part:
        racks, _, hosts = part.partition("x")
        return f"{counted(int(racks), 'rack')} of {counted(int(hosts), 'host')}"
    sizes = part.split("+")
    if len(sizes) <= _MOST_RACKS:
        return f"racks of {', '.join(sizes[:-1])} and {sizes[-1]} hosts"
    return f"{len(sizes)} racks, {sum(map(int, sizes))} hosts"

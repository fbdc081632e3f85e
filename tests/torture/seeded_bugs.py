"""Twenty known bugs, and how many schedules it takes to find each of them.

    python -m tests.torture.seeded_bugs

Each is a changed line of the hosts' engine, of a protocol's code, of TCP or of the C code made from
the P4 program. A copy is changed and compiled; the sources do not change. All must be found within
2,000 schedules.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from testbed import compiler
from testbed.backends.packet import backend, simulation
from testbed.hosts import aggregation
from testbed.studies.torture.judges import blocks, judged
from testbed.switches.native import build

MOST = 2000


@dataclass(frozen=True)
class Bug:
    """What matches ``old`` in ``file`` becomes ``new``; ``system`` uses that code."""

    what: str
    system: str
    file: str
    old: str
    new: str


BUGS = (
    Bug("switch: a repeated contribution is added again", "switchml", "switch.c",
        r"& get_bits\(s->h\[5\], 128, 64\)\) == 0\)", "& 0) == 0)"),
    Bug("switch: whose slot it is does not matter", "atp", "switch.c",
        r"record__owner14 == s->m\.\w+___fragment12", "record__owner14 != ~0ull"),
    Bug("switch: an old packet takes a slot from a new one", "switchml", "switch.c",
        r"> 0x7fffffffu\)\) \|\|", "> 0xffffffffu)) ||"),
    Bug("switch: carries cross into the next value", "atp", "switch.c",
        r" \^ \(\(limb\(p0, i\) \^ limb\(p1, i\)\) & 0x8000000080000000ull\)", ""),
    Bug("switch: a result does not free its slot", "atp", "switch.c",
        "record__contributors15 = 0;", "record__contributors15 |= 0;"),
    Bug("switch: a repeated packet is answered without the sum", "switchml", "switch.c",
        r"operation18 = 3;", "operation18 = 0;"),
    Bug("switch: a sum leaves before it is complete", "rina", "switch.c",
        r"record__contributors15 != s->m\.\w+___members3", "record__contributors15 == 0"),
    Bug("switch: a packet of an unknown message is summed", "netreduce", "switch.c",
        "___slots10 = 0;", "___slots10 |= 0;"),
    Bug("server: a repeated contribution is added again", "atp", "root.c",
        r"(flags & FLAG_FLOATS) \|\| ranks_meet\(counted, ranks, tree->words\)", r"\1"),
    Bug("server: forgets a sum as soon as it is done", "atp", "tree.h",
        r"return tree->serves \? tree->window.size : 0;", "return 0 * tree->window.size;"),
    Bug("server: does not answer a repeated request", "atp", "root.c",
        r"    tree->flow.counters.answered_again\+\+;\n", "    return;\n"),
    Bug("window: a slot is used again too early", "switchml", "window.c",
        r"return sequence < tree->lowest \+ window->size \|\|",
        "return sequence < tree->lowest + 4 * window->size ||"),
    Bug("window: neither silence nor a timeout retransmits", "switchml", "window.c",
        r"(?s)    if \(window->outstanding && now >= window->probe_at\)\n.*\Z", "}\n"),
    Bug("ATP: a retransmission does not ask for a flush", "atp", "atp.h",
        "resend_flag = FLAG_RESEND", "resend_flag = 0"),
    Bug("member: a lost receipt is not repeated", "rina", "member.c",
        r"send_receipt\(tree, sequence\); /\* the first", "; /* the first"),
    Bug("member: an early result is kept without its values", "rina", "member.c",
        r"memcpy\(row_of\(tree, sequence\), packet->values, sizeof packet->values\);", ""),
    Bug("NetReduce: values without the mark are taken", "netreduce", "netreduce.c",
        r"number != ring->incoming \|\| !\(data->bth.reserved & IS_SUM\)",
        "number != ring->incoming"),
    Bug("NetReduce: packet numbers do not wrap", "netreduce", "roce.h",
        r"return near \+ \(uint64_t\)\(int64_t\)ahead;",
        "return ahead ? (near & ~UINT64_C(0xffffff)) | psn : near;"),
    Bug("engine: fragment numbers do not wrap", "atp", "tree.h",
        r"return tree->lowest \+ \(uint64_t\)\(int64_t\)\(int32_t\)\(.*\);",
        "(void)tree;\n    return sequence;"),
    Bug("TCP: a timeout retransmits nothing", "ring", "tcp.c",
        r"(timeouts\+\+;(?s:.*?))mark_lost\(s, sent_at\(s, i\)\);", r"\1;"),
)  # fmt: skip


def mutated(bug: Bug, sources: Mapping[str, str]) -> dict[str, str]:
    """``sources`` with the bug, if they have its file."""
    if bug.file not in sources:
        return dict(sources)
    text = sources[bug.file]
    made, count = re.subn(bug.old, bug.new, text)
    if not count or made == text:
        # This must not be an exception of a run, which would count as a bug found.
        sys.exit(f"{bug.what}: {bug.file} has no {bug.old!r}")
    return {**sources, bug.file: made}


def schedules(bug: Bug) -> tuple[int, str]:
    """The schedules until the bug is found, and what failed; 0 if none did."""

    def compiled(
        name: str, sources: Mapping[str, str], flags: Sequence[str], libraries: Sequence[str] = ()
    ) -> Path:
        return compiler.compiled(name, mutated(bug, sources), flags, libraries)

    for cached in (aggregation.load, simulation.library, backend._program):
        cached.cache_clear()
    with (
        patch.object(aggregation, "compiled", compiled),
        patch.object(simulation, "compiled", compiled),
        patch.object(build, "compiled", compiled),
    ):
        found = judged(blocks([bug.system], 0, MOST), 1)
        for number, (_, _, verdict) in enumerate(found, start=1):
            if verdict.failure:
                found.close()
                return number, verdict.failure
    return 0, "not found"


def main(chosen: Sequence[str]) -> int:
    missed = 0
    bugs = [bug for bug in BUGS if not chosen or any(word in bug.what for word in chosen)]
    for bug in bugs:
        began = time.monotonic()
        count, failure = schedules(bug)
        missed += not count
        took = time.monotonic() - began
        print(
            f"{bug.what:<56} {bug.system:<10} {count:>5}  {took:5.0f} s  {failure[:70]}", flush=True
        )
    print(f"{len(bugs) - missed} of {len(bugs)} found within {MOST} schedules")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

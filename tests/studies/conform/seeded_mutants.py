"""Twenty mutants of our own P4 program, each of one line: does ``ina-testbed conform`` find them?

    python -m tests.studies.conform.seeded_mutants            # says by which rule, and how soon
    python -m tests.studies.conform.seeded_mutants --record   # compiles them again (needs p4c)

They are stored as p4c compiled them, so that the tests need no compiler.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.protocols import on_trees
from testbed.studies.conform.rules import RULES, Rule
from testbed.studies.conform.scene import prepared
from testbed.studies.conform.trial import Verdict, trial, verdicts
from testbed.switches.compile import SOURCES, compile_program

RECORDED = Path(__file__).with_name("mutants.json.xz")
SAME = "bool same = meta.record.contributors != 0 && meta.record.owner == meta.fragment;"
FOREIGN = "if (!carries || upwards && foreign && !passes) {"
OLDER = "} else if (older || hdr.ina.slot >= meta.slots) {"
INCOMPLETE = "if (meta.event == Event.REFUSED || meta.record.contributors != meta.members) {"
FREE = "} else if (meta.record.contributors == 0 && hdr.ina.slot < meta.slots) {"


@dataclass(frozen=True)
class Mutant:
    """In ``file``, the first ``line`` is replaced by ``becomes``; ``protocol`` uses it."""

    what: str
    protocol: str
    file: str
    line: str
    becomes: str

    def source(self) -> str:
        text = (SOURCES / self.file).read_text()
        if self.line not in text:
            raise ValueError(f"{self.what}: {self.file} has no {self.line!r}")
        return text.replace(self.line, self.becomes, 1)

    def compiled(self) -> bytes:
        """The JSON that p4c makes of it, without positions in the source."""
        with tempfile.TemporaryDirectory() as folder:
            copied = shutil.copytree(SOURCES, Path(folder) / "p4")
            (copied / self.file).write_text(self.source())
            made = json.loads(compile_program(copied, ["VALUES=8"]))
        return json.dumps(_without_positions(made)).encode()


def _without_positions(made: Any) -> Any:
    if isinstance(made, dict):
        return {key: _without_positions(of) for key, of in made.items() if key != "source_info"}
    return [_without_positions(each) for each in made] if isinstance(made, list) else made


MUTANTS = (
    Mutant("a repeated contribution is added again", "switchml", "pool.p4",
           "if (same && meta.record.contributors & hdr.ina.bitmap == 0) {", "if (same) {"),
    Mutant("a contribution is added to another fragment's", "switchml", "pool.p4",
           SAME, "bool same = meta.record.contributors != 0;"),
    Mutant("an old packet takes a slot from a new one", "switchml", "pool.p4",
           OLDER, "} else if (hdr.ina.slot >= meta.slots) {"),
    Mutant("slots beyond the job's own are used", "switchml", "pool.p4",
           OLDER, "} else if (older) {"),
    Mutant("numbers do not wrap around", "switchml", "pool.p4",
           "hdr.ina.sequence - meta.record.owner[31:0] > 0x7fffffff",
           "hdr.ina.sequence < meta.record.owner[31:0]"),
    Mutant("a sum leaves before it is complete", "switchml", "pool.p4",
           INCOMPLETE, "if (meta.event == Event.REFUSED) {"),
    Mutant("a repeated packet is answered without the sum", "switchml", "pool.p4",
           "meta.operation = LaneOperation.LOAD;", ""),
    Mutant("a new fragment keeps the marks of the one before", "switchml", "pool.p4",
           "meta.record.marks = 0;", ""),
    Mutant("a sum is sent up in place of its answer", "switchml", "switchml.p4",
           "if (meta.record.marks & ANSWERED != 0) {",
           "if (meta.record.marks & ANSWERED != 0 && meta.parent == 0) {"),
    Mutant("a repeated packet is answered to all", "switchml", "switchml.p4",
           "                    answer_sender();", "                    answer_all();"),
    Mutant("the result from above is not kept", "switchml", "switchml.p4",
           "meta.operation = LaneOperation.STORE;", ""),
    Mutant("the result from above is kept for another fragment", "switchml", "switchml.p4",
           SAME, "bool same = meta.record.contributors != 0;"),
    Mutant("contributions of nobody's bits are taken", "switchml", "aggregation.p4",
           FOREIGN, "if (!carries) {"),
    Mutant("cut packets are taken", "switchml", "aggregation.p4",
           FOREIGN, "if (upwards && foreign && !passes) {"),
    Mutant("an addition is not written back", "switchml", "lanes.p4",
           "values.x = SUM(x); memory_##x.write(slot, values.x);", "values.x = SUM(x);"),
    Mutant("carries cross into the next value", "switchml", "lanes.p4",
           "(((x & L) + (y & L)) ^ ((x ^ y) & H))", "(x + y)"),
    Mutant("a mark does not reach the sum", "switchml", "aggregation.p4",
           "hdr.ina.flags = hdr.ina.flags | meta.record.marks & (FLAG_OVERFLOW | FLAG_ECN);", ""),
    Mutant("a collision takes the slot", "atp", "atp.p4",
           FREE, "} else if (hdr.ina.slot < meta.slots) {"),
    Mutant("a result does not free its slot", "atp", "atp.p4",
           "meta.record.contributors = 0;", ""),
    Mutant("a retransmission does not flush the sum", "atp", "atp.p4",
           "hdr.ina.flags & FLAG_RESEND != 0", "hdr.ina.flags & 0 != 0"),
)  # fmt: skip


def record() -> None:
    made = {each.what: each.compiled().decode() for each in MUTANTS}
    RECORDED.write_bytes(lzma.compress(json.dumps(made).encode(), preset=9))
    print(f"{RECORDED}: {len(made)} mutants, {RECORDED.stat().st_size} bytes")


def recorded() -> dict[str, str]:
    found: dict[str, str] = json.loads(lzma.decompress(RECORDED.read_bytes()))
    return found


def broken(mutant: Mutant, program: Path, rules: Sequence[Rule] = RULES) -> list[Verdict]:
    """The first of ``rules`` that a mutant breaks; ``program`` is the file to write it to."""
    program.write_text(recorded()[mutant.what])
    path, scene = prepared(program, on_trees()[mutant.protocol])
    with trial(scene, path) as made:
        for verdict in verdicts(made, rules):
            if verdict.counterexample is not None:
                return [verdict]
    return []


def main() -> int:
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for mutant in MUTANTS:
            began = time.process_time()
            found = broken(mutant, Path(folder) / "mutant.json")
            missed += not found
            says = "not found"
            if found and (example := found[0].counterexample):
                says = f"{found[0].rule.name}, {len(example.steps)} packets"
            took = time.process_time() - began
            print(f"{mutant.what:<52} {mutant.protocol:<9} {says:<24} {took:4.1f} s", flush=True)
    print(f"{len(MUTANTS) - missed} of {len(MUTANTS)} found")
    return 1 if missed > 1 else 0


if __name__ == "__main__":
    if "--record" in sys.argv[1:]:
        record()
    else:
        sys.exit(main())

"""The compiled program matches its sources, and hosts and switch agree on the packet's format."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from compiled import what_it_does

from testbed import wire
from testbed.campaign import planning
from testbed.switches.compile import (
    COMPILER,
    DIGESTS,
    PROGRAMS,
    SOURCES,
    CompileError,
    compile_program,
    digests,
    sources_digest,
)
from testbed.topology.fabric import Fabric

every_program = pytest.mark.parametrize(("values", "program"), PROGRAMS.items())


def test_the_compiled_programs_are_not_stale():
    assert DIGESTS.read_text() == digests(sources_digest()), (
        "p4/build/*.json are not made from p4/*.p4: run python -m testbed.switches.compile"
    )


def copy_of_the_sources(folder):
    for path in SOURCES.glob("*.p4"):
        shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "atp.p4").write_text((folder / "atp.p4").read_text() + "\n"),
        lambda folder: (folder / "atp.p4").rename(folder / "atq.p4"),
        lambda folder: (folder / "new.p4").touch(),
        lambda folder: (folder / "lanes.p4").unlink(),
    ],
    ids=["edited", "renamed", "added", "removed"],
)
def test_the_digest_notices_a_source(tmp_path, change):
    folder = copy_of_the_sources(tmp_path)
    assert sources_digest(folder) == sources_digest()
    change(folder)
    assert sources_digest(folder) != sources_digest()


@pytest.mark.bmv2
@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")
@every_program
def test_compiling_again_elsewhere_gives_the_same_program(tmp_path, values, program):
    again = compile_program(copy_of_the_sources(tmp_path), [f"VALUES={values}"])
    assert again == compile_program(defines=[f"VALUES={values}"])  # names no folder
    assert what_it_does(again) == what_it_does(program.read_bytes())


@pytest.mark.bmv2
@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")
def test_a_refused_program_is_told_with_its_place(tmp_path):
    folder = copy_of_the_sources(tmp_path)
    (folder / "ina.p4").write_text("header broken_t { bit<8> x }\n")
    with pytest.raises(CompileError, match=r"ina\.p4\(1\)"):
        compile_program(folder)


@every_program
def test_the_hosts_read_the_header_that_the_switch_reads(values, program):
    types = {
        each["name"]: each["fields"] for each in json.loads(program.read_bytes())["header_types"]
    }
    assert [(name, bits) for name, bits, signed in types["ina_t"]] == list(wire.FIELDS)
    assert sum(bits for _, bits, _ in types["values_t"]) == 32 * values
    payload = sum(bits for name in ("ina_t", "values_t") for _, bits, _ in types[name])
    assert payload == 8 * (wire.HEADER_BYTES + 4 * values)


def constants() -> dict[str, int]:
    text = (SOURCES / "headers.p4").read_text()
    found = re.findall(r"^const bit<\d+>\s+(\w+)\s*=\s*(\w+)\s*;", text, re.MULTILINE)
    found += re.findall(r"^#define (\w+) (\d+)", text, re.MULTILINE)
    return {name: int(value, 0) for name, value in found}


def test_constants_are_those_of_the_headers():
    of = constants()
    assert (of["INA_PORT"], of["ROCE_PORT"]) == (wire.PORT, wire.ROCE_PORT)
    for name in of:
        if name.startswith(("KIND_", "FLAG_")):
            assert of[name] == getattr(wire, name)
    fabric = Fabric("", {}, ())
    assert of["SLOTS"] == wire.SLOTS == fabric.slots
    assert of["VALUES"] == wire.VALUES == fabric.values
    assert of["TREES"] == wire.MAX_TREES
    assert of["FLOWS"] == planning.FLOWS


@every_program
def test_every_register_of_switch_memory_has_an_entry_a_slot(values, program):
    registers = json.loads(program.read_bytes())["register_arrays"]
    memory = [each for each in registers if ".aggregation." in each["name"]]
    assert len(memory) == 6 + max(1, values // 64)
    assert {each["size"] for each in memory} == {constants()["SLOTS"]}


def test_the_bitmap_is_as_wide_as_said():
    assert dict(wire.FIELDS)["bitmap"] == wire.BITMAP

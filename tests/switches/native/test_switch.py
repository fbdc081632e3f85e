"""The native switch's control plane, the requests that it rejects, and garbage."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
from native_case import PROGRAMS
from native_cases import CASES, fragment

from testbed.protocols.tables import Exact, Lpm, TableEntry
from testbed.switches.control import ControlError, Replica
from testbed.switches.native.build import BuildError, build
from testbed.switches.native.program import Unsupported
from testbed.switches.native.reader import read
from testbed.switches.native.target import NativeSwitch


def test_sums_are_numpys():
    generator = np.random.default_rng(5)
    with NativeSwitch.offline(PROGRAMS / "aggregate.json") as switch:
        switch.multicast_group(1, [Replica(4)])
        for slot in range(20):
            values = generator.integers(-(2**31), 2**31, (5, 256)).astype(np.int32)
            for worker in range(5):
                left = switch.process(1, fragment(slot, 5, worker, values[worker]))
            ((port, packet),) = left
            assert port == 4
            found = np.frombuffer(packet[22:], ">i4")
            np.testing.assert_array_equal(found, values.sum(axis=0, dtype=np.int32))


def test_registers_of_any_width():
    with NativeSwitch.offline(PROGRAMS / "shapes.json") as switch:
        value = (1 << 199) + 12345
        switch.write_register("I.totals", 2, value)
        assert switch.read_register("I.totals", 2) == value
        assert switch.read_register("I.totals", 3) == 0
        switch.reset_register("I.totals")
        assert switch.read_register("I.totals", 2) == 0
        with pytest.raises(ControlError, match="does not fit 200 bits"):
            switch.write_register("I.totals", 0, 1 << 200)
        with pytest.raises(ControlError, match="no such index"):
            switch.read_register("I.totals", 4)
    with NativeSwitch.offline(PROGRAMS / "acl.json") as switch:
        switch.write_register("I.seen", 0, 0xBEEF)
        assert switch.read_register("I.seen", 0) == 0xBEEF


def test_counters_count_packets_and_bytes():
    with NativeSwitch.offline(PROGRAMS / "router.json") as switch:
        CASES["router"].set_up(switch)
        packets = CASES["router"].packets()
        for port, packet in packets:
            switch.process(port, packet)
        arrived = [len(packet) for port, packet in packets if port == 1]
        assert switch.read_counter("I.arrivals", 1) == (len(arrived), sum(arrived))
        hits = [switch.read_counter("I.hits", n)[0] for n in range(6)]
        assert all(hits[:5])
        with pytest.raises(ControlError, match="no such index"):
            switch.read_counter("I.hits", 6)


def test_a_default_action_can_be_changed_unless_the_program_fixes_it():
    frame = next(p for port, p in CASES["router"].packets() if port == 1)
    with NativeSwitch.offline(PROGRAMS / "router.json") as switch:
        assert switch.process(1, frame) == []
        switch.set_default("I.routes", "I.route", [3, 0x0200000000EE])
        ((port, packet),) = switch.process(1, frame)
        assert (port, packet[:6].hex()) == (3, "0200000000ee")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (TableEntry("I.nowhere", (), "I.drop"), "no table 'I.nowhere'.*I.routes"),
        (TableEntry("I.routes", (Exact(1),), "I.drop"), "expected 2 keys"),
        (TableEntry("I.routes", (Exact(1), Exact(1)), "I.drop"), "expected lpm, found Exact"),
        (TableEntry("I.routes", (Exact(512), Lpm(0, 0)), "I.drop"), "does not fit 9 bits"),
        (TableEntry("I.routes", (Exact(1), Lpm(0, 33)), "I.drop"), "prefix 33 of 32"),
        (TableEntry("I.routes", (Exact(1), Lpm(0, 0)), "I.fly"), "no action 'I.fly'.*I.spread"),
        (TableEntry("I.routes", (Exact(1), Lpm(0, 0)), "I.route", (1,)), "expected 2 parameters"),
        (TableEntry("I.routes", (Exact(1), Lpm(0, 0)), "I.route", (512, 1)), "does not fit 9 bits"),
    ],
)
def test_a_bad_entry_is_refused_with_the_reason(entry, words):
    with (
        NativeSwitch.offline(PROGRAMS / "router.json") as switch,
        pytest.raises(ControlError, match=words),
    ):
        switch.insert(entry)


def test_tables_are_finite_and_their_entries_different():
    with NativeSwitch.offline(PROGRAMS / "router.json") as switch:
        for n in range(16):
            switch.insert(TableEntry("I.routes", (Exact(1), Lpm(n << 24, 8)), "I.drop"))
            if n == 0:
                with pytest.raises(ControlError, match="same match"):
                    switch.insert(TableEntry("I.routes", (Exact(1), Lpm(5, 8)), "I.drop"))
        with pytest.raises(ControlError, match="full"):
            switch.insert(TableEntry("I.routes", (Exact(2), Lpm(0, 8)), "I.drop"))


def test_fixed_entries_stay():
    with (
        NativeSwitch.offline(PROGRAMS / "acl.json") as switch,
        pytest.raises(ControlError, match="fixed by the program"),
    ):
        switch.insert(TableEntry("I.classes", (Exact(1), Exact(1)), "NoAction"))


def test_longest_of_many_prefixes(tmp_path):
    document = json.loads((PROGRAMS / "router.json").read_text())
    for table in document["pipelines"][0]["tables"]:
        table["max_size"] = 4096
    path = tmp_path / "router.json"
    path.write_text(json.dumps(document))
    frame = next(p for port, p in CASES["router"].packets() if port == 1)  # to 10.0.0.1
    with NativeSwitch.offline(path) as switch:
        for n in range(2000):
            match = (Exact(1), Lpm(0x0B000000 + (n << 8), 24))
            switch.insert(TableEntry("I.routes", match, "I.route", (9, 0)))
        for prefix in (0, 8, 31, 16, 30, 7):
            match = (Exact(1), Lpm(0x0A000001, prefix))
            switch.insert(TableEntry("I.routes", match, "I.route", (100 + prefix, 0)))
        assert [port for port, _ in switch.process(1, frame)] == [131]


def test_all_that_is_unsupported_is_said_at_once(tmp_path):
    document = json.loads((PROGRAMS / "router.json").read_text())
    document["calculations"][0]["algo"] = "crc17"
    place = {"filename": "x.p4", "line": 7, "column": 4}
    digest = {"op": "generate_digest", "parameters": [], "source_info": place}
    document["actions"][0]["primitives"].append(digest)
    document["parse_vsets"].append({"name": "P.v", "source_info": place})
    path = tmp_path / "strange.json"
    path.write_text(json.dumps(document))
    with pytest.raises(Unsupported) as caught:
        read(path)
    assert set(caught.value.problems) == {
        "x.p4:7:5: parser value sets (use a select over constants): P.v",
        "router.p4:44:9: hash algorithm crc17",
        "x.p4:7:5: digest()",
    }


def test_no_program_is_an_error_of_the_user(tmp_path):
    path = tmp_path / "program.json"
    path.write_text('{"hello": 1}')
    with pytest.raises(ValueError, match="expected JSON of p4c-bm2-ss"):
        read(path)


def test_no_compiler_is_said_clearly(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BuildError, match=r"C compiler.*no-such-compiler"):
        build(PROGRAMS / "router.json")


def test_a_switch_is_built_once(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = build(PROGRAMS / "router.json")
    stamp = first.stat().st_mtime_ns
    assert first.is_relative_to(tmp_path / "ina-testbed")
    assert build(PROGRAMS / "router.json") == first
    assert first.stat().st_mtime_ns == stamp
    assert build(PROGRAMS / "acl.json") != first
    assert not list(first.parent.glob("build-*"))


def test_the_switch_ends_with_its_control_plane():
    switch = NativeSwitch.offline(PROGRAMS / "router.json")
    pid = switch.pid
    switch.close()
    switch.close()
    with pytest.raises(ControlError, match="is not running"):
        switch.process(1, b"")
    assert subprocess.run(["kill", "-0", str(pid)], capture_output=True, check=False).returncode


def test_a_switch_that_cannot_start_says_why():
    switch = NativeSwitch(PROGRAMS / "router.json")
    with pytest.raises(ControlError, match=r"no-such-if|root is needed"):
        switch.start({1: "no-such-if"})

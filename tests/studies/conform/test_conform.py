"""``conform``: our own program keeps every rule, and its mutants do not."""

from __future__ import annotations

from random import Random

import pytest
from studies.conform.seeded_mutants import MUTANTS, broken, recorded
from verbs import invoke

from testbed import wire
from testbed.protocols import on_trees
from testbed.studies.conform.rules import RULES
from testbed.studies.conform.scene import prepared
from testbed.studies.conform.traffic import Hosts, Step
from testbed.studies.conform.trial import trial, verdicts
from testbed.switches.compile import PROGRAMS
from testbed.switches.control import ControlError
from testbed.switches.decode import lines
from testbed.switches.native.target import NativeSwitch

PROGRAM = PROGRAMS[wire.FEW]


@pytest.mark.parametrize("name", on_trees())
def test_our_own_program_keeps_every_rule(name):
    path, scene = prepared(PROGRAM, on_trees()[name])
    with trial(scene, path) as made:
        found = list(verdicts(made, sequences=8))
    assert not [each.rule.name for each in found if each.counterexample]
    assert len(found) >= 17
    assert all(each.packets > 100 for each in found)


@pytest.mark.parametrize(
    ("at", "by"), [(0, "duplicates"), (5, "sum"), (12, "members"), (19, "answers")]
)
def test_a_mutant_is_found_and_no_packet_can_be_left_out(at, by, tmp_path):
    mutant = MUTANTS[at]
    (found,) = broken(mutant, tmp_path / "mutant.json", [r for r in RULES if r.name == by])
    example = found.counterexample
    path, scene = prepared(tmp_path / "mutant.json", on_trees()[mutant.protocol])
    with trial(scene, path) as made:
        for left_out in range(len(example.steps) - 1):
            fewer = example.steps[:left_out] + example.steps[left_out + 1 :]
            assert made.run(example.setting, fewer) is None


def test_the_mutants_are_lines_of_the_program_and_recorded():
    assert len(MUTANTS) == 20
    assert all(mutant.source() for mutant in MUTANTS)
    assert recorded().keys() == {mutant.what for mutant in MUTANTS}


def conform(*arguments):
    result = invoke("conform", *arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_the_verb_says_what_is_broken_by_which_packets(tmp_path):
    program, capture = tmp_path / "mutant.json", tmp_path / "broken.pcap"
    program.write_text(recorded()[MUTANTS[0].what])
    status, said = conform(program, "--protocol", "switchml", "--rule", "sum",
                           "--rule", "duplicates", "--pcap", capture)  # fmt: skip
    assert status == 1
    assert "sum         kept" in said
    assert "duplicates  BROKEN in 3 packets" in said
    assert "1 of 2 rules kept, 1 broken" in said
    assert "again" in said
    assert "they differ in INA.values[0] (found " in said
    assert len(list(lines(capture))) == 4


def test_a_program_that_keeps_its_rules_exits_with_0(tmp_path):
    status, said = conform(PROGRAM, "--protocol", "rack", "--rule", "copies", "--sequences", 5,
                           "--pcap", tmp_path / "broken.pcap")  # fmt: skip
    assert status == 0
    assert "1 of 1 rules kept, 0 broken" in said
    assert f"packets: none, so {tmp_path / 'broken.pcap'} is not written" in said
    assert not (tmp_path / "broken.pcap").exists()


def test_a_capture_replaces_no_file_of_another_kind(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("mine\n")
    status, said = conform(PROGRAM, "--protocol", "rack", "--rule", "copies", "--pcap", mine)
    assert status == 2
    assert "wanted a name that ends in .pcap" in said
    assert mine.read_text() == "mine\n"


def test_ones_own_control_is_not_confused_with_the_testbeds(tmp_path):
    program = tmp_path / "own.p4"
    program.write_text('#define OWN_PROTOCOL "mine.p4"\n')
    _, said = conform(program, "--protocol", "switchml")
    assert "note: this tests the testbed's own control of switchml" in said


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("{}", (), "no program that p4c-bm2-ss compiled"),
        ("not JSON", (), "no program that p4c-bm2-ss compiled"),
        ("[" * 5000, (), "no program that p4c-bm2-ss compiled"),
        ("{}", ("--protocol", "nobody"), "--protocol: found 'nobody', wanted one of atp"),
        ("{}", ("--rule", "nothing"), "--rule: found 'nothing', wanted one of sum"),
    ],
)
def test_bad_input_exits_with_2(content, arguments, words, tmp_path):
    path = tmp_path / "program.json"
    path.write_text(content)
    status, said = conform(path, "--protocol", "switchml", *arguments)
    assert status == 2
    assert words in said


def test_names_that_the_entries_need_are_said(tmp_path):
    path = tmp_path / "program.json"
    path.write_text(PROGRAM.read_text().replace('"InaIngress.join"', '"InaIngress.enter"'))
    status, said = conform(path, "--protocol", "switchml")
    assert status == 2
    assert "lacks action InaIngress.join with 12 parameters" in said


def test_hosts_send_a_slot_again_only_with_the_answer_before():
    _, scene = prepared(PROGRAM, on_trees()["switchml"])
    hosts = Hosts(RULES[0].setting(scene, Random(1)))
    third = Step("one", "h0", wire.KIND_DATA, 2)
    assert hosts.may_send(Step("one", "h0", wire.KIND_DATA, 1))
    assert not hosts.may_send(third)
    hosts.answered["one", "h0"].add(0)
    assert hosts.may_send(third)
    assert not hosts.may_send(Step("below", "s0", wire.KIND_RESULT, 0))


def test_a_switch_that_ends_breaks_the_rule(monkeypatch):
    def gone(*_):
        raise ControlError("it is gone")

    path, scene = prepared(PROGRAM, on_trees()["switchml"])
    with trial(scene, path) as made:
        monkeypatch.setattr(NativeSwitch, "process", gone)
        verdict = made.verdict(RULES[0], 1, 1)
    assert verdict.counterexample.ended == "it is gone"

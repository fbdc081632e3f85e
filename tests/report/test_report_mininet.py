"""Mininet's rows beside packets', and BMv2's beside native ones."""

from __future__ import annotations

import json

from made_up import EXPERIMENT, STYLES, rows, run

from testbed.report import answer, mininet


def on(target: str, system: str, *times: float, **changes: object):
    settings = json.dumps({"emulation.target": target})
    return rows(system, *times, cell=f"{system}-{target}", settings=settings, **changes)


def test_bmv2_is_compared_with_native_switches_where_both_are_valid(tmp_path):
    path = run(
        tmp_path,
        on("native", "atp", 2.0, retransmitted=7)
        + on("bmv2", "atp", 2.2)
        + on("native", "ring", 1.0)
        + on("bmv2", "ring", 4.0, verdict="busy"),
    )
    found = mininet.bmv2_against_native([path], STYLES)
    place = ["Leaf-spine, 2 spines, 2 racks of 5 hosts", "ResNet-50", "2/2 ToRs"]
    assert [line[: len(place)] for line in found.table[1]] == [place, place]
    assert {line[3]: line[4:9] for line in found.table[1]} == {
        "ATP": ["2.2", "2", "+10.0%", "0", "7"],
        "Ring": ["4", "1", "+300.0%", "0", "0"],
    }
    assert (found.cells, found.valid, found.rows) == (4, 3, 4)
    assert (found.median, found.most) == ("10.0%", "10.0%")


def test_runs_on_bmv2_that_all_failed_leave_nothing_to_compare(tmp_path):
    path = run(tmp_path, on("native", "atp", 2.0) + on("native", "ring", 1.0))
    found = mininet.bmv2_against_native([path], STYLES)
    assert (found.table[1], found.median) == ([], "–")


def test_packets_are_compared_with_mininet_where_both_are_valid(tmp_path):
    path = run(
        tmp_path,
        rows("ps", 4.0)
        + rows("atp", 2.0)
        + rows("atp", 2.5, cell="p", backend="packet")
        + rows("ring", 1.0, verdict="busy")
        + rows("ring", 3.0, cell="q", backend="packet"),
    )
    found = mininet.against_packets([path], STYLES)
    assert {line[3]: line[4:7] for line in found.table[1]} == {
        "PS": ["4", "–", "–"],
        "ATP": ["2", "2.5", "+25.0%"],
        "Ring": ["1", "3", "+200.0%"],
    }
    assert (found.cells, found.valid, found.rows) == (3, 2, 3)
    assert found.most == "25.0%"


def test_runs_on_two_targets_are_a_part_of_their_own(tmp_path):
    def of(name: str, **product: list[object]):
        experiment = {**EXPERIMENT, "sweep": {"product": product}}
        return run(tmp_path, rows("ps", 1.0), name, experiment)

    matrix = of("matrix", **{"fabric.ina": [1, 2]})
    targets = of("targets", **{"emulation.target": ["native", "bmv2"], "fabric.ina": [1, 2]})
    parts = answer.parted([matrix, targets])
    assert (list(parts.matrix), list(parts.targets)) == ([matrix], [targets])
    assert not parts.emulated

"""Captures, time series and timelines of virtual time are right, and do not affect the run."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from scapy.layers.inet import IP, TCP
from scapy.utils import PcapReader
from tiny import data, file
from verbs import invoke

import testbed
from testbed import wire
from testbed.switches.layer import INA

CAPTURES = ["h0-t0", "t1-s0"]
EVERYTHING = {"captures": CAPTURES, "series": "5us", "timeline": True}
LOSSY = {"emulation__loss": 0.01}
ONE = {"jobs__0__iterations": 1, "jobs__0__warmup": 0}


def run(folder: Path, recorded=EVERYTHING, **changes):
    """The results of a cell, and the directories of its results and its logs."""
    asked = {"backend": "packet", "fabric__spines": 1, "fabric__ina": "all"} | changes
    found = testbed.run(data(folder, **asked), folder / "out", **recorded)
    (row,) = found.results.itertuples()
    assert row.error == ""
    directory = folder / "out" / "tiny"
    results = max(directory.iterdir())
    (logs,) = (results / "logs").iterdir() if recorded else (None,)
    return row, results, logs


def sent(results: Path, source: str, target: str) -> float:
    """Bytes that one direction of a link carried."""
    links = pd.read_csv(results / "links.csv")
    (own,) = links[(links["source"] == source) & (links["target"] == target)].itertuples()
    return own.bytes


@pytest.mark.parametrize("system", ["ring", "atp", "rina", "netreduce", "asp"])
def test_a_look_inside_changes_nothing(system, tmp_path):
    tables = []
    for name, recorded in (("with", EVERYTHING), ("without", {})):
        folder = tmp_path / name
        folder.mkdir()
        workload = {"jobs__0__workload": str(tmp_path / "tiny.trace")}
        data(tmp_path)
        _, results, _ = run(folder, recorded, jobs__0__system=system, **workload, **LOSSY)
        tables.append([stripped(results / f"{each}.csv") for each in ("results", "iterations")])
        tables[-1].append((results / "links.csv").read_bytes())
    assert tables[0] == tables[1]


def stripped(path: Path) -> list[list[str]]:
    """A table as text, without the time at which the run began."""
    with path.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    return [[value for key, value in row.items() if key != "started_at"] for row in rows]


def captured(path: Path):
    with PcapReader(str(path)) as reader:
        assert reader.nano
        return list(reader)


def test_a_capture_has_every_packet_of_a_link(tmp_path):
    _, results, logs = run(tmp_path, emulation__carried_values="all", **ONE)
    packets = captured(logs / "h0-t0.pcap")
    times = [float(packet.time) for packet in packets]
    assert times == sorted(times)
    assert 0 < times[0] < times[-1]
    there = [packet for packet in packets if packet[IP].src == "10.0.0.1"]
    back = [packet for packet in packets if packet[IP].src != "10.0.0.1"]
    assert sum(packet.wirelen for packet in there) == sent(results, "h0", "t0")
    assert sum(packet.wirelen for packet in back) == sent(results, "t0", "h0")
    for packet in packets:
        assert len(packet) == packet.wirelen
        assert len(packet[INA].values) == wire.VALUES
    # One contribution for each result.
    assert sorted(each[INA].sequence for each in there) == sorted(
        each[INA].sequence for each in back
    )


def test_what_a_switch_and_a_host_take_time_for_is_captured_once(tmp_path):
    limits = {"fabric__capacity": "20Gbit", "fabric__packet_cost": "10ns"}
    _, results, logs = run(tmp_path, **limits)
    packets = captured(logs / "h0-t0.pcap")
    assert sum(packet.wirelen for packet in packets) == (
        sent(results, "h0", "t0") + sent(results, "t0", "h0")
    )


def test_a_packet_of_few_values_is_one_that_the_capture_cuts(tmp_path):
    _, results, logs = run(tmp_path, emulation__carried_values="few", **ONE)
    packets = captured(logs / "h0-t0.pcap")
    there = [packet for packet in packets if packet[IP].src == "10.0.0.1"]
    assert sum(packet.wirelen for packet in there) == sent(results, "h0", "t0")
    for packet in there:
        assert packet[IP].len + 14 == packet.wirelen > len(packet)
        assert whole_checksum(packet, IP)


def test_a_capture_of_tcp_is_tcp(tmp_path):
    _, results, logs = run(tmp_path, jobs__0__system="ring", **LOSSY)
    packets = captured(logs / "t1-s0.pcap")
    streams, acknowledged, blocks = defaultdict(list), defaultdict(list), 0
    stamps = defaultdict(set)
    for packet in packets:
        tcp = packet[TCP]
        size = packet[IP].len - 20 - 4 * tcp.dataofs
        assert packet[IP].len + 14 == packet.wirelen
        assert whole_checksum(packet, IP)
        ends = packet[IP].src, tcp.sport, packet[IP].dst, tcp.dport
        options = dict(tcp.options)
        stamp, echo = options["Timestamp"]
        if size:
            assert 0 < stamp <= float(packet.time) * 1e6
            stamps[ends].add(stamp)
            streams[ends].append((tcp.seq, tcp.seq + size))
            continue
        assert whole_checksum(packet, TCP)
        acknowledged[ends[2:] + ends[:2]].append(tcp.ack)
        assert echo in stamps[ends[2:] + ends[:2]]
        told = options.get("SAck", ())
        assert all(tcp.ack < start < end for start, end in zip(told[::2], told[1::2], strict=True))
        blocks += len(told)
    assert blocks > 0  # losses left gaps
    assert sum(packet.wirelen for packet in packets) == pytest.approx(
        # What arrives is captured unless it was lost; between switches, nothing is lost.
        sent(results, "t1", "s0") + sent(results, "s0", "t1")
    )
    for ends, spans in streams.items():
        reached = 1
        for start, end in sorted(spans):
            assert start <= reached  # no gap
            reached = max(reached, end)
        # The last acknowledgement may still have been delayed.
        assert reached - 2 * 1448 <= max(acknowledged[ends]) <= reached
    assert any(len(spans) > len(set(spans)) for spans in streams.values())  # retransmitted


def whole_checksum(packet, layer) -> bool:
    """Whether scapy computes the checksum that a header has."""
    again = packet.copy()
    del again[layer].chksum
    again = type(packet)(bytes(again))
    return again[layer].chksum == packet[layer].chksum


@pytest.mark.parametrize("system", ["ring", "atp", "switchml", "rina", "netreduce"])
def test_a_series_shows_queues_windows_and_slots(system, tmp_path):
    row, _, logs = run(tmp_path, jobs__0__system=system, fabric__queue="100KB")
    found = pd.read_csv(logs / "series.csv")
    assert list(found.columns) == ["time_s", "quantity", "place", "value"]
    steps = found["time_s"] / 5e-6
    assert (abs(steps - steps.round()) < 1e-6).all()
    assert found["time_s"].is_monotonic_increasing
    assert found["time_s"].max() == pytest.approx(row.jct_s * 3 / 2, rel=0.5)
    assert (found["value"] >= 0).all()

    def values(quantity):
        own = found[found["quantity"] == quantity]
        return own.pivot_table(index="time_s", columns="place", values="value").ffill().fillna(0)

    queues = values("queue_bytes")
    switch_ports = [place for place in queues if place[0] in "ts"]
    assert queues.to_numpy().max() > 0
    assert queues[switch_ports].to_numpy().max() <= 100_000
    if system == "ring":
        assert values("tcp_window_bytes").to_numpy().max() > 10 * 1448
        assert 0 < values("tcp_round_trip_s").to_numpy().max() < row.jct_s
        assert "ina_window" not in set(found["quantity"])
        return
    assert values("ina_window").to_numpy().max() > 0
    assert values("ina_in_flight").to_numpy().max() > 0
    assert 0 < values("ina_round_trip_s").to_numpy().max() < row.jct_s
    taken, incomplete = values("slots_taken"), values("slots_incomplete")
    assert 0 < taken.to_numpy().max() <= 4096
    assert 0 < incomplete.to_numpy().max() <= taken.to_numpy().max()
    assert (incomplete.iloc[-1] == 0).all()  # nothing is left over


def test_a_series_is_drawn(tmp_path):
    _, _, logs = run(tmp_path, {"series": "20us"})
    asked = ["series", str(logs / "series.csv"), "-o", str(tmp_path / "drawn")]
    said = invoke(*asked)
    assert said.exit_code == 0, said.output
    assert {each.name for each in (tmp_path / "drawn").iterdir()} == {"series.pdf", "series.png"}


def test_a_file_that_is_no_series_is_told(tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    said = invoke("series", other)
    assert said.exit_code == 2
    assert "other.csv: found columns a, b, wanted time_s, quantity, place, value" in said.output


@pytest.mark.parametrize(
    ("system", "timers"), [("ring", "real"), ("ring", "dilated"), ("atp", "real"), ("asp", "real")]
)
def test_a_timeline_is_well_formed_and_lasts_as_long_as_the_job(system, timers, tmp_path):
    changes = {"jobs__0__system": system, "emulation__timers": timers, **LOSSY}
    row, results, logs = run(tmp_path, **changes)
    for link in CAPTURES:
        times = [float(packet.time) for packet in captured(logs / f"{link}.pcap")]
        assert times == sorted(times)
    content = json.loads((logs / "timeline.json").read_text())
    events = content["traceEvents"]
    names = {
        (each["pid"], each.get("tid")): each["args"]["name"]
        for each in events
        if each["name"] in ("process_name", "thread_name")
    }
    spans = defaultdict(list)
    for each in events:
        assert each["ph"] in "MXbeC"
        if each["ph"] == "X":
            assert each["ts"] >= 0
            assert each["dur"] >= 0
            spans[names[each["pid"], each["tid"]]].append(each)
    for own in spans.values():
        assert nested(own)

    begun, ended = [], []
    for rank in range(row.workers):
        own = spans[f"rank {rank} (h{rank}) iterations"]
        whole = [each for each in own if each["name"].startswith(("iteration", "warm-up"))]
        assert [each["name"] for each in whole] == ["warm-up 0", "iteration 0", "iteration 1"]
        for before, after in pairwise(whole):
            assert before["ts"] + before["dur"] == pytest.approx(after["ts"], abs=1e-5)
        begun.append(whole[1]["ts"])
        ended.append(whole[-1]["ts"] + whole[-1]["dur"])
    if system != "asp":  # whose workers have each their own time
        assert (max(ended) - max(begun)) / 1e6 == pytest.approx(row.jct_s, rel=1e-9)

    units = defaultdict(list)
    for each in events:
        if each["ph"] in "be":
            units[each["id"]].append(each)
    assert units
    for begin, end in units.values():
        assert (begin["ph"], end["ph"]) == ("b", "e")
        assert begin["ts"] <= end["ts"] <= max(ended) + 1e-5

    series = pd.read_csv(logs / "series.csv")
    counted = [(each["name"], each["args"]["value"]) for each in events if each["ph"] == "C"]
    assert counted == [
        (f"{each.quantity} {each.place}", each.value) for each in series.itertuples()
    ]

    links = pd.read_csv(results / "links.csv")
    for link in links.itertuples():
        own = spans[f"{link.source}>{link.target}"]
        assert sum(each["args"]["bytes"] for each in own) == link.bytes
    if system == "atp":
        seen = [each["args"]["packets"] for name in ("t0", "t1", "s0") for each in spans[name]]
        assert sum(seen) >= row.switch_packets > 0


def nested(spans) -> bool:
    """Whether any two spans are either disjoint, or one is within the other."""
    open_until: list[float] = []
    for each in sorted(spans, key=lambda each: (each["ts"], -each["dur"])):
        end = each["ts"] + each["dur"]
        while open_until and open_until[-1] <= each["ts"] + 1e-5:
            open_until.pop()
        if open_until and end > open_until[-1] + 1e-5:
            return False
        open_until.append(end)
    return True


@pytest.mark.parametrize(
    ("options", "changes", "code", "words"),
    [
        (["--pcap", "h0-t9"], {}, 2, "--pcap h0-t9: found no link 'h0-t9' in"),
        (["--pcap", "h0-t0"], {"backend": "simulate"}, 2, "--pcap h0-t0: found backend: simulate"),
        (["--series", "1us"], {"backend": "simulate"}, 2, "--series: found backend: simulate"),
        (["--timeline"], {"backend": "simulate"}, 2, "--timeline: found backend: simulate, wanted"),
        (["--series", "0s"], {}, 2, "--series: found '0s', wanted a time from 100ns on"),
        (["--series", "99ns"], {}, 2, "--series: found '99ns', wanted a time from 100ns on"),
        (["--series", "10"], {}, 2, "--series: found '10' without a unit"),
    ],
)
def test_what_cannot_be_recorded_is_told(options, changes, code, words, tmp_path):
    path = file(tmp_path, **({"backend": "packet"} | changes))
    said = invoke("run", path, "-o", tmp_path / "out", *options)
    assert said.exit_code == code
    assert words in " ".join(said.output.split())
    assert not (tmp_path / "out").exists()

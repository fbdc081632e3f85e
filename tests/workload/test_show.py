"""The text form of a workload, and the verbs that show, import and export it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli import main
from testbed.workload.buckets import fill
from testbed.workload.catalogue import load
from testbed.workload.show import drawn, timeline
from testbed.workload.trace import Tensor, Trace
from testbed.workload.trace_file import save


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, ["trace", *words])


def test_the_timeline_by_hand() -> None:
    # Two tensors of 1 s forward and 2 s backward, each in a bucket of its own, of 2 s at this rate.
    trace = Trace("hand", 1, (Tensor("a", 25, 1.0, 2.0), Tensor("b", 25, 1.0, 2.0)))
    shown = timeline(trace, fill(trace, 100, 100), rate=400.0)
    # The second iteration waits from 6 s to 8 s for the first tensor's bucket.
    assert [ran.exposed_s for ran in shown.iterations] == [0.0, 2.0]
    assert shown.end_s == 16.0
    assert drawn(shown, width=16) == [
        "forward  ██      ██      ",
        "wait           ██        ",
        "backward   ████    ████  ",
        "network      0011    0011",
    ]


def test_what_is_short_is_seen() -> None:
    trace = Trace("hand", 1, (Tensor("a", 1, 0.001, 10.0),))
    lines = drawn(timeline(trace, fill(trace), rate=1e9), width=20)
    assert lines[0].count("█") == 2  # one for each iteration


def test_show_prints_facts_buckets_and_a_timeline() -> None:
    result = run("show", "resnet50", "--rate", "10Gbit")
    assert result.exit_code == 0, result.output
    for words in (
        "161 tensors, 25,557,032 values",
        "213ms",
        "V100",
        "needed as",
        "network  ",
        "int32, block exponent (SwitchML)",
    ):
        assert words in result.output
    assert "resnet.embedder.embedder.convolution.weight" not in result.output
    assert "convolution.weight" in run("show", "resnet50", "--tensors").output


def test_buckets_and_priority_can_be_chosen() -> None:
    one = run("show", "synthetic/4x10MB/1s", "--bucket", "1GB", "--first-bucket", "1GB").output
    assert "tensor" in one and "\n1 " not in one
    plain, first = (run("show", "vgg16", *p).output for p in ([], ["--priority"]))
    assert plain != first


@pytest.mark.parametrize("end", ["png", "pdf", "svg"])
def test_the_timeline_is_drawn(end: str, tmp_path: Path) -> None:
    path = tmp_path / f"timeline.{end}"
    assert run("show", "synthetic/8x10MB/50ms", "-o", str(path)).exit_code == 0
    assert path.stat().st_size > 1000


def test_names_with_brackets_are_shown_as_they_are(tmp_path: Path) -> None:
    names = ("params[dense].kernel", "params[/dense].kernel", ":fire:")
    save(Trace("own", 1, tuple(Tensor(name, 9, 1.0, 2.0) for name in names)), tmp_path / "t.trace")
    folder = tmp_path / ("a[b]" + "-long" * 30)
    folder.mkdir()
    shown = run("show", str(tmp_path / "t.trace"), "--tensors", "-o", str(folder / "x.svg"))
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert {*names} <= {line.partition(" ")[0] for line in lines}
    assert f"timeline: {folder / 'x.svg'}" in lines


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "resnet51"], "no workload 'resnet51'"),
        (["show", "resnet50", "--rate", "3"], "without a unit"),
        (["show", "resnet50", "--rate", "0bit"], "wanted a rate above 0"),
        (["show", "resnet50", "--bucket", "0B"], "at least 1 byte"),
        (["show", "synthetic/1MB", "-o", "x.none"], "wanted a name that ends in .png"),
        (["show", "nowhere.et"], "nowhere.et: cannot be read: no such file or directory\n"),
        (["show", "nowhere.json"], "nowhere.json: cannot be read: no such file or directory\n"),
        (["export", "resnet50", "x.none"], "wanted a name that ends in"),
        (["export", "resnet50", "/nowhere/x.csv"], "/nowhere/x.csv: no such file or directory"),
        (
            ["import", "nowhere.csv", "x.trace"],
            "Error: nowhere.csv: cannot be read: no such file or directory\n",
        ),
    ],
)
def test_what_is_wrong_is_told_without_traceback(words: list[str], message: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.output and "Traceback" not in result.output


@pytest.mark.parametrize("out", ["own.csv", "link.csv", "hard.csv"])
def test_a_file_is_not_written_over_itself(out: str, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    assert run("export", "resnet50", str(own)).exit_code == 0
    content = own.read_bytes()
    (tmp_path / "link.csv").symlink_to(own)
    (tmp_path / "hard.csv").hardlink_to(own)
    result = run("import", "--batch", "32", str(own), str(tmp_path / out))
    assert result.exit_code == 2 and "the file to read" in result.output
    assert own.read_bytes() == content


@pytest.mark.parametrize("form", ["et", "csv"])
def test_export_and_import_go_round(form: str, tmp_path: Path) -> None:
    there, back = tmp_path / f"small.{form}", tmp_path / "small.trace"
    tensors = tuple(Tensor(f"layer{i}", 10 + i, 1e-3, 2e-3) for i in range(3))
    save(Trace("small", 1, tensors), tmp_path / "first.trace")
    for words in (["export", str(tmp_path / "first.trace"), there], ["import", there, back]):
        result = run(*(str(word) for word in words))
        assert result.exit_code == 0 and "wrote" in result.output
    found = load(back)
    assert found.tensors == tensors and found.ready == (2, 1, 0)
    assert found.provenance["imported_from"]
    assert run("show", str(there)).exit_code == 0

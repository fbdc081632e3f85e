"""An option that names something that does not exist is a user's mistake: exit code 2, and a list
of what exists."""

from __future__ import annotations

import json

import click
import pytest
import tiny
import yaml
from verbs import invoke

import testbed
from testbed import extensions
from testbed.cli.failures import reading


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(extensions.VARIABLE)
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(tiny.data(tmp_path, backend="packet")))
    (tmp_path / "file").write_text("hi")
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "loop").symlink_to("loop")
    swept = tiny.data(tmp_path, sweep={"product": {"jobs.0.workers": [2, 4]}})
    (tmp_path / "swept.yaml").write_text(yaml.safe_dump(swept))
    (tmp_path / "table.csv").write_text("conv1,9408\n")
    for key, value in (("system", "nothere"), ("workload", "table.csv")):
        data = tiny.data(tmp_path, backend="packet")
        data["jobs"][0][key] = value
        (tmp_path / f"no{key}.yaml").write_text(yaml.safe_dump(data))
    return tmp_path


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("run x.yaml --cell nothere", "--cell: found 'nothere', wanted one of "),
        ("run x.yaml --cell=", "--cell: found '', wanted one of "),
        ("run x.yaml --pcap nothere", "found no link 'nothere'"),
        ("run x.yaml --executor nothere", "wanted local or dask:ADDRESS"),
        ("run x.yaml -o file/below", "file/below"),
        ("run --resume empty", "found no results.csv"),
        ("explain x.yaml --cell nothere", "--cell: found 'nothere', wanted one of "),
        ("explain x.yaml --job 7", "--job: found 7, wanted less than 1"),
        ("explain empty", "Error: found no results.csv in empty"),
        ("watch empty", "Error: found no results.csv in empty"),
        ("watch empty --interval nan", "found nan, wanted a number of seconds"),
        ("report empty", "Error: found no results.csv in empty"),
        ("torture --system nothere", "found 'nothere', wanted one of "),
        ("torture --seconds nan", "found nan, wanted a number of seconds"),
        ("run x.yaml -o loop", "too many levels of symbolic links"),
        ("torture --case swept.yaml", "swept.yaml: found a sweep, wanted a single cell"),
        ("reference --check --claims empty", "wanted either RUNS, to make a reference, or --check"),
        ("torture --case x.yaml --system ring", "--case cannot be used with --system"),
        ("torture --case x.yaml -o out", "--case cannot be used with --output"),
        ("reference --check -o nothere", "found no directory nothere"),
        ("series x.yaml", "Error: x.yaml: found "),
        ("claims nothere", "found 'nothere', wanted a claim"),
        ("trace show resnet50 -o drawn", "found drawn, wanted a name that ends in .png, .pdf"),
        ("systems nothere", "found 'nothere', wanted a system"),
        ("systems nothere", "there are no systems of your own: found no extensions/systems here"),
        ("validate nosystem.yaml", "found no extensions/systems here"),
        (
            "validate noworkload.yaml",
            "make one with `ina-testbed trace import table.csv",
        ),
        ("bench all-reduce --system nothere", "found 'nothere', wanted a known system"),
        ("bench all-reduce -b 1K -e 1K -o nothere/x.csv", "found no folder nothere"),
        ("run --resume empty -o out", "found --output beside --resume, wanted one of them"),
        (
            "conform other.json --protocol atp",
            "compiled (.json): no key 'pipelines'",
        ),
        ("conform x.yaml --protocol nothere", "--protocol: found 'nothere', wanted one of"),
    ],
)
def test_what_is_not_there_is_a_mistake(folder, call, said):
    done = invoke(*call.split())
    assert done.exit_code == 2, done.output
    assert said in done.output


def test_explain_of_a_run_names_the_cells_that_it_has(folder):
    tables = testbed.run(folder / "x.yaml", folder / "results")
    run, (cell,) = tables.results.run[0], set(tables.results.cell)
    done = invoke("explain", run, "--cell", "nothere")
    assert done.exit_code == 2
    assert f"found 'nothere', wanted one of {cell}" in done.output


def test_json_that_is_nested_too_deep_is_a_mistake():
    with pytest.raises(click.UsageError, match="nested too deep"), reading():
        json.loads("[" * 100_000)

"""The testbed from Python, and the example notebook."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from tiny import data, file

import testbed

ROOT = Path(__file__).parents[1]


def simulated(folder: Path, **changes) -> dict[str, object]:
    changes = {"sweep": {"jobs.0.system": ["ps", "ring"]}, "emulation__repeats": 2} | changes
    return data(folder, backend="simulate", **changes)


def test_importing_it_loads_nothing_else():
    heavy = "pandas", "numpy", "pydantic", "matplotlib", "click", "testbed.campaign"
    code = f"import sys, testbed; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_all_names_are_there():
    for name in testbed.__all__:
        assert getattr(testbed, name) is not None
        assert name in dir(testbed)
    assert sorted(testbed.__all__) == sorted(testbed.api.__all__)
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        _ = testbed.rnu


def test_a_run_gives_its_tables(tmp_path, capfd):
    found = testbed.run(simulated(tmp_path), tmp_path / "out")
    assert sorted(zip(found.results.system, found.results.repeat, strict=True)) == [
        ("ps", 0),
        ("ps", 1),
        ("ring", 0),
        ("ring", 1),
    ]
    assert (found.results.verdict == "valid").all()
    assert set(found.iterations.cell) == set(found.results.cell)
    (run,) = set(found.results.run)
    assert Path(run).parent == tmp_path / "out" / "tiny"
    again = testbed.read(tmp_path / "out")
    assert again.results.equals(found.results)
    assert capfd.readouterr() == ("", "")


def test_a_run_warns_of_a_scale_that_distorts_times(tmp_path):
    asked = data(tmp_path, backend="packet", jobs__0__system="ring", emulation__scale="1/128")
    with pytest.warns(UserWarning, match=r"^emulation\.scale: found 1/128: the latency") as warned:
        testbed.run(asked, tmp_path / "out")
    assert [each.filename for each in warned] == [__file__]


def test_progress_is_told_if_asked(tmp_path, capfd):
    testbed.run(simulated(tmp_path), tmp_path / "out", progress=True)
    assert "[4/4]" in capfd.readouterr().err


def test_a_file_a_mapping_and_an_experiment_are_the_same(tmp_path):
    asked = simulated(tmp_path)
    path = file(tmp_path, **{key: asked[key] for key in ("backend", "sweep", "emulation")})
    validated = testbed.validate(asked)
    assert isinstance(validated, testbed.Experiment)
    assert testbed.validate(path) == testbed.validate(str(path)) == validated
    assert testbed.validate(validated) == validated


def test_cells_are_told_before_they_are_run(tmp_path):
    asked = simulated(tmp_path)
    planned = testbed.cells(asked)
    assert list(planned["jobs.0.system"].value_counts().to_dict().values()) == [2, 2]
    assert (planned.seconds > 0).all()
    assert (planned.warning == "").all()
    found = testbed.run(asked, tmp_path / "out")
    assert list(planned.cell) == list(found.results.cell)
    assert list(planned.repeat) == list(found.results.repeat)


def test_a_mistake_says_where_it_is(tmp_path):
    with pytest.raises(testbed.Invalid, match=r"jobs\.0\.system.*rign.*ring"):
        testbed.run(simulated(tmp_path, jobs__0__system="rign", sweep=None), tmp_path / "out")
    with pytest.raises(testbed.Invalid, match=r'jobs\.0\.options\.widow: found "widow".*order'):
        asked = simulated(
            tmp_path, jobs__0__system="ring", jobs__0__options={"widow": 1}, sweep=None
        )
        testbed.run(asked, tmp_path / "out")
    with pytest.raises(ValueError, match="wanted local or dask:ADDRESS"):
        testbed.run(simulated(tmp_path), tmp_path / "out", executor="slurm")
    with pytest.raises(FileNotFoundError, match=r"results\.csv"):
        testbed.read(tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_name_of_no_file_is_refused(tmp_path):
    with pytest.raises(testbed.Invalid, match=r"^found an empty name, wanted a YAML file$"):
        testbed.run("")
    with pytest.raises(testbed.Invalid, match=f"^{tmp_path}: found a directory, wanted a YAML"):
        testbed.run(tmp_path)


@pytest.mark.parametrize("given", [None, 5, ["experiments/quick.yaml"]])
def test_what_is_no_experiment_is_refused(given):
    with pytest.raises(TypeError, match="wanted a file, a mapping or an Experiment"):
        testbed.run(given)


def test_what_is_beyond_the_machine_is_refused_unless_forced(tmp_path, monkeypatch):
    from testbed.campaign import evaluation, planning

    plan = planning.plan
    monkeypatch.setattr(
        evaluation,
        "plan",
        lambda *cells: [replace(each, seconds=1.0, refusal="too fast") for each in plan(*cells)],
    )
    with pytest.raises(testbed.DeploymentError, match="too fast"):
        testbed.run(simulated(tmp_path), tmp_path / "out")
    assert len(testbed.run(simulated(tmp_path), tmp_path / "out", force=True).results) == 4


def test_a_run_is_gone_on_with(tmp_path):
    found = testbed.run(simulated(tmp_path), tmp_path / "out")
    (run,) = set(found.results.run)
    table = Path(run) / "results.csv"
    *kept, _ = table.read_text().splitlines(keepends=True)
    table.write_text("".join(kept))
    found = testbed.resume(run)
    assert len(found.results) == 4
    assert table.read_text().startswith("".join(kept))
    more = simulated(tmp_path, sweep={"jobs.0.system": ["ps", "ring", "atp"]})
    assert len(testbed.resume(run, more).results) == 6


def test_a_report_leaves_the_figures_of_others_alone(tmp_path):
    asked = simulated(tmp_path, sweep={"jobs.0.system": ["ring"]}, emulation__repeats=1)
    testbed.run(asked, tmp_path / "out")
    before = matplotlib.get_backend()
    matplotlib.use("svg")
    try:
        page = testbed.write_report(tmp_path / "out", output=tmp_path / "report")
        assert matplotlib.get_backend() == "svg"
    finally:
        matplotlib.use(before)
    assert page.parent == tmp_path / "report"
    assert "Ring" in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda at: at.stem
)
def test_an_example_notebook_runs(path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    if path.stem == "train":
        pytest.importorskip("torch")
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells), "outputs are not committed"
    nbclient.NotebookClient(notebook, timeout=300).execute()
    shown = [set(output.get("data", {})) for cell in cells for output in cell.outputs]
    assert any("text/html" in each for each in shown)
    assert any("image/png" in each for each in shown)


def test_directories_are_arguments_of_their_own(tmp_path):
    for function in (testbed.read, testbed.write_report):
        with pytest.raises(TypeError, match=r"wanted paths, each as an argument of its own"):
            function([tmp_path])  # type: ignore[operator]
        with pytest.raises(ValueError, match="found no directory, wanted at least one"):
            function()  # type: ignore[operator]


def test_numpys_numbers_and_paths_are_plain_data(tmp_path):
    asked = simulated(tmp_path, jobs__0__workers=np.int64(4), emulation__scale=np.float64(1))
    asked["jobs"][0]["workload"] = tmp_path / "tiny.trace"
    asked["sweep"] = {"jobs.0.iterations": np.arange(1, 3), "jobs.0.warmup": range(1, 2)}
    assert len(testbed.cells(asked)) == 4
    asked["jobs"][0]["workers"] = object()
    with pytest.raises(TypeError, match=r"jobs\.0\.workers: found <object"):
        testbed.validate(asked)


def test_what_is_retried_is_a_known_word(tmp_path):
    with pytest.raises(ValueError, match='found fail, wanted "failed"'):
        testbed.resume(tmp_path, retry=["fail"])
    with pytest.raises(ValueError, match="found no directory"):
        testbed.read()


@pytest.mark.parametrize("again", [False, True])
def test_what_is_captured_is_one_link_or_several(tmp_path, again):
    asked = data(tmp_path, backend="packet")
    one = testbed.run(asked, tmp_path / "out") if again else None

    def run(captures):
        if one is None:
            return testbed.run(asked, tmp_path / "out", captures=captures)
        more = asked | {"emulation": asked["emulation"] | {"repeats": 2}}
        return testbed.resume(one.results.run[0], more, captures=captures)

    for one_link in ("h0-t9", ["h0-t9"], ("h0-t9",)):
        with pytest.raises(testbed.DeploymentError, match="--pcap h0-t9: "):
            run(one_link)
    wrong: list[object] = [5, None, ["h0-t0", 5], b"h0-t0"]
    for captures in wrong:
        with pytest.raises(TypeError, match=r"captures: found .*, wanted a link such as"):
            run(captures)

"""Training scripts: what is wrong with one is reported in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.training import script
from testbed.training.errors import TrainingError

WHOLE = """
def model(): return 1
def data(rank, world): return [], []
def loss(model, inputs, targets):
    raise KeyError("no such layer")
def evaluate(model): return 0.5
"""


def written(folder, text):
    path = folder / "mine.py"
    path.write_text(text)
    return path


def test_a_script_has_defaults(tmp_path):
    found = script.load(written(tmp_path, WHOLE))
    assert (found.metric, found.higher_is_better, found.call("model")) == ("accuracy", True, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_this_name", r"mine.py:1: import raised ModuleNotFoundError: "),
        ("def model(:", r"mine.py:1: import raised SyntaxError: "),
        ("def model(): pass", r"found no function data, loss, evaluate, wanted model, data, "),
        ("x = 1\nraise SystemExit(0)", r"mine.py:2: import raised SystemExit: 0"),
        ("assert False", r"mine.py:1: import raised AssertionError$"),
        ("x = 1\n1 / 0", r"mine.py:2: import raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_script_that_cannot_be_used(text, said, tmp_path):
    with pytest.raises(TrainingError, match=said) as caught:
        script.load(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_line_is_named_below_a_relative_path_too(tmp_path, monkeypatch):
    written(tmp_path, "x = 1\n1 / 0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrainingError, match=r"^mine.py:2: import raised ZeroDivisionError"):
        script.load(Path("mine.py"))


def test_a_metric_is_one_line(tmp_path):
    found = script.load(written(tmp_path, f"{WHOLE}\nmetric = 'top\\n5'"))
    assert found.metric == "top 5"


def test_a_function_that_raises(tmp_path):
    found = script.load(written(tmp_path, WHOLE))
    with pytest.raises(
        TrainingError, match=r"mine.py:5: loss\(\) raised KeyError: 'no such layer'"
    ):
        found.call("loss", None, None, None)

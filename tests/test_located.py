"""Values have line numbers, and errors in YAML are reported with their place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.located import MOST_BYTES, MOST_VALUES, Invalid, Problem, parse, read, write

TEXT = """\
a: 1
list:
  - x
  - {b: two, c: 3.5}
"""


def test_keys_and_values_have_places() -> None:
    located = parse(TEXT, "f.yaml")
    assert located.data == {"a": 1, "list": ["x", {"b": "two", "c": 3.5}]}
    assert located.keys["a",] == (1, 1)
    assert located.values["a",] == (1, 4)
    assert located.values["list", 0] == (3, 5)
    assert located.keys["list", 1, "c"] == (4, 14)
    assert located.values["list", 1, "c"] == (4, 17)


def test_problems_point_at_the_value_the_key_or_what_is_around() -> None:
    located = parse(TEXT, "f.yaml")
    place = ("list", 1, "c")
    assert str(located.problem(place, "found X")) == "f.yaml:4:17: list.1.c: found X"
    assert located.problem(place, "", at_key=True).column == 14
    missing = located.problem(("list", 1, "d"), "")
    assert (missing.line, missing.column, missing.path) == (4, 5, "list.1.d")
    assert located.problem(("a", "b", "c"), "").line == 1
    assert located.problem(("nothing",), "").line == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4:1", "4:1"),
        ("no", "no"),
        ("true", True),
        ("1e6", 1e6),
        ("1_000", "1_000"),
        ("010", "010"),
        ("-7", -7),
        (".5", 0.5),
        ("~", None),
        ("", None),
        ("2026-01-02", "2026-01-02"),
        ("1/128", "1/128"),
        ("'3'", "3"),
        ("!!str 3", "3"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    found = parse(f"k: {text}\n").data["k"]
    assert found == value
    assert type(found) is type(value)


def test_aliases_and_merges() -> None:
    located = parse("a: &a {x: 1, y: [2]}\nb: *a\nc: {<<: *a, x: 3}\nd: {<<: [*a, {z: 4}]}\n")
    assert located.data["b"] == {"x": 1, "y": [2]}
    assert located.data["c"] == {"x": 3, "y": [2]}
    assert located.data["d"] == {"x": 1, "y": [2], "z": 4}
    assert located.values["c", "x"] == (3, 16)
    assert located.values["c", "y", 0] == (1, 18)


def test_all_duplicates_are_told_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        parse("a: 1\nb: {c: 1, c: 2}\na: 2\n", "f.yaml")
    assert [(p.line, p.column, p.path) for p in caught.value.problems] == [
        (2, 11, "b.c"),
        (3, 1, "a"),
    ]
    assert str(caught.value).count("\n") == 1


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: [1\nb: 2\n", (2, 2), "syntax error"),
        ("a: {}}\n", (1, 6), "syntax error"),
        ("--- {a: 1}\n--- {b: 2}\n", (2, 1), "syntax error"),
        ("", (1, 1), "an empty file"),
        ("just words\n", (1, 1), "the single value 'just words', wanted a mapping"),
        ("[1]: 2\n", (1, 1), "a list as a key"),
        ("{a: 1}: 2\n", (1, 1), "a mapping as a key"),
        ("a: !!int x\n", (1, 4), "found 'x', wanted !!int"),
        ("a: !!bool x\n", (1, 4), "found 'x', wanted !!bool"),
        ("a: .inf\n", (1, 4), "found '.inf', wanted a finite number"),
        ("a: -1e999\n", (1, 4), "found '-1e999', wanted a finite number"),
        ("a: .NaN\n", (1, 4), "found '.NaN', wanted a finite number"),
        (f"a: {'1' * 5000}\n", (1, 4), "found a number of 5000 characters, wanted 100 at most"),
        ("a: !!binary aGk=\n", (1, 4), "found the tag"),
        ("a: {<<: 3}\n", (1, 9), "the single value '3' after <<"),
    ],
)
def test_bad_yaml(text: str, place: tuple[int, int], words: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(text)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == place
    assert words in problem.message


def test_aliases_that_would_fill_the_memory() -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(Invalid, match=f"more than {MOST_VALUES} values"):
        parse("\n".join(layers))


@pytest.mark.parametrize("text", ["a: " + "[" * 5000, "a: " + "[" * 500 + "]" * 500])
def test_values_nested_too_deeply(text: str) -> None:
    with pytest.raises(Invalid, match="found more than 100 values inside one another"):
        parse(text)


def test_what_is_no_file_of_a_reasonable_size_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_text(f"a: {'b' * MOST_BYTES}")
    for path, words in [
        (Path("/dev/zero"), "found a device or a pipe, wanted a YAML file"),
        (tmp_path / "pipe", "found a device or a pipe"),
        (tmp_path / "long", "found 4000003 bytes, more than the 4000000"),
        (tmp_path, "found a directory, wanted a YAML file"),
        (tmp_path / "none", "found no such file"),
    ]:
        with pytest.raises(Invalid, match=words):
            read(path)


def test_an_endless_merge() -> None:
    with pytest.raises(Invalid, match="alias inside its own anchor"):
        parse("a: &a\n  b: 1\n  <<: *a\n")


def test_a_problem_of_the_whole_file() -> None:
    assert str(Problem("f.yaml", 0, 0, "", "found nothing")) == "f.yaml: found nothing"


def test_a_problem_is_one_printable_line() -> None:
    problem = Problem("f.yaml", 1, 2, "a\nb", "found é\x1b[31m\u2028")
    assert str(problem) == "f.yaml:1:2: a\\nb: found é\\x1b[31m\\u2028"


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]) | st.sampled_from("\n\t"))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
    max_leaves=10,
)


@given(st.dictionaries(WORDS, JSON, min_size=1))
def test_what_is_written_reads_back_equal(data: dict[str, Any]) -> None:
    assert parse(write(data)).data == data

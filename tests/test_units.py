"""Units are parsed, formatted and rejected as they should be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed import units

POSITIVE = st.floats(min_value=1e-12, max_value=1e15, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10Gbit", 1e10),
        ("25Mbit/s", 25e6),
        ("1.5 kbit", 1500.0),
        ("100Mbps", 1e8),
        ("7bit", 7.0),
        ("1e3Mbit", 1e9),
        ("0.1Gbit", 1e8),
    ],
)
def test_rates(text: str, rate: float) -> None:
    assert units.parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "size"),
    [("25MB", 25_000_000), ("64KiB", 65536), ("512B", 512), ("256KB", 256_000), ("0.5kB", 500)],
)
def test_sizes(text: str, size: int) -> None:
    got = units.parse_size(text)
    assert got == size
    assert isinstance(got, int)


@pytest.mark.parametrize(
    ("text", "time"),
    [("2ms", 0.002), ("150us", 150e-6), ("150µs", 150e-6), ("1s", 1.0), ("2min", 120.0)],
)
def test_times(text: str, time: float) -> None:
    assert units.parse_time(text) == time


@pytest.mark.parametrize(
    ("text", "ratio"), [("1/128", 1 / 128), ("4:1", 4.0), ("0.5", 0.5), ("1", 1.0)]
)
def test_ratios(text: str, ratio: float) -> None:
    assert units.parse_ratio(text) == ratio


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        (units.parse_rate, "10", "found '10' without a unit, wanted a rate in bits per second"),
        (units.parse_rate, "10gbit", "did you mean 10Gbit?"),
        (units.parse_rate, "10GB", "write for example 10Gbit"),
        (units.parse_rate, "-1Gbit", "found '-1Gbit'"),
        (units.parse_rate, "fast", "found 'fast', wanted a rate"),
        (units.parse_rate, "nanGbit", "found 'nanGbit'"),
        (units.parse_size, "25", "found '25' without a unit, wanted a size in bytes"),
        (units.parse_size, "25Mb", "did you mean 25MB?"),
        (units.parse_size, "1.5B", "wanted a whole number of bytes"),
        (units.parse_time, "2", "found '2' without a unit, wanted a time"),
        (units.parse_time, "2 parsecs", "write for example 2ms"),
        (units.parse_ratio, "1/0", "a ratio to something above 0"),
        (units.parse_ratio, "half", "found 'half', wanted a ratio"),
    ],
)
def test_refusals_say_how_to_fix_it(parse: object, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse(text)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (units.format_rate(1e10), "10Gbit"),
        (units.format_rate(9.87654e9), "9.88Gbit"),
        (units.format_rate(999.9e6), "1Gbit"),
        (units.format_rate(0), "0bit"),
        (units.format_size(25_000_000), "25MB"),
        (units.format_size(65536), "65.5kB"),
        (units.format_size(65536, exact=True), "64KiB"),
        (units.format_size(256_000, exact=True), "256kB"),
        (units.format_time(0.0123456), "12.3ms"),
        (units.format_time(-0.5), "-500ms"),
        (units.format_time(7200), "7200s"),
        (units.format_ratio(1 / 128), "1/128"),
        (units.format_ratio(0.5), "0.5"),
        (units.format_ratio(2), "2"),
    ],
)
def test_formats(text: str, wanted: str) -> None:
    assert text == wanted


@given(POSITIVE)
def test_three_digits_are_within_half_a_percent(value: float) -> None:
    assert units.parse_rate(units.format_rate(value)) == pytest.approx(value, rel=0.0051)
    assert units.parse_time(units.format_time(value)) == pytest.approx(value, rel=0.0051)


@given(POSITIVE)
def test_exact_text_reads_back_equal(value: float) -> None:
    rate = units.format_rate(value, exact=True)
    assert units.parse_rate(rate) == value
    assert re.search(units.RATE_PATTERN, rate)
    time = units.format_time(value, exact=True)
    assert units.parse_time(time) == value
    assert re.search(units.TIME_PATTERN, time)
    ratio = units.format_ratio(value)
    assert units.parse_ratio(ratio) == value
    assert re.search(units.RATIO_PATTERN, ratio)


@given(st.integers(min_value=0, max_value=2**53))
def test_exact_sizes_read_back_equal(size: int) -> None:
    text = units.format_size(size, exact=True)
    assert units.parse_size(text) == size
    assert re.search(units.SIZE_PATTERN, text)


@given(st.text(alphabet="0123456789.eE+- kKMGTbitBps/n", max_size=12))
def test_patterns_match_what_parses(text: str) -> None:
    for parse, pattern in [
        (units.parse_rate, units.RATE_PATTERN),
        (units.parse_time, units.TIME_PATTERN),
    ]:
        try:
            parse(text)
            reads = True
        except ValueError:
            reads = False
        assert reads == bool(re.search(pattern, text)), (text, pattern)

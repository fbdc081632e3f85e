"""Rates, sizes and times with their units, as experiment files and reports write them.

Inside the program everything is SI: rates are floats in bits per second, sizes are whole
numbers of bytes, times are floats in seconds. Text is read and written only here.

Rates and the short byte units are powers of ten (``kB`` = ``KB`` = 1000 bytes, as for disks and in
PyTorch's documentation), ``KiB`` and the like are powers of two (IEC 80000-13).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

RATES: Mapping[str, Fraction] = {
    "bit": Fraction(1),
    "kbit": Fraction(10**3),
    "Mbit": Fraction(10**6),
    "Gbit": Fraction(10**9),
    "Tbit": Fraction(10**12),
}
SIZES: Mapping[str, Fraction] = {
    "B": Fraction(1),
    "kB": Fraction(10**3),
    "MB": Fraction(10**6),
    "GB": Fraction(10**9),
    "TB": Fraction(10**12),
}
BINARY_SIZES: Mapping[str, Fraction] = {
    "KiB": Fraction(2**10),
    "MiB": Fraction(2**20),
    "GiB": Fraction(2**30),
    "TiB": Fraction(2**40),
}
TIMES: Mapping[str, Fraction] = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
}

# Spellings that are read but never written.
_RATE_UNITS = {
    **RATES,
    "Kbit": RATES["kbit"],
    **{f"{unit}/s": factor for unit, factor in RATES.items()},
    "bps": RATES["bit"],
    "kbps": RATES["kbit"],
    "Mbps": RATES["Mbit"],
    "Gbps": RATES["Gbit"],
    "Tbps": RATES["Tbit"],
}
_SIZE_UNITS = {**SIZES, "KB": SIZES["kB"], **BINARY_SIZES}
_TIME_UNITS = {**TIMES, "µs": TIMES["us"], "μs": TIMES["us"]}

_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?"
_PLAIN = re.compile(rf"\s*({_NUMBER})\s*")
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*(\S+)\s*")
_RATIO = re.compile(rf"\s*({_NUMBER})\s*(?:[/:]\s*({_NUMBER})\s*)?")


def _pattern(units: Mapping[str, Fraction]) -> str:
    return rf"^\s*{_NUMBER}\s*(?:{'|'.join(units)})\s*$"


_remembered = lru_cache(maxsize=1024)  # a sweep has the same few values in every cell

# Regular expressions, valid in ECMA 262 and Python, of the accepted texts; for JSON schemas.
RATE_PATTERN = _pattern(_RATE_UNITS)
SIZE_PATTERN = _pattern(_SIZE_UNITS)
TIME_PATTERN = _pattern(_TIME_UNITS)
RATIO_PATTERN = rf"^\s*{_NUMBER}\s*(?:[/:]\s*{_NUMBER}\s*)?$"


def parse_rate(text: str) -> float:
    """Read a rate such as ``10Gbit`` or ``25 Mbit/s``; return bits per second.

    Raises ValueError with what was found, what was wanted and how to fix it.
    """
    wanted = f"a rate in bits per second with its unit ({', '.join(RATES)})"
    return float(_quantity(text, _RATE_UNITS, wanted, ("10Gbit", "100Mbit")))


def parse_size(text: str) -> int:
    """Read a size such as ``25MB``, ``64KiB`` or ``512B``; return whole bytes.

    Raises ValueError with what was found, what was wanted and how to fix it.
    """
    wanted = f"a size in bytes with its unit ({', '.join((*SIZES, *BINARY_SIZES))})"
    size = _quantity(text, _SIZE_UNITS, wanted, ("25MB", "64KiB"))
    if size.denominator != 1:
        raise ValueError(f"found {text!r:.60}, wanted a whole number of bytes; round it")
    return int(size)


def parse_time(text: str) -> float:
    """Read a time such as ``2ms``, ``150us`` or ``1s``; return seconds.

    Raises ValueError with what was found, what was wanted and how to fix it.
    """
    wanted = f"a time with its unit ({', '.join(TIMES)})"
    return float(_quantity(text, _TIME_UNITS, wanted, ("2ms", "150us")))


def parse_ratio(text: str) -> float:
    """Read a ratio such as ``1/128``, ``4:1`` or ``0.5``; return it as a float.

    Raises ValueError with what was found, what was wanted and how to fix it.
    """
    match = _RATIO.fullmatch(text)
    if match is None:
        raise ValueError(f"found {text!r:.60}, wanted a ratio; write for example 1/128 or 0.5")
    above, below = Fraction(match[1]), Fraction(match[2] or 1)
    if below == 0:
        raise ValueError(
            f"found {text!r:.60}, wanted a ratio to something above 0; write for example 1/128"
        )
    return float(above / below)


@_remembered
def format_rate(rate: float, *, exact: bool = False) -> str:
    """Write bits per second as text, to three significant digits, or so that it reads back equal.

    With ``exact``, ``parse_rate(format_rate(rate, exact=True)) == rate``.
    """
    return _format(rate, RATES, "bit", exact)


@_remembered
def format_size(size: float, *, exact: bool = False) -> str:
    """Write bytes as text, to three significant digits, or so that it reads back equal.

    ``exact`` text uses a binary unit where that is shorter (65536 is ``64KiB``).
    """
    text = _format(size, SIZES, "B", exact)
    if exact and size:
        for unit, factor in BINARY_SIZES.items():
            count = Fraction(size) / factor
            if count.denominator == 1:
                text = min(text, f"{int(count)}{unit}", key=lambda t: sum(c.isdigit() for c in t))
    return text


@_remembered
def format_time(time: float, *, exact: bool = False) -> str:
    """Write seconds as text, to three significant digits, or so that it reads back equal.

    Times over a second stay in seconds: minutes and hours are read, never written.
    """
    seconds = {unit: factor for unit, factor in TIMES.items() if factor <= 1}
    return _format(time, seconds, "s", exact)


@_remembered
def format_ratio(ratio: float) -> str:
    """Write a ratio so that it reads back equal: ``1/128`` where it is one over a whole number."""
    if 0 < ratio < 1:
        below = round(1 / ratio)
        if 1 / below == ratio and len(f"1/{below}") < len(_decimal(ratio)):
            return f"1/{below}"
    return _decimal(ratio)


def _quantity(
    text: str,
    units: Mapping[str, Fraction],
    wanted: str,
    examples: tuple[str, str],
) -> Fraction:
    """Number times unit, exactly."""
    write = f"write for example {examples[0]} or {examples[1]}"
    if _PLAIN.fullmatch(text):
        raise ValueError(f"found {text!r:.60} without a unit, wanted {wanted}; {write}")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"found {text!r:.60}, wanted {wanted}; {write}")
    number, unit = match.groups()
    if unit not in units:
        nearest = [u for u in units if u.lower() == unit.lower()]
        hint = f"did you mean {number}{nearest[0]}?" if nearest else write
        raise ValueError(f"found {text!r:.60}, wanted {wanted}; {hint}")
    return Fraction(number) * units[unit]


def _format(value: float, units: Mapping[str, Fraction], base: str, exact: bool) -> str:
    """Uses the largest unit in which the value is at least 1, or else the smallest unit."""
    if not math.isfinite(value) or value == 0:
        return f"{_decimal(value)}{base}"
    if not exact:
        value = float(f"{value:.2e}")  # rounded first, so that 999.9 becomes 1 of the next unit
    true = _typed(value)
    fitting = [unit for unit, factor in units.items() if abs(true) >= factor]
    unit = fitting[-1] if fitting else next(iter(units))
    return f"{_exactly(true / units[unit])}{unit}"


def _decimal(value: float) -> str:
    """A number without exponent, with the shortest digits that read back equal."""
    return _exactly(_typed(value)) if math.isfinite(value) else str(float(value))


def _typed(value: float) -> Fraction:
    """The exact value of the number's shortest decimal text, as a person would type it."""
    return Fraction(value) if isinstance(value, int) else Fraction(repr(float(value)))


def _exactly(value: Fraction) -> str:
    """A fraction whose denominator divides a power of ten, as a decimal without exponent."""
    places = 0
    while value.denominator != 1:
        value, places = value * 10, places + 1
    sign, digits = "-" * (value < 0), str(abs(int(value))).rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else f"{sign}{digits}"

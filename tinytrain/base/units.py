"""Sizes, fractions and times as people write them: ``1MB``, ``256 KiB``, ``15%``; MB = 10^6, MiB = 2^20."""

import math
import re

from tinytrain.base.errors import UsageError

FACTORS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
LARGEST = 10**18 - 1  # the largest number in a report
MOST_SECONDS = 1e9  # 30 years


def parse_bytes(text: str) -> int:
    """Bytes of a size such as ``"1MB"`` (1,000,000), ``"1MiB"`` (1,048,576) or ``"400000"``.

    >>> parse_bytes("256kB"), parse_bytes("1.5 MiB")
    (256000, 1572864)

    Raises UsageError if the text is not a size or is above `LARGEST`.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if not match or match[2].lower() not in FACTORS:
        raise UsageError("usage", f"{text!r} is not a size; write for example 1MB, 400kB or 1MiB")
    size = float(match[1]) * FACTORS[match[2].lower()]
    if size > LARGEST:
        raise UsageError("usage", f"{text!r} is more than any memory; write for example 1MB or 64MB")
    return int(size)


def parse_fraction(text: str) -> float:
    """Fraction of a percentage such as ``"15%"`` (0.15) or of a plain fraction ``"0.15"``.

    >>> parse_fraction("15%"), parse_fraction("0.3")
    (0.15, 0.3)

    Raises UsageError if the text is not a number above 0, or is above 1 without ``%``.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*", text)
    if not match or float(match[1]) == 0:
        raise UsageError("usage", f"{text!r} is not a fraction above 0; write for example 15% or 0.15")
    if float(match[1]) > 1 and not match[2]:
        raise UsageError("usage", f"{text!r} is above 1; write {match[1]}% if you mean per cent")
    return float(match[1]) / (100 if match[2] else 1)


def parse_seconds(text: str) -> float:
    """Seconds of a time such as ``"2"``, ``"0.5"`` or ``"10s"``.

    >>> parse_seconds("0.5"), parse_seconds("10 s")
    (0.5, 10.0)

    Raises UsageError if the text is not a number above 0.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*s?\s*", text)
    if not match or not 0 < float(match[1]) <= MOST_SECONDS:
        raise UsageError("usage", f"{text!r} is no time; write seconds above 0, for example 2 or 0.5")
    return float(match[1])


def format_bytes(count: int) -> str:
    """Size in decimal units: ``format_bytes(655360) == "655.4 kB"``."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def as_option(count: int) -> str:
    """`count` bytes in three digits, rounded up, as a size is written: ``as_option(489_792) == "490kB"``."""
    step = 10 ** max(0, len(str(count)) - 3)
    count = -(-count // step) * step
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:g}{unit}"
    return f"{count}B"


def format_count(count: float) -> str:
    """``format_count(6_510_000) == "6.51 M"``."""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count:.0f}"


def finite_or_none(value: float) -> float | None:
    """`value` for JSON: None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None

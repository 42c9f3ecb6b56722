"""How numbers and names are written on a page.

Three significant figures, narrow no-break spaces in thousands, a unit beside every number; an absent
number is a dash. Names and messages that come from files are shown as plain text: `plain` takes all
meaning out of Markdown, `visible` gives whitespace and control characters a face.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

SPACE = "\u202f"  # narrow, no break
ABSENT = "–"

LOWER = "lower is better"
HIGHER = "higher is better"

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_SHORTCODE = re.compile(r":(?=[A-Za-z0-9_+\-/]+:)")
_VISIBLE = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u00ad": "⟨shy⟩", "\x7f": "␡"}


def count(n: int | None) -> str:
    """A whole number with its thousands apart.

    >>> count(317706)
    '317\u202f706'
    """
    return ABSENT if n is None else f"{n:,}".replace(",", SPACE)


def counted(n: int, noun: str) -> str:
    """A whole number of things.

    >>> counted(1, "segment"), counted(2, "segment")
    ('1 segment', '2 segments')
    """
    return f"{count(n)} {noun}{'' if n == 1 else 's'}"


def number(value: float | None, digits: int = 3) -> str:
    """A measured number to `digits` significant figures, without an exponent where that can be read.

    >>> number(26.04), number(0.00012), number(12345.0), number(None)
    ('26.0', '0.00012', '12\u202f300', '–')
    """
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - size)
    size = math.floor(math.log10(abs(rounded))) if rounded else size
    if size < -5 or size > 14:
        return f"{value:.{digits - 1}e}".replace("e-0", "e-").replace("e+0", "e")
    text = f"{rounded:,.{max(digits - 1 - size, 0)}f}"
    if size < -2:
        text = text.rstrip("0")
    return text.replace(",", SPACE)


def with_unit(value: float | None, unit: str) -> str:
    """A number and its unit, which never part at a line's end."""
    return ABSENT if value is None else f"{number(value)}{SPACE}{unit}"


def percent(rate: float | None) -> str:
    """A fraction of one in percent.

    >>> percent(0.8123)
    '81.2\u202f%'
    """
    return with_unit(None if rate is None else 100 * rate, "%")


def percent_of_raw(rate: float | None) -> str:
    """A compression rate, by its name: "81.2 % of raw"."""
    return ABSENT if rate is None else f"{percent(rate)} of raw"


def points(difference: float) -> str:
    """A difference of two rates in percentage points, signed.

    >>> points(-0.0082)
    '−0.82 points'
    """
    return f"{'−' if difference < 0 else '+'}{number(abs(100 * difference), 2)} points"


def interval(low_high: Sequence[float] | None, centre: float | None) -> str:
    """A 95 % interval of a rate: "±0.4 points, estimate", "exact" when it has no width.

    >>> interval([0.80, 0.82], 0.81)
    '±1.0 points, estimate'
    >>> interval(None, 0.81)
    'estimate, too few blocks'
    """
    if centre is None:
        return ABSENT
    if low_high is None:
        return "estimate, too few blocks"
    low, high = low_high
    if high <= low:
        return "all of it measured, no estimate"
    return f"±{number(100 * (high - low) / 2, 2)} points, estimate"


def size(n_bytes: int | None) -> str:
    """Bytes in the decimal units of storage.

    >>> size(98_362_432), size(512)
    ('98.4\u202fMB', '512\u202fB')
    """
    if n_bytes is None:
        return ABSENT
    value, unit = float(n_bytes), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{count(n_bytes) if unit == 'B' else number(value)}{SPACE}{unit}"


def duration(seconds: float | None) -> str:
    """A time a person can plan with.

    >>> duration(0.3), duration(3.2), duration(840), duration(7300)
    ('0.3 s', '3 s', '14 min', '2 h 2 min')
    """
    if seconds is None or not math.isfinite(seconds):
        return ABSENT
    if seconds < 1:
        return f"{max(seconds, 0.1):.1f} s"
    if seconds < 90:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def shape(sizes: Sequence[int]) -> str:
    """A tensor's shape: "128×128×3×3"; "scalar" for ()."""
    return "×".join(str(s) for s in sizes) if sizes else "scalar"


def plain(text: object) -> str:
    """Text that Markdown shows as it stands: every punctuation mark escaped, one line.

    >>> plain("**a**")
    '\\\\*\\\\*a\\\\*\\\\*'
    """
    line = " ".join(str(text).split())
    line = _SHORTCODE.sub(":\u2060", line)
    return _PUNCTUATION.sub(r"\\\1", line)


def visible(text: str) -> str:
    """A token's text with whitespace and control characters made visible.

    >>> visible(" 1\\n")
    '␣1⏎'
    """
    out = []
    for character in text:
        if character in _VISIBLE:
            out.append(_VISIBLE[character])
        elif ord(character) < 32:
            out.append(chr(0x2400 + ord(character)))
        elif character.isspace() or not character.isprintable():
            out.append(f"⟨{ord(character):x}⟩")
        else:
            out.append(character)
    return "".join(out) or "∅"

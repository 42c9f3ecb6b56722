"""Colours for numbers, the same on heatmap, strip and tables: a scale, its range in words, grey for what is unknown.

Cividis, its four steps for ranks, and blue to orange for differences read the same for most colour-blind
eyes. A range is always stated; what lies beyond it is drawn as its end, and the words say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pages.ui.format import count

STOPS = ("#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838")
RANK_STOPS = ("#00224e", "#575d6d", "#a59c74", "#fee838")
TWO_SIDED = ("#1b4f8a", "#5b8fc4", "#b9cfe4", "#f2f2f0", "#f5c592", "#dd8a33", "#9a4f07")
RANK_BANDS = (10, 100, 1000)  # as GLTR has them
RANK_NAMES = ("1–10", "11–100", f"101–{count(1000)}", f"over {count(1000)}")
UNSAMPLED = "#9aa3a8"
LINES = ("#1f77b4", "#d9822b", "#5b8c5a", "#8f6bb3", "#a0522d")

FOLLOW, LARGEST = 0, -1
REACHES: dict[int, str] = {
    FOLLOW: "99 % of what is there",
    LARGEST: "all that is there",
    **{bits: f"{bits} bit{'s' if bits > 1 else ''}, fixed" for bits in (1, 2, 4, 8, 16, 32)},
}

Numbers = npt.NDArray[np.floating]


def bits_range(bits: npt.ArrayLike, reach: float = FOLLOW) -> tuple[float, float]:
    """(0, high): the range of colours for some bits, high the 99th percentile rounded up to a whole bit.

    Args:
        bits: any shape, NaN where nothing is known.
        reach: FOLLOW, LARGEST for the largest value instead, or a fixed upper end.

    >>> bits_range([1.0, 2.0, float("nan"), 2.5])
    (0.0, 3.0)
    """
    if reach > 0:
        return 0.0, float(reach)
    values = np.asarray(bits, np.float64).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    top = values.max() if reach == LARGEST else np.percentile(values, 99)
    return 0.0, float(max(np.ceil(top), 1.0))


@dataclass(frozen=True, slots=True)
class Colouring:
    """How numbers become colours.

    Attributes:
        words: what the numbers are, with their unit.
        stops: colours from the low end to the high one.
        low, high: the ends; ranks have four bands instead, 0 to 3.
        is_banded: whether the stops are bands with names.
        is_below, is_above: whether numbers lie beyond the ends, and are drawn as these.
    """

    words: str
    stops: tuple[str, ...]
    low: float
    high: float
    is_banded: bool = False
    is_below: bool = False
    is_above: bool = False

    @property
    def scale(self) -> list[list[object]]:
        """The colour scale as Plotly takes it."""
        n = len(self.stops)
        if self.is_banded:
            return [[(i + side) / n, c] for i, c in enumerate(self.stops) for side in (0, 1)]
        return [[i / (n - 1), c] for i, c in enumerate(self.stops)]

    @property
    def ends(self) -> tuple[str, str]:
        """The names of both ends."""
        if self.is_banded:
            return f"rank {RANK_NAMES[0]}", RANK_NAMES[-1]
        return (
            f"{_signed(self.low)} bits{' or less' if self.is_below else ''}",
            f"{_signed(self.high)} bits{' or more' if self.is_above else ''}",
        )

    def placed(self, numbers: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Numbers on the scale from `low` to `high`: themselves, or the band of a rank."""
        values = np.asarray(numbers, np.float32)
        if not self.is_banded:
            return values
        bands = np.searchsorted(RANK_BANDS, values, side="left").astype(np.float32)
        return np.where(np.isnan(values), np.float32(np.nan), bands)

    def fractions(self, numbers: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Where numbers lie between both ends, 0 to 1."""
        return np.clip((self.placed(numbers) - self.low) / (self.high - self.low), 0, 1)

    def note(self) -> str:
        """The quantity and its range in one line."""
        if self.is_banded:
            return f"{self.words}; colours for ranks {', '.join(RANK_NAMES)}"
        beyond = {
            (False, True): f", higher drawn as {self.high:g}",
            (True, True): ", what lies beyond drawn as the ends",
            (True, False): f", lower drawn as {_signed(self.low)}",
        }
        clamped = beyond.get((self.is_below, self.is_above), "")
        return f"{self.words}; colours from {_signed(self.low)} to {self.high:g} bits{clamped}"


def _signed(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def colouring(words: str, numbers: npt.ArrayLike, quantity: str, reach: float = FOLLOW) -> Colouring:
    """The colours of some numbers.

    Args:
        words: what they are, with their unit.
        numbers: any shape, NaN where nothing is known.
        quantity: "rank" has bands, "excess" and "difference" two sides with zero in the middle, all others one.
        reach: as `bits_range` takes it.

    >>> colouring("bits", [1.0, 40.0], "all", 8).note()
    'bits; colours from 0 to 8 bits, higher drawn as 8'
    """
    if quantity == "rank":
        return Colouring(words, RANK_STOPS, 0.0, 3.0, is_banded=True)
    values = np.asarray(numbers, np.float64).ravel()
    values = values[np.isfinite(values)]
    is_two_sided = quantity in ("excess", "difference")
    _, high = bits_range(np.abs(values) if is_two_sided else values, reach)
    low = -high if is_two_sided else 0.0
    beyond = bool((values < low).any()), bool((values > high).any())
    return Colouring(words, TWO_SIDED if is_two_sided else STOPS, low, high, False, *beyond)

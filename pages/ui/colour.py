"""One sequential colour scale for bits on heatmap, strip and tables; grey for what was not sampled.

Cividis reads the same for most colour-blind eyes. A range is always stated; what lies above it is
drawn as its end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BITS_SCALE = "Cividis"
STOPS = ("#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838")
UNSAMPLED = "#9aa3a8"
LINES = ("#1f77b4", "#d9822b", "#5b8c5a", "#8f6bb3", "#a0522d")


def bits_range(bits: npt.ArrayLike, ceiling: float | None = None) -> tuple[float, float]:
    """(0, high): the range of colours for some bits, high the 99th percentile rounded up to a whole bit.

    Args:
        bits: any shape, NaN where nothing is known.
        ceiling: a fixed upper end instead.

    >>> bits_range([1.0, 2.0, float("nan"), 2.5])
    (0.0, 3.0)
    """
    if ceiling is not None:
        return 0.0, float(ceiling)
    values = np.asarray(bits, np.float64).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    return 0.0, float(max(np.ceil(np.percentile(values, 99)), 1.0))

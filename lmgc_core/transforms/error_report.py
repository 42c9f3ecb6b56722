"""What a lossy step changed, measured after decoding, in float64, over the whole gradient.

No bound is promised here: the figures are what came out. A figure that is undefined or not finite
is None.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import Gradient
from lmgc_core.transforms.exact import is_finite, to_float64


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """Differences between a gradient and what a transform made of it.

    Attributes:
        max_abs: largest |x − x̂| over finite x; None where a finite x is no longer finite, or none was.
        rmse: root of the mean squared error, over the same values.
        cosine: of the angle between x and x̂ (1 is "same direction"); None where one of them is zero.
        psnr_db: 20 · log10((max x − min x) / rmse); None where nothing was lost, or x is constant.
        n_overflowed: finite values that are no longer finite.
        n_flushed: values that were not zero and are now (those that a sparsifier dropped included).
        n_nonfinite_changed: NaNs and infinities whose bytes changed.
    """

    max_abs: float | None
    rmse: float | None
    cosine: float | None
    psnr_db: float | None
    n_overflowed: int
    n_flushed: int
    n_nonfinite_changed: int

    def to_dict(self) -> dict[str, float | int | None]:
        """The figures by their names."""
        return asdict(self)


def measure_error(original: Gradient, values: Gradient) -> ErrorReport:
    """The differences between two gradients of equal specs; integers count as numbers.

    Raises:
        InvalidSetting: when names, dtypes or shapes differ.

    >>> a, b = (Gradient.from_arrays({"w": np.float32(v)}) for v in ([3.0, 4.0], [3.0, 0.0]))
    >>> report = measure_error(a, b)
    >>> report.max_abs, report.cosine, report.n_flushed
    (4.0, 0.6, 1)
    """
    if original.specs != values.specs:
        raise InvalidSetting("errors can only be measured between gradients of equal names, dtypes and shapes")
    most = low = high = error_most = None
    n = n_overflowed = n_flushed = n_changed = n_revived = 0
    pairs = []
    for before, after in zip(original, values, strict=True):
        if before.dtype.kind == "float" and before.dtype.sign_bits == 1:
            kept, now = is_finite(before.words, before.dtype), is_finite(after.words, after.dtype)
            x, y = to_float64(before.words, before.dtype), to_float64(after.words, after.dtype)
        else:
            kept = now = np.ones(before.n_parameters, np.bool_)
            x, y = (t.array.reshape(-1).astype(np.float64) for t in (before, after))
        n_overflowed += int((kept & ~now).sum())
        n_changed += int((before.words != after.words)[~kept].sum())
        n_revived += int((now & ~kept).sum())
        x, y = x[kept & now], y[kept & now]
        n_flushed += int(((x != 0) & (y == 0)).sum())
        n += len(x)
        if len(x):
            pairs.append((x, y))
            with np.errstate(over="ignore"):
                error_most = max(error_most or 0.0, float(np.abs(x - y).max()))
            most = max(most or 0.0, float(np.abs(x).max()), float(np.abs(y).max()))
            low = float(x.min()) if low is None else min(low, float(x.min()))
            high = float(x.max()) if high is None else max(high, float(x.max()))
    counts = (n_overflowed, n_flushed, n_changed)
    if most is None or error_most is None or low is None or high is None or n_overflowed or n_revived:
        return ErrorReport(None, None, None, None, *counts)
    unit = most if most > 0 else 1.0
    squares = xx = yy = xy = 0.0
    error_unit = error_most if 0 < error_most < math.inf else 1.0
    for x, y in pairs:
        with np.errstate(over="ignore"):
            squares += float(np.square((x - y) / error_unit).sum())
        x, y = x / unit, y / unit
        xx, yy, xy = xx + float(np.dot(x, x)), yy + float(np.dot(y, y)), xy + float(np.dot(x, y))
    rmse = error_unit * math.sqrt(squares / n)
    cosine = xy / math.sqrt(xx) / math.sqrt(yy) if xx > 0 and yy > 0 else None
    psnr = 20 * (math.log10(high / 2 - low / 2) - math.log10(rmse) + math.log10(2)) if rmse > 0 and high > low else None
    finite = [v if v is not None and math.isfinite(v) else None for v in (error_most, rmse, cosine, psnr)]
    return ErrorReport(finite[0], finite[1], finite[2], finite[3], *counts)

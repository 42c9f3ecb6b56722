"""The grids on which a segment's remainders may lie, guessed from its smallest values and counted exactly.

Only an encoder searches; whatever it finds is checked value by value, so floating point may be used here.
"""

from __future__ import annotations

import numpy as np

from lmgc_core.remainder.adaptive import Floats, Integers, Mask, Values
from lmgc_core.remainder.grids import (
    GRID_BITS,
    MAX_GRIDS,
    MAX_REMAINDER_BITS,
    ORIGIN_BIAS,
    ORIGIN_BITS,
    STEP_BITS,
    Grid,
)

_SMALLEST, _DIVISORS = 6, 8
_LARGEST = 1 << 16
_LEAST_GAIN_BITS = 2 * GRID_BITS


def find_grids(values: Values, contexts: Integers, n_bits: int) -> tuple[Grid, ...]:
    """Up to three grids, the one that saves most first; none where nothing would be saved.

    Args:
        values: remainders, shape (n,), each below 2^n_bits.
        contexts: shape (n,); those of context 0 are left out.
        n_bits: of a remainder.
    """
    if not 4 <= n_bits <= MAX_REMAINDER_BITS:
        return ()
    usable = contexts > 0
    if not usable.any():
        return ()
    pairs = np.unique((contexts[usable] << MAX_REMAINDER_BITS) + values[usable].astype(np.int64))
    context, value = pairs >> MAX_REMAINDER_BITS, (pairs & ((1 << MAX_REMAINDER_BITS) - 1)).astype(np.uint64)
    lowest = int(context[0])
    if int(context[-1]) - lowest > 256:
        return ()
    size = np.ldexp(value.astype(np.float64) + float(1 << n_bits), context - lowest)
    grids: list[Grid] = []
    while len(grids) < MAX_GRIDS and len(size) > 2:
        grid, on = _best(size, value, context, n_bits, lowest)
        if grid is None:
            break
        grids.append(grid)
        size, value, context = size[~on], value[~on], context[~on]
    return tuple(grids)


def _gain(numbers: Floats, on: Mask, n_bits: int) -> float:
    """Bits saved by naming multiples instead of values, roughly: an octave has half as many as the largest number."""
    return float((n_bits - np.log2(np.maximum(numbers[on], 1))).sum()) - len(numbers)


def _best(size: Floats, value: Values, context: Integers, n_bits: int, lowest: int) -> tuple[Grid | None, Mask]:
    """The grid that saves most on sorted different values, and which are on it; None where none saves enough."""
    best_gain, step = float(_LEAST_GAIN_BITS), 0.0
    tolerance = 2.0 ** (1 - n_bits)
    for start in size[:_SMALLEST]:
        for divisor in range(1, _DIVISORS + 1):
            ratio = size * (divisor / start)
            numbers = np.rint(ratio)
            on = (np.abs(ratio - numbers) <= numbers * tolerance) & (numbers >= 1) & (numbers < _LARGEST)
            gain = _gain(numbers, on, n_bits)
            if gain > best_gain:
                best_gain, step = gain, float(size[on].sum() / numbers[on].sum())
    best: tuple[Grid | None, Mask] = None, np.zeros(len(size), np.bool_)
    if step:
        most = 0
        for grid in _rounded(step, n_bits, lowest):
            on = grid.numbers_of(value, context, n_bits) > 0
            if int(on.sum()) > most:
                most, best = int(on.sum()), (grid, on)
    return best


def _rounded(step: float, n_bits: int, lowest: int) -> list[Grid]:
    """Grids of about that step: as it is, near steps that the dtype holds, and the inverse of near numbers it holds."""
    fraction, exponent = np.frexp(step)
    unit = 2.0 ** -(n_bits + 1)
    near = np.rint(fraction / unit) + np.arange(-2, 3)
    steps = [float(fraction), *(near * unit)]
    inverse = np.rint(0.5 / fraction / unit) + np.arange(-2, 3)
    steps += list(0.5 / (inverse * unit))
    found = []
    for candidate in steps:
        part, extra = np.frexp(candidate)
        whole = int(np.rint(part * 2.0**STEP_BITS))
        # A size with b bits before its point has the context lowest + b - n_bits - 1; a step has 38 bits.
        origin = lowest + int(exponent) + int(extra) - n_bits - 1 - STEP_BITS
        if whole < 1 << STEP_BITS and 0 <= origin + ORIGIN_BIAS < 1 << ORIGIN_BITS:
            found.append(Grid(whole, origin))
    return found

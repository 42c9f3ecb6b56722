"""Logarithms and powers of two by tables of whole numbers, equal on every machine.

Log-probabilities are whole multiples of 1/4096 bit, at most 0. Law: `power(log2_of(n))` is n up to the tables'
steps; both tables come from whole-number arithmetic alone, so no machine's floating point has a part in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

import numpy as np
import numpy.typing as npt

LOG_BITS = 12
LOG_ONE = 1 << LOG_BITS
"""One bit, in units of a log-probability."""

POWER_BITS = 30
LOG_MAX = (1 << 16) - 1
FLOOR = -20 * LOG_ONE
"""The least log-probability that an expert may state: 20 bits."""

_PRECISION = 200

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Attributes:
    log2: int64, shape (65536,): floor(4096 log2 n); entry 0 is `FLOOR`.
    power: int64, shape (4096,): floor(2^30 2^(-k / 4096)).
    """

    log2: Integers
    power: Integers


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Both tables, made once.

    >>> tables().log2[[1, 2, 3]].tolist(), int(tables().power[2048])
    ([0, 4096, 6492], 759250124)
    """
    root = 1 << _PRECISION + 1
    for _ in range(LOG_BITS):
        root = isqrt(root << _PRECISION)
    # Now root is 2^(1/4096) in fixed point; its powers are the thresholds of the logarithm.
    power, powers = 1 << _PRECISION, []
    for _ in range(LOG_ONE):
        powers.append(power)
        power = power * root >> _PRECISION
    thresholds = np.array([-(-p >> _PRECISION - 40) for p in powers], np.int64)
    n = np.arange(1, LOG_MAX + 1, dtype=np.int64)
    whole = np.searchsorted(1 << np.arange(17, dtype=np.int64), n, side="right") - 1
    fraction = np.searchsorted(thresholds, n << (40 - whole), side="right") - 1
    log2 = np.concatenate([[FLOOR], whole * LOG_ONE + fraction]).astype(np.int64)
    falling = [1 << POWER_BITS, *(p >> _PRECISION - POWER_BITS + 1 for p in reversed(powers[1:]))]
    return Tables(log2, np.array(falling, np.int64))


def power_of(logs: Integers) -> Integers:
    """floor-like 2^30 · 2^(logs / 4096) for logs of 0 or less, any shape; 0 below -31 bits.

    >>> power_of(np.int64([0, -4096])).tolist()
    [1073741824, 536870912]
    """
    down = np.minimum(-logs, 40 * LOG_ONE)
    found: Integers = tables().power[down & (LOG_ONE - 1)] >> (down >> LOG_BITS)
    return found


def shares_of(logs: Integers) -> Integers:
    """`power_of(logs)` in 2^-16ths, for logs from -24 bits to 0, any shape.

    >>> shares_of(np.int64([0, -4096])).tolist()
    [65536, 32768]
    """
    found: Integers = _shares()[-logs]
    return found


@lru_cache(maxsize=1)
def _shares() -> Integers:
    return power_of(-np.arange(24 * LOG_ONE + 1)) >> POWER_BITS - 16


def log_share(parts: Integers, wholes: Integers | int) -> Integers:
    """log2(parts / wholes) in units of 1/4096 bit, at least -16 bits.

    Args:
        parts: 0 to wholes, any shape.
        wholes: 1 to 2^46.
    """
    scaled = np.maximum(parts * LOG_MAX // wholes, 1)
    found: Integers = tables().log2[scaled] - tables().log2[LOG_MAX]
    return found


def bounded(values: Integers, low: int, high: int) -> Integers:
    """Values cut to low..high: np.clip without its overhead on small arrays."""
    found: Integers = np.minimum(np.maximum(values, low), high)
    return found

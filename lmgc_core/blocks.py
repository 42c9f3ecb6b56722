"""Blocks: which parameters are scored together, which blocks a sample takes, and what it says about all.

A block is `BLOCK_PARAMETERS` consecutive parameters of one dtype: the tensors of a dtype, in the order
of their names, form one stream that is cut every so many parameters, so small tensors share a block.
It is found from names, dtypes and shapes alone and is the same whatever the serialization. A block
whose text is too long for one context is cut into windows by halving.

Laws: the blocks cover every parameter once; the windows of a block are its parameters, in order; a
sample is a function of three whole numbers; an interval is given only where it means something.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import overload

import numpy as np

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import DType, TensorSpec

BLOCK_PARAMETERS = 432
"""48 kernels of 3×3: about 890 tokens as small numbers, so one window of 1,024; halves evenly four times."""

FEWEST_BLOCKS_FOR_INTERVAL = 4
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Piece:
    """Parameters `first` to `last` - 1, flat C order, of one tensor: words[first:last].

    Attributes:
        tensor_index: position among the specs that were planned.
        first, last: a half-open range.
    """

    tensor_index: int
    first: int
    last: int

    @property
    def n_parameters(self) -> int:
        """How many."""
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive parameters of one dtype: the unit of sampling.

    Attributes:
        index: position in the plan.
        dtype: of all its values.
        pieces: runs of parameters, none of them empty.
    """

    index: int
    dtype: DType
    pieces: tuple[Piece, ...]

    @property
    def n_parameters(self) -> int:
        """Of all pieces; `BLOCK_PARAMETERS` unless it is the last of its dtype."""
        return sum(piece.n_parameters for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class _Stream:
    """The tensors of one dtype that have values, in name order; `stops` are running parameter counts."""

    dtype: DType
    tensors: tuple[int, ...]
    stops: tuple[int, ...]

    @property
    def n_blocks(self) -> int:
        return -(-self.stops[-1] // BLOCK_PARAMETERS)

    def pieces(self, first: int, last: int) -> tuple[Piece, ...]:
        """The runs that make up parameters `first` to `last` - 1 of the stream."""
        found = []
        place = bisect_right(self.stops, first)
        while first < last:
            begin = self.stops[place - 1] if place else 0
            stop = min(last, self.stops[place])
            found.append(Piece(self.tensors[place], first - begin, stop - begin))
            first, place = stop, place + 1
        return tuple(found)


class BlockPlan(Sequence[Block]):
    """All blocks of a gradient; each is computed when asked for, in O(log tensors)."""

    def __init__(self, streams: Sequence[_Stream]) -> None:
        self._streams = tuple(streams)
        self._block_stops = tuple(accumulate(stream.n_blocks for stream in self._streams))

    def __len__(self) -> int:
        return self._block_stops[-1] if self._block_stops else 0

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Block, ...]: ...
    def __getitem__(self, index: int | slice) -> Block | tuple[Block, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"block {index} of {len(self)}")
        place = bisect_right(self._block_stops, number)
        stream = self._streams[place]
        first = (number - (self._block_stops[place - 1] if place else 0)) * BLOCK_PARAMETERS
        last = min(first + BLOCK_PARAMETERS, stream.stops[-1])
        return Block(number, stream.dtype, stream.pieces(first, last))


def plan_blocks(specs: Sequence[TensorSpec]) -> BlockPlan:
    """The blocks of a gradient with these tensors, dtype by dtype as they first appear by name.

    >>> from lmgc_core.gradient import DTYPES
    >>> plan = plan_blocks([TensorSpec("w", DTYPES["float32"], (500,)), TensorSpec("b", DTYPES["float32"], (10,))])
    >>> len(plan), plan[0].pieces
    (2, (Piece(tensor_index=1, first=0, last=10), Piece(tensor_index=0, first=0, last=422)))
    """
    by_dtype: dict[DType, list[int]] = {}
    for index in sorted(range(len(specs)), key=lambda i: specs[i].name):
        if specs[index].n_parameters:
            by_dtype.setdefault(specs[index].dtype, []).append(index)
    return BlockPlan(
        [
            _Stream(dtype, tuple(tensors), tuple(accumulate(specs[i].n_parameters for i in tensors)))
            for dtype, tensors in by_dtype.items()
        ]
    )


def cut_windows(
    block: Block, fits: Callable[[tuple[Piece, ...]], bool], tensor_names: Sequence[str] = ()
) -> list[tuple[Piece, ...]]:
    """The windows of a block: it is halved, and its halves, until each fits; an odd one gives the first half more.

    Args:
        block: what to cut.
        fits: whether the text of these pieces fits one context; asked from the whole block downwards.
        tensor_names: by tensor index, for the error alone.

    Raises:
        InvalidSetting: when a single parameter does not fit; names the context window.

    >>> from lmgc_core.gradient import DTYPES
    >>> block = Block(0, DTYPES["float32"], (Piece(0, 0, 3), Piece(1, 0, 4)))
    >>> windows = cut_windows(block, lambda pieces: sum(p.n_parameters for p in pieces) <= 4)
    >>> [[(p.tensor_index, p.first, p.last) for p in pieces] for pieces in windows]
    [[(0, 0, 3), (1, 0, 1)], [(1, 1, 4)]]
    """
    waiting, windows = [block.pieces], []
    while waiting:
        pieces = waiting.pop()
        if not pieces or fits(pieces):
            windows += [pieces] if pieces else []
            continue
        n = sum(piece.n_parameters for piece in pieces)
        if n == 1:
            where = pieces[0].tensor_index
            name = repr(tensor_names[where]) if where < len(tensor_names) else f"number {where}"
            raise InvalidSetting(
                f"context window: one value of tensor {name} alone takes more tokens than it holds; "
                "choose a longer context window or a shorter spelling"
            )
        first, second = _split(pieces, -(-n // 2))
        waiting += [second, first]
    return windows


def _split(pieces: tuple[Piece, ...], n: int) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """The first n parameters of the pieces, and the others."""
    head: list[Piece] = []
    tail: list[Piece] = []
    for piece in pieces:
        middle = piece.first + min(n, piece.n_parameters)
        n -= middle - piece.first
        if middle > piece.first:
            head.append(Piece(piece.tensor_index, piece.first, middle))
        if middle < piece.last:
            tail.append(Piece(piece.tensor_index, middle, piece.last))
    return tuple(head), tuple(tail)


def sample_blocks(n_blocks: int, limit: int, seed: int) -> tuple[int, ...]:
    """The blocks of a systematic sample, ascending: a random start, then equal steps through all of them.

    Every block has the same chance, limit / n_blocks. Source: Cochran, Sampling Techniques, chapter 8.

    Args:
        n_blocks: how many there are.
        limit: how many to take; 0, or as many as there are, takes all.
        seed: of the start.

    >>> sample_blocks(735, 5, seed=0)
    (124, 271, 418, 565, 712)
    """
    if n_blocks < 0 or limit < 0:
        raise InvalidSetting(f"limit {limit} of {n_blocks} blocks: a number of blocks, or 0 for all of them")
    if limit == 0 or limit >= n_blocks:
        return tuple(range(n_blocks))
    start = int(random.Random(seed).random() * n_blocks)  # the one stream that Python promises to keep
    return tuple((start + i * n_blocks) // limit for i in range(limit))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate, with its 95 % interval where one can be given.

    Attributes:
        value: the estimate; nan where nothing was sampled.
        low, high: the interval's ends, both None with fewer than 4 blocks; the value itself when complete.
    """

    value: float
    low: float | None
    high: float | None


def estimate_rate(bits_per_block: Sequence[float], size_per_block: Sequence[float], n_blocks_total: int) -> Estimate:
    """Bits per unit of size over all blocks, from a systematic sample of them.

    A ratio estimator. Its variance comes from successive differences of the residuals, which a slow
    drift along the tensor hardly touches, with the finite-population correction; Student's t has the
    degrees of freedom of the mean square successive difference, 2(n-1)²/(3n-4). Sources: Wolter,
    Introduction to Variance Estimation, chapter 8; von Neumann et al., Ann. Math. Stat. 12 (1941).

    Args:
        bits_per_block: in the order of the blocks.
        size_per_block: in what the rate is per (parameters, raw bits), in the same order.
        n_blocks_total: of the whole gradient; as many as sampled makes the estimate exact.

    >>> estimate_rate([10.0, 14.0], [2.0, 2.0], 2)
    Estimate(value=6.0, low=6.0, high=6.0)
    """
    bits, sizes = np.asarray(bits_per_block, np.float64), np.asarray(size_per_block, np.float64)
    n = len(bits)
    if len(sizes) != n or n > n_blocks_total:
        raise InvalidSetting(f"{n} blocks of bits and {len(sizes)} of sizes, of {n_blocks_total} in all")
    if sizes.sum() <= 0:
        return Estimate(math.nan, None, None)
    rate = float(bits.sum() / sizes.sum())
    if n == n_blocks_total:
        return Estimate(rate, rate, rate)
    if n < FEWEST_BLOCKS_FOR_INTERVAL:
        return Estimate(rate, None, None)
    from scipy.stats import t  # type: ignore[import-untyped]

    differences = np.diff(bits - rate * sizes)
    variance = float((differences**2).sum()) / (2 * (n - 1))
    left_out = 1 - n / n_blocks_total
    error = math.sqrt(left_out * variance / n) / float(sizes.mean())
    freedom = 2 * (n - 1) ** 2 / (3 * n - 4)
    half = float(t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return Estimate(rate, rate - half, rate + half)

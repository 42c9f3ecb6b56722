"""From an archive's header to its windows and segments: what is decoded in which order, without reading data.

How blocks were halved stands in the header as runs of equal trees. Inverse pair: `CutRecorder` /
`planned_windows`. Law: the windows planned from a header are those that the encoder coded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lmgc_core.archive_header import Header
from lmgc_core.blocks import BLOCK_PARAMETERS, Block, Piece, cut_windows, plan_blocks
from lmgc_core.errors import CorruptContainer, InvalidSetting
from lmgc_core.gradient import DType


class HasDType(Protocol):
    """Anything with an element type."""

    @property
    def dtype(self) -> DType: ...


Item = TypeVar("Item", bound=HasDType)


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window's place: ranges of coded tensors, all of one dtype."""

    dtype: DType
    pieces: tuple[Piece, ...]


def in_segments(windows: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Runs of at most `size` consecutive windows of one dtype, as they come."""
    run: list[Item] = []
    for window in windows:
        if run and (len(run) == size or run[0].dtype != window.dtype):
            yield run
            run = []
        run.append(window)
    if run:
        yield run


class CutRecorder:
    """Writes down how blocks were cut, block by block."""

    def __init__(self) -> None:
        self._runs: list[list[int]] = []

    def add(self, block: Block, windows: Sequence[tuple[Piece, ...]]) -> None:
        """The windows that a block became, in order."""
        whole, tree = set(windows), 1

        def fits(pieces: tuple[Piece, ...]) -> bool:
            nonlocal tree
            tree = tree << 1 | (pieces not in whole)
            return pieces in whole

        cut_windows(block, fits)
        if self._runs and self._runs[-1][1] == tree:
            self._runs[-1][0] += 1
        else:
            self._runs.append([1, tree])

    @property
    def cuts(self) -> tuple[tuple[int, int], ...]:
        """Runs of (number of blocks, tree), see `Header.cuts`."""
        return tuple((n, tree) for n, tree in self._runs)


def planned_windows(header: Header) -> Iterator[PlannedWindow]:
    """The windows of an archive, in the order in which they are coded.

    Raises:
        CorruptContainer: for cuts that do not fit the blocks.
    """
    blocks = plan_blocks(header.coded_specs)
    number = 0
    for n_blocks, tree in header.cuts:
        questions = tree.bit_length() - 1
        for _ in range(n_blocks):
            block, left = blocks[number], questions
            number += 1

            def fits(pieces: tuple[Piece, ...], tree: int = tree) -> bool:
                nonlocal left
                left -= 1
                if left < 0:
                    raise CorruptContainer("a block is cut in a way that does not fit; the archive is damaged")
                return not tree >> left & 1

            try:
                windows = cut_windows(block, fits)
            except InvalidSetting:
                raise CorruptContainer("a block is cut finer than its values; the archive is damaged") from None
            if left:
                raise CorruptContainer("a block is cut in a way that does not fit; the archive is damaged")
            for pieces in windows:
                yield PlannedWindow(block.dtype, pieces)


def count_segments(header: Header) -> int:
    """How many segments a header implies, from its runs alone.

    Raises:
        CorruptContainer: when the cuts are of another number of blocks than the tensors have.
    """
    parameters: dict[str, int] = {}
    for spec in sorted(header.coded_specs, key=lambda s: s.name):
        if spec.n_parameters:
            parameters[spec.dtype.name] = parameters.get(spec.dtype.name, 0) + spec.n_parameters
    blocks = [-(-n // BLOCK_PARAMETERS) for n in parameters.values()]
    if sum(blocks) != sum(n for n, _ in header.cuts) or not all(n and tree for n, tree in header.cuts):
        raise CorruptContainer(
            f"the header cuts {sum(n for n, _ in header.cuts)} blocks, its tensors have {sum(blocks)}; it is damaged"
        )
    runs = [[n, tree.bit_count()] for n, tree in header.cuts]  # a leading 1 and a 1 a halving: as many as windows
    total = 0
    for n_blocks in blocks:
        n_windows = 0
        while n_blocks:
            n = min(n_blocks, runs[0][0])
            n_windows += n * runs[0][1]
            n_blocks, runs[0][0] = n_blocks - n, runs[0][0] - n
            if not runs[0][0]:
                runs.pop(0)
        total += -(-n_windows // header.segment)
    return total

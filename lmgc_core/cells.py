"""Numbers of a report by the cell of a tensor: bits, entropy, rank, and the cells of two reports against each other.

Concept: windows give a number for each of their parameters; a cell takes it from the window that holds it.
NaN is "not sampled" everywhere. Units: bits; ranks count from 1, the likeliest token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from lmgc_core.accounting import spread, token_spans
from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import Tensor

if TYPE_CHECKING:
    from lmgc_core.plan import Coding
    from lmgc_core.report import Report, WindowResult

Quantity = Literal["llm", "all", "rank", "entropy", "excess"]
QUANTITIES: dict[Quantity, str] = {
    "llm": "bits, model's part",
    "all": "bits, all parts",
    "rank": "rank of its least expected token",
    "entropy": "entropy, bits the model expects to need",
    "excess": "surprisal minus entropy, bits",
}
Cells = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]


class CellNumbers(Mapping[str, Cells]):
    """A number for each parameter by tensor name, in the tensor's own shape; NaN where not sampled. Made on access.

    Args:
        coding: how the gradient was cut and written.
        results: the scored windows.
        of: a window's numbers, one for each of its parameters in order.
        dropped: what a cell shows that a lossy step left out.
    """

    def __init__(
        self,
        coding: Coding,
        results: Sequence[WindowResult],
        of: Callable[[WindowResult], Floats],
        dropped: float = 0.0,
    ) -> None:
        self._coding, self._results, self._of, self._dropped = coding, results, of, dropped
        self._made: dict[str, Cells] = {}

    def __iter__(self) -> Iterator[str]:
        return (t.name for t in self._coding.raw)

    def __len__(self) -> int:
        return len(self._coding.raw)

    def __getitem__(self, name: str) -> Cells:
        if name not in self._made:
            self._made[name] = self._fill(self._coding.raw.tensor(name))
        return self._made[name]

    def _fill(self, tensor: Tensor) -> Cells:
        cells = np.full(tensor.n_parameters, np.nan, np.float32)
        kept = self._coding.transformed.cells.get(tensor.name)
        if kept is not None:
            cells[:] = self._dropped
            cells[kept] = np.nan
        for result in self._results:
            offset = 0
            names = [self._coding.coded.tensors[p.tensor_index].name for p in result.window.pieces]
            if tensor.name not in names:
                continue
            numbers = self._of(result)
            for piece, owner in zip(result.window.pieces, names, strict=True):
                size = piece.last - piece.first
                if owner == tensor.name:
                    where = slice(piece.first, piece.last) if kept is None else kept[piece.first : piece.last]
                    cells[where] = numbers[offset : offset + size]
                offset += size
        return cells.reshape(tensor.shape)


def parameter_entropy(result: WindowResult) -> Floats:
    """Bits the model expects each parameter's text to cost: its tokens' entropies, shared as their bits are."""
    return spread(result.entropy_bits.astype(np.float64), result.token_bytes, result.window.text).parameter_bits


def parameter_excess(result: WindowResult) -> Floats:
    """The model's surprisal minus its entropy: above zero where it was wrong in spite of itself."""
    return result.llm_text_bits().parameter_bits - parameter_entropy(result)


def parameter_rank(result: WindowResult) -> Floats:
    """The rank of the least expected of each parameter's tokens, counted from 1."""
    spans = token_spans(result.token_bytes, result.window.text)
    inside = spans.first >= 0
    first, lengths = spans.first[inside], (spans.last - spans.first + 1)[inside]
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    ranks = np.full(result.window.text.n_parameters, np.nan)
    np.fmax.at(ranks, np.repeat(first, lengths) + within, np.repeat(result.rank[inside] + 1.0, lengths))
    return ranks


@dataclass(frozen=True, slots=True)
class CellDifferences:
    """One tensor in two reports, cell by cell.

    Attributes:
        cells: second minus first, float32, the tensor's shape; NaN where either did not sample.
        n_shared: cells that both sampled.
        n_lower: of these, the ones where the second needs fewer bits; `n_higher` where it needs more.
        mean_bits: the mean difference over the shared cells; None without any.
    """

    cells: Cells
    n_shared: int
    n_lower: int
    n_higher: int
    mean_bits: float | None


def cell_differences(first: Report, second: Report, name: str, quantity: Quantity = "all") -> CellDifferences:
    """What a tensor's cells cost in a second report minus what they cost in the first.

    Law: swapping the reports changes the sign of every cell and nothing else.

    Raises:
        InvalidSetting: when the two reports do not hold the same tensor with the same values.
    """
    pair = [_named(report, name) for report in (first, second)]
    if any(tensor is None for tensor in pair) or not _same(*pair):
        raise InvalidSetting(
            f"tensor {name!r} is not the same in both runs; compare runs of one gradient, cell by cell"
        )
    before, after = (report.cell_numbers(quantity)[name] for report in (first, second))
    cells = after - before
    known = cells[~np.isnan(cells)]
    return CellDifferences(
        cells,
        int(known.size),
        int((known < 0).sum()),
        int((known > 0).sum()),
        float(known.mean(dtype=np.float64)) if known.size else None,
    )


def shared_tensors(first: Report, second: Report) -> list[str]:
    """Names of the tensors that both reports hold with the same values, those sampled in both alone."""
    sampled = {r.name for r in second.tensors if r.n_sampled}
    names = [r.name for r in first.tensors if r.n_sampled and r.name in sampled]
    return [n for n in names if _same(first.coding.raw.tensor(n), second.coding.raw.tensor(n))]


def _named(report: Report, name: str) -> Tensor | None:
    return next((t for t in report.coding.raw if t.name == name), None)


def _same(first: Tensor | None, second: Tensor | None) -> bool:
    if first is None or second is None or first.spec != second.spec:
        return False
    return first is second or bool(np.array_equal(first.words, second.words))

"""Every number that a view or a command shows, each formula in one place.

A report is built from scored windows and is read-only. Units: bits unless a name says otherwise. Law: the
parts add up to `bits_per_parameter`; the tokens' bits add up to `surprisal_bits`.

Words: a coded parameter *represents* the raw parameters that it stands for (one, or more when a sparsifier
drops others), so that rates are always held against the raw input.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmgc_core.accounting import TextBits, spread, token_spans
from lmgc_core.blocks import Estimate, estimate_rate
from lmgc_core.cells import CellNumbers, Quantity, parameter_entropy, parameter_excess, parameter_rank
from lmgc_core.gradient import Gradient, Tensor
from lmgc_core.plan import Coding, Window
from lmgc_core.summary_html import summary_html
from lmgc_core.transforms import ErrorReport, measure_error
from lmgc_core.word_pieces import word_pieces

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
CURVE_BINS = 48

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Who predicted: identity, size, and the precision and device of the run."""

    id: str
    fingerprint: str
    n_parameters: int
    dtype: str
    device: str


@dataclass(frozen=True, slots=True)
class WindowResult:
    """One window with its bits.

    Attributes:
        window: what was scored.
        token_bytes: (n_tokens,) UTF-8 bytes of each token's text.
        token_texts: the tokens' own texts; parts of characters as escapes.
        surprisal_bits: (n_tokens,) the prior's.
        llm_surprisal_bits: (n_tokens,) the model's alone, over the stated support.
        entropy_bits, rank, cumulative_bits, top_token_ids, top_bits: as the model gave them.
        remainder_bits: (n_parameters,) what the cheap coder spends beside the text.
        header_bits: this window's share of its segment's remainder tables.
    """

    window: Window
    token_bytes: npt.NDArray[np.int64]
    token_texts: tuple[str, ...]
    surprisal_bits: Floats
    llm_surprisal_bits: Floats
    entropy_bits: npt.NDArray[np.float32]
    rank: npt.NDArray[np.int32]
    cumulative_bits: npt.NDArray[np.float32]
    top_token_ids: npt.NDArray[np.int32]
    top_bits: npt.NDArray[np.float32]
    remainder_bits: Floats
    header_bits: float

    def text_bits(self) -> TextBits:
        """The prior's bits by symbol and separator."""
        return spread(self.surprisal_bits, self.token_bytes, self.window.text)

    def llm_text_bits(self) -> TextBits:
        """The model's bits by symbol and separator."""
        if self.llm_surprisal_bits is self.surprisal_bits:
            return self.text_bits()
        return spread(self.llm_surprisal_bits, self.token_bytes, self.window.text)


@dataclass(frozen=True, slots=True)
class Totals:
    """The headline numbers; None where nothing was sampled."""

    n_tokens: int
    tokens_per_parameter: float | None
    raw_bytes_per_token: float | None
    surprisal_bits: float
    bits_per_token: float | None
    bits_per_parameter: float | None
    compression_rate: float | None
    compression_ratio: float | None
    rate_ci95: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Audit:
    """What LM-GC's published code (github.com/hui-po-wang/LM-GC, 726993b) counts for these probabilities.

    It divides each probability by the sum of those up to and including it, in the vocabulary's order, where the
    coder needs the running sum itself: log2 of that share too few bits a token. No decoder could follow.
    """

    published_bits_per_token: float | None
    published_compression_rate: float


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the bits go, in bits per parameter; they add up to `bits_per_parameter`."""

    modelled: tuple[float, ...]
    separator: float
    remainder: float
    side_information: float

    @property
    def total(self) -> float:
        return sum(self.modelled) + self.separator + self.remainder + self.side_information


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor of the raw input; bits are means over its sampled parameters, without side information."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    n_parameters: int
    n_sampled: int
    bits_per_parameter: float | None
    llm_bits_per_parameter: float | None


@dataclass(frozen=True, slots=True)
class Timing:
    """From planning to report, model load apart."""

    seconds: float
    tokens_per_second: float | None
    parameters_per_second: float | None
    peak_memory_bytes: int


def _llm_bits(result: WindowResult) -> Floats:
    return result.llm_text_bits().parameter_bits


def _all_bits(result: WindowResult) -> Floats:
    return result.text_bits().parameter_bits + result.remainder_bits


@dataclass(frozen=True, eq=False)
class Report:
    """What a run found; complete or not, every figure refers to the windows in `results`.

    Attributes:
        coding: the gradient and how it was serialized.
        model: who predicted.
        results: scored windows in order.
        sampled_blocks: indices of the blocks that the run set out to score.
        n_windows: how many windows these hold.
        seconds: duration so far.
        settings: every option of the run by name.
        peak_memory_bytes: the process's largest resident size.
    """

    coding: Coding
    model: ModelInfo
    results: tuple[WindowResult, ...]
    sampled_blocks: tuple[int, ...]
    n_windows: int
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)
    peak_memory_bytes: int = 0

    # ---- what stands for what -------------------------------------------------------------------------

    @cached_property
    def _represented(self) -> dict[str, float]:
        return self.coding.represented

    @cached_property
    def _raw_bits(self) -> dict[str, int]:
        return self.coding.raw_width

    def _weights(self, result: WindowResult) -> tuple[float, float]:
        """(raw parameters, raw bits) that a window represents."""
        parameters = bits = 0.0
        for piece in result.window.pieces:
            name = self.coding.coded.tensors[piece.tensor_index].name
            share = (piece.last - piece.first) * self._represented[name]
            parameters += share
            bits += share * self._raw_bits[name]
        return parameters, bits

    @cached_property
    def _per_window(self) -> list[tuple[WindowResult, TextBits, float, float]]:
        return [(r, r.text_bits(), *self._weights(r)) for r in self.results]

    @cached_property
    def n_parameters_sampled(self) -> int:
        """Raw parameters that the scored windows represent."""
        return round(sum(w for _, _, w, _ in self._per_window))

    @property
    def complete(self) -> bool:
        """Every block of the input was scored, and no window still waits for the mixture of its segment."""
        if self.coding.config.prior == "mix" and any(r.surprisal_bits is r.llm_surprisal_bits for r in self.results):
            return False
        return len(self.results) == self.n_windows and len(self.sampled_blocks) == len(self.coding.blocks)

    @property
    def side_bits(self) -> float:
        """Bits beside the segments, for the whole input: references and what the lossy step needs."""
        return self.coding.reference_bits + 8.0 * self.coding.transformed.side.n_bytes

    # ---- headline -------------------------------------------------------------------------------------

    @cached_property
    def totals(self) -> Totals:
        """The headline numbers."""
        n_tokens = sum(len(r.surprisal_bits) for r in self.results)
        surprisal = float(sum(r.surprisal_bits.sum() for r in self.results))
        parameters = sum(w for _, _, w, _ in self._per_window)
        raw_bits = sum(b for _, _, _, b in self._per_window)
        if not parameters:
            return Totals(n_tokens, None, None, surprisal, None, None, None, None, None)
        bits = sum(_window_bits(r) for r in self.results)
        per_parameter = bits / parameters + self.side_bits / self.coding.raw.n_parameters
        rate = bits / raw_bits + self.side_bits / (8 * self.coding.raw.raw_bytes)
        interval = self.rate_estimate
        return Totals(
            n_tokens=n_tokens,
            tokens_per_parameter=n_tokens / parameters,
            raw_bytes_per_token=raw_bits / 8 / n_tokens if n_tokens else None,
            surprisal_bits=surprisal,
            bits_per_token=surprisal / n_tokens if n_tokens else None,
            bits_per_parameter=per_parameter,
            compression_rate=rate,
            compression_ratio=1 / rate if rate else None,
            rate_ci95=None if interval.low is None or interval.high is None else (interval.low, interval.high),
        )

    @cached_property
    def per_block(self) -> dict[int, tuple[float, float]]:
        """(bits, raw bits that they stand for) of each scored block; side information of the whole apart."""
        found: dict[int, tuple[float, float]] = {}
        for result, _, _, raw_bits in self._per_window:
            bits, raw = found.get(result.window.block, (0.0, 0.0))
            found[result.window.block] = bits + _window_bits(result), raw + raw_bits
        return found

    @cached_property
    def audit(self) -> Audit | None:
        """What the published code would count for the same probabilities; None unless the model alone predicts."""
        if self.coding.config.prior != "llm":
            return None
        every = [r.llm_surprisal_bits - r.cumulative_bits for r in self.results]
        if not every or not all(np.isfinite(e).all() for e in every) or self.totals.compression_rate is None:
            return None
        counted = float(sum(e.sum() for e in every))
        raw_bits = sum(b for _, _, _, b in self._per_window)
        n_tokens = self.totals.n_tokens
        return Audit(
            published_bits_per_token=counted / n_tokens if n_tokens else None,
            published_compression_rate=self.totals.compression_rate + (counted - self.totals.surprisal_bits) / raw_bits,
        )

    @cached_property
    def rate_estimate(self) -> Estimate:
        """The compression rate with its interval, from the blocks that are scored."""
        order = sorted(self.per_block)
        side = self.side_bits / (8 * self.coding.raw.raw_bytes)
        found = estimate_rate(
            [self.per_block[b][0] for b in order], [self.per_block[b][1] for b in order], len(self.coding.blocks)
        )
        if not self.complete and len(order) == len(self.coding.blocks):
            return Estimate(found.value + side, None, None)
        return Estimate(
            found.value + side,
            None if found.low is None else found.low + side,
            None if found.high is None else found.high + side,
        )

    @cached_property
    def parts_by_dtype(self) -> dict[str, Parts]:
        """Where the bits go, by dtype of the coded tensors."""
        found: dict[str, Parts] = {}
        side = self.side_bits / self.coding.raw.n_parameters if self.coding.raw.n_parameters else 0.0
        for name in sorted({r.window.dtype.name for r in self.results}):
            rows = [row for row in self._per_window if row[0].window.dtype.name == name]
            n = sum(w for _, _, w, _ in rows)
            modelled = np.sum([t.symbol_bits.sum(axis=0) for _, t, _, _ in rows], axis=0) / n
            found[name] = Parts(
                modelled=tuple(float(b) for b in modelled),
                separator=float(sum(t.separator_bits.sum() for _, t, _, _ in rows) / n),
                remainder=float(sum(r.remainder_bits.sum() for r, _, _, _ in rows) / n),
                side_information=float(sum(r.header_bits for r, _, _, _ in rows) / n + side),
            )
        return found

    # ---- tables ---------------------------------------------------------------------------------------

    @cached_property
    def tensors(self) -> tuple[TensorRow, ...]:
        """A row for each tensor of the raw input, in file order."""
        sums: dict[str, list[float]] = {t.name: [0.0, 0.0, 0.0] for t in self.coding.raw}
        for result in self.results:
            every, llm = _all_bits(result), result.llm_text_bits().parameter_bits
            offset = 0
            for piece in result.window.pieces:
                size = piece.last - piece.first
                row = sums[self.coding.coded.tensors[piece.tensor_index].name]
                row[0] += size
                row[1] += float(every[offset : offset + size].sum())
                row[2] += float(llm[offset : offset + size].sum())
                offset += size
        rows = []
        for tensor in self.coding.raw:
            coded, bits, llm_bits = sums[tensor.name]
            n = coded * self._represented.get(tensor.name, 1.0)
            rows.append(
                TensorRow(
                    tensor.name,
                    tensor.shape,
                    tensor.dtype.name,
                    tensor.n_parameters,
                    round(n),
                    bits / n if n else None,
                    llm_bits / n if n else None,
                )
            )
        return tuple(rows)

    @cached_property
    def context_curve(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(token positions, bits per token): means over bins of equal width, BOS being position 0."""
        longest = max((len(r.surprisal_bits) for r in self.results), default=0)
        if not longest:
            return (), ()
        width = max(1, -(-longest // CURVE_BINS))
        sums, counts = np.zeros(longest), np.zeros(longest)
        for result in self.results:
            sums[: len(result.surprisal_bits)] += result.surprisal_bits
            counts[: len(result.surprisal_bits)] += 1
        starts = np.arange(0, longest, width)
        stops = np.minimum(starts + width, longest)
        bits = np.add.reduceat(sums, starts) / np.add.reduceat(counts, starts)
        return tuple(((starts + stops + 1) / 2).tolist()), tuple(bits.tolist())

    @cached_property
    def bits(self) -> CellNumbers:
        """All bits of each cell: symbols, separators, remainder."""
        return CellNumbers(self.coding, self.results, _all_bits)

    @cached_property
    def llm_bits(self) -> CellNumbers:
        """The language model's part of each cell."""
        return CellNumbers(self.coding, self.results, _llm_bits)

    @cached_property
    def entropy_bits(self) -> CellNumbers:
        """What the model expected each cell's text to cost."""
        return CellNumbers(self.coding, self.results, parameter_entropy)

    @cached_property
    def excess_bits(self) -> CellNumbers:
        """The model's part of each cell minus what it expected."""
        return CellNumbers(self.coding, self.results, parameter_excess)

    @cached_property
    def ranks(self) -> CellNumbers:
        """The rank of each cell's least expected token, 1 the likeliest; NaN where a lossy step dropped the cell."""
        return CellNumbers(self.coding, self.results, parameter_rank, np.nan)

    def cell_numbers(self, quantity: Quantity) -> CellNumbers:
        """One of the numbers above by its short name."""
        return {
            "llm": lambda: self.llm_bits,
            "all": lambda: self.bits,
            "rank": lambda: self.ranks,
            "entropy": lambda: self.entropy_bits,
            "excess": lambda: self.excess_bits,
        }[quantity]()

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """A row a token, with the columns of tokens.parquet."""
        import pandas as pd

        frames = [self._token_frame(r) for r in self.results]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=TOKEN_COLUMNS)

    def _token_frame(self, result: WindowResult) -> pd.DataFrame:
        import pandas as pd

        window = result.window
        spans = token_spans(result.token_bytes, window.text)
        cells = np.concatenate([self._cells(p.tensor_index, p.first, p.last) for p in window.pieces])
        owners = np.concatenate([np.full(p.last - p.first, p.tensor_index) for p in window.pieces])
        names = [t.name for t in self.coding.coded]
        return pd.DataFrame(
            {
                "window": np.full(len(window.ids), window.index, np.int32),
                "position": np.arange(1, len(window.ids) + 1, dtype=np.int32),
                "token_id": window.ids,
                "text": list(result.token_texts),
                "surprisal_bits": result.surprisal_bits,
                "llm_surprisal_bits": result.llm_surprisal_bits,
                "entropy_bits": result.entropy_bits,
                "rank": result.rank,
                "top_token_ids": result.top_token_ids.tolist(),
                "top_bits": result.top_bits.tolist(),
                "tensor": [names[owners[i]] for i in spans.owner],
                "first_parameter": np.where(spans.first < 0, -1, cells[spans.first]),
                "last_parameter": np.where(spans.last < 0, -1, cells[spans.last]),
            }
        )

    def _cells(self, tensor_index: int, first: int, last: int) -> npt.NDArray[np.int64]:
        kept = self.coding.transformed.cells.get(self.coding.coded.tensors[tensor_index].name)
        return np.arange(first, last, dtype=np.int64) if kept is None else kept[first:last].astype(np.int64)

    @cached_property
    def error(self) -> ErrorReport:
        """What the lossy step did to the whole input, after decoding, in float64."""
        return measure_error(self.coding.raw, self.coding.transformed.values)

    # ---- as one object --------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The content of report.json; figures that are not finite are None."""
        parts = {name: asdict(p) for name, p in self.parts_by_dtype.items()}
        totals = asdict(self.totals)
        positions, curve = self.context_curve
        sampled = self.n_parameters_sampled
        n_tokens = self.totals.n_tokens
        found: dict[str, Any] = {
            "schema": SCHEMA,
            "input": describe_input(self.coding.raw),
            "model": asdict(self.model),
            "settings": self.settings,
            "sample": {
                "n_blocks": len({r.window.block for r in self.results}),
                "n_blocks_total": len(self.coding.blocks),
                "n_parameters": sampled,
                "complete": self.complete,
            },
            "totals": totals,
            "parts": next(iter(parts.values())) if len(parts) == 1 else parts,
            "tensors": [asdict(t) for t in self.tensors],
            "context_curve": {"token_position": list(positions), "bits_per_token": list(curve)},
            "timing": asdict(
                Timing(
                    self.seconds,
                    n_tokens / self.seconds if self.seconds else None,
                    sampled / self.seconds if self.seconds else None,
                    self.peak_memory_bytes,
                )
            ),
        }
        if self.audit is not None:
            found["audit"] = asdict(self.audit)
        if self.coding.config.transform != "none":
            found["error"] = asdict(self.error)
        cleaned: dict[str, Any] = _finite(found)
        return cleaned

    def _repr_html_(self) -> str:
        """How a notebook shows a report: its main figures and tensors."""
        return summary_html(self.to_dict())


TOKEN_COLUMNS = (
    "window",
    "position",
    "token_id",
    "text",
    "surprisal_bits",
    "llm_surprisal_bits",
    "entropy_bits",
    "rank",
    "top_token_ids",
    "top_bits",
    "tensor",
    "first_parameter",
    "last_parameter",
)


def _window_bits(result: WindowResult) -> float:
    """Everything that a window costs: tokens, remainder, its share of the segment's tables."""
    return float(result.surprisal_bits.sum() + result.remainder_bits.sum() + result.header_bits)


def describe_input(gradient: Gradient) -> dict[str, Any]:
    """What came in, as report.json states it."""
    zeros = nonfinite = 0
    for tensor in gradient:
        zeros += n_zeros(tensor)
        nonfinite += n_nonfinite(tensor)
    return {
        "name": gradient.name,
        "sha256": gradient.digest,
        "dtypes": sorted({t.dtype.name for t in gradient}),
        "n_tensors": len(gradient),
        "n_parameters": gradient.n_parameters,
        "raw_bytes": gradient.raw_bytes,
        "zero_fraction": zeros / gradient.n_parameters if gradient.n_parameters else None,
        "n_nonfinite": nonfinite,
    }


def n_zeros(tensor: Tensor) -> int:
    """Values that are +0 or -0."""
    mask = (1 << (tensor.dtype.bits - bool(tensor.dtype.sign_bits))) - 1
    return sum(
        int(np.count_nonzero((piece & tensor.dtype.word.type(mask)) == 0)) for piece in word_pieces(tensor.words)
    )


def n_nonfinite(tensor: Tensor) -> int:
    """Values that are infinite or not a number."""
    if tensor.dtype.kind != "float":
        return 0
    with np.errstate(all="ignore"):
        return sum(
            int(np.count_nonzero(~np.isfinite(piece.view(tensor.dtype.numpy)))) for piece in word_pieces(tensor.words)
        )


def _finite(value: Any) -> Any:
    """The same structure with None in place of figures that are not finite."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value

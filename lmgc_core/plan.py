"""What will be coded: the transformed gradient, its blocks, and each block's windows of tokens.

The one place where transform, serialization, blocks and tokenizer meet before a model is asked. `measure`
and archives walk the same windows in the same order, so a measured window and a coded one hold the same
tokens. Law: the windows of all blocks cover every coded parameter once, and each window's tokens decode
to exactly its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lmgc_core.blocks import Block, BlockPlan, Piece, cut_windows, plan_blocks
from lmgc_core.gradient import DType, Gradient
from lmgc_core.serialization import PieceValues, SerializedText, Serializer, reference_of
from lmgc_core.settings import CodecConfig
from lmgc_core.transforms import Transformed, transform_gradient

TokenIds = npt.NDArray[np.int32]


class Tokenizing(Protocol):
    """The part of a tokenizer that planning needs."""

    def encode(self, text: str) -> TokenIds: ...

    def check(self, text: str, ids: TokenIds) -> None: ...


class SelfTesting(Protocol):
    """The part of a tokenizer that tries an alphabet."""

    def self_test(self, alphabet_bytes: frozenset[int] | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class Window:
    """What one context holds: consecutive parameters of one block, as text and as tokens.

    Attributes:
        index: position among the windows of this run, from 0.
        block: the block's index in the plan.
        pieces: ranges of coded tensors, in order.
        text: the serialized values.
        ids: (n_tokens,) the text's tokens, without BOS.
    """

    index: int
    block: int
    dtype: DType
    pieces: tuple[Piece, ...]
    text: SerializedText
    ids: TokenIds

    @property
    def n_parameters(self) -> int:
        """Coded parameters in the window."""
        return self.text.n_parameters


@dataclass(frozen=True)
class Coding:
    """A gradient made ready to be coded.

    Attributes:
        raw: the gradient as it came.
        transformed: what the lossy step made of it (the identity for "none").
        serializers: by dtype name.
        references: by tensor name, the largest finite exponent field, for the dtypes whose spelling uses one.
        blocks: the plan over the coded tensors.
    """

    raw: Gradient
    config: CodecConfig
    transformed: Transformed
    serializers: dict[str, Serializer]
    references: dict[str, int]
    blocks: BlockPlan

    @property
    def coded(self) -> Gradient:
        """The gradient that is serialized: exact from here on."""
        return self.transformed.coded

    @property
    def reference_bits(self) -> int:
        """Header bits for the references: the width of the exponent field, in whole bytes, a tensor."""
        widths = {t.name: t.dtype.exponent_bits for t in self.coded}
        return sum(8 * -(-widths[name] // 8) for name in self.references)

    @property
    def represented(self) -> dict[str, float]:
        """Raw parameters that one coded parameter stands for, by tensor; more than 1 where values were dropped."""
        raw = {t.name: t.n_parameters for t in self.raw}
        return {t.name: raw[t.name] / t.n_parameters for t in self.coded if t.n_parameters}

    @property
    def raw_width(self) -> dict[str, int]:
        """Bits of one raw parameter, by tensor."""
        return {t.name: t.dtype.bits for t in self.raw}

    def values(self, pieces: Sequence[Piece]) -> list[PieceValues]:
        """The words behind the pieces, as the serializer takes them."""
        tensors = self.coded.tensors
        return [
            PieceValues(
                tensors[p.tensor_index].words[p.first : p.last],
                p.first,
                tensors[p.tensor_index].shape,
                self.references.get(tensors[p.tensor_index].name, 0),
            )
            for p in pieces
        ]

    def serialize(self, dtype: DType, pieces: Sequence[Piece]) -> SerializedText:
        """The text of consecutive parameters of one dtype."""
        return self.serializers[dtype.name].write(self.values(pieces))

    def windows(self, blocks: Sequence[int], tokenizer: Tokenizing, context_window: int) -> Iterator[Window]:
        """The windows of the given blocks, in order, each checked to decode to its text.

        Args:
            blocks: indices into the plan.
            tokenizer: text to ids and back.
            context_window: most tokens of a window, BOS included.

        Raises:
            InvalidSetting: when one parameter alone does not fit the context window.
            NotReversible: when the tokens of a window do not decode to its text.
        """
        index = 0
        names = [t.name for t in self.coded]
        for number in blocks:
            block = self.blocks[number]
            made: dict[tuple[Piece, ...], tuple[SerializedText, TokenIds]] = {}

            def fits(
                pieces: tuple[Piece, ...],
                block: Block = block,
                made: dict[tuple[Piece, ...], tuple[SerializedText, TokenIds]] = made,
            ) -> bool:
                text = self.serialize(block.dtype, pieces)
                ids = tokenizer.encode(text.text)
                made[pieces] = (text, ids)
                return len(ids) + 1 <= context_window

            for pieces in cut_windows(block, fits, names):
                text, ids = made[pieces]
                tokenizer.check(text.text, ids)
                yield Window(index, number, block.dtype, pieces, text, ids)
                index += 1


def prepare(gradient: Gradient, config: CodecConfig) -> Coding:
    """A gradient ready to be coded with these settings.

    Raises:
        InvalidSetting: naming the tensor whose dtype a setting does not fit.
    """
    transformed = transform_gradient(config.transform, gradient, seed=config.seed)
    coded = transformed.coded
    serializers: dict[str, Serializer] = {}
    for tensor in coded:
        if tensor.dtype.name not in serializers:
            serializers[tensor.dtype.name] = Serializer(
                tensor.dtype, config.serialization(tensor.dtype), tensor_name=tensor.name
            )
    references = {
        t.name: reference_of(t.words, t.dtype)
        for t in coded
        if t.n_parameters and serializers[t.dtype.name].needs_reference
    }
    return Coding(gradient, config, transformed, serializers, references, plan_blocks(coded.specs))


def check_tokenizer(coding: Coding, tokenizer: SelfTesting) -> None:
    """Makes sure, before the first window, that the tokenizer keeps every character these settings can write.

    Raises:
        NotReversible: naming the first character that is lost, whether or not the gradient needs it.
    """
    for alphabet_bytes in {serializer.alphabet_bytes for serializer in coding.serializers.values()}:
        tokenizer.self_test(alphabet_bytes)


def segments(windows: Sequence[Window], size: int) -> list[tuple[Window, ...]]:
    """Windows decoded in step: runs of at most `size` consecutive windows of one dtype.

    >>> segments([], 16)
    []
    """
    runs: list[list[Window]] = []
    for window in windows:
        if runs and len(runs[-1]) < size and runs[-1][0].dtype == window.dtype:
            runs[-1].append(window)
        else:
            runs.append([window])
    return [tuple(run) for run in runs]

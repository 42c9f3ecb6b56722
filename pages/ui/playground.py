"""The way of a few values: value → bits → symbols → text → tokens. Pure functions, no model.

Law: the texts of the parameters and what stands between them concatenate to the whole text, and a token
stands beside every parameter whose bytes it touches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import DType, Gradient, Tensor, TensorSpec
from lmgc_core.settings import Serialization
from pages.ui.selection import value_text, word_fields

if TYPE_CHECKING:
    from lmgc_core.language_model import TextTokenizer

MAX_VALUES = 432
PLAIN = Serialization(planes="all", alphabet="float", separator="space")


@dataclass(frozen=True, slots=True)
class Row:
    """One parameter on its way to the model.

    Attributes:
        value: decimal text that reads back to it.
        bits: its word by field, fields parted by a bar.
        raw_bytes: its bytes as hexadecimal pairs, most significant first.
        text: its symbols as text, separators after it included.
        tokens: the tokens that touch this text; empty without a tokenizer.
    """

    value: str
    bits: str
    raw_bytes: str
    text: str
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """Some values in one serialization.

    Attributes:
        text: all of it.
        rows: one a parameter.
        remainder_bits: bits of each value that the text leaves out.
        tokens, token_ids: of the whole text; empty without a tokenizer.
        raw_bytes: of the values.
    """

    text: str
    rows: tuple[Row, ...]
    remainder_bits: int
    tokens: tuple[str, ...]
    token_ids: tuple[int, ...]
    raw_bytes: int

    @property
    def tokens_per_parameter(self) -> float | None:
        return len(self.tokens) / len(self.rows) if self.tokens and self.rows else None

    @property
    def raw_bytes_per_token(self) -> float | None:
        return self.raw_bytes / len(self.tokens) if self.tokens else None


def parse_values(text: str, dtype: DType) -> Tensor:
    """Typed values as a tensor; "0x…" is a raw word.

    >>> from lmgc_core.gradient import DTYPES
    >>> [hex(w) for w in parse_values("1 -0 0x7fc00001", DTYPES["float32"]).words.tolist()]
    ['0x3f800000', '0x80000000', '0x7fc00001']

    Raises:
        InvalidSetting: naming the word that is no value of the type.
    """
    words: list[int] = []
    for item in text.replace(",", " ").replace(";", " ").split()[: MAX_VALUES + 1]:
        words.append(_word(item, dtype))
    if not words:
        raise InvalidSetting("no values yet; type some numbers with spaces between")
    if len(words) > MAX_VALUES:
        raise InvalidSetting(f"more than {MAX_VALUES} values; type fewer, or pick them from a gradient")
    array = np.array(words, dtype.word)
    return Tensor(TensorSpec("", dtype, (len(words),)), array)


def _word(item: str, dtype: DType) -> int:
    try:
        if item.lower().startswith("0x"):
            word = int(item, 16)
            if word >> dtype.bits:
                raise ValueError
            return word
        with np.errstate(all="ignore"):
            value = np.array([float(item)] if dtype.kind == "float" else [int(item)]).astype(dtype.numpy)
        if dtype.kind != "float" and int(value[0]) != int(item):
            raise ValueError
        return int(value.view(dtype.word)[0])
    except (ValueError, OverflowError):
        digits = dtype.bits // 4
        raise InvalidSetting(
            f"{item[:40]!r} is no {dtype.name} value; type numbers, or 0x and up to {digits} hexadecimal digits"
        ) from None


def first_values(gradient: Gradient, n: int) -> Tensor:
    """The first values of the largest tensor."""
    tensor = max(gradient, key=lambda t: t.n_parameters)
    words = np.array(tensor.words[:n])
    inner = int(np.prod(tensor.shape[1:], dtype=np.int64)) if len(tensor.shape) > 1 else 0
    shape = (len(words) // inner, *tensor.shape[1:]) if inner and len(words) % inner == 0 else (len(words),)
    return Tensor(TensorSpec(tensor.name, tensor.dtype, shape), words)


def value_rows(tensor: Tensor) -> list[dict[str, str]]:
    """Each value with its bits by field and its bytes, most significant first."""
    names = " | ".join(name for name, _ in word_fields(0, tensor.dtype))
    return [
        {
            "value": value_text(tensor, i),
            names: " | ".join(text for _, text in word_fields(int(word), tensor.dtype)),
            "bytes": int(word).to_bytes(tensor.dtype.item_bytes, "big").hex(" "),
        }
        for i, word in enumerate(tensor.words)
    ]


def write(tensor: Tensor, serialization: Serialization, tokenizer: TextTokenizer | None) -> Written:
    """Some values in one serialization, step by step.

    Raises:
        InvalidSetting: where the serialization does not fit the type.
        NotReversible: where the tokenizer would not give the text back.
    """
    from lmgc_core.serialization import PieceValues, Serializer, reference_of

    serializer = Serializer(tensor.dtype, serialization)
    piece = PieceValues(tensor.words, 0, tensor.shape, reference_of(tensor.words, tensor.dtype))
    written = serializer.write([piece])
    data = written.text.encode("utf-8")
    per = written.symbols_per_parameter
    starts = written.symbol_starts[::per].tolist()
    ends = [*starts[1:], len(data)]
    pieces: list[bytes] = []
    ids: Any = ()
    if tokenizer is not None:
        ids = tokenizer.encode(written.text)
        tokenizer.check(written.text, ids)
        pieces = tokenizer.token_bytes(ids)
    stops = np.cumsum([len(p) for p in pieces])
    begins = stops - np.array([len(p) for p in pieces], np.int64)
    tokens = tuple(p.decode("utf-8", "backslashreplace") for p in pieces)
    rows = []
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        word = int(tensor.words[i])
        touching = np.flatnonzero((begins < end) & (stops > start)) if pieces else ()
        rows.append(
            Row(
                value_text(tensor, i),
                "|".join(text for _, text in word_fields(word, tensor.dtype)),
                word.to_bytes(tensor.dtype.item_bytes, "big").hex(" "),
                data[start:end].decode("utf-8"),
                tuple(tokens[j] for j in touching),
            )
        )
    return Written(
        written.text,
        tuple(rows),
        written.remainder_bits,
        tokens,
        tuple(int(i) for i in ids),
        len(tensor.words) * tensor.dtype.item_bytes,
    )

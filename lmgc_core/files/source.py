"""A source: an opened gradient file whose tensor list is known and whose values are not read yet.

Every reader is one function `open_x(file, options) -> Source`. The contract, the same for all:
`specs` come from headers alone where the format has one; `read(name)` gives exactly the stored bits
in logical C order; what cannot be read is named in `refused` with the reason; nothing but
`LmgcError` leaves `guarded`. Readers write messages without the file's name, `guarded` puts it in front.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from lmgc_core.errors import InvalidSetting, LmgcError, UnsupportedInput
from lmgc_core.gradient import DTYPES, DType, Tensor, TensorSpec, Words, no_such_tensor
from lmgc_core.wording import counted

CHUNK_BYTES = 8 << 20
DEFAULT_MAX_BYTES = 1_000_000_000

RawByteOrder = Literal["little", "big"]
Fetch = Callable[[TensorSpec], Words]
Stream = Callable[[TensorSpec], Iterator[Words]]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader may be told beside the file.

    Attributes:
        raw_dtype: element type of files that do not say theirs (raw, csv, V1/V2/f1 in .npy); None is "not said".
        raw_byte_order: order of a raw value's bytes.
        raw_offset: bytes to skip before the first raw value.
        tensors: the only tensors wanted, or slices of them; empty is all.
        max_bytes: largest declared size of what a file stores compressed, repeated or sparse.
    """

    raw_dtype: str | None = None
    raw_byte_order: RawByteOrder = "little"
    raw_offset: int = 0
    tensors: tuple[str, ...] = ()
    max_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        if self.raw_dtype is not None and self.raw_dtype not in DTYPES:
            raise InvalidSetting(f"raw dtype {self.raw_dtype!r} is not known; choose one of {', '.join(DTYPES)}")
        if self.raw_byte_order not in get_args(RawByteOrder):
            raise InvalidSetting(f"raw byte order {self.raw_byte_order!r} is not known; choose little or big")
        for name in ("raw_offset", "max_bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise InvalidSetting(f"{name.replace('_', ' ')} {value!r}: a whole number of 0 or more is needed")

    @property
    def said_dtype(self) -> DType | None:
        """The element type that was given, if one was."""
        return None if self.raw_dtype is None else DTYPES[self.raw_dtype]

    def wants(self, name: str) -> bool:
        """Whether the tensor of that name, or a slice of it, is among the chosen ones."""
        return not self.tensors or any(chosen == name or chosen.startswith(f"{name}[") for chosen in self.tensors)


@dataclass(frozen=True, slots=True)
class Source:
    """An opened file: what is in it, and how to get at the values.

    Attributes:
        label: the file's name, for people.
        format: "safetensors", "npy", "npz", "torch", "csv", "raw", "gguf", "hdf5", "folder" ...
        specs: the tensors that can be read, in file order.
        fetch: reads one tensor's words; called by `read`.
        stream: reads one tensor in pieces, where that saves memory; called by `chunks`.
        metadata: short text values the file carries beside its tensors.
        notes: what people should know, one line each; `warnings` adds what was refused.
        refused: names of members that cannot be read, with the reason.
    """

    label: str
    format: str
    specs: tuple[TensorSpec, ...]
    fetch: Fetch
    stream: Stream | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    _by_name: dict[str, TensorSpec] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {spec.name: spec for spec in self.specs})

    @property
    def warnings(self) -> tuple[str, ...]:
        """All there is to say about the file: notes, then a line for each reason why members were left out."""
        return (*self.notes, *_left_out(self.refused))

    def spec(self, name: str) -> TensorSpec:
        """The spec of that name.

        Raises:
            UnsupportedInput: when that member was refused; says why.
            InvalidSetting: when there is none; lists some that there are.
        """
        if name in self._by_name:
            return self._by_name[name]
        if name in self.refused:
            raise UnsupportedInput(f"{self.label}: {name!r}: {self.refused[name]}")
        raise InvalidSetting(f"{self.label}: {no_such_tensor(name, [s.name for s in self.specs])}")

    def read(self, name: str) -> Tensor:
        """The tensor of that name, its words mapped from the file where they stand ready there."""
        spec = self.spec(name)
        with guarded(self.label, self.format):
            return Tensor(spec, self.fetch(spec))

    def chunks(self, name: str) -> Iterator[Words]:
        """The tensor's words in pieces of about 8 MB, in C order."""
        spec = self.spec(name)
        with guarded(self.label, self.format):
            if self.stream is not None:
                yield from self.stream(spec)
                return
            words = self.fetch(spec)
        step = CHUNK_BYTES // spec.dtype.item_bytes
        for first in range(0, len(words), step):
            yield words[first : first + step]


def make_source(
    label: str,
    format: str,
    specs: Sequence[TensorSpec],
    fetch: Fetch,
    *,
    stream: Stream | None = None,
    metadata: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    refused: Mapping[str, str] | None = None,
) -> Source:
    """A source whose names are unique and of which at least one member can be read.

    Raises:
        UnsupportedInput: for two members of one name, for no tensors, or when all members were refused.
    """
    refused = refused or {}
    seen: set[str] = set()
    for name in [*(s.name for s in specs), *refused]:
        if name in seen:
            raise UnsupportedInput(f"duplicate name: two tensors are both called {name!r}; give each its own name")
        seen.add(name)
        try:
            name.encode()
        except UnicodeEncodeError:
            raise UnsupportedInput(f"the name {name!r} is no valid text; give that tensor another") from None
    if not specs and refused:
        first, why = next(iter(refused.items()))
        more = f" (and {counted(len(refused) - 1, 'more member')} like it)" if len(refused) > 1 else ""
        raise UnsupportedInput(f"{first!r}: {why}{more}" if first else f"{why}{more}")
    if not specs:
        raise UnsupportedInput("no tensors in this file; save at least one")
    return Source(label, format, tuple(specs), fetch, stream, dict(metadata or {}), tuple(notes), dict(refused))


def _left_out(refused: Mapping[str, str]) -> list[str]:
    """A line for each reason, with the names it holds for."""
    by_reason: dict[str, list[str]] = {}
    for name, why in refused.items():
        by_reason.setdefault(why, []).append(repr(name))
    return [
        f"{', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}"
        f" {'was' if len(names) == 1 else 'were'} left out: {why}"
        for why, names in by_reason.items()
    ]


@contextmanager
def guarded(label: str, what: str) -> Iterator[None]:
    """Turns whatever a format's library raises into one line that names the file.

    Args:
        label: the file's name.
        what: the format's name.
    """
    try:
        yield
    except UnsupportedInput as error:
        text = one_line(str(error))
        raise UnsupportedInput(text if text.startswith(f"{label}: ") else f"{label}: {text}") from error
    except LmgcError:
        raise
    except MemoryError as error:
        raise UnsupportedInput(f"{label}: declares more than fits into memory; choose fewer tensors") from error
    except RecursionError as error:
        raise UnsupportedInput(f"{label}: nested too deeply for a {what} file; save a flat dict of tensors") from error
    except OSError as error:
        if error.strerror is None or error.errno == errno.EINVAL:  # a library's own, or a place that no file has
            raise UnsupportedInput(_not_whole(label, what, error)) from error
        raise UnsupportedInput(
            f"{label}: cannot be read: {one_line(error.strerror)}; check that it is there and may be read"
        ) from error
    except Exception as error:
        raise UnsupportedInput(_not_whole(label, what, error)) from error
    except BaseException as error:
        if type(error).__module__.startswith("pyo3"):  # a panic inside a library written in Rust
            raise UnsupportedInput(_not_whole(label, what, error)) from error
        raise


def _not_whole(label: str, what: str, error: BaseException) -> str:
    said = one_line(str(error), 200) or type(error).__name__
    return f"{label}: {damaged(f'not a whole {what} file: {said}')}"


def damaged(found: str) -> UnsupportedInput:
    """The error for a file that contradicts itself or stops short; `found` says where."""
    return UnsupportedInput(f"{found}; the file is damaged, fetch or save it again")


def one_line(text: Any, limit: int = 300) -> str:
    """The text on one line of printable characters, a piece in the middle left out beyond `limit`.

    Runs of bytes that a library quotes are left out: of a damaged file they are whatever stood in memory.

    >>> one_line("first\\n  second")
    'first second'
    >>> one_line("found a very long name of nothing much; save it again", 30)
    'found a very l…; save it again'
    """
    joined = re.sub(r"b'[^']*'|b\x22[^\x22]*\x22", "...", " ".join(str(text).split()))
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in joined)
    if len(shown) <= limit:
        return shown
    advice = len(shown) - shown.rfind("; ")  # what to do stands at the end, and stays whole
    ending = max(limit // 3, advice if advice <= limit // 2 else 0)
    return f"{shown[: limit - ending - 1]}…{shown[-ending:]}"


def too_large(declared: int, max_bytes: int, how: str) -> UnsupportedInput:
    """The error for declared bytes beyond `max_bytes`; `how` says what makes them more than the file."""
    return UnsupportedInput(
        f"declares {declared:,} bytes {how}, more than {max_bytes:,} allowed; "
        f"choose tensors, or allow it with --max-bytes {declared}"
    )


def dtype_of_width(item_bytes: int) -> list[str]:
    """Names of the element types of that width, for messages.

    >>> dtype_of_width(2)
    ['float16', 'bfloat16', 'int16', 'uint16']
    """
    return [d.name for d in DTYPES.values() if d.item_bytes == item_bytes]


def empty_words(spec: TensorSpec) -> Words:
    """Room for the words of a tensor, not yet filled."""
    return np.empty(spec.n_parameters, spec.dtype.word)

"""Raw numbers: a file that is nothing but values of one dtype, after an offset."""

from __future__ import annotations

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, Source, make_source
from lmgc_core.gradient import TensorSpec
from lmgc_core.wording import counted


def open_raw(file: FileBytes, options: ReadOptions) -> Source:
    """One nameless flat tensor of `options.raw_dtype`.

    Raises:
        UnsupportedInput: when the dtype is not said, or the length is no whole number of values:
            a reader that dropped the rest would lose bytes in silence.
    """
    dtype = options.said_dtype
    if dtype is None:
        raise UnsupportedInput("raw numbers do not say their type; give --raw-dtype (float32, bfloat16 ...)")
    length = file.size - options.raw_offset
    if length <= 0:
        raise UnsupportedInput(
            f"the file has {counted(file.size, 'byte')} and --raw-offset {options.raw_offset:,} leaves none; "
            "give a smaller one"
        )
    if length % dtype.item_bytes:
        raise UnsupportedInput(
            f"{counted(length, 'byte')}: not a multiple of {dtype.item_bytes} ({dtype.name}), remainder "
            f"{length % dtype.item_bytes}; give another --raw-dtype or --raw-offset"
        )
    spec = TensorSpec("", dtype, (length // dtype.item_bytes,))
    return make_source(file.label, "raw", (spec,), lambda s: file.words(options.raw_offset, s, options.raw_byte_order))

"""HDF5: datasets of numbers under their paths. Needs the h5py package.

Only what stands in this file is read: external links, external storage and virtual datasets name other files
and are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, Source, empty_words, make_source, one_line, too_large
from lmgc_core.gradient import DTYPES, TensorSpec, Words


def open_hdf5(file: FileBytes, options: ReadOptions) -> Source:
    """The file's datasets, paths without the leading slash as names.

    Raises:
        UnsupportedInput: without the h5py package, for a damaged file, and when chosen datasets declare more
            than they hold by more than `options.max_bytes`.
    """
    try:
        import h5py
    except ImportError as error:
        raise UnsupportedInput("HDF5 files need the h5py package; install it with `pip install h5py`") from error
    handle = h5py.File(file.path, "r", locking=False)
    specs: list[TensorSpec] = []
    refused: dict[str, str] = {}
    grown = 0

    def visit(name: Any, item: Any) -> None:
        nonlocal grown
        if isinstance(name, bytes):  # h5py's answer to names that are no UTF-8
            refused[one_line(name)] = "a name that is no valid text; rename it"
            return
        if not isinstance(item, h5py.Dataset):
            return
        if reason := _refusal(item):
            refused[name] = reason
            return
        spec = TensorSpec(name, DTYPES[item.dtype.name], tuple(item.shape))
        specs.append(spec)
        if options.wants(name) and item.id.get_storage_size() != spec.raw_bytes:
            grown += spec.raw_bytes

    handle.visititems(visit)
    if grown > options.max_bytes:
        raise too_large(grown, options.max_bytes, "in compressed or unwritten datasets")

    def fetch(spec: TensorSpec) -> Words:
        dataset = handle[spec.name]
        words = empty_words(spec)
        if spec.n_parameters == 0:
            return words
        big = dataset.dtype.byteorder == ">"
        target = words.view(dataset.dtype if not big else dataset.dtype.newbyteorder(">")).reshape(spec.shape)
        dataset.read_direct(target)
        return words.byteswap(inplace=True) if big else words

    return make_source(file.label, "hdf5", specs, fetch, refused=refused)


def _refusal(dataset: Any) -> str | None:
    """Why a dataset cannot be read, or None."""
    import h5py

    if dataset.shape is None:
        return "an empty dataset without a shape"
    if dataset.is_virtual or dataset.external:
        return "values that lie in another file; copy them into this one"
    named = dataset.dtype.name
    if dataset.dtype.kind not in "fiub" or named not in DTYPES or h5py.check_dtype(enum=dataset.dtype):
        return f"dtype {one_line(dataset.dtype, 60)} is not supported; save one of {', '.join(DTYPES)}"
    if dataset.dtype.kind != "b" and dataset.id.get_type() != h5py.h5t.py_create(np.dtype(dataset.dtype)):
        return f"values that only resemble {named} (another layout of bits); save plain {named}"
    return None

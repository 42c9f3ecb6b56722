"""Figures of tensors: against numpy in float64, at the ends of what floats can hold, without warnings."""

import json
import math
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.files import inspect_file, load_gradient
from lmgc_core.files.summary import Summary, finite_mask, zero_mask
from lmgc_core.gradient import DTYPES, tensor_from_array


def figures(array: np.ndarray, pieces: int = 1) -> dict:
    tensor = tensor_from_array("g", array)
    summary = Summary(tensor.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for words in np.array_split(tensor.words, pieces):
            summary.add(words)
        return summary.figures()


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_masks_agree_with_the_values_of_every_16_bit_pattern(dtype: str) -> None:
    described = DTYPES[dtype]
    n_patterns = 1 << min(described.bits, 16)
    words = np.arange(n_patterns, dtype=np.uint64) << np.uint64(described.bits - min(described.bits, 16))
    if dtype == "bool":
        words = words[:2]
    typed = words.astype(described.word)
    with np.errstate(all="ignore"):
        values = typed.view(described.numpy).astype(np.float64)
    assert np.array_equal(finite_mask(typed, described), np.isfinite(values))
    assert np.array_equal(zero_mask(typed, described), values == 0)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(width=64, allow_nan=True), min_size=1, max_size=40),
    st.integers(1, 5),
    st.sampled_from(["<f8", "<f4", "<f2"]),
)
def test_figures_agree_with_numpy(values: list[float], pieces: int, dtype: str) -> None:
    with np.errstate(all="ignore"):
        array = np.array(values).astype(dtype)
    found = figures(array, pieces)
    finite = array[np.isfinite(array)].astype(np.float64)
    assert found["n_nonfinite"] == len(array) - len(finite)
    assert found["zero_fraction"] == np.mean(array == 0)
    if not len(finite):
        assert found["mean"] is None
        return
    assert (found["min"], found["max"]) == (finite.min(), finite.max())
    exact = [float(v) for v in finite]
    scale = max(map(abs, exact)) or 1.0
    mean = math.fsum(v / len(exact) for v in exact)
    assert math.isclose(found["mean"], mean, rel_tol=1e-12, abs_tol=scale * 1e-14)
    spread = scale * math.sqrt(
        math.fsum(((v - mean) / scale) ** 2 for v in exact if math.isfinite(v - mean)) / len(exact)
    )
    if all(math.isfinite(v - mean) for v in exact):
        assert math.isclose(found["std"], spread, rel_tol=1e-9, abs_tol=scale * 1e-9)


@pytest.mark.parametrize("size", [1e300, 1.7e308, 1e-300, 5e-324, 1.0])
def test_neither_overflow_nor_underflow(size: float) -> None:
    found = figures(np.array([size, -size, size, -size]))
    assert found["mean"] == 0
    assert math.isclose(found["std"], size, rel_tol=1e-12)


def test_pieces_of_very_different_size_merge() -> None:
    array = np.concatenate([np.full(1000, 1e-200), np.full(1000, 1e200)])
    found = figures(array, 2)
    assert math.isclose(found["mean"], 5e199, rel_tol=1e-12)
    assert math.isclose(found["std"], 5e199, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros(0, "<f4"), {"zero_fraction": None, "n_nonfinite": 0, "mean": None, "std": None, "min": None}),
        (np.array(5.0), {"zero_fraction": 0.0, "mean": 5.0, "std": 0.0}),
        (np.full(70_000, 0.1, "<f4"), {"mean": float(np.float32(0.1)), "std": 0.0}),
        (np.array([0.0, -0.0, np.nan, np.inf], "<f4"), {"zero_fraction": 0.5, "n_nonfinite": 2, "min": 0.0}),
        (np.array([5e-324, 0]), {"zero_fraction": 0.5, "max": 5e-324}),
        (np.array([True, False, True]), {"zero_fraction": 1 / 3, "max": 1.0}),
        (np.array([-(2**63), 2**63 - 1], "<i8"), {"min": -(2.0**63), "max": 2.0**63}),
        (np.array([1, np.nan, 2]).astype(ml_dtypes.bfloat16), {"n_nonfinite": 1, "mean": 1.5}),
    ],
)  # fmt: skip
def test_figures_by_hand(array: np.ndarray, expected: dict) -> None:
    found = figures(array)
    assert {key: found[key] for key in expected} == expected


def test_denormals_are_no_zeros_even_where_the_process_flushes_them(tmp_path: Path) -> None:
    import torch

    array = np.array([1, 0x80000001, 0, 0x80000000], "<u4").view("<f4")
    np.save(tmp_path / "g.npy", array)
    before = load_gradient(tmp_path / "g.npy").digest
    try:
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor cannot flush denormals")
        answer = inspect_file(tmp_path / "g.npy")
        assert load_gradient(tmp_path / "g.npy").digest == before == answer["sha256"]
        assert answer["tensors"][0]["zero_fraction"] == 0.5
    finally:
        torch.set_flush_denormal(False)


def test_the_answer_is_plain_json(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", a=np.array([np.nan, np.inf, 1e308, -1e308]), b=np.zeros((0, 2)), c=np.float32(1))
    answer = inspect_file(tmp_path / "g.npz")
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert {"file", "n_parameters", "sha256", "raw_bytes", "dtypes", "tensors", "warnings"} <= set(answer)
    assert {"name", "shape", "dtype", "sha256", "zero_fraction", "n_nonfinite"} <= set(answer["tensors"][0])


def test_large_files_are_described_without_reading_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "g.bin"
    with path.open("wb") as stream:
        stream.truncate((64 << 20) + 4)
    answer = inspect_file(path, raw_dtype="float32")
    assert answer["n_parameters"] == (16 << 20) + 1
    assert answer["sha256"] is None
    assert answer["tensors"][0]["mean"] is None
    full = inspect_file(path, raw_dtype="float32", digest=True)
    assert full["tensors"][0]["zero_fraction"] == 1.0
    assert full["sha256"] is not None

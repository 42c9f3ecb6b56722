"""Every baseline over every kind of array: the same bytes back, or a reason; never an exception."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmgc_core.baselines import (
    BASELINES,
    PAPER_IDS,
    Baseline,
    BaselineResult,
    best_baseline,
    run_baselines,
    run_baselines_in_chunks,
    run_each,
    run_one,
)
from lmgc_core.baselines.contract import by_dtype, join_parts, split_parts
from lmgc_core.errors import CorruptContainer, InvalidSetting
from lmgc_core.gradient import DTYPES, Gradient, Tensor, TensorSpec

ALWAYS = ["gzip", "bz2", "xz", "zstd", "planes-xz", "planes-zstd", "order0-planes"]
ALL_DTYPES = list(DTYPES.values())


def gradient_of(**arrays: Any) -> Gradient:
    return Gradient.from_arrays(arrays)


def tensor_of(words: list[int], dtype: Any, name: str = "w") -> Tensor:
    return Tensor(TensorSpec(name, dtype, (len(words),)), np.array(words, dtype.word))


def check(result: BaselineResult, gradient: Gradient, always: bool) -> None:
    """A verified size or a reason, never both, and never a failure of our own making."""
    assert result.verified == (result.bytes is not None) == (result.reason is None)
    if always:
        assert result.verified, result.reason
    if result.verified:
        assert result.bytes is not None
        if gradient.raw_bytes:
            assert result.compression_rate == result.bytes / gradient.raw_bytes
        else:
            assert result.compression_rate is None
    else:
        assert result.reason
        assert "\n" not in result.reason
        assert not result.reason.startswith(("failed: TypeError", "failed: AttributeError", "failed: IndexError"))


rng = np.random.default_rng(7)
SPECIAL: dict[str, dict[str, Any]] = {
    "none at all": {},
    "empty": {"w": np.zeros(0, "f4")},
    "empty of a shape": {"w": np.zeros((3, 0), "f4"), "v": np.float32([1])},
    "one value": {"w": np.float32(1.5)},
    "one half": {"w": np.float16([1.5])},
    "one double": {"w": np.float64([1.5])},
    "three bytes": {"w": np.int8([1, -2, 3])},
    "zeros": {"w": np.zeros(300, "f4")},
    "constant": {"w": np.full((7, 11), 5, "f4")},
    "normal": {"w": rng.normal(size=(30, 3, 3)).astype("f4")},
    "NaN payloads": {
        "w": np.array([0x7F800001, 0xFFC00123, 0x7FFFFFFF, 0xFF800000, 0x80000000] * 20, "<u4").view("f4")
    },
    "NaN payloads in doubles": {"w": np.array([0x7FF0000000000001, 0xFFF8000000000123, 1, 0] * 9, "<u8").view("f8")},
    "denormals": {"w": np.arange(1, 200, dtype="<u4").view("f4")},
    "extremes as integers": {"w": np.array([0x7FFFFFFF, 0x80000001] * 64, "<u4").view("f4")},
    "several dtypes": {
        "a": rng.normal(size=40).astype("f4"),
        "b": rng.normal(size=40),
        "c": np.int64([1, 2**62]),
        "d": rng.normal(size=9).astype("f4"),
        "e": np.bool_([True, False]),
    },
}


@pytest.mark.parametrize("id", BASELINES)
@pytest.mark.parametrize("kind", SPECIAL)
def test_the_same_bytes_or_a_reason(id: str, kind: str) -> None:
    gradient = gradient_of(**SPECIAL[kind])
    check(run_one(BASELINES[id], gradient), gradient, always=id in ALWAYS)


@pytest.mark.parametrize("id", BASELINES)
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("n", [0, 1, 2, 37])
def test_every_dtype(id: str, dtype: Any, n: int) -> None:
    words = [int(w) & ((1 << dtype.bits) - 1) for w in np.random.default_rng(n).integers(0, 2**63, n)]
    gradient = Gradient((tensor_of(words, dtype),))
    check(run_one(BASELINES[id], gradient), gradient, always=id in ALWAYS)


@pytest.mark.parametrize("id", BASELINES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_bits(id: str, data: st.DataObject) -> None:
    tensors = []
    for name in "ab"[: data.draw(st.integers(1, 2))]:
        dtype = data.draw(st.sampled_from(ALL_DTYPES))
        pool = data.draw(st.lists(st.integers(0, (1 << dtype.bits) - 1), min_size=1, max_size=6))
        tensors.append(tensor_of(data.draw(st.lists(st.sampled_from(pool), max_size=60)), dtype, name))
    gradient = Gradient(tuple(tensors))
    check(run_one(BASELINES[id], gradient), gradient, always=id in ALWAYS)


@pytest.mark.parametrize("id", BASELINES)
def test_random_bytes_cost_at_least_what_they_are(id: str) -> None:
    gradient = gradient_of(w=np.random.default_rng(8).integers(0, 2**32, 3000, np.uint32).view("f4"))
    result = run_one(BASELINES[id], gradient)
    if not result.verified:
        pytest.skip(str(result.reason))
    assert result.compression_rate is not None
    # a float's exponent 255 (NaN) cannot be told from chance here, so all 32 bits are noise
    assert result.compression_rate >= 0.999


@pytest.mark.parametrize("id", [i for i in BASELINES if i not in ("exponent-entropy", "flac", "zfp")])
def test_a_constant_costs_next_to_nothing(id: str) -> None:
    result = run_one(BASELINES[id], gradient_of(w=np.full(5000, 0.1, "f4")))
    if not result.verified:
        pytest.skip(str(result.reason))
    assert result.compression_rate is not None
    assert result.compression_rate < 0.05


def test_planes_beat_the_whole_buffer_where_exponents_repeat() -> None:
    gradient = gradient_of(w=np.random.default_rng(9).normal(size=6000).astype("f4"))
    sizes = {r.id: r.bytes or 0 for r in run_baselines(gradient, ["xz", "planes-xz", "order0-planes"])}
    assert max(sizes["planes-xz"], sizes["order0-planes"]) < sizes["xz"]


def test_order_0_is_within_its_table_of_the_entropy() -> None:
    exponents = np.random.default_rng(10).choice(4, p=[0.5, 0.25, 0.125, 0.125], size=20_000)
    words = (exponents.astype("<u2") << 8).view("<u2")
    result = run_one(BASELINES["order0-planes"], gradient_of(w=words))
    counts = np.bincount(exponents)
    entropy_bytes = float(-(counts * np.log2(counts / counts.sum())).sum()) / 8
    assert result.bytes is not None
    tables = 1 + 2 + (32 + 2 * 4) + 1 + 32
    assert entropy_bytes <= result.bytes <= entropy_bytes + tables + 12


def test_a_codec_that_cheats_is_found_out() -> None:
    gradient = gradient_of(w=np.float32([1, 2, -0.0]))
    honest = BASELINES["gzip"]

    def nearly(data: bytes, specs: Any) -> bytes:
        return honest.decode(data, specs)[:-1] + b"\x00"  # -0.0 becomes 0.0, equal as a number

    for decode in (nearly, lambda data, specs: b"", lambda data, specs: honest.decode(data, specs) + b"\0"):
        result = run_one(replace(honest, decode=decode), gradient)
        assert (result.bytes, result.compression_rate, result.verified) == (None, None, False)
        assert result.reason == "decoding gave other bytes"
    assert run_one(honest, gradient).verified


def test_failures_and_missing_packages_become_reasons() -> None:
    def fail(gradient: Gradient) -> bytes:
        raise RuntimeError("no\nluck")

    gradient = gradient_of(w=np.float32([1]))
    broken = replace(BASELINES["gzip"], encode=fail)
    missing = replace(BASELINES["gzip"], module="no_such_module", package="nothing")
    found = run_each([broken, missing], gradient)
    assert [r.reason for r in found] == ["failed: RuntimeError: no luck", "not installed: pip install nothing"]
    assert best_baseline(found) is None


def test_best_ignores_what_is_not_verified() -> None:
    def result(id: str, size: int | None, verified: bool) -> BaselineResult:
        return BaselineResult(id, id, size, None, None, None, verified, None)

    found = [result("a", 10, True), result("b", 7, True), result("c", 7, True), result("d", 1, False)]
    best = best_baseline([*found, result("e", None, False)])
    assert best is not None
    assert best.id == "b"


def test_progress_stop_and_speed() -> None:
    gradient = gradient_of(w=np.zeros(250_000, "f4"))
    seen: list[tuple[int, int, str]] = []
    ticks = iter(range(100))
    found = run_baselines(
        gradient,
        ["gzip", "zstd", "xz"],
        on_progress=lambda done, total, result: seen.append((done, total, result.id)),
        should_stop=lambda: len(seen) == 2,
        clock=lambda: next(ticks) / 2,
    )
    assert seen == [(1, 3, "gzip"), (2, 3, "zstd")]
    assert [r.id for r in found] == ["gzip", "zstd"]
    assert [(r.encode_mb_per_second, r.decode_mb_per_second) for r in found] == [(2, 2), (2, 2)]


def test_chunks_are_marked_and_decode() -> None:
    gradient = gradient_of(a=rng.normal(size=(41, 5)).astype("f4"), b=np.float32(1), c=np.zeros(0, "f4"))
    found = run_baselines_in_chunks(gradient)
    assert [r.id for r in found] == [f"{id}@512" for id in PAPER_IDS]
    for result in found:
        assert "chunks of 512 bytes" in result.label
        if result.id.startswith(("gzip", "xz")):
            assert result.verified, result.reason
    whole = {r.id: r.bytes for r in run_baselines(gradient, ["gzip"])}
    assert (found[2].bytes or 0) > (whole["gzip"] or 0)
    with pytest.raises(InvalidSetting, match="510"):
        run_baselines_in_chunks(gradient, chunk_bytes=510)


def test_unknown_ids_are_named() -> None:
    with pytest.raises(InvalidSetting, match=r"'rar'.*planes-xz"):
        run_baselines(gradient_of(w=np.float32([1])), ["rar"])


def test_parts_join_and_split() -> None:
    parts = [b"", b"x" * 127, b"y" * 128, b"z" * 20_000]
    joined = join_parts(parts)
    assert split_parts(joined) == parts
    for length in (1, 100, 129, len(joined) - 1):
        cut = joined[:length]
        try:
            assert split_parts(cut) == parts[: len(split_parts(cut))]
        except CorruptContainer:
            continue


def test_a_decoder_that_gives_too_much_is_found_out() -> None:
    def decode(data: bytes, dtype: Any, n: int) -> Any:
        return np.zeros(n + 1, dtype.word)

    longer: Baseline = by_dtype("longer", "longer", lambda words, dtype: b"", decode)
    assert not run_one(longer, gradient_of(w=np.zeros(3, "f4"))).verified


def test_inputs_are_not_modified() -> None:
    gradient = gradient_of(w=np.random.default_rng(11).normal(size=500).astype("f4"))
    before = gradient.to_bytes()
    run_baselines(gradient)
    assert gradient.to_bytes() == before


def test_fpzip_never_outgrows_its_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    fpzip = pytest.importorskip("fpzip")
    compress, excess = fpzip.compress, []

    def watched(values: Any) -> bytes:
        packed: bytes = compress(values)
        excess.append(len(packed) - values.nbytes - 28)
        return packed

    monkeypatch.setattr(fpzip, "compress", watched)
    noise = np.random.default_rng(12)
    for n in (1, 2, 9, 130, 1000, 4000):
        for dtype in ("f4", "f8"):
            raw = noise.integers(0, 256, n * int(dtype[1]), np.uint8).view(dtype)
            for values in (raw, np.where(np.arange(n) < n // 2, 0, raw).astype(dtype)):
                assert run_one(BASELINES["fpzip"], gradient_of(w=values)).verified
    assert max(excess) <= 0

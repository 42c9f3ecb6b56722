"""Every transform over every kind of array: inverse, bounds, zeros, counted bytes, determinism."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmgc_core.errors import CorruptContainer, InvalidSetting
from lmgc_core.gradient import DTYPES, Gradient, Tensor, TensorSpec
from lmgc_core.transforms import (
    Transformed,
    apply_transform,
    measure_error,
    parse_transform,
    transform_gradient,
)
from lmgc_core.transforms.exact import from_float64, is_finite, is_nan, to_float64
from lmgc_core.transforms.positions import pack_positions, unpack_positions
from lmgc_core.transforms.side import SideReader, SideWriter
from lmgc_core.transforms.sparsifiers import kept_count

SPELLINGS = [
    "none",
    "fp16",
    "bf16",
    "fp8",
    "fp8-e5m2",
    *(f"uniform:{bits}" for bits in (1, 2, 4, 7, 8, 9, 15, 16)),
    "uniform:8:5",
    "uniform:3:1",
    *(f"qsgd:{bits}" for bits in (2, 4, 8, 9, 16)),
    "qsgd:4:7",
    "sign",
    "topk:0.1",
    "topk:1",
    "randk:0.3",
    "topk:0.1+uniform:8",
    "topk:0.5+fp16",
    "randk:0.5+qsgd:4",
    "topk:0.5+sign",
    "bf16+topk:0.4",
    "topk:0.6+randk:0.5+fp8-e5m2+uniform:5",
]
SIGNED_FLOATS = [d for d in DTYPES.values() if d.sign_bits == 1]


def gradient_of(**arrays: Any) -> Gradient:
    return Gradient.from_arrays(arrays)


def check_contract(gradient: Gradient, spelling: str, seed: int = 3) -> Transformed:
    """What holds for every transform and every input."""
    before = gradient.to_bytes()
    done = transform_gradient(spelling, gradient, seed)
    transform = parse_transform(spelling)
    assert gradient.to_bytes() == before
    assert done.values.specs == gradient.specs
    assert done.coded.specs == transform.coded_specs(gradient.specs)
    side_bytes = done.side.to_bytes()
    assert done.side.n_bytes == len(side_bytes)
    assert sum(done.side.tensor_bytes.values()) + len(done.side.shared) == len(side_bytes)
    sent = Gradient.from_bytes(done.coded.specs, done.coded.to_bytes())
    assert transform.reconstruct(sent, side_bytes, gradient.specs).to_bytes() == done.values.to_bytes()
    again = transform_gradient(spelling, gradient, seed)
    assert again.coded.to_bytes() == done.coded.to_bytes()
    assert again.side.to_bytes() == side_bytes
    for tensor, coded, values in zip(gradient, done.coded, done.values, strict=True):
        cells = done.cells[tensor.name]
        if cells is None:
            assert coded.shape == tensor.shape
        else:
            assert coded.shape == cells.shape
            assert (np.diff(cells) > 0).all()
            dropped = np.ones(tensor.n_parameters, bool)
            dropped[cells] = False
            assert not values.words[dropped].any()
        if spelling != "none" and tensor.dtype.kind == "float":
            x, y = (to_float64(t.words, t.dtype) for t in (tensor, values))
            assert (y[x == 0] == 0).all()
            assert (
                not is_nan(values.words, values.dtype)[~is_nan(tensor.words, tensor.dtype)].any() or "fp8" in spelling
            )
    return done


@st.composite
def any_words(draw: st.DrawFn) -> Tensor:
    """Any bit patterns at all of any signed float type: NaN payloads, denormals, extremes, 0 to 40 values."""
    dtype = draw(st.sampled_from(SIGNED_FLOATS))
    words = draw(st.lists(st.integers(0, (1 << dtype.bits) - 1), max_size=40))
    kind = draw(st.sampled_from(["free", "constant", "zeros", "rows"]))
    if kind == "constant" and words:
        words = [words[0]] * len(words)
    if kind == "zeros":
        words = [0] * len(words)
    shape: tuple[int, ...] = (len(words),)
    if kind == "rows" and len(words) % 3 == 0:
        shape = (len(words) // 3, 3)
    return Tensor(TensorSpec("w", dtype, shape), np.array(words, dtype.word))


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(max_examples=60, deadline=None)
@given(tensor=any_words(), seed=st.integers(0, 2**70))
def test_contract_on_any_bits(spelling: str, tensor: Tensor, seed: int) -> None:
    with np.errstate(all="raise", under="ignore"):
        check_contract(Gradient((tensor,)), spelling, seed)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (5, 3), (2, 3, 5)])
def test_contract_on_shapes(spelling: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    check_contract(gradient_of(a=rng.normal(size=shape).astype("f4"), b=np.zeros(shape, "f8")), spelling)


finite_values = st.one_of(
    st.floats(-1, 1),
    st.integers(-3, 3).map(lambda ulps: 1 + ulps * 2.0**-52),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-310, 1.7976931348623157e308, -1.7976931348623157e308]),
)


@settings(max_examples=300, deadline=None)
@example([1.0, 0.9999999999999999], 2, 0, DTYPES["float64"])
@given(
    values=st.lists(finite_values, min_size=1, max_size=30),
    bits=st.integers(1, 16),
    block=st.integers(0, 9),
    dtype=st.sampled_from(SIGNED_FLOATS),
)
def test_uniform_error_is_at_most_one_step(values: list[float], bits: int, block: int, dtype: Any) -> None:
    words = from_float64(np.array(values), dtype)
    words = words[is_finite(words, dtype)]
    tensor = Tensor(TensorSpec("w", dtype, words.shape), words)
    done = transform_gradient(f"uniform:{bits}" + (f":{block}" if block else ""), Gradient((tensor,)))
    x, y = to_float64(words, dtype), to_float64(done.values.tensors[0].words, dtype)
    size = block or max(1, len(x))
    for first in range(0, len(x), size):
        part, back = x[first : first + size], y[first : first + size]
        levels = 2**bits - 1
        with np.errstate(over="ignore"):
            span = part.max() - part.min()
            step = span / levels if math.isfinite(span) else part.max() / levels - part.min() / levels
            # the scale is rounded up to float32, and quotients of denormals are themselves rounded
            assert (np.abs(part / 2 - back / 2) <= step / 2 * (1 + 1e-6) + 5e-324).all()
        assert (back[part == 0] == 0).all()
        if part.max() == part.min():
            assert np.array_equal(part, back)


@settings(max_examples=150, deadline=None)
@given(values=st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=30), bits=st.integers(2, 16))
def test_qsgd_error_is_at_most_norm_over_levels(values: list[float], bits: int) -> None:
    x = np.array(values, "f4")
    done, _ = apply_transform(f"qsgd:{bits}", gradient_of(w=x), seed=5)
    norm = math.sqrt(math.fsum(v * v for v in x.astype("f8").tolist()))
    error = np.abs(done["w"].astype("f8") - x.astype("f8"))
    assert (error <= norm / (2 ** (bits - 1) - 1) * (1 + 1e-5) + np.abs(done["w"]) * 2.0**-23).all()
    assert (np.sign(done["w"]) * np.sign(x) >= 0).all()


def test_qsgd_is_right_on_average() -> None:
    x = np.float32([0.3, -0.7, 0.0, 0.05, 1.0])
    runs = np.array([apply_transform("qsgd:2", gradient_of(w=x), seed=s)[0]["w"] for s in range(3000)], "f8")
    # one level: a value is 0 or ± norm, so its spread is below norm / 2, its mean's below norm / 2 / sqrt(3000)
    norm = float(np.linalg.norm(x))
    assert np.abs(runs.mean(axis=0) - x).max() < 5 * norm / 2 / math.sqrt(3000)
    assert (runs[:, 2] == 0).all()


def test_randk_keeps_each_value_equally_often_and_exactly() -> None:
    x = np.arange(1, 11, dtype="f4")
    kept = np.array([apply_transform("randk:0.3", gradient_of(w=x), seed=s)[0]["w"] for s in range(1500)])
    assert ((kept == 0) | (kept == x)).all()
    assert (np.count_nonzero(kept, axis=1) == 3).all()
    share = (kept != 0).mean(axis=0)
    assert np.abs(share - 0.3).max() < 5 * math.sqrt(0.3 * 0.7 / 1500)


def test_noise_follows_seed_and_name() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=64).astype("f4")
    for spelling in ("qsgd:4", "randk:0.5"):
        one = transform_gradient(spelling, gradient_of(a=x, b=x), seed=1).values
        other = transform_gradient(spelling, gradient_of(a=x, b=x), seed=2).values
        assert one["a"].tobytes() != one["b"].tobytes()
        assert one["a"].tobytes() != other["a"].tobytes()
        alone = transform_gradient(spelling, gradient_of(b=x), seed=1).values
        assert alone["b"].tobytes() == one["b"].tobytes()


def test_published_seeds_stay_what_they_are() -> None:
    x = np.arange(1, 9, dtype="f4")
    assert apply_transform("randk:0.5", gradient_of(w=x), seed=0)[0]["w"].tolist() == [0, 2, 0, 4, 5, 6, 0, 0]
    assert transform_gradient("qsgd:4", gradient_of(w=x), seed=0).coded["w"].tolist() == [0, 1, 1, 2, 3, 3, 4, 4]


@settings(max_examples=200, deadline=None)
@given(tensor=any_words(), thousandths=st.integers(1, 1000))
def test_topk_against_sorting(tensor: Tensor, thousandths: int) -> None:
    fraction = thousandths / 1000
    n = tensor.n_parameters
    done = transform_gradient(f"topk:{fraction}", Gradient((tensor,)))
    k = min(n, max(1, round(fraction * n)))
    assert done.coded.n_parameters == k == kept_count(fraction, n)
    values = to_float64(tensor.words, tensor.dtype)
    order = sorted(range(n), key=lambda i: (-(math.inf if math.isnan(values[i]) else abs(values[i])), i))
    nan_first = sorted(order, key=lambda i: not math.isnan(values[i]))
    expected = np.zeros(n, tensor.dtype.word)
    keep = sorted(nan_first[:k])
    expected[keep] = tensor.words[keep]
    assert done.values.tensors[0].words.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("values", "fraction", "kept"),
    [
        ([-5, 1, 0.5, -0.1], 0.25, [-5, 0, 0, 0]),
        ([1, -1, 1, -1], 0.5, [1, -1, 0, 0]),
        ([1, 2, 3], 0.001, [0, 0, 3]),
        ([1, 2, 3], 1, [1, 2, 3]),
    ],
)
def test_topk_by_hand(values: list[float], fraction: float, kept: list[float]) -> None:
    assert apply_transform(f"topk:{fraction}", gradient_of(w=np.float32(values)))[0]["w"].tolist() == kept


def test_keeping_all_is_the_identity_on_bytes() -> None:
    words = np.array([0x7F800001, 0xFFC00123, 0x80000000, 1, 0x7F800000], "<u4")
    gradient = gradient_of(w=words.view("f4").reshape(5, 1))
    for spelling in ("topk:1", "randk:1.0", "topk:0.99"):
        done = transform_gradient(spelling, gradient)
        assert done.values.to_bytes() == gradient.to_bytes()
        assert done.coded.specs == gradient.specs
        assert done.side.tensor_bytes["w"] == 0


def test_fp16_range_and_counts() -> None:
    x = np.float32([7e4, -7e4, 65504, 65519, 65520, 1e-8, 6e-8, 2.9e-8, -1e-8])
    values, side = apply_transform("fp16", gradient_of(w=x))
    assert values["w"].tolist()[:5] == [math.inf, -math.inf, 65504, 65504, math.inf]
    report = measure_error(gradient_of(w=x), values)
    assert (report.n_overflowed, report.n_flushed, report.max_abs) == (3, 3, None)
    assert side.n_bytes == 0


def test_e4m3_has_no_infinities() -> None:
    x = np.float32([448, 464, 464.1, 480, 500, -np.inf, np.nan, 2.0**-9, 2.0**-10, 2.0**-11])
    done = transform_gradient("fp8", gradient_of(w=x))
    back = done.values["w"]
    assert back[:2].tolist() == [448, 448]
    assert np.isnan(back[2:7]).all()
    assert back[7:].tolist() == [2.0**-9, 0, 0]
    assert done.coded.tensors[0].dtype.name == "float8_e4m3fn"
    assert measure_error(gradient_of(w=x), done.values).n_overflowed == 3


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@settings(max_examples=200, deadline=None)
@given(values=st.lists(st.floats(width=32), max_size=20))
def test_casts_round_like_ml_dtypes(name: str, values: list[float]) -> None:
    x = np.array(values, "f4")
    with np.errstate(all="ignore"):
        expected = x.astype(DTYPES[name].numpy)
    got = from_float64(x.astype("f8"), DTYPES[name])
    nan = np.isnan(expected.astype("f4"))
    assert np.array_equal(got[~nan], expected.view(DTYPES[name].word)[~nan])
    assert is_nan(got, DTYPES[name])[nan].all()


def test_casts_round_once() -> None:
    # 1 + 2^-8 is a tie for bfloat16; a trip through float32 would lose the 2^-40 that decides it
    x = np.array([1 + 2.0**-8 + 2.0**-40])
    assert from_float64(x, DTYPES["bfloat16"]).view(ml_dtypes.bfloat16).astype("f4").tolist() == [1.0078125]


@pytest.mark.parametrize("dtype", SIGNED_FLOATS, ids=lambda d: d.name)
def test_every_small_word_survives_float64(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    words = np.arange(1 << dtype.bits).astype(dtype.word) if dtype.bits <= 16 else None
    if words is None:
        words = rng.integers(0, 1 << 63, 4000, np.uint64).astype(dtype.word)
        words[::7] &= dtype.word.type((1 << dtype.mantissa_bits) - 1)
    nan = is_nan(words, dtype)
    back = from_float64(to_float64(words, dtype), dtype)
    assert np.array_equal(back[~nan], words[~nan])
    assert is_nan(back[nan], dtype).all()


def test_nonfinite_values_are_kept_by_quantisers() -> None:
    words = np.array([0x3F800000, 0x7F800001, 0xFFC00123, 0x7F800000, 0xFF800000, 0], "<u4")
    gradient = gradient_of(w=words.view("f4"))
    for spelling in ("uniform:8", "uniform:4:2", "qsgd:4", "sign"):
        values, _ = apply_transform(spelling, gradient)
        assert values.tensors[0].words[1:].tolist() == words[1:].tolist()
        assert measure_error(gradient, values).n_nonfinite_changed == 0


def test_uniform_of_huge_and_wide_ranges() -> None:
    wide = np.float32([1e30, 1e-30, -1e30, 3.0, -2e-20, 1e10])
    report = measure_error(gradient_of(w=wide), apply_transform("uniform:8", gradient_of(w=wide))[0])
    assert report.max_abs is not None
    assert report.max_abs <= 2e30 / 255 * (1 + 1e-6)
    full = np.float32([3.4028235e38, -3.4028235e38, 1.0])
    assert np.isfinite(apply_transform("uniform:16", gradient_of(w=full))[0]["w"]).all()
    both = np.array([1.7976931348623157e308, -1.7976931348623157e308])
    assert np.isfinite(apply_transform("uniform:1", gradient_of(w=both))[0]["w"]).all()


def test_four_bits_of_five_by_three_by_hand() -> None:
    x = (np.arange(-7, 8) / 7).astype("f4").reshape(5, 3)
    done = transform_gradient("uniform:4", gradient_of(w=x))
    assert done.coded["w"].shape == (5, 3)
    assert done.coded["w"].dtype == np.int8
    # width byte, scale, flag byte, zero point, no exceptions
    assert done.side.n_bytes == 1 + 4 + 1 + 1 + 1
    assert np.unique(done.coded["w"]).size == 15


def test_quantised_zero_is_the_integer_zero_up_to_seven_bits() -> None:
    x = np.float32([-1.0, 0.0, 0.3, 2.0])
    for bits in range(1, 8):
        assert transform_gradient(f"uniform:{bits}", gradient_of(w=x)).coded["w"][1] == 0


def test_sign_by_hand() -> None:
    done = transform_gradient("sign", gradient_of(w=np.float32([3, -1, 0, -0.0])))
    assert done.values["w"].tolist() == [2, -2, 0, 0]
    assert done.coded["w"].tolist() == [1, -1, 0, 0]
    assert done.side.n_bytes == 5


@settings(max_examples=300, deadline=None)
@given(n=st.integers(1, 400), data=st.data())
def test_positions_round_trip_within_a_bitmap(n: int, data: st.DataObject) -> None:
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)))), np.int64)
    writer = SideWriter()
    writer.positions(chosen, n)
    assert len(writer.data) <= 1 + (n + 7) // 8
    reader = SideReader(bytes(writer.data))
    assert reader.positions(len(chosen), n).tolist() == chosen.tolist()
    reader.finish()


def test_positions_of_every_method_round_trip() -> None:
    rng = np.random.default_rng(13)
    n = 6000
    striped = np.arange(n)[(np.arange(n) // 7) % 50 == 3]
    halves = np.sort(rng.choice(n, n // 2, replace=False))
    few = np.sort(rng.choice(n, 60, replace=False))
    pattern = rng.random(64) < 0.5
    bits = np.flatnonzero(np.tile(pattern, n // 64 + 1)[:n])
    methods = set()
    for chosen in (striped, halves, few, bits):
        data = pack_positions(chosen, n)
        methods.add(data[0] if data[0] in (0, 100, 101) else "rice")
        found, used = unpack_positions(data + b"more", len(chosen), n)
        assert (found.tolist(), used) == (chosen.tolist(), len(data))
    assert methods == {0, 100, 101, "rice"}


def test_positions_cost_near_their_entropy() -> None:
    rng = np.random.default_rng(5)
    n = 40_000
    for share in (0.001, 0.01, 0.1):
        chosen = np.sort(rng.choice(n, int(share * n), replace=False))
        writer = SideWriter()
        writer.positions(chosen, n)
        entropy_bits = -n * (share * math.log2(share) + (1 - share) * math.log2(1 - share))
        assert 8 * len(writer.data) < 1.06 * entropy_bits + 24


@pytest.mark.parametrize(
    "spelling", ["uniform:8", "qsgd:4", "sign", "topk:0.2", "topk:0.08", "randk:0.5", "topk:0.3+uniform:12:4"]
)
def test_damaged_side_information_is_refused(spelling: str) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=50).astype("f4")
    x[3] = np.nan
    gradient = gradient_of(w=x)
    done, transform = transform_gradient(spelling, gradient), parse_transform(spelling)
    side = done.side.to_bytes()
    for wrong in [side[:length] for length in range(len(side))] + [side + b"\0"]:
        with pytest.raises(CorruptContainer):
            transform.reconstruct(done.coded, wrong, gradient.specs)
    for position in range(len(side)):
        for bit in range(8):
            flipped = bytearray(side)
            flipped[position] ^= 1 << bit
            try:
                back = transform.reconstruct(done.coded, bytes(flipped), gradient.specs)
            except CorruptContainer:
                continue
            assert back.specs == gradient.specs


# fmt: off
UNKNOWN = [
    "", "fp32", "uniform", "uniform:0", "uniform:17", "uniform:8:0", "uniform:+8", "uniform:²",
    "uniform:8:4:2", "qsgd:1", "qsgd:17", "topk", "topk:0", "topk:1.5", "topk:nan", "topk:-0.1", "randk:x",
    "sign:2", "fp16:3", "topk:0.1+", "none+fp16", "UNIFORM:8", "uniform:8+topk:0.1", "sign+uniform:2",
    "topk:0.1 + fp16",
]
# fmt: on


@pytest.mark.parametrize("spelling", UNKNOWN)
def test_unknown_spellings_name_what_is_allowed(spelling: str) -> None:
    with pytest.raises(InvalidSetting, match=r"choose none, fp16|put .* last") as caught:
        parse_transform(spelling)
    assert "\n" not in str(caught.value)


def test_spelling_is_canonical_and_stable() -> None:
    for spelling in SPELLINGS:
        once = parse_transform(spelling)
        assert parse_transform(once.spelling) == once
    assert parse_transform("topk:1e-1+fp16").spelling == "topk:0.1+fp16"


def test_only_signed_floats_are_transformed() -> None:
    for array in (np.int64([1, 2]), np.bool_([True]), np.ones(3, ml_dtypes.float8_e8m0fnu)):
        gradient = gradient_of(w=np.float32([1]), step=array)
        assert transform_gradient("none", gradient).values.to_bytes() == gradient.to_bytes()
        for spelling in SPELLINGS[1:]:
            with pytest.raises(InvalidSetting, match="'step'"):
                transform_gradient(spelling, gradient)


def test_a_cast_to_a_wider_type_changes_nothing() -> None:
    gradient = gradient_of(w=np.array([1, np.nan, 300], ml_dtypes.float8_e5m2))
    done = transform_gradient("bf16", gradient)
    assert done.coded.specs == gradient.specs
    assert done.values.to_bytes() == gradient.to_bytes()


def test_coded_tensors_must_match() -> None:
    gradient = gradient_of(w=np.float32([1, 2]))
    done = transform_gradient("uniform:8", gradient)
    with pytest.raises(InvalidSetting, match="uniform:8"):
        parse_transform("uniform:8").reconstruct(gradient, done.side.to_bytes(), gradient.specs)
    with pytest.raises(InvalidSetting, match="seed"):
        transform_gradient("randk:0.5", gradient, seed=-1)


def test_same_result_while_denormals_are_flushed() -> None:
    torch = pytest.importorskip("torch")
    x = np.array([1, 0x80000003, 0x00400000, 0x3F800000, 0, 0x007FFFFF], "<u4").view("f4")
    spellings = ("bf16", "fp16", "uniform:8", "sign", "topk:0.5", "qsgd:8")
    plain = [transform_gradient(s, gradient_of(w=x)).values.to_bytes() for s in spellings]
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    try:
        flushed = [transform_gradient(s, gradient_of(w=x)).values.to_bytes() for s in spellings]
    finally:
        torch.set_flush_denormal(False)
    assert flushed == plain


def test_error_report_by_hand() -> None:
    before = gradient_of(a=np.float32([3, 4]), b=np.float64([0.0]))
    after = gradient_of(a=np.float32([3, 2]), b=np.float64([0.0]))
    report = measure_error(before, after)
    assert report.max_abs == 2
    assert report.rmse == pytest.approx(math.sqrt(4 / 3))
    assert report.cosine == pytest.approx((9 + 8) / 5 / math.sqrt(13))
    assert report.psnr_db == pytest.approx(20 * math.log10(4 / math.sqrt(4 / 3)))
    same = measure_error(before, before)
    assert (same.max_abs, same.rmse, same.psnr_db) == (0, 0, None)
    assert same.cosine == pytest.approx(1)


def test_error_report_where_figures_are_undefined() -> None:
    empty = gradient_of(w=np.zeros((0, 3), "f4"))
    assert set(measure_error(empty, empty).to_dict().values()) == {None, 0}
    zeros = gradient_of(w=np.zeros(4, "f4"))
    assert measure_error(zeros, zeros).cosine is None
    nan = gradient_of(w=np.float32([np.nan, 1]))
    report = measure_error(nan, gradient_of(w=np.float32([0, 1])))
    assert (report.max_abs, report.n_nonfinite_changed) == (None, 1)
    huge = gradient_of(w=np.array([1.7e308, -1.7e308]))
    flipped = gradient_of(w=np.array([-1.7e308, 1.7e308]))
    report = measure_error(huge, flipped)
    assert report.max_abs is None
    assert report.cosine == pytest.approx(-1)
    tiny = gradient_of(w=np.array([1e-300, 2e-300]))
    report = measure_error(tiny, gradient_of(w=np.array([1e-300, 1e-300])))
    assert report.rmse == pytest.approx(1e-300 / math.sqrt(2))
    assert report.cosine == pytest.approx(3 / math.sqrt(10))
    integers = gradient_of(w=np.int32([1, 2]))
    assert measure_error(integers, gradient_of(w=np.int32([1, 5]))).max_abs == 3
    with pytest.raises(InvalidSetting):
        measure_error(zeros, nan)

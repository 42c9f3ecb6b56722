"""Archives: what goes in comes out, bit for bit, on any machine; what cannot be decoded is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmgc_core import archive as archive_module
from lmgc_core import archive_decoding, archive_model, archive_proof, exact_scoring, segment_bins
from lmgc_core.archive import compress, decompress, describe, verify_archive
from lmgc_core.archive_decoding import open_archive
from lmgc_core.codec import measure
from lmgc_core.errors import (
    Cancelled,
    CorruptContainer,
    IncompatibleContainer,
    InvalidSetting,
    LmgcError,
    ModelUnavailable,
    TruncatedContainer,
    UnsupportedInput,
)
from lmgc_core.exact_scoring import ExactScorer
from lmgc_core.exception_lists import read_exceptions, write_exceptions
from lmgc_core.files import load_gradient
from lmgc_core.gradient import Gradient, Tensor
from lmgc_core.guarded_rounding import GUARD_BITS
from lmgc_core.language_model import load_model, load_tokenizer
from lmgc_core.samples import list_samples
from lmgc_core.segment_bins import SegmentBins
from lmgc_core.segment_encoding import coding_order
from lmgc_core.settings import CodecConfig, RunOptions, preset
from lmgc_core.slices import cut_tensor
from lmgc_core.transforms import apply_transform
from tests import archive_cases, tiny_models
from tests.archive_cases import (
    CONFIGS,
    awkward_gradient,
    in_another_process,
    mutated,
    random_gradient,
    resealed,
    small,
    with_mutated_segment,
)
from tests.golden.write_golden import CASES

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def made(tiny_model: Any) -> dict[str, Any]:
    """An archive of the awkward gradient by the name of its settings."""
    return {name: compress(awkward_gradient(), tiny_model, small(name), verify="none") for name in CONFIGS}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("batch_size", [1, 40])
def test_every_bit_comes_back(made: dict[str, Any], tiny_model: Any, name: str, batch_size: int) -> None:
    """The encoder's batches and the decoder's rows in step differ; names, shapes, dtypes and order are kept."""
    found = decompress(made[name], tiny_model, options=RunOptions(batch_size=batch_size))
    assert found.specs == awkward_gradient().specs
    assert found.to_bytes() == awkward_gradient().to_bytes()


@pytest.mark.parametrize("name", CONFIGS)
def test_the_report_adds_up(made: dict[str, Any], name: str) -> None:
    report = made[name].report
    parts = report["header_bytes"] + report["payload_bytes"] + report["exceptions_bytes"]
    assert report["container_bytes"] == parts == len(made[name].archive)
    assert report["sha256"] == awkward_gradient().digest
    assert report["verified"] == "none"
    bound = report["code_length_bits"] + report["n_segments"] * 32 + 0.001 * report["n_tokens"] + 8
    assert report["code_length_bits"] - 8 <= 8 * report["payload_bytes"] <= bound
    gap = abs(report["token_code_length_bits"] - report["surprisal_bits"])
    assert gap <= max(0.01 * report["n_tokens"], 0.005 * report["surprisal_bits"])
    json.dumps(report)


def test_an_archive_made_elsewhere_decodes_here_and_the_other_way_round(
    made: dict[str, Any], tiny_model: Any, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    """Another process, one thread, batches of 3, plain SSE."""
    chosen = ("lean", "best", "mix", "lean_counts")
    for name in chosen:
        (tmp_path / f"in_{name}.lmgc").write_bytes(made[name].archive)
    in_another_process(tiny_folder("tiny_llama"), tmp_path, threads=1, batch=3, plain_cpu=True)
    for name in chosen:
        found = decompress((tmp_path / f"out_{name}.lmgc").read_bytes(), tiny_model)
        assert found.to_bytes() == awkward_gradient().to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", [1, 3, 16])
@pytest.mark.parametrize("plain_cpu", [False, True])
def test_the_whole_matrix(
    made: dict[str, Any],
    tiny_model: Any,
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
    threads: int,
    batch: int,
    plain_cpu: bool,
) -> None:
    for name in CONFIGS:
        (tmp_path / f"in_{name}.lmgc").write_bytes(made[name].archive)
    in_another_process(tiny_folder("tiny_llama"), tmp_path, threads, batch, plain_cpu)
    for name in CONFIGS:
        found = decompress((tmp_path / f"out_{name}.lmgc").read_bytes(), tiny_model)
        assert found.to_bytes() == awkward_gradient().to_bytes()


@settings(max_examples=24, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bits_of_any_dtype_and_shape_come_back(tiny_model: Any, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int16", "bool"]))
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=3)))
    alphabets = ["hex", "iso", "decimal"] + (["numbers", "letters"] if "float" in dtype else [])
    alphabet = data.draw(st.sampled_from(alphabets + (["float"] if dtype in ("float32", "float16") else [])))
    counted = alphabet in ("numbers", "letters")
    planes = data.draw(st.sampled_from(["exponent", "head"] if counted else ["all"]))
    config = CodecConfig(
        planes=planes,  # type: ignore[arg-type]
        alphabet=alphabet,  # type: ignore[arg-type]
        separator=data.draw(st.sampled_from(["space", "comma"])),  # type: ignore[arg-type]
        line=data.draw(st.sampled_from([0, "auto", 2])),  # type: ignore[arg-type]
        context_window=data.draw(st.sampled_from([256, 60])),
        prior=data.draw(st.sampled_from(["llm", "counts", "mix"])),  # type: ignore[arg-type]
        support=data.draw(st.sampled_from(["alphabet", "full"])),  # type: ignore[arg-type]
        segment=data.draw(st.integers(1, 3)),
    )
    gradient = random_gradient(data.draw(st.integers(0, 1 << 30)), dtype, shape)
    found = decompress(compress(gradient, tiny_model, config, verify="none"), tiny_model)
    assert found.specs == gradient.specs
    assert found.to_bytes() == gradient.to_bytes()


def test_an_archive_with_many_exceptions_decodes(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard a million times wider writes exceptions that a real one hardly ever needs."""
    monkeypatch.setattr(archive_module, "GUARD_EXPONENT", 10)
    gradient = awkward_gradient().select(["z.w", "b"])
    result = compress(gradient, tiny_model, small("best"), verify="none")
    assert result.report["n_exceptions"] > 20
    assert result.report["exceptions_bytes"] > 0
    assert describe(result)["settings"]["guard_bits"] == 2.0**-10
    assert decompress(result, tiny_model).to_bytes() == gradient.to_bytes()


def test_exceptions_come_back() -> None:
    positions, columns = np.array([0, 0, 0, 7, 7, 300]), np.array([0, 1, 900, 2, 3, 0])
    up = np.array([True, False, True, True, False, False])
    found = read_exceptions(write_exceptions(positions, columns, up), 1000)
    assert found == {0: [(0, True), (1, False), (900, True)], 7: [(2, True), (3, False)], 300: [(0, False)]}
    for damaged in (b"\x00", b"\x01\xff\x7f", b"\x01\x02\x00\x01"):
        with pytest.raises(LmgcError):
            read_exceptions(damaged, 1000)


def test_tokens_are_coded_step_by_step() -> None:
    windows, steps = coding_order([2, 0, 3])
    assert list(zip(windows.tolist(), steps.tolist(), strict=True)) == [(0, 0), (2, 0), (0, 1), (2, 1), (2, 2)]


def more_architectures() -> dict[str, Any]:
    """Configurations beside those of `tiny_models`, by name."""
    from transformers import Gemma3TextConfig, GPTNeoXConfig, MistralConfig, Qwen2Config

    shared = {
        "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "initializer_range": 0.4,
        "num_attention_heads": 4, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
    }  # fmt: skip
    return {
        "mistral": MistralConfig(**shared, num_key_value_heads=2, sliding_window=9),
        "qwen2": Qwen2Config(**shared, num_key_value_heads=2),
        "gemma3": Gemma3TextConfig(**shared, num_key_value_heads=2, head_dim=8, sliding_window=9),
        "gpt_neox": GPTNeoXConfig(**shared),
    }


@pytest.mark.parametrize(
    "name", ["tiny_llama", "tiny_gpt2", "tiny_softcapped", "tiny_scaled", "mistral", "qwen2", "gemma3", "gpt_neox"]
)
def test_steps_agree_with_one_pass_far_within_the_guard(
    name: str, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    """At most a thousandth of the guard apart, whatever the architecture rounds inside."""
    if name.startswith("tiny"):
        folder = tiny_folder(name)
    else:
        tokenizer = tiny_models.byte_level_tokenizer(n_tokens=300)
        folder = tiny_models.save_folder(tmp_path / name, more_architectures()[name], tokenizer)
    model = load_model(str(folder))
    scorer = ExactScorer(model)
    support = model.tokenizer.support(None)
    generator = np.random.default_rng(0)
    windows = [generator.integers(3, 290, n).astype(np.int32) for n in (24, 20, 7)]
    passes: list[list[Any]] = [[], [], []]
    for window, first, surprisals in scorer.windows(windows, support, 2):
        assert first == sum(len(part) for part in passes[window])
        passes[window].append(surprisals)
    whole = [np.concatenate(parts) for parts in passes]
    stepper, rows, gap = scorer.stepper(3, 24, support), [0, 1, 2], 0.0
    for step in range(24):
        found = stepper.step()
        gap = max(gap, max(np.abs(found[i] - whole[r][step]).max() for i, r in enumerate(rows)))
        stepper.push([int(windows[r][step]) for r in rows])
        still = [i for i, r in enumerate(rows) if len(windows[r]) > step + 1]
        if len(still) < len(rows):
            stepper.keep(still)
            rows = [rows[i] for i in still]
    assert 0 < gap < GUARD_BITS / 1000


@pytest.mark.parametrize("name", ["lean", "counts", "mix"])
def test_every_prefix_and_every_flip_is_refused(made: dict[str, Any], tiny_model: Any, name: str) -> None:
    data = made[name].archive
    for n in range(len(data)):
        with pytest.raises(LmgcError):
            open_archive(data[:n])
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(LmgcError):
            open_archive(bytes(flipped))
    with pytest.raises(CorruptContainer):
        decompress(data + b"\0", tiny_model)
    with pytest.raises(TruncatedContainer):
        decompress(data[:-1], tiny_model)


def fuzz(data: bytes, model: Any, n: int, seed: int) -> dict[str, int]:
    """Outcomes of n mutations; anything but an LmgcError flies out.

    Of four, two are left as they are and must be refused. One has its SHA-256 made right, and may hit a field that
    decoding does not need. One changes a payload or exceptions with all checksums made right: where it decodes at
    all, it decodes to something else.
    """
    generator, outcomes = np.random.default_rng(seed), {"refused": 0, "decoded": 0, "decoded segments": 0}
    for i in range(n):
        try:
            if i % 4 == 3:
                decompress(with_mutated_segment(data, model, generator), model)
                outcomes["decoded segments"] += 1
                continue
            changed = mutated(data, generator)
            decompress(resealed(changed) if i % 4 == 1 else changed, model, max_bytes=20_000)
            outcomes["decoded"] += 1
            assert i % 4 == 1 or changed == data, f"mutation {i} was not noticed"
        except LmgcError:
            outcomes["refused"] += 1
    return outcomes


@pytest.mark.parametrize("name", CONFIGS)
def test_mutations_end_in_one_line_errors(tiny_model: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "GUARD_EXPONENT", 16)  # so that there are exceptions to mutate
    gradient = Gradient.from_arrays({"w": np.float32([1, -2, 3e-5])})
    data = compress(gradient, tiny_model, small(name), verify="none").archive
    outcomes = fuzz(data, tiny_model, 40, seed=0)
    assert outcomes["refused"] >= 20


def test_a_payload_of_noise_reaches_the_decoder_and_may_decode(tiny_model: Any) -> None:
    """Where a mantissa's bits change, the rest still decodes: to other values, of the same names and shapes."""
    gradient = Gradient.from_arrays({"w": np.random.default_rng(0).normal(size=40).astype("f4")})
    data = compress(gradient, tiny_model, small("counts"), verify="none").archive
    generator, kept = np.random.default_rng(0), 0
    for _ in range(30):
        try:
            found = decompress(with_mutated_segment(data, tiny_model, generator), tiny_model)
        except LmgcError:
            continue
        kept += found.specs == gradient.specs and found.to_bytes() != gradient.to_bytes()
    assert kept > 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ["lean", "best", "counts", "mix", "paper_mix"])
def test_ten_thousand_mutations(tiny_model: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "GUARD_EXPONENT", 18)
    gradient = Gradient.from_arrays({"w": np.float32([1, -2, 3e-5]), "b": np.float16([0.5])})
    data = compress(gradient, tiny_model, small(name), verify="none").archive
    outcomes = fuzz(data, tiny_model, 2_000, seed=1)
    assert sum(outcomes.values()) == 2_000
    assert outcomes["refused"] >= 1_000


def test_payload_damage_behind_a_good_seal_is_found_by_the_check(made: dict[str, Any], tiny_model: Any) -> None:
    data = bytearray(made["best"].archive)
    data[-40] ^= 1
    with pytest.raises(LmgcError):
        decompress(resealed(bytes(data)), tiny_model)


def test_another_model_is_refused(made: dict[str, Any], tmp_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    tokenizer = tiny_models.byte_level_tokenizer()
    config = tiny_models.llama_config(tokenizer.get_vocab_size(), tie_word_embeddings=True)
    roles = {"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>"}
    other = load_model(str(tiny_models.save_folder(tmp_path / "other", config, tokenizer, roles, seed=1)))
    with pytest.raises(IncompatibleContainer, match="not with"):
        decompress(made["lean"], other)
    stranger = load_model(str(tiny_folder("tiny_sentencepiece_llama")))
    with pytest.raises(IncompatibleContainer, match="tokenizer"):
        decompress(made["lean"], stranger)


TRANSFORMS = (
    "fp16", "bf16", "fp8", "fp8-e5m2", "uniform:1", "uniform:8", "uniform:4:8", "uniform:16", "qsgd:4", "sign",
    "topk:0.5", "randk:0.3", "topk:0.5+uniform:4", "randk:0.5+sign", "topk:0.5+bf16",
)  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_lossy_step_is_written_down_and_gives_what_it_promised(tiny_model: Any, transform: str) -> None:
    rng = np.random.default_rng(1)
    gradient = Gradient.from_arrays(
        {"w": rng.normal(size=(5, 6)).astype("f4"), "zeros": np.zeros(7, "f4"), "one": np.float32(-3e38)}
    )
    config = small("best", transform=transform, seed=3, prior="counts")
    result = compress(gradient, tiny_model, config, verify="all")
    values, side = apply_transform(transform, gradient, seed=3)
    found = decompress(result, tiny_model)
    assert found.to_bytes() == values.to_bytes()
    assert found.specs == gradient.specs
    assert describe(result)["lossy"]
    assert result.report["sha256"] == values.digest != gradient.digest
    # What a measurement counts, what the report of an archive says, and what stands in it are the same bytes.
    stored = open_archive(result.archive).header.side
    assert len(stored) == result.report["side_information_bytes"] == side.n_bytes
    counted = measure(gradient, tiny_model, config, limit=0)
    assert counted.side_bits == 8 * side.n_bytes + counted.coding.reference_bits


def test_one_tensor_can_be_decoded_alone(made: dict[str, Any], tiny_model: Any) -> None:
    tokens = []
    found = decompress(
        made["best"], tiny_model, tensors=["b"], on_progress=lambda progress: tokens.append(progress.n_tokens_done)
    )
    assert [t.name for t in found] == ["b"]
    assert found.to_bytes() == awkward_gradient().select(["b"]).to_bytes()
    assert tokens[-1] < made["best"].report["n_tokens"]
    with pytest.raises(InvalidSetting, match="'nope'"):
        decompress(made["best"], tiny_model, tensors=["nope"])


def test_nothing_at_all_has_an_archive(tiny_model: Any) -> None:
    for gradient in (Gradient(()), Gradient.from_arrays({"e": np.zeros((3, 0), "f4")})):
        result = compress(gradient, tiny_model, small("best"))
        assert decompress(result, tiny_model).specs == gradient.specs


def test_describe_tells_what_decoding_needs_without_a_model(made: dict[str, Any]) -> None:
    told = describe(made["best"])
    assert told["decoding"]["memory_bytes"] > 0
    assert told["decoding"]["windows_in_step"] == 2
    assert [t["name"] for t in told["tensors"]] == [t.name for t in awkward_gradient()]
    assert told["settings"]["serializations"]["float32"]["alphabet"] == "numbers"
    assert told["container_bytes"] == made["best"].report["container_bytes"]
    json.dumps(told)


def test_verify_compares_with_a_gradient(made: dict[str, Any], tiny_model: Any) -> None:
    assert verify_archive(made["lean"], awkward_gradient(), tiny_model)["compared"]
    with pytest.raises(LmgcError, match="another gradient"):
        verify_archive(made["lean"], awkward_gradient().select(["b"]), tiny_model)


def test_a_large_archive_is_proven_on_a_seeded_sample(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_proof, "VERIFY_TOKENS", 30)
    gradient = Gradient.from_arrays({"w": np.random.default_rng(0).normal(size=60).astype("f4")})
    result = compress(gradient, tiny_model, small("best", context_window=64, segment=1))
    assert result.report["verified"] == "sample"
    assert 30 <= result.report["verified_tokens"] < result.report["n_tokens"]
    assert 1 <= result.report["verified_segments"] < result.report["n_segments"]


def test_a_wrong_decoder_is_caught_by_the_proof(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this machine's steps differed from its passes by more than the guard."""
    from lmgc_core.exact_scoring import LlamaStepper

    honest = LlamaStepper.step
    monkeypatch.setattr(LlamaStepper, "step", lambda self: honest(self) * 1.05)
    with pytest.raises(LmgcError):
        compress(awkward_gradient(), tiny_model, small("best"))


def test_work_stops_when_asked(tiny_model: Any, made: dict[str, Any]) -> None:
    with pytest.raises(Cancelled):
        compress(awkward_gradient(), tiny_model, small("best"), should_stop=lambda: True)
    with pytest.raises(Cancelled):
        decompress(made["best"], tiny_model, should_stop=lambda: True)


def test_a_model_that_gives_nan_is_refused(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    folder = Path(shutil.copytree(tiny_folder("tiny_llama"), tmp_path / "nan"))
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][:] = np.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(LmgcError, match="NaN"):
        compress(awkward_gradient(), load_model(str(folder)), small("best"))


def test_models_whose_weights_were_rounded_are_refused(tiny_folder: Callable[[str], Path]) -> None:
    model = load_model(str(tiny_folder("tiny_llama")), RunOptions(dtype="bf16"))
    with pytest.raises(ModelUnavailable, match="fp32"):
        compress(awkward_gradient(), model, small("best"))


def test_a_model_that_does_not_fit_is_refused_with_the_figure(
    tiny_model: Any, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_scoring, "available_memory", lambda: 1000)
    with pytest.raises(ModelUnavailable, match=r"GB more as fp64"):
        compress(awkward_gradient(), tiny_model, small("best"))
    monkeypatch.undo()
    monkeypatch.setattr(archive_decoding, "available_memory", lambda: 1000)
    with pytest.raises(ModelUnavailable, match="to decode"):
        decompress(made["best"], tiny_model)


def test_more_than_the_limit_is_refused(made: dict[str, Any], tiny_model: Any) -> None:
    with pytest.raises(IncompatibleContainer, match="limit"):
        decompress(made["best"], tiny_model, max_bytes=100)


@pytest.mark.parametrize("config", [small("best", context_window=4096), small("best", segment=1 << 20)])
def test_settings_that_cannot_be_archived_are_refused(tiny_model: Any, config: CodecConfig) -> None:
    with pytest.raises(InvalidSetting):
        compress(awkward_gradient(), tiny_model, config)
    with pytest.raises(InvalidSetting, match="verify"):
        compress(awkward_gradient(), tiny_model, small("best"), verify="perhaps")  # type: ignore[arg-type]


def test_every_golden_archive_is_listed() -> None:
    assert {p.stem for p in GOLDEN.glob("*.lmgc")} == set(json.loads((GOLDEN / "digests.json").read_text("utf-8")))


@pytest.mark.parametrize("name", [f"v1_{name}" for name in CASES])
def test_golden_archives_decode_for_ever(name: str) -> None:
    """Written once by tests/golden/write_golden.py; a missing one fails."""
    expected = json.loads((GOLDEN / "digests.json").read_text("utf-8"))[name]
    model = load_model(str(GOLDEN / "model"))
    found = decompress((GOLDEN / f"{name}.lmgc").read_bytes(), model)
    assert found.digest == expected
    if name != "v1_lossy":
        assert found.to_bytes() == awkward_gradient().to_bytes()


@pytest.mark.parametrize("prior", ["counts", "mix"])
def test_a_measurement_says_what_an_archive_spends(tiny_model: Any, prior: Any) -> None:
    gradient = Gradient.from_arrays({"w": (np.random.default_rng(3).normal(size=(20, 27)) * 1e-3).astype("f4")})
    for name in ("best", "lean"):
        config = preset(name, prior=prior, segment=3, context_window=256)
        report = compress(gradient, tiny_model, config).report
        totals = measure(gradient, tiny_model, config, limit=0).totals
        assert totals.n_tokens == report["n_tokens"]
        gap = abs(report["token_code_length_bits"] - totals.surprisal_bits)
        assert gap <= max(0.01 * totals.n_tokens, 0.005 * totals.surprisal_bits)
        assert report["surprisal_bits"] == report["token_code_length_bits"]


def test_counts_need_the_tokenizer_alone(
    made: dict[str, Any], tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tiny_folder("tiny_llama"))
    tokenizer = load_tokenizer(folder)
    for name in ("counts", "lean_counts"):
        assert decompress(made[name], tokenizer).to_bytes() == awkward_gradient().to_bytes()
        again = compress(awkward_gradient(), tokenizer, small(name, model=folder))
        assert again.archive == made[name].archive
        assert open_archive(again.archive).header.model_fingerprint == b""
        told = describe(again)
        assert told["settings"]["prior"] == "counts"
        assert told["decoding"]["needs"] == "tokenizer"
        assert verify_archive(again, awkward_gradient(), tokenizer)["prior"] == "counts"
    monkeypatch.setattr(archive_model, "load_model", None)  # calling it would raise TypeError
    monkeypatch.setattr(archive_model, "load_tokenizer", lambda name: tokenizer)
    assert decompress(made["counts"]).to_bytes() == awkward_gradient().to_bytes()
    with pytest.raises(IncompatibleContainer, match="tokenizer"):
        decompress(made["counts"], load_tokenizer(str(tiny_folder("tiny_sentencepiece_llama"))))
    for work in (lambda: decompress(made["mix"], tokenizer), lambda: compress(awkward_gradient(), tokenizer)):
        with pytest.raises(InvalidSetting, match="only"):
            work()


def test_segments_of_every_prior_decode_alone(made: dict[str, Any], tiny_model: Any) -> None:
    for name in ("counts", "mix", "paper_mix"):
        found = decompress(made[name], tiny_model, tensors=["<b>"])
        assert found.to_bytes() == awkward_gradient().select(["<b>"]).to_bytes()


def test_bins_beyond_the_limit_go_to_a_file_and_are_refused_where_it_does_not_fit(
    made: dict[str, Any], tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_bins, "HELD_BYTES", 1000)
    assert SegmentBins([5, 5], 50).in_memory
    assert not SegmentBins([5, 5], 51).in_memory
    assert compress(awkward_gradient(), tiny_model, small("mix"), verify="none").archive == made["mix"].archive
    with pytest.raises(UnsupportedInput, match="temporary files have"):
        SegmentBins([1 << 40], 49_152)


@pytest.mark.model
@pytest.mark.parametrize("name", CONFIGS)
def test_the_real_model_codes_a_real_gradient(default_model: Any, name: str) -> None:
    whole = max(load_gradient(list_samples()[0].path), key=lambda tensor: tensor.n_parameters)
    gradient = Gradient.from_arrays({whole.name: whole.array.reshape(-1)[:24]})
    chosen, explicit = CONFIGS[name]
    result = compress(gradient, default_model, preset(chosen, **explicit), verify="all")  # type: ignore[arg-type]
    assert result.report["verified"] == "all"
    gap = abs(result.report["token_code_length_bits"] - result.report["surprisal_bits"])
    assert gap <= max(0.01 * result.report["n_tokens"], 0.005 * result.report["surprisal_bits"])
    assert result.report["n_exceptions"] <= 1 + 0.001 * result.report["n_tokens"]


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("name", archive_cases.PRESETS)
def test_every_sample_goes_through_every_preset(default_model: Any, name: Any) -> None:
    """The first values of each sample's two largest tensors, encoded with two threads, decoded with one."""
    parts = []
    for sample in list_samples():
        for tensor in sorted(load_gradient(sample.path), key=lambda t: -t.n_parameters)[:2]:
            part = cut_tensor(tensor, first_values(tensor.shape, 6))
            parts.append(Tensor(replace(part.spec, name=f"{sample.name}/{part.name}"), part.words))
    gradient = Gradient(tuple(parts))
    assert {t.dtype.name for t in gradient} >= {"float32", "float16", "bfloat16"}
    result = compress(gradient, default_model, preset(name), options=RunOptions(threads=2), verify="none")
    found = decompress(result, default_model, options=RunOptions(threads=1, batch_size=3))
    assert found.specs == gradient.specs
    assert found.to_bytes() == gradient.to_bytes()
    assert result.report["n_exceptions"] <= 1 + 0.001 * result.report["n_tokens"]


def first_values(shape: tuple[int, ...], n: int) -> tuple[int | slice, ...]:
    """A slice with the first n values of the innermost axis that has so many, or of what there is."""
    index: list[int | slice] = [slice(0, 1) for _ in shape]
    for axis in reversed(range(len(shape))):
        index[axis] = slice(0, min(n, shape[axis]))
        n = -(-n // max(shape[axis], 1))
    return tuple(index)


def test_helpers_change_something() -> None:
    data = bytes(range(100))
    generator = np.random.default_rng(0)
    assert sum(mutated(data, generator) != data for _ in range(50)) >= 45
    assert archive_cases.PLAINEST_CPU["ATEN_CPU_CAPABILITY"] == "default"

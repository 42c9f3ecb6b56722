"""Archives: a gradient → the bytes of an .lmgc file that decodes on any machine, and back.

Law: `decompress(compress(g))` equals the transformed g, bit for bit, whatever the threads, batch, instruction set
or device of either side. Encoding is parallel passes over windows, decoding runs windows in step. Exact fp64
arithmetic throughout; `codec.measure` is the fast estimate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lmgc_core.archive_decoding import (
    ArchiveProgress,
    OnProgress,
    ShouldStop,
    check_model,
    check_size,
    decoded_words,
    fingerprint_prefix,
    open_archive,
)
from lmgc_core.archive_header import (
    MAX_SEGMENT,
    MODEL_CODES,
    MODEL_FINGERPRINT_BYTES,
    TOKENIZER_FINGERPRINT_BYTES,
    Header,
    longest_stated,
    needs_reference,
    tensor_fields,
)
from lmgc_core.archive_plan import CutRecorder, in_segments, planned_windows
from lmgc_core.container import StoredSegment, write_container
from lmgc_core.errors import InvalidSetting, LmgcError
from lmgc_core.exact_scoring import ExactScorer
from lmgc_core.gradient import Gradient, Tensor
from lmgc_core.guarded_rounding import GUARD_EXPONENT
from lmgc_core.language_model import LanguageModel, load_model
from lmgc_core.language_model.catalogue import CATALOGUE
from lmgc_core.plan import Coding, Window, prepare
from lmgc_core.segment_coding import EncodedSegment, encode_segment
from lmgc_core.settings import CodecConfig, RunOptions
from lmgc_core.transforms import parse_transform

VERIFY_TOKENS = 10_000
MAX_BYTES = 1_000_000_000
Verify = Literal["auto", "all", "none"]


@dataclass(frozen=True, slots=True)
class CompressResult:
    """An archive and what it cost.

    Attributes:
        archive: the bytes of the .lmgc file.
        report: sizes and proof, as interface: report, `compress`; further keys are additions.
    """

    archive: bytes
    report: dict[str, Any]


def compress(
    gradient: Gradient,
    model: LanguageModel,
    config: CodecConfig | None = None,
    *,
    options: RunOptions | None = None,
    verify: Verify = "auto",
    on_progress: OnProgress | None = None,
    should_stop: ShouldStop | None = None,
) -> CompressResult:
    """An archive of the gradient, proven by decoding it.

    Args:
        gradient: what to store; never modified.
        model: from `load_model`, as fp32 or fp64.
        config: all of it that a decoder needs stands in the archive.
        options: change speed alone.
        verify: "all" decodes everything and compares; "auto" does so up to 10,000 tokens and takes a seeded
            set of segments of that size beyond; "none" does not.
        on_progress: called after each segment.
        should_stop: asked often; True ends the run and nothing is kept.

    Raises:
        InvalidSetting: a setting that does not fit the gradient or the model.
        ModelUnavailable: when the model does not fit in memory as fp64; with the figure.
        LmgcError: when the proof fails.
        Cancelled: when asked to stop.
    """
    config, options = config or CodecConfig(), options or RunOptions()
    _check_config(config, model, verify)
    coding = prepare(gradient, config)
    supports = {
        name: model.tokenizer.support(s.alphabet_bytes if config.support == "alphabet" else None)
        for name, s in coding.serializers.items()
    }
    scorer = ExactScorer(model)
    recorder, encoded, stored, n_tokens, longest, done = CutRecorder(), [], [], [], 0, 0
    for run in in_segments(_recorded(coding, model, config, recorder), config.segment):
        texts, ids = [w.text for w in run], [w.ids for w in run]
        segment = encode_segment(
            scorer, ids, texts, supports[run[0].dtype.name], 2.0**-GUARD_EXPONENT, options, should_stop
        )
        words = b"".join(np.ascontiguousarray(p.words).tobytes() for w in run for p in coding.values(w.pieces))
        kept = StoredSegment(segment.exceptions, segment.payload, 0)
        stored.append(StoredSegment(segment.exceptions, segment.payload, kept.check_of(words)))
        encoded.append(segment)
        n_tokens.append(segment.n_tokens)
        longest = max(longest, *(len(i) for i in ids))
        done += sum(w.n_parameters for w in run)
        if on_progress is not None:
            on_progress(ArchiveProgress("encode", done, coding.coded.n_parameters, sum(n_tokens)))
    header = _header(coding, model, config, recorder, longest, scorer)
    archive = write_container(header, stored)
    chosen = _segments_to_verify(n_tokens, verify, config.seed)
    if chosen:
        _prove(archive, coding, scorer, chosen, options, on_progress, should_stop)
    report = _report(archive, coding, encoded, verify, [n_tokens[i] for i in chosen])
    return CompressResult(archive, report)


def decompress(
    archive: bytes | CompressResult,
    model: LanguageModel | None = None,
    *,
    tensors: Sequence[str] = (),
    options: RunOptions | None = None,
    max_bytes: int = MAX_BYTES,
    on_progress: OnProgress | None = None,
    should_stop: ShouldStop | None = None,
) -> Gradient:
    """The gradient in an archive, bit for bit; with a lossy step, what that step made of the original.

    Args:
        archive: the bytes of the file.
        model: the one that it was made with; loaded by its id if not given.
        tensors: only these; all for none. Without a lossy step only their segments are decoded.
        options: `batch_size` is how many windows advance in step; change speed and memory alone.
        max_bytes: refuse archives that say they hold more.

    Raises:
        TruncatedContainer, CorruptContainer, IncompatibleContainer: for what cannot be decoded; before any value is
            given out.
        ModelUnavailable: when the model is not here or does not fit as fp64.
        Cancelled: when asked to stop.
    """
    container = open_archive(_bytes(archive))
    header = container.header
    check_size(header, max_bytes)
    unknown = sorted(set(tensors) - {s.name for s in header.specs})
    if unknown:
        raise InvalidSetting(f"no tensor is called {unknown[0]!r}; see describe for the names")
    options = options or RunOptions()
    if model is None:
        model = load_model(header.model, options)
    check_model(header, model)
    lossy = header.transform != "none"
    wanted = None if lossy or not tensors else {i for i, s in enumerate(header.specs) if s.name in set(tensors)}
    words = decoded_words(container, ExactScorer(model), wanted, None, options, "decode", on_progress, should_stop)
    coded = Gradient(
        tuple(Tensor(s, w) for i, (s, w) in enumerate(zip(header.coded_specs, words, strict=True))
              if wanted is None or i in wanted)
    )  # fmt: skip
    if lossy:
        coded = parse_transform(header.transform).reconstruct(coded, header.side, header.specs)
    return coded.select(tuple(tensors))


def verify_archive(
    archive: bytes | CompressResult,
    gradient: Gradient | None = None,
    model: LanguageModel | None = None,
    *,
    options: RunOptions | None = None,
    on_progress: OnProgress | None = None,
    should_stop: ShouldStop | None = None,
) -> dict[str, Any]:
    """Decodes an archive whole and says what came of it.

    Args:
        archive: the bytes of the file.
        gradient: what it should give back, if that is at hand; names, dtypes, shapes and bits are compared.
        model, options, on_progress, should_stop: as for `decompress`.

    Raises:
        LmgcError: when it does not decode, or decodes to something else.
    """
    found = decompress(
        archive, model, options=options, max_bytes=1 << 62, on_progress=on_progress, should_stop=should_stop
    )
    if gradient is not None and (found.specs != gradient.specs or found.to_bytes() != gradient.to_bytes()):
        raise LmgcError(f"the archive holds another gradient: SHA-256 {found.digest[:12]}, not {gradient.digest[:12]}")
    return {
        "verified": "all",
        "sha256": found.digest,
        "n_parameters": found.n_parameters,
        "raw_bytes": found.raw_bytes,
        "compared": gradient is not None,
    }


def describe(archive: bytes | CompressResult) -> dict[str, Any]:
    """What an archive says about itself; needs no model and decodes nothing.

    Raises:
        TruncatedContainer, CorruptContainer, IncompatibleContainer: as `decompress`.
    """
    container = open_archive(_bytes(archive))
    header = container.header
    entry = CATALOGUE.get(header.model)
    return {
        "format": 1,
        "container_bytes": container.n_bytes,
        "header_bytes": container.header_bytes,
        "names_and_shapes_bytes": len(tensor_fields(header.specs)),
        "payload_bytes": container.payload_bytes,
        "exceptions_bytes": container.exceptions_bytes,
        "n_segments": len(container.segments),
        "raw_bytes": sum(s.raw_bytes for s in header.specs),
        "compression_rate": _rate(container.n_bytes, sum(s.raw_bytes for s in header.specs)),
        "model": {
            "id": header.model,
            "source": header.source or (entry.source if entry else ""),
            "fingerprint": header.model_fingerprint.hex(),
            "tokenizer_fingerprint": header.tokenizer_fingerprint.hex(),
        },
        "decoding": {
            "memory_bytes": header.memory_megabytes * 1_000_000,
            "windows_in_step": header.segment,
            "longest_window": header.longest_window,
        },
        "settings": {
            "context_window": header.context_window,
            "support": header.support,
            "prior": header.prior,
            "segment": header.segment,
            "transform": header.transform,
            "seed": header.seed,
            "preset": header.preset,
            "guard_bits": 2.0**-header.guard_exponent,
            "serializations": {
                name: {f: getattr(s, f) for f in s.__dataclass_fields__} for name, s in header.serializations.items()
            },
        },
        "lossy": header.transform != "none",
        "tensors": [{"name": s.name, "dtype": s.dtype.name, "shape": list(s.shape)} for s in header.specs],
    }


def _check_config(config: CodecConfig, model: LanguageModel, verify: str) -> None:
    if verify not in ("auto", "all", "none"):
        raise InvalidSetting(f"verify {verify!r} is not known; choose one of auto, all, none")
    if config.prior != "llm":
        raise InvalidSetting(f"prior {config.prior!r} cannot be archived yet; choose llm")
    if config.context_window > model.context_length:
        raise InvalidSetting(
            f"context window {config.context_window} is more than {model.id} sees at once ({model.context_length}); "
            f"choose {model.context_length} or less"
        )
    if config.segment > MAX_SEGMENT:
        raise InvalidSetting(f"segment {config.segment}: choose 1 to {MAX_SEGMENT} windows in step")


def _recorded(coding: Coding, model: LanguageModel, config: CodecConfig, recorder: CutRecorder) -> Iterator[Window]:
    """All windows, in order, while the recorder takes down how each block was cut."""
    for number in range(len(coding.blocks)):
        windows = list(coding.windows([number], model.tokenizer, config.context_window))
        recorder.add(coding.blocks[number], [w.pieces for w in windows])
        yield from windows


def _header(
    coding: Coding, model: LanguageModel, config: CodecConfig, recorder: CutRecorder, longest: int, scorer: ExactScorer
) -> Header:
    entry = CATALOGUE.get(model.id)
    stated = longest_stated(longest)
    memory = 8 * model.n_parameters + scorer.cache_bytes_per_token * stated * config.segment
    specs = coding.coded.specs
    chosen = {name: s.serialization for name, s in coding.serializers.items()}
    return Header(
        model=Path(model.id).name if Path(model.id).exists() else model.id,  # a folder's place says nothing elsewhere
        source="" if model.id in MODEL_CODES or entry is None else entry.source,
        model_fingerprint=fingerprint_prefix(model.fingerprint, MODEL_FINGERPRINT_BYTES),
        tokenizer_fingerprint=fingerprint_prefix(model.tokenizer.fingerprint, TOKENIZER_FINGERPRINT_BYTES),
        context_window=config.context_window,
        longest_window=stated,
        memory_megabytes=-(-memory // 1_000_000),
        segment=config.segment,
        support=config.support,
        prior=config.prior,
        preset=config.preset,
        guard_exponent=GUARD_EXPONENT,
        transform=parse_transform(config.transform).spelling,
        seed=config.seed,
        serializations=chosen,
        specs=coding.raw.specs,
        coded_specs=specs,
        references=tuple(
            coding.references[s.name] for s in specs if needs_reference(s, chosen[s.dtype.name])
        ),
        cuts=recorder.cuts,
        side=coding.transformed.side.to_bytes(),
    )  # fmt: skip


def _segments_to_verify(n_tokens: Sequence[int], verify: str, seed: int) -> list[int]:
    """Indices of the segments that are decoded as a proof."""
    everything = list(range(len(n_tokens)))
    if verify == "none":
        return []
    if verify == "all" or sum(n_tokens) <= VERIFY_TOKENS:
        return everything
    shuffled = random.Random(seed).sample(everything, len(everything))
    chosen: list[int] = []
    while sum(n_tokens[i] for i in chosen) < VERIFY_TOKENS:
        chosen.append(shuffled[len(chosen)])
    return sorted(chosen)


def _prove(
    archive: bytes,
    coding: Coding,
    scorer: ExactScorer,
    chosen: Sequence[int],
    options: RunOptions,
    on_progress: OnProgress | None,
    should_stop: ShouldStop | None,
) -> None:
    """Decodes the chosen segments from the archive's bytes and compares every bit; raises LmgcError otherwise."""
    container = open_archive(archive)
    header = container.header
    words = decoded_words(container, scorer, None, set(chosen), options, "verify", on_progress, should_stop)
    for index, run in enumerate(in_segments(planned_windows(header), header.segment)):
        for piece in (p for w in run for p in w.pieces) if index in set(chosen) else ():
            own = coding.coded.tensors[piece.tensor_index].words[piece.first : piece.last]
            if not np.array_equal(own, words[piece.tensor_index][piece.first : piece.last]):
                raise LmgcError("the archive does not decode to its input; nothing was written, please report this")
    if len(chosen) == len(container.segments):
        whole = Gradient(tuple(Tensor(s, w) for s, w in zip(header.coded_specs, words, strict=True)))
        back = parse_transform(header.transform).reconstruct(whole, header.side, header.specs)
        if back.to_bytes() != coding.transformed.values.to_bytes():
            raise LmgcError("the lossy step is not inverted as promised; nothing was written, please report this")


def _bytes(archive: bytes | CompressResult) -> bytes:
    return archive.archive if isinstance(archive, CompressResult) else bytes(archive)


def _rate(n_bytes: int, raw_bytes: int) -> float | None:
    return n_bytes / raw_bytes if raw_bytes else None


def _report(
    archive: bytes, coding: Coding, encoded: Sequence[EncodedSegment], verify: Verify, proven: Sequence[int]
) -> dict[str, Any]:
    """Sizes and proof, as interface: report, `compress`."""
    container = open_archive(archive)
    values, n_tokens = coding.transformed.values, sum(s.n_tokens for s in encoded)
    complete = len(proven) == len(encoded)
    return {
        "container_bytes": len(archive),
        "header_bytes": container.header_bytes,
        "payload_bytes": container.payload_bytes,
        "exceptions_bytes": container.exceptions_bytes,
        "n_exceptions": sum(s.n_exceptions for s in encoded),
        "surprisal_bits": math.fsum(s.surprisal_bits for s in encoded),
        "code_length_bits": math.fsum(s.code_length_bits for s in encoded),
        "token_code_length_bits": math.fsum(s.token_code_bits for s in encoded),
        "compression_rate": _rate(len(archive), coding.raw.raw_bytes),
        "verified": "none" if verify == "none" else "all" if complete else "sample",
        "verified_segments": len(proven),
        "verified_tokens": sum(proven),
        "n_segments": len(encoded),
        "n_tokens": n_tokens,
        "raw_bytes": coding.raw.raw_bytes,
        "side_information_bytes": coding.transformed.side.n_bytes,
        "names_and_shapes_bytes": len(tensor_fields(container.header.specs)),
        "sha256": values.digest,
    }

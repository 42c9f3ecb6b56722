"""Archives: a gradient → the bytes of an .lmgc file that decodes on any machine, and back.

Law: `decompress(compress(g))` equals the transformed g, bit for bit, whatever the threads, batch, instruction set
or device of either side. Encoding is parallel passes over windows, decoding runs windows in step. Exact fp64
arithmetic throughout; `codec.measure` is the fast estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lmgc_core.archive_decoding import (
    ArchiveProgress,
    OnProgress,
    ShouldStop,
    check_size,
    decoded_words,
    open_archive,
)
from lmgc_core.archive_header import (
    MAX_CONTEXT,
    MAX_SEGMENT,
    MODEL_CODES,
    MODEL_FINGERPRINT_BYTES,
    TOKENIZER_FINGERPRINT_BYTES,
    Header,
    longest_stated,
    needs_reference,
)
from lmgc_core.archive_model import Predictor, check_model, fingerprint_prefix, model_of, predictor_of
from lmgc_core.archive_plan import CutRecorder
from lmgc_core.archive_proof import Verify, prove, segments_to_verify
from lmgc_core.archive_report import CompressResult, archive_bytes, compress_report, describe
from lmgc_core.archive_segments import (
    EncodeTask,
    encode_task,
    encode_tasks,
    named_model,
    predictor_elsewhere,
    segment_words,
)
from lmgc_core.backend import open_runner
from lmgc_core.container import StoredSegment, write_container
from lmgc_core.errors import InvalidSetting, LmgcError
from lmgc_core.gradient import Gradient, Tensor
from lmgc_core.guarded_rounding import GUARD_EXPONENT
from lmgc_core.language_model import LanguageModel, TextTokenizer
from lmgc_core.language_model.catalogue import CATALOGUE
from lmgc_core.plan import Coding, Window, check_tokenizer, prepare
from lmgc_core.segment_encoding import EncodedSegment
from lmgc_core.settings import CodecConfig, RunOptions
from lmgc_core.transforms import parse_transform

MAX_BYTES = 1_000_000_000

__all__ = ["ArchiveProgress", "CompressResult", "compress", "decompress", "describe", "verify_archive"]


def compress(
    gradient: Gradient,
    model: LanguageModel | TextTokenizer,
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
        model: from `load_model`, as fp32 or fp64; for prior counts `load_tokenizer` is enough.
        config: all of it that a decoder needs stands in the archive.
        options: change speed alone; with backend ray, segments are encoded by actors and proven here.
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
    predictor = predictor_of(config.prior, model)
    check_tokenizer(coding, predictor.tokenizer)
    recorder, longest, done, n_done = CutRecorder(), 0, 0, 0
    encoded: dict[int, EncodedSegment] = {}
    stored: dict[int, StoredSegment] = {}
    runs: dict[int, list[Window]] = {}

    def tasks() -> Iterator[EncodeTask]:
        found = encode_tasks(coding, predictor.tokenizer, config, GUARD_EXPONENT, options, recorder)
        for task, runs[task.index] in found:
            yield task

    elsewhere = partial(predictor_elsewhere, config.prior, *named_model(model, config))
    with open_runner(predictor, elsewhere, options) as runner:
        for step in runner(encode_task, tasks(), should_stop):
            for segment in step.found:
                run = runs.pop(step.index)
                kept = StoredSegment(segment.exceptions, segment.payload, 0)
                check = kept.check_of(segment_words(coding, run))
                stored[step.index] = StoredSegment(segment.exceptions, segment.payload, check)
                encoded[step.index] = segment
                longest = max(longest, *(len(w.ids) for w in run))
                done, n_done = done + sum(w.n_parameters for w in run), n_done + segment.n_tokens
                if on_progress is not None:
                    on_progress(ArchiveProgress("encode", done, coding.coded.n_parameters, n_done))
    segments = [encoded[i] for i in sorted(encoded)]
    n_tokens = [segment.n_tokens for segment in segments]
    name = config.model if isinstance(model, TextTokenizer) else model.id
    header = _header(coding, name, predictor, config, recorder, longest, model)
    archive = write_container(header, [stored[i] for i in sorted(stored)])
    chosen = segments_to_verify(n_tokens, verify, config.seed)
    if chosen:
        prove(archive, coding, predictor, chosen, options, on_progress, should_stop)
    report = compress_report(archive, coding, segments, verify, [n_tokens[i] for i in chosen])
    return CompressResult(archive, report)


def decompress(
    archive: bytes | CompressResult,
    model: LanguageModel | TextTokenizer | None = None,
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
        model: the one that it was made with; loaded by its id if not given. With prior counts its tokenizer is
            enough, and all that is loaded.
        tensors: only these; all for none. Without a lossy step only their segments are decoded.
        options: `batch_size` is how many windows advance in step; change speed and memory alone.
        max_bytes: refuse archives that say they hold more.

    Raises:
        TruncatedContainer, CorruptContainer, IncompatibleContainer: for what cannot be decoded; before any value is
            given out.
        ModelUnavailable: when the model is not here or does not fit as fp64.
        Cancelled: when asked to stop.
    """
    container = open_archive(archive_bytes(archive))
    header = container.header
    check_size(header, max_bytes)
    unknown = sorted(set(tensors) - {s.name for s in header.specs})
    if unknown:
        raise InvalidSetting(f"no tensor is called {unknown[0]!r}; see describe for the names")
    options = options or RunOptions()
    if model is None:
        model = model_of(header, options)
    check_model(header, model)
    lossy = header.transform != "none"
    wanted = None if lossy or not tensors else {i for i, s in enumerate(header.specs) if s.name in set(tensors)}
    predictor = predictor_of(header.prior, model)
    words = decoded_words(container, predictor, wanted, None, options, "decode", on_progress, should_stop)
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
    model: LanguageModel | TextTokenizer | None = None,
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
    data = archive_bytes(archive)
    found = decompress(
        data, model, options=options, max_bytes=1 << 62, on_progress=on_progress, should_stop=should_stop
    )
    if gradient is not None and (found.specs != gradient.specs or found.to_bytes() != gradient.to_bytes()):
        raise LmgcError(f"the archive holds another gradient: SHA-256 {found.digest[:12]}, not {gradient.digest[:12]}")
    return {
        "verified": "all",
        "prior": open_archive(data).header.prior,
        "sha256": found.digest,
        "n_parameters": found.n_parameters,
        "raw_bytes": found.raw_bytes,
        "compared": gradient is not None,
    }


def _check_config(config: CodecConfig, model: LanguageModel | TextTokenizer, verify: str) -> None:
    if verify not in ("auto", "all", "none"):
        raise InvalidSetting(f"verify {verify!r} is not known; choose one of auto, all, none")
    most = model.context_length if isinstance(model, LanguageModel) else MAX_CONTEXT - 1
    if config.context_window > most:
        seen = f"{model.id} sees at once" if isinstance(model, LanguageModel) else "an archive can say"
        raise InvalidSetting(
            f"context window {config.context_window} is more than {seen} ({most}); choose {most} or less"
        )
    if config.segment > MAX_SEGMENT:
        raise InvalidSetting(f"segment {config.segment}: choose 1 to {MAX_SEGMENT} windows in step")


def _header(
    coding: Coding,
    name: str,
    predictor: Predictor,
    config: CodecConfig,
    recorder: CutRecorder,
    longest: int,
    model: LanguageModel | TextTokenizer,
) -> Header:
    entry = CATALOGUE.get(name)
    stated = longest_stated(longest)
    fingerprint, memory = b"", 0
    if predictor.scorer is not None and isinstance(model, LanguageModel):
        fingerprint = fingerprint_prefix(model.fingerprint, MODEL_FINGERPRINT_BYTES)
        memory = 8 * model.n_parameters + predictor.scorer.cache_bytes_per_token * stated * config.segment
    specs = coding.coded.specs
    chosen = {name: s.serialization for name, s in coding.serializers.items()}
    return Header(
        model=Path(name).name if Path(name).exists() else name,  # a folder's place says nothing elsewhere
        source="" if name in MODEL_CODES or entry is None else entry.source,
        model_fingerprint=fingerprint,
        tokenizer_fingerprint=fingerprint_prefix(predictor.tokenizer.fingerprint, TOKENIZER_FINGERPRINT_BYTES),
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

"""What archive jobs do: make one and prove it by decoding, and decode one that was brought along.

Nothing is given out before it is whole: a job that is stopped or fails leaves no archive and no values.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from lmgc_core.archive_proof import VERIFY_TOKENS
from lmgc_core.gradient import Gradient, Tensor, TensorSpec
from lmgc_core.settings import CodecConfig, RunOptions, asks_model
from pages.ui.archive_forecast import Ahead
from pages.ui.format import count, duration
from pages.ui.jobs import JobContext, Work
from pages.ui.work import fetch_fraction, fetch_text, loaded_model

if TYPE_CHECKING:
    from lmgc_core.archive import ArchiveProgress
    from lmgc_core.language_model import LanguageModel, TextTokenizer

MOST_TOKENS_COUNTED = VERIFY_TOKENS


@dataclass(frozen=True)
class ToMake:
    """What a making job is given.

    Attributes:
        gradient: what goes into the archive.
        title: what it is called on the page.
        config: all of it stands in the archive.
        proof: "all" decodes everything, "auto" a seeded part where there is much.
        ahead: what it will take, as forecast.
    """

    gradient: Gradient
    title: str
    config: CodecConfig
    proof: str
    ahead: Ahead

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its result depends on."""
        return {"gradient": self.gradient.identity, "config": self.config.to_dict(), "proof": self.proof}


@dataclass(frozen=True)
class Made:
    """An archive that was proven.

    Attributes:
        archive: the file's bytes.
        report: sizes and proof, from `compress`.
        description: what the archive says of itself.
        original_sha256: of the values that were given.
        decoded_sha256: of what came back; None where only a part was decoded.
        encode_seconds, proof_seconds: how long each phase took.
    """

    archive: bytes
    report: Mapping[str, Any]
    description: Mapping[str, Any]
    original_sha256: str
    decoded_sha256: str | None
    encode_seconds: float
    proof_seconds: float


@dataclass(frozen=True)
class Opened:
    """An archive that was brought along and can be read; nothing of it is decoded yet."""

    name: str
    archive: bytes
    sha256: str
    description: Mapping[str, Any]


@dataclass(frozen=True)
class ToDecode:
    """What a decoding job is given: the archive, the model to use, the tensors wanted (all for none)."""

    opened: Opened
    model: str
    tensors: tuple[str, ...] = ()

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its result depends on."""
        return {"archive": self.opened.sha256, "model": self.model, "tensors": list(self.tensors)}


def leading_shape(shape: Sequence[int], n_parameters: int) -> tuple[int, ...]:
    """The shape of a tensor's first values in C order, at most so many of them, in as many dimensions.

    >>> leading_shape((24, 128, 3, 3), 288), leading_shape((10,), 4), leading_shape((2, 3), 99)
    ((1, 32, 3, 3), (4,), (2, 3))
    """
    for axis, rows in enumerate(shape):
        behind = prod(shape[axis + 1 :])
        if 0 < behind <= n_parameters:
            return (1,) * axis + (min(rows, n_parameters // behind), *shape[axis + 1 :])
    return tuple(shape)


def leading_part(gradient: Gradient, n_parameters: int) -> Gradient:
    """The first values of the largest tensor; the whole gradient for 0, or where it is no larger than that."""
    if not n_parameters or gradient.n_parameters <= n_parameters:
        return gradient
    largest = max(gradient, key=lambda t: t.n_parameters)
    spec = TensorSpec(largest.name, largest.dtype, leading_shape(largest.shape, n_parameters))
    return Gradient((Tensor(spec, largest.words[: spec.n_parameters].copy()),), gradient.name)


def open_upload(name: str, content: bytes) -> Opened:
    """What an archive says of itself, without decoding it. Raises LmgcError, naming the file, for what is none."""
    from lmgc_core.archive import describe
    from lmgc_core.errors import LmgcError

    try:
        return Opened(name, content, hashlib.sha256(content).hexdigest(), describe(content))
    except LmgcError as error:
        raise type(error)(f"{name}: {error}") from None


class Watch:
    """Turns what the library tells of its progress into a fraction of the whole and a time left.

    Between two of its reports the library only asks whether to stop: while decoding it does so once a step.
    """

    def __init__(
        self, context: JobContext, stage: str, first: float, last: float, n_steps: int = 0, seconds: float = 0.0
    ) -> None:
        self._context, self._stage, self._n_steps = context, stage, n_steps
        self._first, self._last = first, last
        self._started = time.monotonic()
        self._steps = 0
        self._done = 0.0
        context.say(f"{stage}, about {duration(seconds)} left" if seconds else stage, first or None)

    def should_stop(self) -> bool:
        """To be handed to the library."""
        self._steps += 1
        if self._n_steps:
            done = min(self._steps / self._n_steps, 0.99)
            words = f"{self._stage}, step {count(self._steps)}"
            if self._steps <= self._n_steps:
                words += f" of about {count(self._n_steps)}"
            self._say(words, done)
        return self._context.should_stop()

    def show(self, now: ArchiveProgress) -> None:
        """To be handed to the library."""
        words = f"{self._stage}, {count(now.n_parameters_done)} of {count(now.n_parameters)} values"
        self._say(words, now.n_parameters_done / max(now.n_parameters, 1))

    def _say(self, words: str, done: float) -> None:
        spent = time.monotonic() - self._started
        done = self._done = max(self._done, done)  # steps are a forecast, values are counted: the further one holds
        if done > 0.02 and spent > 1 and done < 1:
            words += f", about {duration(spent * (1 - done) / done)} left"
        self._context.say(words, self._first + (self._last - self._first) * done)


def predicting_model(model: str, prior: str, options: RunOptions, context: JobContext) -> LanguageModel | TextTokenizer:
    """What a prior needs: the model, from the shelf or loaded now, or its tokenizer alone."""
    if asks_model(prior):
        return loaded_model(model, options, context)
    from lmgc_core.language_model import load_tokenizer

    context.say("loading the tokenizer")
    return load_tokenizer(model, on_progress=lambda p: context.say(fetch_text(p), fetch_fraction(p)))


def make_work(subject: ToMake, options: RunOptions) -> Work:
    """Makes an archive, decodes it, and holds the result against the original."""

    def work(context: JobContext) -> Made:
        from lmgc_core.archive import compress, describe, verify_archive
        from lmgc_core.language_model import TextTokenizer
        from lmgc_core.transforms import apply_transform

        gradient, config = subject.gradient, subject.config
        model = predicting_model(config.model, config.prior, options, context)
        context.check()
        tokenizer = model if isinstance(model, TextTokenizer) else model.tokenizer
        whole = subject.proof == "all" or has_few_tokens(gradient, config, tokenizer)
        phases = _Phases(context, subject.ahead)
        made = compress(
            gradient,
            model,
            config,
            options=options,
            verify="none" if whole else "auto",
            on_progress=phases.show,
            should_stop=phases.should_stop,
        )
        report, decoded = dict(made.report), None
        if whole:
            phases.prove()
            expected = apply_transform(config.transform, gradient, config.seed)[0]
            found = verify_archive(
                made.archive,
                expected,
                model,
                options=options,
                on_progress=phases.show,
                should_stop=phases.should_stop,
            )
            decoded = found["sha256"]
            n = report["n_segments"], report["n_tokens"]
            report |= {"verified": "all", "verified_segments": n[0], "verified_tokens": n[1]}
        encode_seconds, proof_seconds = phases.seconds()
        return Made(
            made.archive, report, describe(made.archive), gradient.digest, decoded, encode_seconds, proof_seconds
        )

    return work


class _Phases:
    """The two phases of making: encoding, then the proof, which begins when all values are encoded."""

    def __init__(self, context: JobContext, ahead: Ahead) -> None:
        self._context, self._ahead = context, ahead
        self._started = time.monotonic()
        self._proof_started: float | None = None
        self._share = 0.25
        if ahead.encode_seconds + ahead.proof_seconds > 0:
            self._share = ahead.encode_seconds / (ahead.encode_seconds + ahead.proof_seconds)
        self._watch = Watch(context, "1 of 2: encoding", 0.0, self._share)

    def prove(self) -> None:
        """From now on it is the proof."""
        if self._proof_started is None:
            self._proof_started = time.monotonic()
            pace = (self._proof_started - self._started) / max(self._ahead.encode_seconds, 0.1)
            seconds = self._ahead.proof_seconds * max(pace, 0.5)
            stage = "2 of 2: proof by decoding"
            self._watch = Watch(self._context, stage, self._share, 1.0, self._ahead.proof_steps, seconds)

    def show(self, now: ArchiveProgress) -> None:
        """To be handed to the library."""
        if now.stage != "encode":
            self.prove()
        self._watch.show(now)
        if now.stage == "encode" and now.n_parameters_done >= now.n_parameters:
            self.prove()

    def should_stop(self) -> bool:
        """To be handed to the library."""
        return self._watch.should_stop()

    def seconds(self) -> tuple[float, float]:
        """How long encoding and proof took."""
        now = time.monotonic()
        proof = self._proof_started or now
        return proof - self._started, now - proof


def has_few_tokens(gradient: Gradient, config: CodecConfig, tokenizer: TextTokenizer) -> bool:
    """Whether all of it has so few tokens that a proof decodes everything; stops counting beyond."""
    from lmgc_core.plan import prepare

    coding, n_tokens = prepare(gradient, config), 0
    for window in coding.windows(range(len(coding.blocks)), tokenizer, config.context_window):
        n_tokens += len(window.ids)
        if n_tokens > MOST_TOKENS_COUNTED:
            return False
    return True


def decode_work(subject: ToDecode, options: RunOptions) -> Work:
    """Decodes an archive; its values are given out once all of them are there and checked."""

    def work(context: JobContext) -> Gradient:
        from lmgc_core.archive import decompress

        description = subject.opened.description
        model = predicting_model(subject.model, description["settings"]["prior"], options, context)
        context.check()
        watch = Watch(context, "decoding", 0.0, 1.0, decoding_steps(description))
        return decompress(
            subject.opened.archive,
            model,
            tensors=subject.tensors,
            options=options,
            on_progress=watch.show,
            should_stop=watch.should_stop,
        )

    return work


def decoding_steps(description: Mapping[str, Any]) -> int:
    """About how many steps decoding takes, where one group of windows in step holds everything; else 0."""
    few = description["n_segments"] * description["decoding"]["windows_in_step"] <= 64
    return int(description["decoding"]["longest_window"]) if few else 0

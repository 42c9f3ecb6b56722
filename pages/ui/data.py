"""What pages show, computed once: cached by identity and settings, never by hashing arrays.

Arguments that start with an underscore are not part of a cache's key; the identity beside them is: of names,
dtypes, shapes and bytes, since equal bytes alone may belong to another shape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from lmgc_core.errors import LmgcError, UnsupportedInput
from lmgc_core.gradient import Gradient, Tensor
from lmgc_core.settings import CodecConfig
from pages.ui import histograms
from pages.ui.colour import Colouring, colouring
from pages.ui.grid import Grid, View
from pages.ui.jobs import JobManager

if TYPE_CHECKING:
    from lmgc_core.language_model import TextTokenizer
    from lmgc_core.report import Report
    from lmgc_core.training import Recorded
    from lmgc_core.transforms import ErrorReport

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A gradient on the screen and where it came from ("sample", "upload", "path", "made here", "archive", "run")."""

    gradient: Gradient
    source: str
    title: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The text of the first window a run would score, and its tokens where a tokenizer is at hand.

    Attributes:
        text: as the model would read it.
        n_parameters: how many it holds.
        tensor: name of its first tensor.
        first_parameter: flat index of its first parameter there.
        texts, token_ids: the tokens; empty without a tokenizer.
        n_blocks: blocks of the whole gradient.
    """

    text: str
    n_parameters: int
    tensor: str
    first_parameter: int
    texts: tuple[str, ...]
    token_ids: tuple[int, ...]
    n_blocks: int


@dataclass(frozen=True, slots=True)
class AfterLossyStep:
    """What a lossy step leaves of a gradient.

    Attributes:
        values: what decoding gives back.
        error: over the whole gradient.
        side_bytes: size of its side information.
        n_coded: values that are serialized; fewer than there are where a sparsifier dropped others.
    """

    values: Gradient
    error: ErrorReport
    side_bytes: int
    n_coded: int


@st.cache_resource(show_spinner=False)
def jobs() -> JobManager:
    """The one job manager of this server; what a killed server left of uploads is removed before."""
    from pages.ui.incoming import sweep

    sweep()
    return JobManager()


# ---- gradients --------------------------------------------------------------------------------------------


@st.cache_data(show_spinner=False, ttl=60)
def samples() -> dict[str, str]:
    """Titles of the bundled samples by their names, in the order of their manifest."""
    from lmgc_core.samples import list_samples

    return {sample.name: sample.title for sample in list_samples()}


@st.cache_resource(show_spinner=False, max_entries=4)
def load_sample(name: str) -> Loaded:
    """A bundled sample."""
    from lmgc_core.files import load_gradient
    from lmgc_core.samples import sample_path

    return Loaded(load_gradient(sample_path(name)), "sample", samples().get(name, name))


@st.cache_resource(show_spinner=False, max_entries=8)
def selected(identity: str, _gradient: Gradient, names: tuple[str, ...]) -> Gradient:
    """Only the named tensors; all for none."""
    known = [n for n in names if any(t.name == n for t in _gradient)]
    return _gradient.select(known)


@st.cache_resource(show_spinner=False, max_entries=8)
def cut(identity: str, _gradient: Gradient, part: str) -> Gradient:
    """A slice, in brackets, of a gradient of one tensor."""
    from lmgc_core.slices import cut_tensor, parse_slice

    (tensor,) = _gradient.tensors
    return replace(_gradient, tensors=(cut_tensor(tensor, parse_slice(part, tensor.shape)),))


@st.cache_data(show_spinner=False, max_entries=32)
def n_blocks(identity: str, _gradient: Gradient) -> int:
    """Blocks of a gradient as it stands."""
    from lmgc_core.blocks import plan_blocks

    return len(plan_blocks(_gradient.specs))


def trained(job: str | None) -> tuple[Recorded, ...]:
    """What a training on this server has recorded so far."""
    found = jobs().get(job)
    return found.partial.recorded if found is not None and found.kind == "training" and found.partial else ()


def unpacked(job: str | None) -> Loaded | None:
    """The gradient that a job on this server has decoded from an archive."""
    found = jobs().get(job)
    if found is None or found.kind != "unpacking" or found.phase != "done":
        return None
    return Loaded(found.result, "archive", f"{found.subject.opened.name}, decoded")


def loaded_from_run(run: str | None) -> Loaded | None:
    """The gradient of a run that this server still keeps, for an address whose file is not in this session."""
    from pages.ui.kept_runs import loaded_of_run

    return loaded_of_run(run)


@st.cache_data(show_spinner=False, max_entries=32)
def tensor_rows(identity: str, _gradient: Gradient, with_figures: bool = True) -> list[dict[str, Any]]:
    """The table of tensors."""
    return histograms.tensor_rows(_gradient, with_figures)


@st.cache_data(show_spinner=False, max_entries=64)
def value_counts(identity: str, _tensor: Tensor, span: tuple[float, float] | None = None) -> histograms.ValueCounts:
    """Counts by value of one tensor."""
    return histograms.value_counts(_tensor, span)


@st.cache_data(show_spinner=False, max_entries=64)
def exponent_counts(identity: str, _tensor: Tensor) -> histograms.ExponentCounts | None:
    """Counts by exponent of one tensor; None for integers."""
    return histograms.exponent_counts(_tensor)


@st.cache_resource(show_spinner=False, max_entries=4)
def after_lossy_step(identity: str, _gradient: Gradient, step: str, seed: int) -> AfterLossyStep:
    """What a lossy step leaves, and what it costs."""
    from lmgc_core.transforms import measure_error, transform_gradient

    made = transform_gradient(step, _gradient, seed=seed)
    return AfterLossyStep(
        made.values, measure_error(_gradient, made.values), made.side.n_bytes, made.coded.n_parameters
    )


# ---- models and text --------------------------------------------------------------------------------------


@st.cache_data(show_spinner=False, ttl=3)
def catalogue() -> list[dict[str, Any]]:
    """The catalogue of models as rows, with whether each is here."""
    from lmgc_core.language_model import catalogue_rows

    return catalogue_rows()


@st.cache_data(show_spinner=False, ttl=3)
def model_is_here(model: str) -> bool:
    """Whether the model's tokenizer and weights can be read without fetching anything."""
    from lmgc_core.language_model import is_here

    return is_here(model)


@st.cache_resource(show_spinner=False, max_entries=4)
def tokenizer(model: str) -> TextTokenizer:
    """The model's tokenizer; to be asked for only when `model_is_here`."""
    from lmgc_core.language_model import load_tokenizer

    return load_tokenizer(model)


def tokenizer_if_here(model: str) -> TextTokenizer | None:
    """The tokenizer, or None if the model would have to be fetched first or cannot be used."""
    if model.endswith(".gguf"):
        return None  # reading it means converting it, which a run does
    try:
        return tokenizer(model) if model_is_here(model) else None
    except LmgcError:
        return None


@st.cache_resource(show_spinner=False, max_entries=8)
def preview(identity: str, _gradient: Gradient, settings: str, _config: CodecConfig, with_tokens: bool) -> Preview:
    """The first window of a run with these settings. Raises LmgcError where they do not fit."""
    from lmgc_core.blocks import sample_blocks
    from lmgc_core.plan import prepare

    coding = prepare(_gradient, _config)
    if not len(coding.blocks):
        raise UnsupportedInput("nothing is left to serialize; choose another lossy step or another file")
    first = sample_blocks(len(coding.blocks), 1, _config.seed)
    block = coding.blocks[first[0]]
    texts: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    pieces = block.pieces
    if with_tokens:
        reader = tokenizer(_config.model)
        window = next(coding.windows(first, reader, _config.context_window))
        texts = tuple(b.decode("utf-8", "backslashreplace") for b in reader.token_bytes(window.ids))
        ids, pieces, text = tuple(window.ids.tolist()), window.pieces, window.text
    else:
        text = coding.serialize(block.dtype, block.pieces)
    return Preview(
        text.text,
        text.n_parameters,
        coding.coded.tensors[pieces[0].tensor_index].name,
        pieces[0].first,
        texts,
        ids,
        len(coding.blocks),
    )


def top_texts(model: str, ids: np.ndarray) -> list[str]:
    """The texts of some token ids; their numbers where the model is no longer here to tell."""
    if not model_is_here(model):
        return [f"#{i}" for i in np.asarray(ids).tolist()]
    reader = tokenizer(model)
    return [b.decode("utf-8", "backslashreplace") for b in reader.token_bytes(np.asarray(ids, np.int32))]


# ---- views of a report ------------------------------------------------------------------------------------


@st.cache_resource(show_spinner=False, max_entries=16)
def cell_grid(run: str, version: int, view: str, _numbers: np.ndarray, _wanted: View) -> Grid:
    """The picture of one tensor's numbers."""
    return _wanted.grid(_numbers)


@st.cache_resource(show_spinner=False, max_entries=32)
def cell_colours(run: str, version: int, name: str, quantity: str, reach: int, words: str, _numbers: Any) -> Colouring:
    """The colours of one tensor's numbers."""
    return colouring(words, _numbers, quantity, reach)


@st.cache_data(show_spinner=False, max_entries=8)
def report_file(run: str, version: int, name: str, _report: Report) -> bytes:
    """One of a report's files, as the command line writes it."""
    from lmgc_core.report_files import REPORT_FILES

    return REPORT_FILES[name](_report)


def plain_title(loaded: Loaded | None) -> str:
    """A gradient's title as plain text for Markdown."""
    from pages.ui.format import plain

    return plain(loaded.title) if loaded else ""

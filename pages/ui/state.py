"""Every fact a page keeps, each under one session key, with its default.

Facts that are widgets carry the widget's key and live in the address too (`IN_URL`), so that a link
shows the same settings and any page opens alone. The run's id is no widget: `current_run` takes it from
the address, `set_run` puts it there. File names, paths and contents never enter the address.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from lmgc_core.settings import DEFAULT_LIMIT, DEFAULT_MODEL

# what is looked at
SOURCE = "source"  # "sample", "upload", "path", "made here" or "archive"
SAMPLE = "sample"  # a sample's id in MANIFEST.json
PATH = "path"
TENSORS = "tensors"  # names; empty is all
TICKED = "tensor_rows"  # rows ticked in the table of tensors
PART = "part"  # "all" or "slice" of the one tensor that is chosen
SLICE_AXES = "slice_axes"  # with the number of axes: the two that stay
SLICE = "slice"  # with axis, size and "at" or "range": where the slice lies
READ = "read"  # names of the tensors to read of a large file
FIGURES = "figures"  # (identity, the figures of a large file's tensors)
RAW_DTYPE = "raw_dtype"
LOADED = "loaded"  # the last gradient that could be read, and where it came from
UPLOAD = "upload"
KEPT_FILE = "kept_file"  # (what names an upload or path, the file opened)
KEPT_READ = "kept_read"  # (the same and the names read, the gradient)

# settings
MODEL = "model"
PRESET = "preset"
PLANES = "planes"
BYTE_ORDER = "byte_order"
ALPHABET = "alphabet"
SEPARATOR = "separator"
GROUP_SIZE = "group_size"
LINE = "line"
SUPPORT = "support"
CONTEXT_WINDOW = "context_window"
PRIOR = "prior"
TRANSFORM = "transform"
LIMIT = "limit"
SEED = "seed"

# what is shown of a result
RUN = "run"
OWN_RUNS = "own_runs"  # titles of the runs that this session has seen, by id
SHOWN = "shown"  # the tensor in the picture
HISTOGRAM = "histogram"  # the tensor in the histograms before a run
NEXT_LIMIT = "next_limit"  # set by a button, becomes LIMIT when the page runs again
QUANTITY = "quantity"  # a key of `lmgc_core.cells.QUANTITIES`
EXTENT = "extent"  # "sampled" or "whole"
AXES = "axes"
REDUCER = "reducer"
RANGE = "range"  # how far the colours reach: a key of `colour.REACHES`
ZOOM = "zoom"  # with "rows" or "columns" and their number: the part of the view that is drawn
TAB = "tab"  # of the small print
GROUP_BY = "group_by"  # "tensor", "kind", "layer" or "step"
OTHER_RUN = "other_run"  # the run that this one is held against, cell by cell
SELECTED = "selected"  # (tensor name, flat index) or None
STRIP_PAGE = "strip_page"

# Compare and Generate
GRID = "grid"  # "own choice" or a named grid
COMPARED = "compared"
COMPARED_PRIORS = "priors"
COMPARED_STEPS = "lossy_steps"
FRONT_AGAINST = "against"
FRONT_STEP = "front_step"
LEFT, RIGHT = "left", "right"  # two rows side by side
HANDED_OVER = "handed_over"
NETWORK = "network"
DATA = "data"
STEPS = "steps"
RECORD_AT = "record_at"
WIDTH = "width"
OPTIMIZER = "optimizer"
RECORD = "record"
TRAINING = "training"  # a training job's id
STEP = "step"  # which of its recorded steps Analyze shows
SEED_TRAINING = "seed_training"
COMPARISON = "comparison"  # a comparing job's id

# Archive
ARCHIVE_MODE = "mode"  # "make" or "open"
ARCHIVE_VALUES = "archive_values"  # 0 is all
ARCHIVE_WINDOWS = "windows"  # "short" or "as set"
PROOF = "proof"  # "auto" or "all"
ARCHIVE = "archive"  # a making job's id
LAST_ARCHIVE = "last_archive"  # the id of the last one that ended well
ARCHIVE_FROM = "archive_from"  # "upload" or "path"
ARCHIVE_UPLOAD = "archive_upload"
ARCHIVE_PATH = "archive_path"
KEPT_ARCHIVE = "kept_archive"  # (what names an upload or path, the archive read from it)
ARCHIVE_MODEL = "archive_model"  # with the archive's digest: the model to decode it with
ARCHIVE_TENSORS = "archive_tensors"  # with the archive's digest: the tensors to decode
UNPACKED = "unpacked"  # a decoding job's id

# Runs
RUNS_WORDS = "runs_words"
RUNS_TITLES = "runs_titles"
RUNS_MODELS = "runs_models"
RUNS_PRESETS = "runs_presets"
RUNS_TABLE = "runs_table"
CHOSEN_RUNS = "chosen"
DELETING = "deleting"  # ids of the runs whose deletion waits for a yes

# Serialize
VALUES = "values"
VALUES_DTYPE = "values_dtype"
VALUES_FROM = "values_from"
N_VALUES = "n_values"
N_VARIANTS = "variants"

# Learn
LESSON = "lesson"
LESSON_SEED = "lesson_seed"  # picks the passage of every lesson
GAME_DIGITS = "digits"
GUESSES = "guesses"  # (the game's job id, the guesses so far)
MESSAGE = "message"
CODING_STEP = "coding_step"  # (the message's job id, how many steps were taken)

AS_PRESET = "preset"  # a detail that follows the preset

DEFAULTS: dict[str, Any] = {
    SOURCE: "sample",
    SAMPLE: None,
    PATH: "",
    TENSORS: [],
    PART: "all",
    READ: [],
    RAW_DTYPE: "",
    LOADED: None,
    KEPT_FILE: None,
    KEPT_READ: None,
    FIGURES: None,
    MODEL: DEFAULT_MODEL,
    PRESET: "best",
    PLANES: AS_PRESET,
    BYTE_ORDER: AS_PRESET,
    ALPHABET: AS_PRESET,
    SEPARATOR: AS_PRESET,
    GROUP_SIZE: AS_PRESET,
    LINE: AS_PRESET,
    SUPPORT: AS_PRESET,
    CONTEXT_WINDOW: AS_PRESET,
    PRIOR: AS_PRESET,
    TRANSFORM: "none",
    LIMIT: DEFAULT_LIMIT,
    SEED: 0,
    RUN: None,
    OWN_RUNS: {},
    QUANTITY: "llm",
    EXTENT: "sampled",
    AXES: None,
    REDUCER: "mean",
    RANGE: 0,
    GROUP_BY: "tensor",
    OTHER_RUN: None,
    SELECTED: None,
    NEXT_LIMIT: None,
    STRIP_PAGE: 1,
    NETWORK: "convnet",
    DATA: "digits",
    STEPS: 60,
    RECORD_AT: "",
    WIDTH: 32,
    OPTIMIZER: "sgd",
    RECORD: "gradient",
    TRAINING: None,
    STEP: None,
    SEED_TRAINING: 0,
    COMPARISON: None,
    GRID: "own choice",
    COMPARED: ["best", "lean", "paper"],
    COMPARED_PRIORS: [],
    COMPARED_STEPS: ["none"],
    ARCHIVE_MODE: "make",
    ARCHIVE_VALUES: 288,
    ARCHIVE_WINDOWS: "short",
    PROOF: "auto",
    ARCHIVE: None,
    LAST_ARCHIVE: None,
    ARCHIVE_FROM: "upload",
    ARCHIVE_PATH: "",
    KEPT_ARCHIVE: None,
    UNPACKED: None,
    RUNS_WORDS: "",
    RUNS_TITLES: [],
    RUNS_MODELS: [],
    RUNS_PRESETS: [],
    CHOSEN_RUNS: [],
    DELETING: None,
    VALUES: "1.0 -0.5 0.001 -3.1e-4 0.0002 0 6.25e-5 -1.2e-3",
    VALUES_DTYPE: "float32",
    VALUES_FROM: "typed",
    N_VALUES: 32,
    N_VARIANTS: 2,
    LESSON: "guess",
    LESSON_SEED: 0,
    GAME_DIGITS: 8,
    GUESSES: None,
    MESSAGE: "",
    CODING_STEP: None,
}

MAKING = (SOURCE, SAMPLE, PATH, TENSORS, RAW_DTYPE, MODEL, PRESET, TRANSFORM, ARCHIVE_VALUES, ARCHIVE_WINDOWS, PROOF)
DETAILS = (PLANES, ALPHABET, SEPARATOR, GROUP_SIZE, LINE, BYTE_ORDER, SUPPORT, CONTEXT_WINDOW, PRIOR)


def get(key: str) -> Any:
    """The fact's value in this session, else its default."""
    return st.session_state.get(key, DEFAULTS.get(key))


def put(key: str, value: Any) -> None:
    """Sets a fact that is no widget of the running page (or is called from a callback)."""
    st.session_state[key] = value


def keep(*keys: str) -> None:
    """Keeps facts whose widgets the page does not draw this time: Streamlit forgets them otherwise."""
    for key in keys:
        if key in st.session_state:
            st.session_state[key] = st.session_state[key]


def current_job(key: str) -> str | None:
    """The id of the run, comparison or training (by key) on the screen: this session's, else the address's."""
    value = st.session_state.get(key) or st.query_params.get(key)
    if value:
        st.session_state[key] = value
        if st.query_params.get(key) != value:
            st.query_params[key] = value
    return value or None


def set_job(key: str, value: str | None) -> None:
    """Puts a job on the screen and into the address; None takes it away."""
    st.session_state[key] = value
    if value is None:
        st.query_params.pop(key, None)
    else:
        st.query_params[key] = value


def local_mode() -> bool:
    """Whether the server listens on this computer alone: only then may a page name paths on it."""
    return (st.get_option("server.address") or "") in ("127.0.0.1", "localhost", "::1")

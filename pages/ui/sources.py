"""Where the gradient comes from: a sample, uploads, a path on this computer, a training, an archive.

Files are opened header first and kept until another is chosen; the last gradient that could be read stays when a
new one cannot be.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.gradient import DTYPES
from pages.ui import data, forms, state
from pages.ui.before import show_large_file
from pages.ui.data import Loaded
from pages.ui.format import plain, shape, size
from pages.ui.frame import main_area, show_error
from pages.ui.incoming import Opened, kept_once, open_path, open_uploads

DEFAULT_SAMPLE = "convnet_mnist_step60"


def gradient_form() -> Loaded | None:
    """The gradient to look at; the last one that could be read stays when a new one cannot be."""
    st.subheader("Gradient", anchor=False)
    options = ["sample", "upload", *(["path"] if state.local_mode() else [])]
    if data.trained(state.current_job(state.TRAINING)):
        options.append("made here")
    if data.unpacked(state.current_job(state.UNPACKED)):
        options.append("archive")
    if "run" in (state.get(state.SOURCE), st.query_params.get(state.SOURCE)):
        options.append("run")
    source = forms.choice("Where from", options, state.SOURCE, hide_label=True)
    try:
        fresh = FROM[source]()
    except LmgcError as error:
        last = state.get(state.LOADED)
        show_error(error, f"Still showing: {data.plain_title(last)}." if last else "")
        return last
    if fresh is not None:
        state.put(state.LOADED, fresh)
        return fresh
    return state.get(state.LOADED)


def _from_sample() -> Loaded | None:
    titles = data.samples()
    if not titles:
        st.caption("No samples are bundled here; upload a file.")
        return None
    name = st.selectbox(
        "Sample",
        list(titles),
        index=list(titles).index(DEFAULT_SAMPLE) if DEFAULT_SAMPLE in titles else 0,
        format_func=lambda n: titles.get(n, n),
        key=state.SAMPLE,
        label_visibility="collapsed",
        bind="query-params",
    )
    return data.load_sample(name)


def _from_upload() -> Loaded | None:
    limit = int(st.get_option("server.maxUploadSize"))
    files = st.file_uploader(
        f"Files of up to {limit} MB each",
        key=state.UPLOAD,
        max_upload_size=limit,
        accept_multiple_files=True,
        help="safetensors (shards with their index too), npy, npz, PyTorch (weights only), csv, HDF5, GGUF, or raw "
        "numbers. Several become one gradient. They stay on this server and are never sent on.",
    )
    raw_dtype = _raw_dtype_form()
    if not files:
        return None
    token = (tuple(file.file_id for file in files), raw_dtype)
    return _read(token, lambda: open_uploads([(file.name, file.getvalue) for file in files], raw_dtype))


def _from_path() -> Loaded | None:
    text = st.text_input(
        "File on this computer",
        key=state.PATH,
        persist_state="session",
        placeholder="/path/to/file",
        help="Or a folder of files. Paths can be given only where the server listens on this computer alone.",
    )
    raw_dtype = _raw_dtype_form()
    if not text.strip():
        return None
    path = Path(text.strip()).expanduser()
    stamp = (os.path.getmtime(path), os.path.getsize(path)) if os.path.exists(path) else None
    return _read((str(path), stamp, raw_dtype), lambda: open_path(path, raw_dtype))


def _read(token: tuple[Any, ...], load: Callable[[], Opened]) -> Loaded:
    """The tensors of a file, opened and read once and kept until another is chosen: a page runs again at every touch.

    A large file waits until some of its tensors are chosen; its table stands in the main area till then.
    """
    kept = kept_once(state.get(state.KEPT_FILE), token, load)
    state.put(state.KEPT_FILE, kept)
    opened: Opened = kept[1]
    for line in opened.failures:
        show_error(line, "The others are used.")
    names: list[str] = []
    if opened.is_large:
        known = {spec.name: spec for spec in opened.specs}
        names = st.multiselect(
            "Tensors to read",
            list(known),
            key=state.READ,
            format_func=lambda n: f"{n or '(no name)'} · {shape(known[n].shape)} · {size(known[n].raw_bytes)}",
            placeholder=f"of {size(opened.raw_bytes)}, none yet",
            help="Nothing else of this file is read.",
        )
        names = [name for name in names if name in known]
        if not names:
            with main_area():
                show_large_file(opened, token)
            st.stop()
    kept = kept_once(
        state.get(state.KEPT_READ),
        (token, tuple(names)),
        lambda: Loaded(opened.read(names), opened.kind, opened.title),
    )
    state.put(state.KEPT_READ, kept)
    return kept[1]  # type: ignore[no-any-return]


def _from_training() -> Loaded | None:
    recorded = data.trained(state.current_job(state.TRAINING))
    steps = [item.step for item in recorded]
    if not steps:
        return None
    step = st.selectbox(
        "Step",
        steps,
        index=len(steps) - 1,
        key=state.STEP,
        format_func=lambda n: f"step {n}",
        bind="query-params",
    )
    item = recorded[steps.index(step)]
    return Loaded(item.gradient, "made here", item.gradient.name)


def _from_archive() -> Loaded | None:
    loaded = data.unpacked(state.current_job(state.UNPACKED))
    if loaded is not None:
        st.caption(plain(loaded.title))
    return loaded


def _from_run() -> Loaded | None:
    run = state.current_job(state.RUN)
    loaded = data.loaded_from_run(run)
    if loaded is not None:
        st.caption(plain(loaded.title))
    elif run:
        st.caption(f"The gradient of run {plain(run)} is not on this server.")
    return loaded


def _raw_dtype_form() -> str | None:
    chosen = st.selectbox(
        "If the file does not say its type",
        ["", *DTYPES],
        format_func=lambda n: n or "refuse it",
        key=state.RAW_DTYPE,
        persist_state="session",
        help="For raw numbers, csv and old .npy files only.",
    )
    return chosen or None


FROM: dict[str, Callable[[], Loaded | None]] = {
    "sample": _from_sample,
    "upload": _from_upload,
    "path": _from_path,
    "made here": _from_training,
    "archive": _from_archive,
    "run": _from_run,
}

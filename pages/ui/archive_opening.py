"""An archive that was brought along: what it says of itself, its gradient, and where that may go next."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from lmgc_core.errors import LmgcError, UnsupportedInput
from lmgc_core.gradient import Gradient
from pages.ui import data, state
from pages.ui.archive_work import Opened, ToDecode, open_upload
from pages.ui.before import show_tensor_table
from pages.ui.exports import FORMATS, file_of, plain_name, refusal
from pages.ui.following import show_phase
from pages.ui.format import count, counted, percent, plain, shape, size
from pages.ui.frame import analyze_link, show_error
from pages.ui.jobs import JobManager, JobView, job_id

MOST_BYTES = 1_000_000_000
LONGEST_TABLE = 10_000


def opening_form() -> Opened | None:
    """The archive to look at; the last one that could be read stays when a new one cannot be."""
    kept = state.get(state.KEPT_ARCHIVE)
    source = "upload"
    if state.local_mode():
        source = st.segmented_control(
            "Where from",
            ["upload", "path"],
            default="upload",
            required=True,
            key=state.ARCHIVE_FROM,
            label_visibility="collapsed",
            bind="query-params",
        )
    try:
        fresh = _from_path(kept) if source == "path" else _from_upload(kept)
    except LmgcError as error:
        show_error(error, f"Still showing: {plain(kept[1].name)}." if kept else "")
        return kept[1] if kept else None
    if fresh is not None and fresh is not kept:
        state.put(state.KEPT_ARCHIVE, fresh)
    now = fresh or kept
    return now[1] if now else None


def _from_upload(kept: Any) -> Any:
    limit = int(st.get_option("server.maxUploadSize"))
    file = st.file_uploader(
        f"An .lmgc archive of up to {limit} MB",
        key=state.ARCHIVE_UPLOAD,
        max_upload_size=limit,
        help="It is read on this server and kept in its memory, never sent on. Nothing is decoded until you say so.",
    )
    if file is None:
        return None
    return _once(kept, ("upload", file.file_id), lambda: open_upload(file.name, file.getvalue()))


def _from_path(kept: Any) -> Any:
    text = st.text_input(
        "Archive on this computer",
        key=state.ARCHIVE_PATH,
        persist_state="session",
        placeholder="/path/to/archive.lmgc",
    ).strip()
    if not text:
        return None
    path = Path(text).expanduser()
    stamp = (os.path.getmtime(path), os.path.getsize(path)) if os.path.isfile(path) else None
    return _once(kept, ("path", str(path), stamp), lambda: _read(path))


def _once(kept: Any, token: tuple[Any, ...], load: Callable[[], Opened]) -> tuple[tuple[Any, ...], Opened]:
    return kept if kept is not None and kept[0] == token else (token, load())  # type: ignore[no-any-return]


def _read(path: Path) -> Opened:
    if not path.is_file():
        raise UnsupportedInput(f"{path.name}: there is no such file")
    if path.stat().st_size > MOST_BYTES:
        limit = f"more than {size(MOST_BYTES)} at once"
        raise UnsupportedInput(f"{path.name}: {limit} is not read here; use python -m lmgc_core decompress")
    try:
        return open_upload(path.name, path.read_bytes())
    except OSError as error:
        raise UnsupportedInput(f"{path.name}: cannot be read ({error.strerror})") from None


def show_description(opened: Opened) -> None:
    """What an archive says of itself, sizes first."""
    told = opened.description
    settings, decoding = told["settings"], told["decoding"]
    tensors = told["tensors"]
    st.markdown(f"**{plain(opened.name)}** · {counted(len(tensors), 'tensor')} · {size(told['raw_bytes'])} raw")
    if told["lossy"]:
        st.warning(
            f"Lossy: {plain(settings['transform'])}. What comes back is what this step made of the original, "
            "bit for bit; the original itself is not in the archive."
        )
    else:
        st.caption("Lossless: the original values come back, bit for bit.")
    cards = st.columns(4)
    cards[0].metric(
        "file",
        size(told["container_bytes"]),
        delta=f"{percent(told['compression_rate'])} of raw",
        delta_color="off",
        border=True,
    )
    cards[1].metric(
        "payload",
        size(told["payload_bytes"]),
        delta=f"in {counted(told['n_segments'], 'segment')}",
        delta_color="off",
        border=True,
        help="The coded values. A segment decodes alone.",
    )
    cards[2].metric(
        "header and exceptions",
        size(told["header_bytes"] + told["exceptions_bytes"]),
        delta=f"exceptions {size(told['exceptions_bytes'])}",
        delta_color="off",
        border=True,
        help=f"Settings, tensors, tables and checksums; names and shapes take {size(told['names_and_shapes_bytes'])} "
        "before they are packed.",
    )
    needs_model = opened_needs_model(opened)
    cards[3].metric(
        "decoding needs",
        size(decoding["memory_bytes"]) if needs_model else "no model",
        delta="of memory, as the archive says" if needs_model else "its tokenizer is enough",
        delta_color="off",
        border=True,
        help="The model in fp64 and what one segment's windows remember.",
    )


def opened_needs_model(opened: Opened) -> bool:
    """Whether decoding asks the model, not its tokenizer alone."""
    return bool(opened.description["decoding"]["needs"] == "model")


def show_details(opened: Opened) -> None:
    """Settings and tensors, as the archive states them."""
    tensors = opened.description["tensors"]
    details, table = st.columns(2, gap="medium")
    with details:
        st.markdown("**Settings**")
        rows = description_rows(opened.description)
        st.dataframe(
            pd.DataFrame(rows), hide_index=True, height=38 + 35 * len(rows), alt="What the archive says of itself"
        )
    with table:
        st.markdown("**Tensors**")
        st.dataframe(
            pd.DataFrame(
                [{"tensor": t["name"], "type": t["dtype"], "shape": shape(t["shape"])} for t in tensors[:LONGEST_TABLE]]
            ),
            hide_index=True,
            height=38 + 35 * min(max(len(tensors), 1), 13),
            alt="Tensors in the archive",
        )


def description_rows(told: Mapping[str, Any]) -> list[dict[str, str]]:
    """The header of an archive as a table of names and values."""
    settings, model, decoding = told["settings"], told["model"], told["decoding"]
    rows = {
        "model": model["id"] or "not named",
        "where to get it": model["source"] or "not stated",
        "model fingerprint": model["fingerprint"] or "not needed",
        "tokenizer fingerprint": model["tokenizer_fingerprint"],
        "who predicts": settings["prior"],
        "lossy step": settings["transform"],
        "preset": settings["preset"],
    }
    for name, chosen in settings["serializations"].items():
        parts = [str(chosen["planes"]), str(chosen["alphabet"]), f"separator {chosen['separator']}"]
        rows[f"text of {name}"] = ", ".join(parts)
    rows |= {
        "possible tokens": settings["support"],
        "context window": f"{count(settings['context_window'])} tokens, used {count(decoding['longest_window'])}",
        "windows in step": count(decoding["windows_in_step"]),
        "format": f"version {told['format']}",
    }
    return [{"setting": name, "value": value} for name, value in rows.items()]


def decoding_form(manager: JobManager, opened: Opened) -> tuple[ToDecode | None, bool]:
    """With which model, which tensors, and whether to begin. None while no model is chosen."""
    named = str(opened.description["model"]["id"])
    known = [row["id"] for row in data.catalogue()]
    own = str(state.get(state.MODEL))
    key = f"{state.ARCHIVE_MODEL}_{opened.sha256[:12]}"
    options = list(dict.fromkeys([*known, own, *filter(None, [st.session_state.get(key)])]))
    fits = [o for o in options if o == named or (named and Path(o).name == named)]
    left, right, button = st.columns([3, 3, 1], vertical_alignment="bottom")
    with left:
        model = st.selectbox(
            "Decode with",
            options,
            index=options.index(fits[0]) if fits else None,
            key=key,
            accept_new_options=state.local_mode(),
            placeholder="choose the model",
            persist_state="session",
            help="Only the very model that the archive was made with decodes it; any other is refused. A name from "
            "the file alone is never fetched: it has to be in this list, or typed by you.",
        )
    names = [t["name"] for t in opened.description["tensors"]]
    with right:
        tensors: list[str] = []
        if len(names) > 1:
            tensors = st.multiselect(
                "Tensors",
                names[:LONGEST_TABLE],
                key=f"{state.ARCHIVE_TENSORS}_{opened.sha256[:12]}",
                placeholder=f"all {count(len(names))}",
                format_func=lambda n: n or "(no name)",
                help="Leave empty for all. Without a lossy step, only their segments are decoded.",
            )
    subject = ToDecode(opened, model, tuple(tensors)) if model else None
    job = manager.get(job_id("unpacking", subject.facts)) if subject else None
    off = subject is None or (job is not None and job.active)
    pressed = button.button("Decode", type="primary", key="decode_button", disabled=off, width="stretch")
    if subject is None:
        where = "Type the folder, .gguf file or Hub id where it is." if state.local_mode() else "It cannot be decoded."
        st.info(
            f"The archive was made with {plain(named or 'a model it does not name')}, which is not in the list. {where}"
        )
    return subject, pressed


def show_decoding(manager: JobManager, job: JobView) -> None:
    """Progress or outcome of decoding, then the gradient."""
    show_phase(
        manager, job, "decode", stopped="nothing was decoded. Decode starts again.", failed="Nothing was decoded."
    )
    if job.active:
        st.caption("Values are given out once all of them are there and checked.")
    elif job.phase == "done":
        show_decoded(job)


def show_decoded(job: JobView) -> None:
    """The gradient that came back: its digest, downloads, and the way to Analyze."""
    gradient: Gradient = job.result
    subject: ToDecode = job.subject
    told = subject.opened.description
    with st.container(border=True):
        exact = "the values after the lossy step" if told["lossy"] else "the original values"
        st.markdown(
            f"**Decoded.** {count(gradient.n_parameters)} values in {counted(len(gradient), 'tensor')}: "
            f"{exact}, every segment's check matched."
        )
        st.caption("SHA-256 of the decoded values")
        st.code(gradient.digest, language=None, wrap_lines=True)
        with st.container(horizontal=True):
            analyze_link("decoded", source="archive", unpacked=job.id)
            for suffix, about in FORMATS.items():
                if suffix == ".npy" and len(gradient) != 1:
                    continue
                _show_download(gradient, subject.opened.name, suffix, about)
    st.markdown("**What came back**")
    show_tensor_table(gradient.identity, gradient)


def _show_download(gradient: Gradient, name: str, suffix: str, about: str) -> None:
    reason = refusal(gradient, suffix)
    st.download_button(
        f"Download {suffix}",
        lambda: file_of(gradient, suffix),
        f"{plain_name(Path(name).stem)}{suffix}",
        "application/octet-stream",
        key=f"download_{suffix}",
        on_click="ignore",
        disabled=bool(reason),
        help=plain(reason) or about,
    )

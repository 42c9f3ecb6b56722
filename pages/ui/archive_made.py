"""A finished archive on the page: the proof, the download, and where its bytes went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.archive_figure import archive_parts, sizes_bar
from pages.ui.archive_work import Made, ToMake
from pages.ui.charts import show_chart
from pages.ui.exports import plain_name
from pages.ui.format import ABSENT, LOWER, count, counted, duration, number, percent, plain, points, size
from pages.ui.headline import headline_words
from pages.ui.jobs import JobView
from pages.ui.work import best_baseline


def show_made(job: JobView, baselines: JobView | None) -> None:
    """The proof, the download, the picture of sizes, and every number behind it."""
    made: Made = job.result
    subject: ToMake = job.subject
    rows = baselines.result if baselines and baselines.phase == "done" else None
    best = best_baseline(rows or [])
    _show_cards(made, best)
    _show_proof(made, subject)
    name = f"{plain_name(subject.title)}.lmgc"
    st.download_button(
        f"Download .lmgc, {size(len(made.archive))}",
        made.archive,
        name,
        "application/octet-stream",
        key="download_archive",
        on_click="ignore",
        type="primary",
        help=name,
    )
    _show_sizes(made, subject, best)


def _show_cards(made: Made, best: Mapping[str, Any] | None) -> None:
    report, cards = made.report, st.columns(4)
    raw, total = report["raw_bytes"], report["container_bytes"]
    whole = made.decoded_sha256 is not None
    cards[0].metric(
        "proof by decoding",
        "equal" if whole else "equal so far",
        delta=f"{count(report['verified_tokens'])} of {count(report['n_tokens'])} tokens, "
        f"{duration(made.proof_seconds)}",
        delta_color="off",
        border=True,
        help="The archive's bytes were decoded again, and every bit compared with what went in.",
    )
    cards[1].metric(
        "archive on disk",
        size(total),
        delta=f"of {size(raw)} raw",
        delta_color="off",
        border=True,
        help="Header, exceptions and payload: the whole file. The model is not counted.",
    )
    cards[2].metric(
        "rate, % of raw",
        percent(report["compression_rate"]),
        delta=f"{percent((total - report['header_bytes']) / raw if raw else None)} without the header",
        delta_color="off",
        border=True,
        help=f"File size over raw size; {LOWER}, 100 % is no gain. The header weighs the same on a small slice as on "
        "a large file, so a slice shows it large.",
    )
    if best is None or report["compression_rate"] is None:
        cards[3].metric("against the best baseline", ABSENT, delta="not run yet", delta_color="off", border=True)
        return
    cards[3].metric(
        "against the best baseline",
        points(report["compression_rate"] - best["compression_rate"]),
        delta=f"{best['id']}: {size(best['bytes'])}",
        delta_color="off",
        border=True,
        help="Percentage points of raw; negative means smaller than the best compressor without a language model, on "
        "the same values. Baselines carry no names, shapes or checksums.",
    )


def _show_proof(made: Made, subject: ToMake) -> None:
    report, lossy = made.report, made.description["lossy"]
    spelled = plain(made.description["settings"]["transform"])
    with st.container(border=True):
        if made.decoded_sha256 is not None:
            st.markdown(
                f"**Bit for bit equal.** The whole file, {count(report['n_tokens'])} tokens in "
                f"{counted(report['n_segments'], 'segment')}, was decoded and compared with what went in."
            )
        else:
            st.markdown(
                f"**Bit for bit equal where decoded:** {count(report['verified_segments'])} of "
                f"{count(report['n_segments'])} segments ({count(report['verified_tokens'])} of "
                f"{count(report['n_tokens'])} tokens), chosen by the seed {subject.config.seed}. "
                "The others were not decoded; “everything” in the sidebar does so."
            )
        if lossy:
            st.markdown(
                f"**Lossy: {spelled}.** The archive holds what this step made of the gradient; "
                "the original does not come back."
            )
        original, decoded = st.columns(2)
        with original:
            st.caption(f"SHA-256 of the values after {spelled}" if lossy else "SHA-256 of the original values")
            st.code(report["sha256"], language=None, wrap_lines=True)
        with decoded:
            st.caption("SHA-256 of the decoded values")
            st.code(made.decoded_sha256 or "known once everything is decoded", language=None, wrap_lines=True)


def _show_sizes(made: Made, subject: ToMake, best: Mapping[str, Any] | None) -> None:
    report = made.report
    parts = archive_parts(report)
    others = [("raw", report["raw_bytes"])]
    if best is not None:
        others.append((best["id"], best["bytes"]))
    words = ", ".join(f"{part} {size(n)}" for part, n in parts.items())
    note = "Text: what the model predicts. Mantissas: the bits left out of the text. Together they are the payload."
    st.markdown("**Where the bytes go**")
    show_chart(
        sizes_bar(parts, others),
        f"Archive of {size(report['container_bytes'])}: {words}; raw {size(report['raw_bytes'])}",
        "archive_sizes",
        pd.DataFrame(size_rows(report)),
        note,
    )
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**The file**")
        st.dataframe(
            pd.DataFrame(size_rows(report)),
            hide_index=True,
            column_config={
                "bytes": st.column_config.NumberColumn(format="localized"),
                "% of file": st.column_config.NumberColumn(format="%.2f"),
                "% of raw": st.column_config.NumberColumn(format="%.2f", help=LOWER),
            },
            alt="The archive's bytes by part",
        )
        st.caption(
            f"In the header, names, types and shapes take {count(report['names_and_shapes_bytes'])} bytes before it is "
            f"deflated. {counted(report['n_exceptions'], 'exception')}: tokens whose rounding was written down."
        )
    with right:
        st.markdown("**Three sizes**")
        st.dataframe(
            pd.DataFrame(length_rows(report)),
            hide_index=True,
            column_config={
                "bits": st.column_config.NumberColumn(format="localized"),
                "bytes": st.column_config.NumberColumn(format="localized"),
            },
            alt="Surprisal, code length and bytes on disk",
        )
        st.caption(
            "Surprisal is what the prior's probabilities ask for, code length what the whole-number frequencies of the "
            "coder do, payload what was written."
        )
    st.caption(_provenance(made, subject))


def size_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Header, exceptions and payload with their sum, the file."""
    total, raw = report["container_bytes"], report["raw_bytes"]
    named = [("header", "header_bytes"), ("exceptions", "exceptions_bytes"), ("payload", "payload_bytes")]
    return [
        {
            "part": part,
            "bytes": report[key],
            "% of file": 100 * report[key] / total,
            "% of raw": 100 * report[key] / raw if raw else None,
        }
        for part, key in [*named, ("file, the sum", "container_bytes")]
    ]


def length_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Surprisal and code length of the text, then code length and bytes of the whole payload."""
    rows = [
        ("surprisal, text", report["surprisal_bits"]),
        ("code length, text", report["token_code_length_bits"]),
        ("code length, all", report["code_length_bits"]),
        ("payload on disk", 8 * report["payload_bytes"]),
    ]
    return [{"size": name, "bits": round(bits, 1), "bytes": round(bits / 8, 1)} for name, bits in rows]


def _provenance(made: Made, subject: ToMake) -> str:
    report, settings = made.report, made.description["settings"]
    bits = number(report["surprisal_bits"] / report["n_tokens"]) if report["n_tokens"] else ABSENT
    return (
        f"{headline_words(subject.title, subject.gradient, ())}. Prior {settings['prior']}, "
        f"{plain(made.description['model']['id'])} in exact fp64 arithmetic, windows of up to "
        f"{count(settings['context_window'])} tokens, {bits} bits a token; encoded in {duration(made.encode_seconds)}."
    )

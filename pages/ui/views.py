"""`show_*` draws finished objects: the headline, the picture, the selected parameter, the strip, the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from lmgc_core.gradient import Gradient, Tensor
from pages.ui import data, figures, selection, state
from pages.ui.colour import bits_range
from pages.ui.data import Preview
from pages.ui.format import (
    ABSENT,
    HIGHER,
    LOWER,
    count,
    interval,
    number,
    percent,
    percent_of_raw,
    plain,
    points,
    shape,
    size,
    visible,
)
from pages.ui.grid import REDUCERS, two_axes
from pages.ui.token_strip import PAGE_TOKENS, Strip, show_token_strip
from pages.ui.work import best_baseline

if TYPE_CHECKING:
    from lmgc_core.report import Report

QUANTITIES = {"llm": "model's part", "all": "all bits"}
PLANES_PARTS = {"head": ("sign and exponent",), "exponent": ("exponent byte",)}


def show_chart(figure: go.Figure, alt: str, key: str, table: pd.DataFrame | None = None, **options: Any) -> Any:
    """A chart with its description for screen readers, and its numbers as a small download."""
    result = st.plotly_chart(figure, config=figures.CONFIG, alt=alt, key=key, **options)
    if table is not None:
        st.download_button(
            "CSV",
            lambda: table.to_csv(index=False).encode(),
            f"{key}.csv",
            "text/csv",
            key=f"{key}_csv",
            on_click="ignore",
            type="tertiary",
        )
    return result


# ---- before a run -----------------------------------------------------------------------------------------


def show_tensor_table(digest: str, gradient: Gradient) -> None:
    """The tensors of a gradient, with zeros and sizes."""
    rows = data.tensor_rows(digest, gradient)
    st.dataframe(
        pd.DataFrame(rows[:10_000]),
        hide_index=True,
        height=min(330, 38 + 35 * len(rows)),
        column_config={
            "parameters": st.column_config.NumberColumn(format="localized"),
            "bytes": st.column_config.NumberColumn(format="localized"),
            "zeros %": st.column_config.NumberColumn(format="%.3g"),
            "root mean square": st.column_config.NumberColumn(format="%.3g"),
        },
        alt="Table of tensors with shape, type, sizes, share of zeros and root mean square",
    )


def show_histograms(tensor: Tensor, digest: str) -> None:
    """Values and exponents of one tensor, side by side."""
    values = data.value_counts(f"{digest}/{tensor.name}", tensor)
    exponents = data.exponent_counts(f"{digest}/{tensor.name}", tensor)
    left, right = st.columns(2)
    with left:
        st.markdown("**Values**")
        if values.counts:
            st.plotly_chart(
                figures.value_histogram(values.counts, values.edges),
                config=figures.CONFIG,
                key="value_histogram",
                alt=f"Histogram of values from {number(values.edges[0])} to {number(values.edges[-1])}",
            )
        notes = [f"{count(values.n_zero)} exact zeros"]
        if values.n_outside:
            notes.append(f"{count(values.n_outside)} beyond the drawn range")
        if values.n_nonfinite:
            notes.append(f"{count(values.n_nonfinite)} not finite")
        if values.thinned > 1:
            notes.append(f"every {values.thinned}th value counted")
        st.caption(", ".join(notes))
    with right:
        st.markdown("**Exponents**")
        if exponents is None:
            st.caption("Integers have no exponent field.")
        elif exponents.counts:
            st.plotly_chart(
                figures.exponent_histogram(exponents.exponents, exponents.counts),
                config=figures.CONFIG,
                key="exponent_histogram",
                alt=f"Histogram of exponents from 2^{exponents.exponents[0]} to 2^{exponents.exponents[-1]}",
            )
            st.caption(
                f"{count(exponents.n_zero)} zeros and {count(exponents.n_denormal)} denormals have none. "
                "This is the part a model can predict; mantissas are close to noise."
            )
        else:
            st.caption("Every value is zero, denormal or not finite.")


def show_preview(found: Preview, has_tokens: bool) -> None:
    """The text of the first window, as tokens where a tokenizer is at hand."""
    st.markdown("**What the model will read**")
    if has_tokens and found.texts:
        strip = Strip(
            f"preview/{hash((found.texts[:PAGE_TOKENS], found.n_parameters))}",
            range(min(len(found.texts), PAGE_TOKENS)),
            found.texts[:PAGE_TOKENS],
            found.token_ids[:PAGE_TOKENS],
        )
        show_token_strip(strip, (0.0, 1.0), key="preview_strip")
        ratio = len(found.texts) / found.n_parameters
        st.caption(
            f"First window: {count(found.n_parameters)} parameters as {count(len(found.texts))} tokens, "
            f"{number(ratio)} tokens per parameter (fewer is faster)."
        )
    else:
        st.code(visible(found.text[:3000]), language=None, wrap_lines=True, height=200)
        st.caption(
            f"First {count(found.n_parameters)} parameters as text, whitespace made visible. "
            "Tokens appear once the model's tokenizer is here."
        )


# ---- a result ---------------------------------------------------------------------------------------------


def show_headline(report: Report, baselines: Sequence[Mapping[str, Any]] | None, baseline_note: str) -> None:
    """Four cards: bits, rate, tokens, and the distance to the best baseline."""
    totals = report.totals
    widths = {t.dtype.bits for t in report.coding.raw}
    raw = f"{widths.pop()} raw" if len(widths) == 1 else "mixed types"
    cards = st.columns(4)
    cards[0].metric(
        "bits per parameter",
        number(totals.bits_per_parameter),
        delta=f"{raw}, {LOWER}",
        delta_color="off",
        border=True,
        help="Everything counted: text, what the text leaves out, and side information.",
    )
    cards[1].metric(
        f"of raw, ratio {number(totals.compression_ratio)} ×",
        percent(totals.compression_rate),
        delta=interval(totals.rate_ci95, totals.compression_rate),
        delta_color="off",
        border=True,
        help=f"Size over raw size; {LOWER}, 100 % is no gain. The interval holds for the sample of blocks. "
        f"Ratio: raw size over size, {HIGHER}.",
    )
    cards[2].metric(
        "tokens per parameter",
        number(totals.tokens_per_parameter),
        delta=f"{number(totals.raw_bytes_per_token)} raw bytes per token, {HIGHER}",
        delta_color="off",
        border=True,
        help="Tokens cost time: fewer per parameter is faster.",
    )
    best = best_baseline(baselines or [])
    if best is None or totals.compression_rate is None:
        cards[3].metric(
            "against the best baseline", ABSENT, delta=baseline_note or "not known", delta_color="off", border=True
        )
    else:
        gap = totals.compression_rate - best["compression_rate"]
        cards[3].metric(
            "against the best baseline",
            points(gap),
            delta=f"{best['id']}: {percent(best['compression_rate'])}",
            delta_color="off",
            border=True,
            help=f"Percentage points of raw; negative means smaller than the best compressor without a language model. "
            f"Baselines are whole files, decoded and compared. The model itself ({count(report.model.n_parameters)} "
            "parameters) is not counted in either.",
        )


def picture_controls(report: Report) -> dict[str, Any]:
    """Which tensor is drawn, which bits, how much of it, along which axes."""
    sampled = [row for row in report.tensors if row.n_sampled]
    names = [row.name for row in sorted(sampled, key=lambda r: -r.n_sampled)]
    if not names:
        return {}
    row_of = {row.name: row for row in sampled}
    if st.session_state.get(state.SHOWN) not in names:
        st.session_state.pop(state.SHOWN, None)
    first, second, third = st.columns([3, 2, 2], vertical_alignment="bottom")
    name = first.selectbox(
        "Tensor",
        names,
        key=state.SHOWN,
        format_func=lambda n: f"{n or '(no name)'} · {shape(row_of[n].shape)}",
    )
    quantity = second.segmented_control(
        "Colour",
        list(QUANTITIES),
        default=state.DEFAULTS[state.QUANTITY],
        required=True,
        format_func=QUANTITIES.get,
        key=state.QUANTITY,
        help="The model's part is its surprisal; all bits add the coded remainder (mantissa) of each value.",
    )
    row = row_of[name]
    partly = row.n_sampled < row.n_parameters
    extent = "whole"
    if partly:
        extent = third.segmented_control(
            "Rows",
            ["sampled", "whole"],
            default=state.DEFAULTS[state.EXTENT],
            required=True,
            format_func={"sampled": "sampled only", "whole": "all"}.get,
            key=state.EXTENT,
        )
    axes, at = None, ()
    reducer = state.get(state.REDUCER)
    pairs = two_axes(row.shape)
    if pairs:
        with st.expander("Axes and reduction"):
            axes = st.selectbox(
                "Axes",
                [None, *pairs],
                format_func=lambda p: "first axis × all others" if p is None else f"axis {p[0]} × axis {p[1]}",
                key=state.AXES,
            )
            if axes is not None:
                rest = [i for i in range(len(row.shape)) if i not in axes]
                at = tuple(
                    st.slider(f"axis {i}", 0, row.shape[i] - 1, key=f"axis_{i}") if row.shape[i] > 1 else 0
                    for i in rest
                )
            reducer = st.segmented_control(
                "A cell of several parameters shows their",
                REDUCERS,
                default=state.DEFAULTS[state.REDUCER],
                required=True,
                key=state.REDUCER,
            )
    return {"name": name, "quantity": quantity, "extent": extent, "axes": axes, "at": at, "reducer": reducer}


def show_picture(run: str, version: int, report: Report, view: Mapping[str, Any]) -> None:
    """The heatmap, its range and factor in words, and clicks on it."""
    grid = data.bits_grid(run, version, report, **view)
    span = bits_range(data.quantity_bits(report, view["name"], view["quantity"]))
    chosen = state.get(state.SELECTED)
    selected = chosen[1] if chosen and chosen[0] == view["name"] else None
    what = "bits per parameter, model's part" if view["quantity"] == "llm" else "bits per parameter, all parts"
    figure = data.bits_figure(run, version, repr(sorted(view.items(), key=str)), grid, span, what, selected)

    def clicked() -> None:
        event = st.session_state.get("heatmap")
        picked = event["selection"]["points"] if event else []
        if picked:
            state.put(state.SELECTED, (view["name"], int(picked[0]["customdata"][0])))

    st.plotly_chart(
        figure,
        config=figures.CONFIG,
        key="heatmap",
        on_select=clicked,
        selection_mode="points",
        alt=f"Heatmap of {what} over the tensor, colours from {span[0]:g} to {span[1]:g} bits",
    )
    notes = [f"{what}; colours from {span[0]:g} to {span[1]:g} bits, higher drawn as {span[1]:g}", grid.note()]
    st.caption("; ".join(n for n in notes if n) + ". Click a cell, or type its index.")


def show_selected(report: Report, name: str) -> None:
    """The selected parameter: value, bits of the float, text, tokens, alternatives. Its index can be typed."""
    raw = report.coding.raw.tensor(name)
    chosen = state.get(state.SELECTED)
    flat = chosen[1] if chosen and chosen[0] == name and chosen[1] < raw.n_parameters else None

    def typed() -> None:
        found = selection.parse_index(st.session_state.get("typed_index", ""), raw.shape)
        if found is not None:
            state.put(state.SELECTED, (name, found))

    st.text_input(
        "Selected parameter: index",
        key="typed_index",
        on_change=typed,
        placeholder="17, 4, 1, 2 or a flat index",
        help="The position in the tensor, or the flat index in C order.",
    )
    if flat is None:
        st.caption("Click a cell of the picture or a token, or type an index, to see one parameter in full.")
        return
    bits, llm_bits = (float(np.ravel(b[name])[flat]) for b in (report.bits, report.llm_bits))
    found = selection.describe_parameter(report, raw, flat, bits, llm_bits)
    st.text(f"[{', '.join(map(str, found.index))}] = {found.value}")
    if found.bits is None:
        st.caption("Not in the sample; raise the sample to see its bits.")
    else:
        st.markdown(f"**{number(found.bits)} bits** in all, {number(found.llm_bits)} of them the model's part")
    st.code(" | ".join(text for _, text in found.fields), language=None, wrap_lines=True)
    st.caption(" | ".join(f"{label} {len(text)} bits" for label, text in found.fields))
    if found.text is not None:
        st.text(f"text  {visible(found.text)}")
    tokens = report.tokens
    for row in found.rows[:8]:
        token = tokens.iloc[row]
        alternatives = ", ".join(
            f"{visible(text)} {percent(2.0 ** -float(b))}"
            for text, b in zip(
                data.top_texts(report.model.id, token["top_token_ids"]), list(token["top_bits"]), strict=False
            )
            if np.isfinite(b)
        )
        st.text(
            f"{visible(token['text'])}   {number(float(token['surprisal_bits']))} bits, rank {int(token['rank']) + 1}\n"
            f"likeliest: {alternatives}"
        )


def show_strip(run: str, version: int, report: Report) -> None:
    """The token strip of the sampled windows, a page at a time."""
    tokens = report.tokens
    if tokens.empty:
        return
    n_pages = -(-len(tokens) // PAGE_TOKENS)
    page = 1
    if n_pages > 1:
        if (st.session_state.get(state.STRIP_PAGE) or 1) > n_pages:
            st.session_state[state.STRIP_PAGE] = n_pages
        page = st.pagination(n_pages, key=state.STRIP_PAGE)
    first = (page - 1) * PAGE_TOKENS
    part = tokens.iloc[first : first + PAGE_TOKENS]
    span = bits_range(tokens["surprisal_bits"])
    chosen = state.get(state.SELECTED)
    rows = selection.rows_of(tokens, *chosen) if chosen else ()
    show_token_strip(
        strip_of(f"{run}/{len(tokens)}/{page}", first, part, report.model.id),
        span,
        key="strip",
        selected=rows,
        on_pick=lambda row: state.put(state.SELECTED, selection.parameter_of(tokens, row)),
    )
    st.caption(
        f"{count(len(tokens))} tokens, {count(len(report.results))} windows; colours from 0 to {span[1]:g} bits a token, "
        "the bar at a token's foot grows with them. Arrow keys move, Enter selects."
    )


def strip_of(version: str, first: int, part: pd.DataFrame, model: str) -> Strip:
    """One page of the token table as a strip."""
    ids = np.stack(part["top_token_ids"].to_list()).astype(np.int64) if len(part) else np.zeros((0, 5), np.int64)
    known = np.unique(ids)
    texts = dict(zip(known.tolist(), data.top_texts(model, known), strict=True))
    top = [
        [(texts[int(i)], float(b)) for i, b in zip(row, bits, strict=True) if np.isfinite(b)]
        for row, bits in zip(ids, part["top_bits"], strict=True)
    ]
    labels = [
        "separator only" if a < 0 else f"{t} [{a}]" if a == b else f"{t} [{a}–{b}]"
        for t, a, b in zip(part["tensor"], part["first_parameter"], part["last_parameter"], strict=True)
    ]
    return Strip(
        version,
        range(first, first + len(part)),
        part["text"].tolist(),
        part["token_id"].tolist(),
        part["surprisal_bits"].tolist(),
        part["rank"].tolist(),
        part["window"].tolist(),
        labels,
        top,
    )


def part_names(n: int, planes: str) -> list[str]:
    """What the modelled parts of a serialization are called.

    >>> part_names(1, "head"), part_names(2, "all")
    (['sign and exponent'], ['byte 1', 'byte 2'])
    """
    return (
        list(PLANES_PARTS.get(planes, ())) if n == 1 and planes in PLANES_PARTS else [f"byte {i + 1}" for i in range(n)]
    )


def show_parts(report: Report) -> None:
    """Bits by what they pay for, one chart for each dtype."""
    for name, parts in report.parts_by_dtype.items():
        planes = report.coding.serializers[name].serialization.planes
        bars = dict(zip(part_names(len(parts.modelled), planes), parts.modelled, strict=True))
        bars["separators"] = parts.separator
        if report.coding.serializers[name].remainder_bits:
            bars["remainder (mantissa)"] = parts.remainder
        bars["side information"] = parts.side_information
        if len(report.parts_by_dtype) > 1:
            st.text(name)
        table = pd.DataFrame({"part": list(bars), "bits_per_parameter": list(bars.values())})
        words = ", ".join(f"{label} {number(value)}" for label, value in bars.items())
        show_chart(figures.parts_bar(bars), f"Bits per parameter by part: {words}", f"parts_{name}", table)
        st.caption(f"They add up to {number(parts.total)} bits per parameter.")


def show_context(report: Report) -> None:
    """Bits per token along the window."""
    positions, bits = report.context_curve
    if not positions:
        return
    table = pd.DataFrame({"token_position": positions, "bits_per_token": bits})
    alt = f"Bits per token along the window, from {number(bits[0])} at its start to {number(bits[-1])} at its end"
    show_chart(figures.context_curve(positions, bits), alt, "context", table)
    st.caption("Means over the sampled windows. A curve that falls shows a model that learns from what it has read.")


def show_tensors(report: Report) -> None:
    """The table of tensors; a chosen row becomes the tensor in the picture."""
    rows = pd.DataFrame(
        [
            {
                "tensor": r.name,
                "shape": shape(r.shape),
                "dtype": r.dtype,
                "parameters": r.n_parameters,
                "sampled": r.n_sampled,
                "bits per parameter": r.bits_per_parameter,
                "model's part": r.llm_bits_per_parameter,
            }
            for r in report.tensors[:10_000]
        ]
    )

    def chosen() -> None:
        event = st.session_state.get("tensor_table")
        picked = event["selection"]["rows"] if event else []
        if picked and rows["sampled"].iat[picked[0]]:
            state.put(state.SHOWN, str(rows["tensor"].iat[picked[0]]))

    st.dataframe(
        rows,
        hide_index=True,
        key="tensor_table",
        on_select=chosen,
        selection_mode="single-row",
        column_config={
            "parameters": st.column_config.NumberColumn(format="localized"),
            "sampled": st.column_config.NumberColumn(format="localized"),
            "bits per parameter": st.column_config.NumberColumn(format="%.3g", help=f"All parts; {LOWER}."),
            "model's part": st.column_config.NumberColumn(format="%.3g"),
        },
        alt="Table of tensors with bits per parameter",
    )
    st.caption(
        "Bits per parameter of the sampled values, side information apart; lower is better. Select a row to see it."
    )


def show_baselines(rows: Sequence[Mapping[str, Any]]) -> None:
    """Every baseline with its rate, the best first."""
    table = pd.DataFrame(
        [
            {
                "baseline": r["id"],
                "% of raw": None if r["compression_rate"] is None else 100 * r["compression_rate"],
                "size": size(r["bytes"]),
                "decoded and compared": "yes" if r["verified"] else (r.get("reason") or "no"),
            }
            for r in rows
        ]
    ).sort_values("% of raw", na_position="last")
    st.dataframe(
        table,
        hide_index=True,
        column_config={"% of raw": st.column_config.NumberColumn(format="%.2f", help=LOWER)},
        alt="Table of baselines with their rates",
    )
    st.caption("Whole chosen tensors, not the sample; lower is better.")


def show_downloads(run: str, version: int, report: Report) -> None:
    """The files that the command line writes."""
    kinds = {
        "report.json": ("application/json", "every number"),
        "tokens.parquet": ("application/vnd.apache.parquet", "a row a token"),
        "bits.npz": ("application/zip", "bits per parameter in the tensors' shapes"),
        "report.html": ("text/html", "numbers and pictures in one file"),
    }
    with st.container(horizontal=True):
        for name, (mime, about) in kinds.items():
            st.download_button(
                name,
                lambda name=name: data.report_file(run, version, name, report),
                name,
                mime,
                key=f"download_{name}",
                on_click="ignore",
                help=about,
            )


def headline_words(title: str, gradient: Gradient, names: Sequence[str]) -> str:
    """What is on the screen, as plain Markdown."""
    chosen = gradient.select(list(names))
    if len(chosen) == 1:
        tensor = chosen.tensors[0]
        what = f"{plain(tensor.name)} · " if tensor.name else ""
        return f"**{plain(title)}** · {what}{tensor.dtype.name} {shape(tensor.shape)}"
    kinds = ", ".join(sorted({t.dtype.name for t in chosen}))
    return (
        f"**{plain(title)}** · {count(len(chosen))} tensors · {kinds} · {count(chosen.n_parameters)} parameters · "
        f"{size(chosen.raw_bytes)}"
    )


def rate_words(report: Report) -> str:
    """One line for a finished run."""
    return percent_of_raw(report.totals.compression_rate)

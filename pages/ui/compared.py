"""A comparison on the screen: what it says in words, its table, its pictures, its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from lmgc_core.baselines import best_baseline
from lmgc_core.compare_table import comparison_csv, comparison_html, comparison_table
from pages.ui import compare_figures, figures, state
from pages.ui.charts import show_chart
from pages.ui.compare_figures import Point
from pages.ui.compare_form import address_of
from pages.ui.format import LOWER, count, number, plain, points
from pages.ui.frame import link, show_error
from pages.ui.side_by_side import show_side_by_side

if TYPE_CHECKING:
    from lmgc_core.compare import Comparison, Row

DRAWN_BASELINES = 4
NOTHING_GAINED = 0.002


def show_comparison(job: str, found: Comparison, labels: Mapping[int, str], title: str) -> None:
    """Everything known so far; grows while the job runs."""
    for control in found.controls:
        if control.alarm:
            show_error(
                f"Alarm: {control.id.replace('_', ' ')} came out at {number(100 * (control.compression_rate or 0))} % "
                "of their own bits, which no code can do. The counting of this comparison is wrong."
            )
    if found.rows:
        for line in sentences(found, labels):
            st.markdown(line)
    rows = comparison_table(found, labels)
    tabs = st.tabs(["Rates", "Tokens and bits", "Rate and error", "Side by side", "Controls and audit", "Files"])
    with tabs[0]:
        show_rates(found, labels, rows)
    with tabs[1]:
        show_front(found, labels)
    with tabs[2]:
        show_rate_distortion(found, labels)
    with tabs[3]:
        show_side_by_side(found, labels)
    with tabs[4]:
        show_controls(found, labels)
    with tabs[5]:
        show_files(found, labels, title)
    for number_, line in found.refused.items():
        show_error(f"{labels[number_]}: {line}")
    if found.rows:
        report = found.rows[0].report
        sample = f"{count(len(report.sampled_blocks))} of {count(len(report.coding.blocks))} blocks"
        st.caption(f"{sample}, the same for every row; {plain(report.model.id)}, run {job}.")
        show_hand_over(found, labels)


def sentences(found: Comparison, labels: Mapping[int, str]) -> list[str]:
    """What the numbers say: the best row of each lossy step, the baselines, what the model adds to counting."""
    from lmgc_core.compare import difference

    lines = []
    for step, best in found.best_rows.items():
        rate = best.report.totals.compression_rate
        if rate is None:
            continue
        decibels = None if step == "none" else best.report.error.psnr_db
        loss = "" if decibels is None else f" at {number(decibels)} dB"
        name = "Lowest rate" if step == "none" else f"After {plain(step)}"
        line = f"{name}: **{plain(labels[best.number])}**, {number(100 * rate)} % of raw{loss}."
        strongest = best_baseline(found.baselines.get(step, ()))
        if strongest is not None and strongest.compression_rate is not None:
            line += (
                f" The best baseline, {plain(strongest.id)}, takes {number(100 * strongest.compression_rate)} % "
                f"of the whole file: {points(rate - strongest.compression_rate)} for the estimate here."
            )
        lines.append(line)
    for mixed, counted in _with_and_without_model(found):
        gain = difference(counted.report, mixed.report)
        if gain is None:
            continue
        name = plain(labels[mixed.number])
        interval = ""
        if gain.low is not None and gain.high is not None and gain.high > gain.low:
            interval = f" (95 % interval {100 * gain.low:.2f} to {100 * gain.high:.2f})"
        if gain.value < NOTHING_GAINED:
            lines.append(f"**The language model adds nothing worth its time to counting** in {name}: "
                         f"{100 * gain.value:.2f} points{interval}.")  # fmt: skip
        else:
            lines.append(f"The language model adds {100 * gain.value:.2f} points to counting in {name}{interval}.")
    return lines


def _with_and_without_model(found: Comparison) -> list[tuple[Row, Row]]:
    from lmgc_core.compare import without_prior

    counted = {without_prior(r.report.coding.config): r for r in found.rows if r.report.coding.config.prior == "counts"}
    return [
        (r, counted[key])
        for r in found.sorted_rows
        if r.report.coding.config.prior == "mix" and (key := without_prior(r.report.coding.config)) in counted
    ]


def show_rates(found: Comparison, labels: Mapping[int, str], rows: list[dict[str, Any]]) -> None:
    """Rates as dots with intervals, and the whole table."""
    known = [r for r in rows if r["percent_of_raw"] is not None and not r["kind"].startswith("null")]
    strongest = [r["settings"] for r in known if r["kind"].startswith("baseline")][:DRAWN_BASELINES]
    drawn = [r for r in known if not r["kind"].startswith("baseline") or r["settings"] in strongest]
    if drawn:
        figure = figures.rates_dots(
            [r["settings"] for r in drawn],
            [r["percent_of_raw"] / 100 for r in drawn],
            [None if r["low_percent"] is None else (r["low_percent"] / 100, r["high_percent"] / 100) for r in drawn],
            [r["kind"].startswith("baseline") for r in drawn],
        )
        words = ", ".join(f"{r['settings']} {number(r['percent_of_raw'])}" for r in drawn)
        note = "Settings: estimates on one sample, with 95 % intervals."
        if strongest:
            note += f" Baselines: the best {len(strongest)}, on whole tensors, decoded and compared; the table has all."
        show_chart(figure, f"Rates in percent of raw, lower is better: {words}", "rates", note=note)
    show_table(rows)


def show_table(rows: list[dict[str, Any]]) -> None:
    """Every row, the lowest rate first."""
    if not rows:
        return

    def low_to_high(low: float | None, high: float | None) -> str:
        return "–" if low is None or high is None else f"{low:.2f} to {high:.2f}"

    table = pd.DataFrame(
        {
            "settings": [r["settings"] for r in rows],
            "% of raw": [r["percent_of_raw"] for r in rows],
            "95 % interval": [low_to_high(r["low_percent"], r["high_percent"]) for r in rows],
            "above the best, points": [r["above_best_points"] for r in rows],
            "interval of that": [low_to_high(r["above_low_points"], r["above_high_points"]) for r in rows],
            "bits per parameter": [r["bits_per_parameter"] for r in rows],
            "tokens per parameter": [r["tokens_per_parameter"] for r in rows],
            "parameters per second": [r["parameters_per_second"] for r in rows],
            "kind": [r["kind"] for r in rows],
        }
    )
    st.dataframe(
        table,
        hide_index=True,
        key="comparison_table",
        column_config={
            "settings": st.column_config.TextColumn(width=220),
            "% of raw": st.column_config.NumberColumn(format="%.2f", help=LOWER),
            "above the best, points": st.column_config.NumberColumn(
                format="%.2f",
                help="Above the best row of the same lossy step, estimated from the same blocks of both: what is "
                "hard for both cancels out.",
            ),
            "bits per parameter": st.column_config.NumberColumn(format="%.2f", help=LOWER),
            "tokens per parameter": st.column_config.NumberColumn(format="%.2f", help="Fewer is faster."),
            "parameters per second": st.column_config.NumberColumn(
                format="%.0f", help="Higher is faster. Rows that share the model's passes show the passes' time."
            ),
        },
        placeholder="–",
        alt="Settings, baselines and controls sorted by rate",
    )


def show_front(found: Comparison, labels: Mapping[int, str]) -> None:
    """Bits per parameter against tokens per parameter, or against speed, among rows of one lossy step."""
    from lmgc_core.compare import pareto_front, step_of

    against = st.segmented_control(
        "Against",
        ["tokens per parameter", "parameters per second"],
        default="tokens per parameter",
        required=True,
        key=state.FRONT_AGAINST,
        label_visibility="collapsed",
    )
    by_tokens = against != "parameters per second"
    steps = list(found.best_rows)
    step = steps[0] if steps else "none"
    if len(steps) > 1:
        step = st.selectbox("After the lossy step", steps, key=state.FRONT_STEP)
    drawn = []
    for row in found.sorted_rows:
        totals, seconds = row.report.totals, row.report.seconds
        x = totals.tokens_per_parameter if by_tokens else row.report.n_parameters_sampled / (seconds or 1)
        if step_of(row) == step and x is not None and totals.bits_per_parameter is not None:
            drawn.append((row.number, x, totals.bits_per_parameter))
    if not drawn:
        st.caption("Drawn as soon as a row is done.")
        return
    front = pareto_front([(bits, x if by_tokens else -x) for _, x, bits in drawn])
    dots = [Point(plain_label(labels[n]), x, bits, i in front) for i, (n, x, bits) in enumerate(drawn)]
    raw = found.rows[0].report.coding.raw
    width = 8 * raw.raw_bytes / max(raw.n_parameters, 1)
    best = best_baseline(found.baselines.get(step, ()))
    figure = compare_figures.pareto_front(
        dots,
        [(best.id, width * best.compression_rate)] if best and best.compression_rate is not None else [],
        x_title=against or "tokens per parameter",
        x_better="lower" if by_tokens else "higher",
    )
    words = ", ".join(f"{p.label}: {number(p.y)} bits at {number(p.x)}" for p in dots)
    show_chart(
        figure,
        f"Bits per parameter against {against}: {words}",
        "front",
        note="Filled: no other row is better in both. Dotted: the best baseline, which needs no tokens.",
    )


def plain_label(label: str) -> str:
    """A label as Plotly shows it: a lossy step that somebody typed is no HTML."""
    return label.replace("&", "&amp;").replace("<", "&lt;")


def show_rate_distortion(found: Comparison, labels: Mapping[int, str]) -> None:
    """Bits against error over the lossy steps, a line for each way of writing and one for the best baseline."""
    curves: dict[str, list[tuple[str, float, float | None]]] = {}
    errors: dict[str, tuple[float | None, float]] = {}
    undefined: list[str] = []
    for row in found.sorted_rows:
        report, step = row.report, row.report.coding.config.transform
        bits = report.totals.bits_per_parameter
        exact = step == "none" or (report.error.max_abs == 0 and not report.error.n_overflowed)
        loss = None if exact else report.error.psnr_db
        if bits is None:
            continue
        if loss is None and not exact:
            undefined.append(step)
            continue
        coder = labels[row.number].removesuffix(f" · {step}")
        curves.setdefault(coder, []).append((step, bits, loss))
        raw = report.coding.raw
        errors[step] = (loss, 8 * raw.raw_bytes / max(raw.n_parameters, 1))
    for step, (loss, width) in errors.items():
        best = best_baseline(found.baselines.get(step, ()))
        if best is not None and best.compression_rate is not None:
            curves.setdefault("best baseline", []).append((step, width * best.compression_rate, loss))
    if not any(step != "none" for step in errors):
        st.caption("Choose lossy steps beside the way of writing to see what rate each error buys.")
        return
    drawn = [(plain_label(name), [(plain_label(s), b, d) for s, b, d in found_]) for name, found_ in curves.items()]
    words = "; ".join(f"{n}: " + ", ".join(f"{s} {number(b)} bits" for s, b, _ in pts) for n, pts in drawn)
    show_chart(
        compare_figures.rate_distortion(drawn),
        f"Rate against error: {words}",
        "rate_distortion",
        pd.DataFrame(
            [(n, s, b, d) for n, pts in curves.items() for s, b, d in pts],
            columns=["coder", "lossy step", "bits_per_parameter", "psnr_db"],
        ),
        note="Error over the whole file after decoding, in float64; rates of settings are estimates on the sample."
        + (
            f" Not drawn, since values overflow: {', '.join(map(plain, dict.fromkeys(undefined)))}."
            if undefined
            else ""
        ),
    )


def show_controls(found: Comparison, labels: Mapping[int, str]) -> None:
    """Null controls, and what the published code would have counted."""
    for control in found.controls:
        rate = control.compression_rate
        shown = "–" if rate is None else f"{number(100 * rate, 4)} % of the bits they hold"
        meaning = (
            "nobody can compress them: below 99.9 % the counting is wrong"
            if control.id == "random_bits"
            else "the same values in another order: what is lost against the real order is what context was worth"
        )
        st.markdown(f"**{control.id.replace('_', ' ').capitalize()}**, coded like the best row: {shown}; {meaning}.")
    if not found.controls:
        st.caption("Controls come last.")
    audits = [(labels[r.number], r.report) for r in found.sorted_rows if r.report.audit is not None]
    if audits:
        st.markdown(
            "**Audit.** LM-GC's published code divides each probability by the running sum up to it, so it counts "
            "too few bits, and nothing could decode them. On the same probabilities:"
        )
        st.dataframe(
            pd.DataFrame(
                {
                    "settings": [label for label, _ in audits],
                    "true bits per token": [r.totals.bits_per_token for _, r in audits],
                    "published code, bits per token": [r.audit.published_bits_per_token for _, r in audits],  # type: ignore[union-attr]
                    "true % of raw": [100 * (r.totals.compression_rate or 0) for _, r in audits],
                    "published code, % of raw": [
                        100 * r.audit.published_compression_rate  # type: ignore[union-attr]
                        for _, r in audits
                    ],
                }
            ),
            hide_index=True,
            key="audit_table",
            column_config={
                name: st.column_config.NumberColumn(format="%.2f")
                for name in (
                    "true bits per token",
                    "published code, bits per token",
                    "true % of raw",
                    "published code, % of raw",
                )
            },
            alt="True costs beside what the published code counts",
        )


def show_files(found: Comparison, labels: Mapping[int, str], title: str) -> None:
    """The table to take along."""
    if not found.rows:
        st.caption("Ready as soon as a row is done.")
        return
    with st.container(horizontal=True):
        st.download_button(
            "CSV", lambda: comparison_csv(found, labels), "comparison.csv", "text/csv", on_click="ignore"
        )
        st.download_button(
            "JSON",
            lambda: json.dumps(found.to_dict(), allow_nan=False),
            "comparison.json",
            "application/json",
            on_click="ignore",
        )
        st.download_button(
            "HTML page",
            lambda: comparison_html(found, labels, title),
            "comparison.html",
            "text/html",
            on_click="ignore",
        )


def show_hand_over(found: Comparison, labels: Mapping[int, str]) -> None:
    """Sends the settings of a row to another page, by an address: the gradient stays."""
    order = [row.number for row in found.sorted_rows]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("Take the settings of", order, format_func=lambda n: labels[n], key=state.HANDED_OVER)
        config = next(r.report.coding.config for r in found.rows if r.number == chosen)
        kept = {
            k: st.query_params.get_all(k)
            for k in (state.SOURCE, state.SAMPLE, state.TENSORS, state.TRAINING, state.RUN)
        }
        facts = {**{k: v for k, v in kept.items() if v}, **address_of(config)}
        link("app.py", "to Analyze", facts, "to Analyze: start app.py")
        link("pages/4_Archive.py", "to Archive", facts, "to Archive: start app.py")

"""Two runs of one gradient, cell by cell: what the second costs more or less than the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from lmgc_core.cells import cell_differences, shared_tensors
from pages.ui import data, figures, selection, state
from pages.ui.colour import colouring
from pages.ui.format import ABSENT, count, number, percent, plain, shape
from pages.ui.grid import tensor_grid
from pages.ui.jobs import JobView
from pages.ui.selected import select
from pages.ui.work import Measured

if TYPE_CHECKING:
    from lmgc_core.report import Report


def run_title(report: Report) -> str:
    """A run in a few words: its settings and model."""
    config = report.coding.config
    kinds = sorted({f"{s.serialization.planes}/{s.serialization.alphabet}" for s in report.coding.serializers.values()})
    lossy = "" if config.transform == "none" else f", {config.transform}"
    return f"{', '.join(kinds)}, prior {config.prior}{lossy}, {report.model.id}"


def show_other_run(job: JobView, report: Report) -> None:
    """This run against another finished one of the same gradient, chosen from those on this server."""
    others = {
        f"{o.id}: {run_title(o.result)}": o.result
        for o in data.jobs().finished("measure")[::-1]
        if o.id != job.id and isinstance(o.subject, Measured) and o.result is not None
    }
    others = {name: other for name, other in others.items() if shared_tensors(report, other)}
    if not others:
        st.caption(
            "No other finished run on this server has sampled the same values. Change the preset or the prior, press "
            "Run, and both can be held against each other here."
        )
        return
    if st.session_state.get(state.OTHER_RUN) not in others:
        st.session_state.pop(state.OTHER_RUN, None)
    chosen = st.selectbox("Against", list(others), key=state.OTHER_RUN)
    show_differences(others[chosen], report, key="other_run", names=("that run", "this run"))


def show_differences(first: Report, second: Report, *, key: str, names: tuple[str, str] = ("first", "second")) -> None:
    """The second run's bits minus the first's over a tensor that both sampled.

    Args:
        first, second: two runs of one gradient.
        key: of the widgets.
        names: what the runs are called in sentences.
    """
    shared = shared_tensors(first, second)
    if not shared:
        st.caption("These runs have sampled no tensor with the same values.")
        return
    wanted = state.get(state.SHOWN)
    of = {n: second.coding.raw.tensor(n).shape for n in shared}
    name = st.selectbox(
        "Tensor",
        shared,
        index=shared.index(wanted) if wanted in shared else 0,
        key=f"{key}_tensor",
        format_func=lambda n: f"{n or '(no name)'} · {shape(of[n])}",
    )
    found = cell_differences(first, second, name)
    if not found.n_shared:
        st.caption("No cell of this tensor was sampled in both.")
        return
    colours = colouring(f"bits, {names[1]} minus {names[0]}", found.cells, "difference")
    grid = tensor_grid(found.cells, extent="sampled")

    def clicked() -> None:
        flat = selection.picked_parameter(st.session_state.get(f"{key}_heatmap"), found.cells.size)
        if flat is not None:
            select(second, name, flat)

    share = percent(found.n_lower / found.n_shared)
    st.markdown(
        f"{names[1].capitalize()} needs **{_signed(found.mean_bits)} bits per parameter** against {names[0]}, "
        f"fewer in {share} of {count(found.n_shared)} shared cells"
    )
    st.plotly_chart(
        figures.heatmap(grid, colours, height=320),
        config=figures.CONFIG,
        key=f"{key}_heatmap",
        on_select=clicked,
        selection_mode="points",
        alt=f"Heatmap of differences over the tensor, {colours.note()}; mean {_signed(found.mean_bits)} bits",
    )
    notes = "; ".join(n for n in (colours.note(), grid.note()) if n)
    st.caption(f"{plain(name) or 'The tensor'}: {notes}. Blue needs fewer bits, orange more; all parts counted.")


def _signed(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return ABSENT
    return f"{'−' if value < 0 else '+'}{number(abs(value))}"

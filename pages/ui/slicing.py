"""Which part of the gradient is analysed: tensors by name, and of a single one a slice.

The rule of slicing is the library's (`lmgc_core.slices`); here are its sliders: two axes shown, with ranges, a
position on each of the others.
"""

from __future__ import annotations

import streamlit as st

from lmgc_core.gradient import Gradient, Tensor
from lmgc_core.slices import Index, cut_spec, slice_text
from pages.ui import data, forms, state
from pages.ui.format import counted, plain, shape
from pages.ui.grid import two_axes

PARTS = {"all": "all of it", "slice": "a slice"}


def chosen_form(gradient: Gradient) -> Gradient:
    """What the sidebar chooses of a gradient; this is what a run then analyses."""
    names = forms.tensors_form(gradient)
    chosen = data.selected(gradient.identity, gradient, tuple(names))
    if len(chosen) != 1 or chosen.n_parameters < 2:
        return chosen
    index = slice_form(chosen.tensors[0])
    return chosen if index is None else data.cut(chosen.identity, chosen, slice_text(index, chosen.tensors[0].shape))


def slice_form(tensor: Tensor) -> Index | None:
    """A slice of the tensor; None for the whole of it."""
    part = forms.choice(
        "Of this tensor",
        list(PARTS),
        state.PART,
        names=PARTS,
        help="A slice is analysed as a tensor of its own, named as numpy would take it.",
    )
    if part != "slice":
        return None
    sizes = tensor.shape
    shown: tuple[int, ...] = tuple(range(len(sizes)))
    pairs = two_axes(sizes)
    if pairs:
        picked = st.selectbox(
            "Axes shown",
            [f"{a} × {b}" for a, b in pairs],
            key=f"{state.SLICE_AXES}_{len(sizes)}",
            bind="query-params",
            help="The two axes that stay; the others stand at one position each.",
        )
        shown = next((p for p in pairs if f"{p[0]} × {p[1]}" == picked), pairs[0])
    index = tuple(_entry(axis, size, axis in shown) for axis, size in enumerate(sizes))
    spec = cut_spec(tensor.spec, index)
    st.caption(f"{plain(tensor.name + slice_text(index, sizes))}, {shape(spec.shape)}: "
               f"{counted(spec.n_parameters, 'parameter')}")  # fmt: skip
    return index


def _entry(axis: int, size: int, is_shown: bool) -> int | slice:
    """A position, or a range of a shown axis."""
    key = f"{state.SLICE}_{axis}_{size}"
    if size < 2:
        return slice(0, size) if is_shown else 0
    if not is_shown:
        return int(st.slider(f"Axis {axis}, position", 0, size - 1, 0, key=f"{key}_at", bind="query-params"))
    first, last = st.slider(f"Axis {axis}, from and to", 0, size, (0, size), key=f"{key}_range", bind="query-params")
    first = min(int(first), size - 1)
    return slice(first, max(int(last), first + 1))

"""Pictures, counts, formats and selections as pure functions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.util import AttributeDictionary

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import DTYPES, Gradient, tensor_from_array
from lmgc_core.groups import ValuePoints
from lmgc_core.settings import Serialization
from pages.ui import explore_figures, figures, format, histograms, playground, selection
from pages.ui.colour import FOLLOW, LARGEST, STOPS, TWO_SIDED, bits_range, colouring
from pages.ui.grid import tensor_grid, two_axes
from pages.ui.token_strip import Strip

NAN = np.nan


def test_small_tensors_are_drawn_cell_by_cell() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    grid = tensor_grid(array)
    assert grid.factor == (1, 1)
    assert np.array_equal(grid.values, array)
    assert np.array_equal(grid.index, np.arange(6).reshape(2, 3))
    assert grid.note() == ""


@pytest.mark.parametrize(("reducer", "expected"), [("mean", 2.5), ("max", 4.0), ("sum", 5.0)])
def test_reduction_ignores_what_was_not_sampled_and_states_itself(reducer: str, expected: float) -> None:
    array = np.full((4, 600), NAN, np.float32)
    array[0, 0], array[0, 2] = 1.0, 4.0
    grid = tensor_grid(array, reducer=reducer)  # type: ignore[arg-type]
    assert grid.factor == (1, 3)
    assert grid.values.shape == (4, 200)
    assert grid.values[0, 0] == expected
    assert np.isnan(grid.values[0, 1])
    assert grid.note() == f"one cell is the {reducer} of 1×3 parameters"


def test_no_picture_is_larger_than_256_by_256() -> None:
    for shape in ((1000, 1000), (3, 100_000), (257, 1), (128, 128, 3, 3), (70_000,), ()):
        grid = tensor_grid(np.zeros(shape, np.float32))
        assert max(grid.values.shape) <= 256 or grid.values.size <= 70_000 // 256
        assert max(grid.values.shape) <= 265


def test_cells_lead_back_to_a_sampled_parameter_inside_them() -> None:
    rng = np.random.default_rng(0)
    array = rng.random((300, 520)).astype(np.float32)
    array[rng.random(array.shape) < 0.7] = NAN
    grid = tensor_grid(array)
    for row, column in zip(*np.nonzero(~np.isnan(grid.values)), strict=True):
        flat = grid.index[row, column]
        r, c = np.unravel_index(flat, array.shape)
        assert not np.isnan(array[r, c])
        assert r // grid.factor[0] == row
        assert c // grid.factor[1] == column


def test_rows_without_a_sample_can_be_left_out_and_keep_their_numbers() -> None:
    array = np.full((10, 4), NAN, np.float32)
    array[7] = 1.0
    grid = tensor_grid(array, extent="sampled")
    assert grid.rows.tolist() == [7]
    assert grid.index[0].tolist() == [28, 29, 30, 31]
    assert grid.n_rows_hidden == 9


def test_vectors_are_folded_and_axes_are_sliced() -> None:
    grid = tensor_grid(np.arange(10, dtype=np.float32))
    assert grid.values.shape == (3, 4)
    assert grid.index[2].tolist() == [8, 9, -1, -1]
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert two_axes(cube.shape)[0] == (1, 2)
    cut = tensor_grid(cube, axes=(0, 2), at=(1,))
    assert np.array_equal(cut.values, cube[:, 1, :])
    assert np.array_equal(cut.index.ravel(), cube[:, 1, :].ravel().astype(int))


def test_heatmap_has_grey_cells_a_legend_and_clickable_points() -> None:
    array = np.full((4, 5), NAN, np.float32)
    array[1, 2:4] = [2.0, 30.0]
    figure = figures.heatmap(tensor_grid(array), colouring("bits", array, "all", 8), selected=(1, 2))
    names = [trace.name for trace in figure.data]
    assert "not sampled" in names
    coloured = figure.data[2]
    assert (coloured.zmin, coloured.zmax) == (0.0, 8.0)
    points = figure.data[3]
    assert points.marker.opacity == 0
    assert points.customdata.tolist() == [7, 8]
    assert list(points.text) == [2.0, 30.0]
    assert coloured.text[1, 3] == "30", "a picture of few cells has its numbers written in them"
    assert len(figure.layout.shapes) == 1
    complete = figures.heatmap(tensor_grid(np.ones((2, 2), np.float32)), colouring("bits", [1.0], "all"))
    assert "not sampled" not in [trace.name for trace in complete.data]


def test_many_cells_use_webgl_and_stay_small() -> None:
    grid = tensor_grid(np.random.default_rng(0).random((256, 256)).astype(np.float32))
    figure = figures.heatmap(grid, colouring("bits", grid.values, "all"))
    assert figure.data[-1].type == "scattergl"
    assert len(figure.to_json()) < 2_000_000


def test_other_figures_title_their_axes_and_carry_their_numbers() -> None:
    parts = figures.parts_bar({"sign and exponent": 3.2, "remainder": 23.0})
    assert parts.data[0].x == (3.2, 23.0)
    assert parts.layout.xaxis.title.text == "bits per parameter"
    curve = figures.context_curve([1, 2], [3.0, 2.0])
    assert curve.layout.yaxis.title.text == "bits per token"
    loss = figures.loss_curve([1, 2, 3], [2.0, 1.0, 0.5], [3])
    assert loss.data[1].x == (3,)
    dots = figures.rates_dots(["a", "b"], [0.8, 0.9], [(0.79, 0.81), None], [False, True])
    assert [t.name for t in dots.data] == ["language model", "baseline, whole tensors"]
    assert dots.data[0].error_x.array[0] == pytest.approx(1.0)
    for figure in (parts, curve, loss, dots):
        json.loads(figure.to_json())


def test_value_counts_hold_every_value_once() -> None:
    values = np.float32([0, 0, -1, 1, NAN, np.inf, 5e-39, *np.linspace(-1, 1, 2000)])
    found = histograms.value_counts(tensor_from_array("w", values))
    assert sum(found.counts) + found.n_outside + found.n_nonfinite == values.size
    assert found.n_nonfinite == 2
    assert found.edges[0] == pytest.approx(-found.edges[-1])
    for odd in (np.float32([]), np.float32([NAN]), np.float32([2, 2]), np.float64([0.0])):
        histograms.value_counts(tensor_from_array("w", odd))


def test_exponent_counts_hold_every_value_once() -> None:
    values = np.float32([1.0, 1.5, -2.0, 0.0, -0.0, 1e-40, NAN, -np.inf])
    found = histograms.exponent_counts(tensor_from_array("w", values))
    assert found is not None
    assert dict(zip(found.exponents, found.counts, strict=True)) == {0: 2, 1: 1}
    assert (found.n_zero, found.n_denormal, found.n_nonfinite) == (2, 1, 2)
    assert histograms.exponent_counts(tensor_from_array("i", np.int32([1]))) is None


def test_two_histograms_share_their_bins() -> None:
    values = np.linspace(-1, 1, 1001).astype(np.float32)
    before = histograms.value_counts(tensor_from_array("w", values))
    coarse = (np.round(values * 4) / 4).astype(np.float32)
    after = histograms.value_counts(tensor_from_array("w", coarse), (before.edges[0], before.edges[-1]))
    assert after.edges == before.edges
    assert sum(c > 0 for c in after.counts) == 7
    figure = figures.value_histogram(before.counts, before.edges, after.counts)
    assert [t.name for t in figure.data] == ["before", "after the lossy step"]
    assert len(figure.data[1].x) == 2 * len(after.counts)


def test_tensor_rows_describe_each_tensor() -> None:
    gradient = Gradient.from_arrays({"<b>w</b>": np.float32([[0, 3], [4, NAN]]), "i": np.int8([1])})
    first, second = histograms.tensor_rows(gradient)
    assert (first["tensor"], first["zeros %"], first["not finite"]) == ("<b>w</b>", 25.0, 1)
    assert (first["min"], first["max"], first["shape"]) == (0.0, 4.0, "2×2")
    assert first["mean"] == pytest.approx(7 / 3)
    assert first["std"] == pytest.approx(np.std([0, 3, 4]))
    assert second["dtype"] == "int8"


def test_colours_cover_the_bits_and_state_a_whole_range() -> None:
    assert bits_range([NAN, NAN]) == (0.0, 1.0)
    assert bits_range(np.float32([0.1, 7.2])) == (0.0, 8.0)
    assert bits_range([3.0], 12) == (0.0, 12.0)
    assert bits_range([1.0] * 999 + [40.5], FOLLOW) == (0.0, 1.0)
    assert bits_range([1.0] * 999 + [40.5], LARGEST) == (0.0, 41.0)
    brightness = [sum(int(s[i : i + 2], 16) for i in (1, 3, 5)) for s in STOPS]
    assert brightness == sorted(brightness)


def test_ranks_have_the_bands_of_gltr_and_differences_two_sides() -> None:
    ranks = colouring("rank", [1.0], "rank")
    assert ranks.placed([1, 10, 11, 100, 101, 1000, 1001]).tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert np.isnan(ranks.placed([NAN])).all()
    assert ranks.fractions([5, 5000]).tolist() == [0, 1]
    assert "over 1\u202f000" in ranks.note()
    sides = colouring("difference", [-3.0, 1.0, NAN], "difference", LARGEST)
    assert (sides.low, sides.high, sides.stops) == (-3.0, 3.0, TWO_SIDED)
    assert sides.fractions([0.0]).tolist() == [0.5]
    assert "drawn as" not in sides.note()
    assert "what lies beyond drawn as the ends" in colouring("x", [-9.0, 9.0], "excess", 4).note()


def test_a_zoomed_picture_has_full_resolution_and_leads_back() -> None:
    array = np.arange(600 * 40, dtype=np.float32).reshape(600, 40)
    whole = tensor_grid(array, max_cells=64)
    assert whole.factor == (10, 1)
    assert whole.cell_at(599, 39) == (59, 39)
    rows = whole.span(10.2, 12.4, 0)
    assert rows == (100, 130)
    part = tensor_grid(array, rows=rows, columns=(5, 8), max_cells=64)
    assert part.factor == (1, 1)
    assert part.values.shape == (30, 3)
    assert part.values[0, 0] == part.index[0, 0] == 100 * 40 + 5
    assert (part.rows[0], part.columns[-1]) == (100, 7)
    assert part.cell_at(101, 6) == (1, 1)
    assert part.cell_at(99, 6) is None
    assert whole.span(58.6, 90.0, 0) == (590, 600)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_neighbours_differ_in_one_index_by_one(sizes: list[int], data: st.DataObject) -> None:
    shape = tuple(sizes)
    flat = data.draw(st.integers(0, int(np.prod(shape)) - 1))
    own = np.array(np.unravel_index(flat, shape))
    found = selection.neighbours(shape, flat)
    for n in found:
        moved = np.array(np.unravel_index(n.flat, shape)) - own
        assert moved[n.axis] == n.step
        assert np.count_nonzero(moved) == 1
    assert len(found) == sum(int(i > 0) + int(i < s - 1) for i, s in zip(own, shape, strict=True))


def test_exploring_figures_carry_their_numbers() -> None:
    points = ValuePoints(np.array([3, 5, 9]), np.array([0.5, -2.0, 0.0]), np.float32([1, 2, 3]), 3, 1)
    scatter = explore_figures.value_scatter(points, "bits", selected=5)
    assert [t.name for t in scatter.data] == ["positive", "negative", "selected"]
    assert scatter.data[1].x.tolist() == [2.0]
    assert scatter.data[1].customdata.tolist() == [5]
    bars = explore_figures.group_bars(["weights", "biases"], [20.0, 8.0], [3.0, 2.0])
    assert [t.x for t in bars.data] == [(20.0, 8.0), (3.0, 2.0)]
    assert len(explore_figures.group_bars(["w"], [1.0], None).data) == 1
    marked = figures.context_curve([1, 2], [3.0, 2.0], [2])
    assert [s.x0 for s in marked.layout.shapes] == [2]
    for figure in (scatter, bars, marked):
        json.loads(figure.to_json())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0, "0"),
        (81.23, "81.2"),
        (9.996, "10.0"),
        (999.7, "1\u202f000"),
        (0.0004567, "0.000457"),
        (-3.14159, "-3.14"),
        (1e-9, "1.00e-9"),
    ],
)
def test_numbers_have_three_figures(value: float | None, text: str) -> None:
    assert format.number(value) == text


def test_rates_intervals_and_sizes_say_what_they_are() -> None:
    assert format.percent_of_raw(0.8123) == "81.2\u202f% of raw"
    assert format.interval((0.8, 0.8), 0.8) == "all of it measured, no estimate"
    assert "estimate" in format.interval((0.79, 0.81), 0.8)
    assert format.size(999_999) == "1.00\u202fMB"
    assert format.duration(0.2) == "0.2 s"
    assert format.duration(None) == "–"
    assert format.shape(()) == "scalar"


@pytest.mark.parametrize("name", ["**a**", "<script>x</script>", "[a](http://b)", ":red[a]", "$x$", "a\n# b", "`a`"])
def test_names_lose_their_markdown_and_nothing_else(name: str) -> None:
    shown = format.plain(name)
    assert "\n" not in shown
    assert shown.replace("\\", "").replace("\u2060", "") == " ".join(name.split())
    marks = [i for i, c in enumerate(shown) if c in "*<[:$`#_"]
    assert all(shown[i - 1] == "\\" for i in marks)


def test_whitespace_and_control_characters_are_visible() -> None:
    assert format.visible(" \t\n\x00\u200b\u202e") == "␣⇥⏎␀⟨200b⟩⟨202e⟩"
    assert format.visible("") == "∅"


def test_selected_positions_can_be_typed() -> None:
    assert selection.parse_index("[1, 2]", (3, 4)) == 6
    assert selection.parse_index("11", (3, 4)) == 11
    assert selection.parse_index("12", (3, 4)) is None
    assert selection.parse_index("3, 0", (3, 4)) is None
    assert selection.parse_index("one", (3, 4)) is None
    assert selection.parse_index("", ()) is None


@pytest.mark.parametrize("customdata", [{"0": 8, "1": 30.0}, [8, 30.0], [8.0, 30.0], 8])
def test_a_click_on_a_cell_leads_to_its_parameter(customdata: object) -> None:
    point = {
        "curve_number": 3,
        "point_number": 1,
        "point_index": 1,
        "x": 3,
        "y": 1,
        "customdata": customdata,
        "legendgroup": None,
    }
    event = {"selection": {"points": [point], "point_indices": [1], "box": [], "lasso": []}}
    assert selection.picked_parameter(AttributeDictionary(event), 20) == 8
    assert selection.picked_parameter(event, 8) is None, "a click on a picture that is no longer there"


def test_clicks_on_nothing_select_nothing() -> None:
    nothing = {"points": [], "point_indices": [], "box": [], "lasso": []}
    for event in (None, {}, {"selection": nothing}, {"selection": nothing | {"points": [{"x": 1, "y": 2}]}}):
        assert selection.picked_parameter(event, 20) is None
    for customdata in ([], {}, [-1, 2.0], None, ["x"]):
        assert selection.picked_parameter({"selection": {"points": [{"customdata": customdata}]}}, 20) is None


def test_word_fields_cut_every_float_into_its_bits() -> None:
    for dtype in DTYPES.values():
        fields = selection.word_fields(1, dtype)
        assert sum(len(bits) for _, bits in fields) == dtype.bits
    assert selection.word_fields(0xC0000000, DTYPES["float32"])[0] == ("sign", "1")


def test_values_read_back_from_what_is_shown() -> None:
    values = np.float32([1e-8, -0.0, 0.1, 3.4e38, 123456.7])
    tensor = tensor_from_array("w", values)
    for i, value in enumerate(values):
        assert np.float32(selection.value_text(tensor, i)).tobytes() == value.tobytes()


def test_strip_payload_is_plain_data_with_visible_text() -> None:
    strip = Strip("v", [5, 6], ["<b>", " \n"], [1, 2], [1.234, 9.0], [0, 7], [0, 1], ["w [0]", ""], [[("a", 0.5)], []])
    payload = json.loads(json.dumps(strip.payload(colouring("bits", [1.234, 9.0], "all", 8), [6])))
    assert payload["texts"] == ["<b>", "␣⏎"]
    assert payload["newlines"] == [1]
    assert payload["breaks"] == [0, 1]
    assert payload["windows"] == [1, 2]
    assert payload["bits"] == [1.23, 9.0]
    assert payload["selected"] == [6]
    assert payload["shades"] == [pytest.approx(1.234 / 8, abs=1e-3), 1.0]
    assert payload["shown"] == ["1.2", "9.0"]
    assert payload["ends"] == ["0 bits", "8 bits or more"]


def test_typed_values_become_words_or_one_clear_line() -> None:
    tensor = playground.parse_values("1.0, -0.5; nan 0x80000000", DTYPES["float32"])
    assert [hex(w) for w in tensor.words[[0, 1, 3]].tolist()] == ["0x3f800000", "0xbf000000", "0x80000000"]
    assert playground.parse_values("-128 127", DTYPES["int8"]).array.tolist() == [-128, 127]
    for text, dtype in (("1 two", "float32"), ("", "float32"), ("300", "int8"), ("1.5", "int32"), ("0x1ff", "uint8")):
        with pytest.raises(InvalidSetting):
            playground.parse_values(text, DTYPES[dtype])
    with pytest.raises(InvalidSetting, match="more than"):
        playground.parse_values("1 " * 1000, DTYPES["float32"])


def test_playground_rows_concatenate_to_the_text() -> None:
    tensor = playground.parse_values("1 -4 0 0.25", DTYPES["float32"])
    found = playground.write(tensor, Serialization("head", "big", "numbers", "space", "auto", 0), None)
    assert "".join(row.text for row in found.rows) == found.text
    assert len(found.rows) == 4
    assert found.rows[0].raw_bytes == "3f 80 00 00"
    assert found.rows[0].bits == "0|01111111|" + "0" * 23
    assert found.remainder_bits == 23
    assert playground.write(tensor, playground.PLAIN, None).remainder_bits == 0

"""Every page in each state under Streamlit's AppTest, alone and from app.py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qsl

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from lmgc_core.cells import QUANTITIES, cell_differences
from lmgc_core.gradient import Gradient
from lmgc_core.settings import DEFAULT_MODEL, CodecConfig
from pages.ui import data, format, models, state
from pages.ui.data import Loaded, Preview
from pages.ui.work import Measured

ROOT = Path(__file__).parent.parent
QUESTIONS = {
    "app.py": "How many bits does a language model need, and where?",
    "pages/1_Serialize.py": "What becomes of a value on its way to the model?",
    "pages/2_Compare.py": "Which way of writing needs the fewest bits?",
    "pages/3_Generate.py": "What does a network learn by?",
    "pages/4_Archive.py": "Does it come back, bit for bit?",
    "pages/5_Learn.py": "What does it take to predict a gradient?",
    "pages/6_Runs.py": "What has been measured here?",
}
PAGES = tuple(QUESTIONS)
SECONDS = 120


@pytest.fixture(autouse=True)
def fresh_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache folder, no jobs, the repository's Streamlit settings."""
    monkeypatch.setenv("LMGC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(state, "local_mode", lambda: True)
    data.jobs.clear()
    data.model_is_here.clear()
    data.catalogue.clear()
    yield
    for job in list(data.jobs()._entries):
        data.jobs().cancel(job)


@pytest.fixture
def gradient() -> Gradient:
    rng = np.random.default_rng(0)
    return Gradient.from_arrays(
        {
            "conv <b>bold</b> **w**": (rng.standard_normal((8, 9, 3, 3)) * 1e-3).astype(np.float32),
            "bias": np.zeros(300, np.float32),
        },
        "small.npz",
    )


def open_page(page: str, **facts: object) -> AppTest:
    at = AppTest.from_file(str(ROOT / page), default_timeout=SECONDS)
    for key, value in facts.items():
        at.session_state[key] = value
    return at


def open_gradient(page: str, gradient: Gradient, **facts: object) -> AppTest:
    loaded = Loaded(gradient, "upload", "small <i>file</i>")
    return open_page(page, source="upload", loaded=loaded, **facts)


def texts(at: AppTest) -> str:
    kinds = (at.markdown, at.caption, at.error, at.info, at.warning, at.text, at.metric)
    return "\n".join(str(e.value) + str(getattr(e, "label", "")) for kind in kinds for e in kind)


def run_to_the_end(at: AppTest, button: str, key: str) -> AppTest:
    at.button(key=button).click().run()
    assert not at.exception
    job = at.session_state[key]
    assert data.jobs().wait(job, SECONDS) is not None
    at.run()
    for view in list(data.jobs()._entries):
        data.jobs().wait(view, SECONDS)
    at.run()
    assert not at.exception
    return at


@pytest.mark.parametrize("page", PAGES)
def test_each_page_opens_alone(page: str) -> None:
    at = open_page(page).run()
    assert not at.exception
    assert not at.error
    assert at.title[0].value == QUESTIONS[page]


@pytest.mark.parametrize("page", PAGES[1:])
def test_each_page_opens_from_the_first(page: str) -> None:
    at = open_page("app.py").run()
    at.switch_page(page).run()
    assert not at.exception
    assert not at.error
    assert at.title[0].value == QUESTIONS[page]


def test_the_first_page_needs_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from streamlit.testing.v1 import AppTest;"
        "at = AppTest.from_file('app.py', default_timeout=120).run();"
        "print(len(at.exception), sorted({'torch', 'transformers', 'sklearn'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=280)
    assert run.stdout.strip() == "0 []", run.stdout + run.stderr[-2000:]


def test_before_a_run_there_are_text_histograms_and_tensors_without_a_model(gradient: Gradient) -> None:
    at = open_gradient("app.py", gradient).run()
    assert not at.exception
    assert "is not here yet" in texts(at)
    assert "92.9\u202fMB" in texts(at)
    assert "Apache" in texts(at)
    assert [b for b in at.button if b.key == "fetch_model"]
    assert at.code[0].value.startswith(("0", "1", "-", "␣", "2"))
    assert len(at.get("plotly_chart")) >= 1
    assert at.dataframe[0].value["tensor"].tolist() == ["conv <b>bold</b> **w**", "bias"]


def test_tokens_are_shown_before_a_run_once_a_tokenizer_is_there(gradient: Gradient, model: str) -> None:
    at = open_gradient("app.py", gradient, model=model).run()
    assert not at.exception
    assert "tokens per parameter" in texts(at)
    assert "is not here yet" not in texts(at)


def test_a_run_shows_the_numbers_that_the_library_gives(gradient: Gradient, model: str) -> None:
    from lmgc_core.codec import measure
    from lmgc_core.language_model import load_model
    from lmgc_core.settings import preset
    from pages.ui.format import number, percent

    at = run_to_the_end(open_gradient("app.py", gradient, model=model).run(), "run_button", state.RUN)
    report = measure(gradient, load_model(model), preset("best", model=model, seed=0, transform="none"), limit=0)
    cards = {m.label: m.value for m in at.metric}
    assert cards["bits per parameter"] == number(report.totals.bits_per_parameter)
    assert percent(report.totals.compression_rate) in cards.values()
    assert cards["tokens per parameter"] == number(report.totals.tokens_per_parameter)
    assert "points" in cards["against the best baseline"]
    assert at.query_params[state.RUN] in (at.session_state[state.RUN], [at.session_state[state.RUN]])
    at.session_state[state.TAB] = "Downloads"
    at.run()
    assert len(at.get("download_button")) >= 4
    assert "Settings have changed" not in texts(at)
    assert "Already measured" not in texts(at)
    at.button(key="run_button").click().run()
    assert not at.exception
    assert [i.value for i in at.info] == ["Already measured; this is the result."]
    assert {m.label: m.value for m in at.metric} == cards
    again = open_gradient("app.py", gradient, model=model).run()
    assert {m.label: m.value for m in again.metric} == cards, "an equal run is found again, not repeated"


def test_names_from_files_are_never_markdown(gradient: Gradient, model: str) -> None:
    at = run_to_the_end(open_gradient("app.py", gradient, model=model).run(), "run_button", state.RUN)
    assert all("<i>" not in m.value and "<b>" not in m.value for m in at.markdown)
    assert all("<b>" not in c.value for c in at.caption)


def test_changed_settings_mark_the_older_result_and_keep_it(gradient: Gradient, model: str) -> None:
    at = run_to_the_end(open_gradient("app.py", gradient, model=model).run(), "run_button", state.RUN)
    before = [m.value for m in at.metric]
    at.session_state[state.PRESET] = "lean"
    at.run()
    assert not at.exception
    assert "Settings have changed" in texts(at)
    assert [m.value for m in at.metric] == before
    at.session_state[state.PRESET] = "best"
    at.run()
    assert "Settings have changed" not in texts(at)


def test_a_selected_parameter_is_shown_in_full(gradient: Gradient, model: str) -> None:
    at = run_to_the_end(open_gradient("app.py", gradient, model=model).run(), "run_button", state.RUN)
    at.text_input(key="typed_index").set_value("1, 2, 0, 1").run()
    assert not at.exception
    name, flat = at.session_state[state.SELECTED]
    assert flat == 1 * 81 + 2 * 9 + 1
    shown = texts(at)
    line = next(t.value for t in at.text if t.value.startswith("[1, 2, 0, 1] = "))
    assert np.float32(line.partition(" = ")[2]) == gradient[name][1, 2, 0, 1]
    assert "likeliest:" in shown
    assert any("|" in c.value for c in at.code)


def test_a_selection_moves_the_same_everywhere(gradient: Gradient, model: str) -> None:
    at = open_gradient("app.py", gradient, model=model, limit=2, **{state.AXES: (2, 3)}).run()
    at = run_to_the_end(at, "run_button", state.RUN)
    name = at.session_state[state.SHOWN]
    at.text_input(key="typed_index").set_value("1, 2, 0, 1").run()
    assert [at.session_state[f"axis_{i}"] for i in (0, 1)] == [1, 2], "the slice shown is the selection's"
    at.button(key="neighbour_1_1").click().run()
    assert not at.exception
    assert at.session_state[state.SELECTED] == (name, 1 * 81 + 3 * 9 + 1)
    assert at.session_state["axis_1"] == 3
    for quantity in ("rank", "entropy", "excess", "all"):
        at.session_state[state.QUANTITY] = quantity
        for tab in ("Along the context", "Tensors", "Extremes", "Values", "Another run", "Baselines"):
            at.session_state[state.TAB] = tab
            at.run()
            assert not at.exception, (quantity, tab)
        assert any(QUANTITIES[quantity] in c.value for c in at.caption)
    at.session_state[state.TAB] = "Tensors"
    for by in ("kind", "layer", "step"):
        at.session_state[state.GROUP_BY] = by
        at.run()
        assert not at.exception
        assert any(f"by {by}" in c.proto.alt for c in at.get("plotly_chart"))


def test_two_runs_of_one_gradient_are_held_against_each_other(gradient: Gradient, model: str) -> None:
    for prior in ("llm", "counts"):
        at = open_gradient("app.py", gradient, model=model, limit=1, prior=prior, tab="Another run").run()
        at = run_to_the_end(at, "run_button", state.RUN)
    first, second = (j.result for j in data.jobs().finished("measure"))
    mean = cell_differences(first, second, at.session_state["other_run_tensor"]).mean_bits
    assert f"{format.number(abs(mean))} bits per parameter" in texts(at)


def test_settings_that_do_not_fit_are_one_line_and_nothing_is_lost(gradient: Gradient, model: str) -> None:
    at = open_gradient("app.py", gradient, model=model, transform="uniform:99").run()
    assert not at.exception
    assert len(at.error) == 1
    assert at.button(key="run_button").disabled
    at.session_state[state.TRANSFORM] = "none"
    at.run()
    assert not at.error
    assert not at.button(key="run_button").disabled


def test_a_model_that_cannot_be_had_is_one_line(gradient: Gradient, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    at = open_gradient("app.py", gradient, model=str(tmp_path / "empty")).run()
    at.button(key="run_button").click().run()
    data.jobs().wait(at.session_state[state.RUN], SECONDS)
    at.run()
    assert not at.exception
    assert len(at.error) == 1
    assert "config.json" in at.error[0].value.replace("\\", "")


def test_an_unusable_file_leaves_what_was_there(gradient: Gradient, tmp_path: Path) -> None:
    bad = tmp_path / "not_a_gradient.safetensors"
    bad.write_bytes(b"\x00\x01 nothing of the sort")
    at = open_page("app.py", source="path", path=str(bad), loaded=Loaded(gradient, "upload", "small"))
    at.run()
    assert not at.exception
    assert len(at.error) == 1
    assert "Still showing: small" in at.error[0].value
    assert at.dataframe[0].value["tensor"].tolist()[1] == "bias"


def test_a_cancelled_run_keeps_its_windows(gradient: Gradient, model: str) -> None:
    at = open_gradient("app.py", gradient, model=model).run()
    at.button(key="run_button").click().run()
    data.jobs().cancel(at.session_state[state.RUN])
    data.jobs().wait(at.session_state[state.RUN], SECONDS)
    at.run()
    assert not at.exception
    assert "Stopped" in texts(at) or len(at.metric) == 4


def test_the_forecast_is_cautious_until_a_run_has_told_the_speed(gradient: Gradient, model: str) -> None:
    config = CodecConfig(model=DEFAULT_MODEL)
    text = Preview("x" * 864, 432, "bias", 0, (), (), 7)
    guess = models.forecast(gradient, config, 1, text)
    assert guess is not None
    assert guess.seconds == pytest.approx(15 + 432 / 150)
    assert "about 1" in guess.words()
    assert "guess" in guess.words()
    assert models.forecast(gradient, replace(config, model=model), 1, text) is None
    for seconds in (2.0, 6.0):
        report = SimpleNamespace(totals=SimpleNamespace(n_tokens=400), seconds=seconds)
        subject = Measured(gradient, "small", "upload", config, int(seconds))
        data.jobs().wait(data.jobs().submit("measure", subject.facts, lambda c, r=report: r, subject).id, 10)
    told = models.forecast(gradient, config, 2, text)
    assert told == models.Forecast(pytest.approx(864 / 100), True)
    assert "guess" not in told.words()
    other = models.forecast(gradient, replace(config, prior="mix"), 1, text)
    assert other is not None
    assert not other.measured


def test_an_address_with_a_run_shows_it_in_a_new_session(gradient: Gradient, model: str) -> None:
    at = run_to_the_end(open_gradient("app.py", gradient, model=model).run(), "run_button", state.RUN)
    other = open_page("app.py", source="upload", model=model)
    other.query_params[state.RUN] = at.session_state[state.RUN]
    other.run()
    assert not other.exception
    assert [m.value for m in other.metric] == [m.value for m in at.metric]


def test_a_lossy_step_is_drawn_before_and_after_and_its_error_stands_by_the_rate(
    gradient: Gradient, model: str
) -> None:
    at = open_gradient("app.py", gradient, model=model, transform="uniform:4", tab="Lossy step").run()
    assert not at.exception
    assert "PSNR" in texts(at)
    assert "Side information" in texts(at)
    charts = [c.proto.alt for c in at.get("plotly_chart")]
    assert any("before and after the lossy step" in alt for alt in charts)
    at = run_to_the_end(at, "run_button", state.RUN)
    assert "After the lossy step uniform" in texts(at)
    charts = [c.proto.alt for c in at.get("plotly_chart")]
    assert any("before and after the lossy step" in alt for alt in charts)


def test_lossy_sparse_runs_draw_their_dropped_cells(gradient: Gradient, model: str) -> None:
    at = open_gradient("app.py", gradient, model=model, transform="topk:0.1", tab="Lossy step").run()
    at = run_to_the_end(at, "run_button", state.RUN)
    tabled = next(t.value for t in at.dataframe if "figure" in t.value.columns)
    figures = dict(zip(tabled["figure"], tabled["value"], strict=True))
    report = data.jobs().get(at.session_state[state.RUN]).result
    assert figures["largest difference"] == format.number(report.error.max_abs)
    assert figures["became zero"] == format.count(report.error.n_flushed)
    assert {"root mean square error", "cosine similarity", "PSNR, dB"} <= set(figures)
    at.text_input(key="typed_index").set_value("0").run()
    assert not at.exception


@pytest.mark.parametrize("prior", ["counts", "mix"])
def test_priors_draw_their_bits_and_say_when_the_model_was_not_asked(
    gradient: Gradient, model: str, prior: str
) -> None:
    at = open_gradient("app.py", gradient, model=model, prior=prior, limit=2, tab="Tensors").run()
    at = run_to_the_end(at, "run_button", state.RUN)
    picture = json.loads(next(c for c in at.get("plotly_chart") if "Heatmap of" in c.proto.alt).proto.spec)
    points = picture["data"][-1]
    assert len(points["x"] if isinstance(points["x"], list) else points["x"]["bdata"]) > 0, "some cells have a colour"
    shown = texts(at)
    assert "nan" not in shown.replace("nano", "")
    assert "rank 0" not in shown
    table = next(t.value for t in at.dataframe if "sampled" in t.value.columns)
    if prior == "counts":
        assert "model not asked" in shown
        assert "all parts; colours" in shown
        assert "likeliest" not in shown
        assert "model's part" not in table.columns
    else:
        assert "model not asked" not in shown
        assert "likeliest" in shown
        assert "model's part; colours" in shown
        assert "model's part" in table.columns


def test_integers_have_no_exponents() -> None:
    gradient = Gradient.from_arrays({"i": np.arange(500, dtype=np.int32)})
    at = open_gradient("app.py", gradient).run()
    assert not at.exception
    assert "Integers have no exponent field" in texts(at)


def test_serialize_writes_typed_values_side_by_side(model: str) -> None:
    at = open_page("pages/1_Serialize.py", variants=3, model=model).run()
    assert not at.exception
    assert len(at.dataframe) == 4
    values = at.dataframe[0].value
    assert values["bytes"].iloc[0] == "3f 80 00 00"
    assert values["sign | exponent | mantissa"].iloc[1] == "1 | 01111110 | " + "0" * 23
    assert "tokens" in at.dataframe[1].value.columns
    assert len(at.metric) == 3


def test_serialize_without_a_tokenizer_shows_text_alone() -> None:
    at = open_page("pages/1_Serialize.py").run()
    assert not at.exception
    assert "tokens" not in at.dataframe[1].value.columns
    assert "Tokens appear once" in texts(at)


def test_serialize_refuses_what_is_no_number() -> None:
    at = open_page("pages/1_Serialize.py").run()
    at.text_area(key=state.VALUES).set_value("1.0 two").run()
    assert not at.exception
    assert len(at.error) == 1
    assert "two" in at.error[0].value


def test_serialize_takes_values_from_a_gradient(gradient: Gradient) -> None:
    at = open_gradient("pages/1_Serialize.py", gradient, values_from="from a gradient").run()
    assert not at.exception
    assert len(at.dataframe[0].value) == 32


def table_of(at: AppTest, column: str) -> pd.DataFrame:
    return next(d.value for d in at.dataframe if column in d.value.columns)


def test_compare_sorts_settings_and_baselines_by_rate(gradient: Gradient, model: str) -> None:
    at = open_gradient(
        "pages/2_Compare.py", gradient, model=model, compared=["best", "lean", "plain decimal text"]
    ).run()
    at = run_to_the_end(at, "compare_button", state.COMPARISON)
    table = table_of(at, "settings")
    assert {"best", "lean", "plain decimal text", "random bits", "shuffled"} <= set(table["settings"])
    assert "baseline, whole file" in set(table["kind"])
    rates = table["% of raw"].to_numpy()
    assert (np.diff(rates) >= 0).all()
    assert "Lowest rate" in texts(at)
    at.session_state[state.COMPARED_PRIORS] = ["llm"]
    at = run_to_the_end(at.run(), "compare_button", state.COMPARISON)
    audit = table_of(at, "published code, % of raw")
    assert (audit["published code, % of raw"] < audit["true % of raw"]).all()


def test_compare_crosses_priors_and_lossy_steps(gradient: Gradient, model: str) -> None:
    at = open_gradient(
        "pages/2_Compare.py",
        gradient,
        model=model,
        compared=["best"],
        priors=["counts", "mix"],
        lossy_steps=["none", "bf16", "topk:0.1+uniform:8"],
    ).run()
    at = run_to_the_end(at, "compare_button", state.COMPARISON)
    names = set(table_of(at, "settings")["settings"])
    expected = {f"best · {p} · {s}" for p in ("counts", "mix") for s in ("none", "bf16", "topk:0.1+uniform:8")}
    assert expected <= names
    assert any(name.endswith("after bf16") for name in names)
    assert "language model adds" in texts(at)
    shown = [c.proto.alt for c in at.get("plotly_chart") if c.proto.alt.startswith("Rate against error")]
    assert len(shown) == 1
    assert "best baseline" in shown[0]


def test_compare_hands_settings_over(gradient: Gradient, model: str) -> None:
    at = open_gradient("app.py", gradient, model=model).run()
    at.switch_page("pages/2_Compare.py")
    at.session_state[state.COMPARED], at.session_state[state.COMPARED_STEPS] = ["exponent byte, hex"], ["bf16"]
    at.run()
    at = run_to_the_end(at, "compare_button", state.COMPARISON)
    links = {link.proto.label: link.proto.query_string for link in at.get("page_link")}
    address = dict(parse_qsl(links["to Analyze"]))
    assert address == dict(parse_qsl(links["to Archive"]))
    assert {k: address[k] for k in ("planes", "transform", "support")} == {
        "planes": "exponent", "transform": "bf16", "support": "alphabet"
    }  # fmt: skip
    assert "alphabet" not in address


def test_compare_names_settings_that_do_not_fit(model: str) -> None:
    gradient = Gradient.from_arrays({"i": np.arange(900, dtype=np.int32)})
    at = open_gradient("pages/2_Compare.py", gradient, model=model, compared=["best", "exponent byte, hex"]).run()
    at = run_to_the_end(at, "compare_button", state.COMPARISON)
    assert len(at.error) == 1
    assert "exponent byte" in at.error[0].value
    assert "best" in set(table_of(at, "settings")["settings"])


def test_compare_refuses_a_step_nobody_knows(gradient: Gradient, model: str) -> None:
    at = open_gradient("pages/2_Compare.py", gradient, model=model, compared=["best"], lossy_steps=["halve"]).run()
    at = run_to_the_end(at, "compare_button", state.COMPARISON)
    assert not at.exception
    assert "halve" in " ".join(e.value for e in at.error)


def test_named_grids_stand_on_the_page(gradient: Gradient, model: str) -> None:
    at = open_gradient("pages/2_Compare.py", gradient, model=model, grid="quick", limit=1).run()
    at = run_to_the_end(at, "compare_button", state.COMPARISON)
    names = set(table_of(at, "settings")["settings"])
    assert {"best · mix", "best · counts", "best · llm", "lean · mix"} <= names
    assert not at.select_slider
    assert at.session_state[state.LIMIT] == 1  # for the other pages
    assert "parameters: " in texts(at)


def test_generate_trains_and_hands_over_to_analyze() -> None:
    at = open_page("app.py").run()
    at.switch_page("pages/3_Generate.py").run()
    for key, value in ((state.NETWORK, "mlp"), (state.STEPS, 3), (state.WIDTH, 8), (state.RECORD_AT, "1, 3")):
        at.session_state[key] = value
    at.run()
    at = run_to_the_end(at, "train_button", state.TRAINING)
    assert "Loss" in texts(at)
    links = [link.proto.query_string for link in at.get("page_link") if link.proto.label == "Analyze"]
    assert [("step+1" in q, "source=made+here" in q) for q in links[1:]] == [(True, True), (False, True)]
    at.session_state[state.SOURCE], at.session_state[state.STEP] = "made here", 1
    at.switch_page("app.py").run()
    assert not at.exception
    assert "step1" in texts(at).replace("\\", "")


def test_generate_refuses_steps_that_are_no_numbers() -> None:
    at = open_page("pages/3_Generate.py", record_at="one").run()
    assert not at.exception
    assert len(at.error) == 1

"""The Archive page in each state under Streamlit's AppTest, and the pure parts behind it."""

from __future__ import annotations

import hashlib
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from lmgc_core.archive import CompressResult, compress, decompress
from lmgc_core.errors import CorruptContainer
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import load_model
from lmgc_core.settings import RunOptions, preset
from pages.ui import archive_work, data, exports, state
from pages.ui.archive_figure import archive_parts
from pages.ui.archive_forecast import Ahead, ArchiveForecast, forecast_archive
from pages.ui.archive_made import length_rows, size_rows
from pages.ui.archive_work import ToMake, leading_part, leading_shape, make_work, open_upload
from pages.ui.jobs import JobManager
from tests.archive_cases import awkward_gradient, resealed
from tests.test_ui_pages import SECONDS, fresh_server, open_gradient, open_page, texts  # noqa: F401
from tests.tiny_models import tiny_llama

PAGE = "pages/4_Archive.py"
AHEAD = Ahead(220, 4, 60, 220, "llm", 0.001)


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_llama(tmp_path_factory.mktemp("model") / "other", hidden_size=16))


@pytest.fixture
def gradient() -> Gradient:
    rng = np.random.default_rng(0)
    return Gradient.from_arrays({"w <b>*": (rng.standard_normal((4, 3, 3, 3)) * 1e-3).astype(np.float32)}, "small.npz")


@pytest.fixture(scope="module")
def archive(model: str) -> CompressResult:
    return compress(awkward_gradient(), load_model(model), preset("best", model=model, prior="llm"), verify="none")


def make(at: AppTest) -> AppTest:
    at.button(key="make_button").click().run()
    assert not at.exception
    for job in list(data.jobs()._entries):
        data.jobs().wait(job, SECONDS)
    at.run()
    for job in list(data.jobs()._entries):
        data.jobs().wait(job, SECONDS)
    at.run()
    assert not at.exception
    return at


def open_archive(name: str, content: bytes, **facts: object) -> AppTest:
    at = open_page(PAGE, mode="open", **facts).run()
    at.file_uploader(key=state.ARCHIVE_UPLOAD).set_value((name, content, "application/octet-stream")).run()
    assert not at.exception
    return at


def decode(at: AppTest) -> AppTest:
    at.button(key="decode_button").click().run()
    for job in list(data.jobs()._entries):
        data.jobs().wait(job, SECONDS)
    at.run()
    assert not at.exception
    return at


def made(at: AppTest) -> archive_work.Made:
    job = data.jobs().get(at.session_state[state.ARCHIVE])
    assert job is not None
    assert isinstance(job.result, archive_work.Made)
    return job.result


def test_before_making_there_are_a_forecast_the_text_and_the_digest(gradient: Gradient) -> None:
    at = open_gradient(PAGE, gradient).run()
    assert not at.exception
    shown = texts(at)
    assert "guess until a first one" in shown
    assert "is not here yet" in shown
    assert gradient.digest in [c.value for c in at.code]
    assert not at.button(key="make_button").disabled
    assert not at.get("download_button")


def test_making_shows_the_proof_and_sizes_that_add_up(gradient: Gradient, model: str) -> None:
    at = make(open_gradient(PAGE, gradient, model=model).run())
    found = made(at)
    assert [c.value for c in at.code] == [gradient.digest, gradient.digest]
    assert "Bit for bit equal." in texts(at)
    assert "The whole file" in texts(at)
    assert decompress(found.archive, load_model(model)).to_bytes() == gradient.to_bytes()
    table = at.dataframe[0].value
    assert table["bytes"].iloc[:-1].sum() == table["bytes"].iloc[-1] == len(found.archive)
    assert table["% of file"].iloc[:-1].sum() == pytest.approx(100)
    lengths = dict(zip(at.dataframe[1].value["size"], at.dataframe[1].value["bits"], strict=True))
    assert lengths["surprisal, text"] == pytest.approx(lengths["code length, text"], rel=0.005)
    assert lengths["code length, all"] <= lengths["payload on disk"] <= lengths["code length, all"] + 64
    cards = {m.label: m.value for m in at.metric}
    assert "points" in cards["against the best baseline"]
    assert at.get("download_button")
    assert "<b>" not in "".join(m.value for m in at.markdown)
    at.button(key="make_button").click().run()
    assert [i.value for i in at.info] == ["Already made; this is the archive."]


def test_a_long_archive_says_which_part_was_proven_and_everything_can_be(
    gradient: Gradient, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_work, "MOST_TOKENS_COUNTED", 20)
    monkeypatch.setattr("lmgc_core.archive_proof.VERIFY_TOKENS", 20)
    values = gradient["w <b>*"]
    long = Gradient.from_arrays({"w": values, "h": values.astype(np.float16)})  # a segment holds one type
    facts = {"model": model, "archive_values": 0, "prior": "counts"}
    at = make(open_gradient(PAGE, long, **facts).run())
    report = made(at).report
    assert 0 < report["verified_segments"] < report["n_segments"]
    assert made(at).decoded_sha256 is None
    assert "equal where decoded" in texts(at)
    assert "equal so far" in [m.value for m in at.metric]
    at.session_state[state.PROOF] = "all"
    at = make(at.run())
    assert made(at).decoded_sha256 == long.digest


def test_a_lossy_archive_says_so(gradient: Gradient, model: str) -> None:
    at = make(open_gradient(PAGE, gradient, model=model, transform="topk:0.2", prior="counts").run())
    shown = texts(at)
    assert "Lossy: topk" in shown
    assert "does not come back" in shown
    assert made(at).decoded_sha256 not in (None, gradient.digest)


def test_a_stopped_making_leaves_nothing_and_keeps_the_archive_before(gradient: Gradient, model: str) -> None:
    at = make(open_gradient(PAGE, gradient, model=model, prior="counts").run())
    before = at.session_state[state.ARCHIVE]
    go_on, begun = threading.Event(), threading.Event()

    def hold(context: object) -> None:
        begun.set()
        go_on.wait(SECONDS)

    blocker = data.jobs().submit("hold", {}, hold)
    assert begun.wait(SECONDS)
    at.session_state[state.PRESET] = "lean"
    at.run()
    at.button(key="make_button").click().run()
    assert not at.exception
    assert at.session_state[state.ARCHIVE] != before
    assert "The archive made before:" in texts(at)
    assert at.button(key="make_button").disabled
    at.button(key="cancel_archive").click().run()
    go_on.set()
    data.jobs().wait(blocker.id, SECONDS)
    at.run()
    assert not at.exception
    assert "Stopped: no archive was written" in texts(at)
    assert "What goes in" not in texts(at)
    assert "Bit for bit equal." in texts(at)
    assert not at.button(key="make_button").disabled


def test_a_first_making_that_is_stopped_leaves_the_page_as_it_was(gradient: Gradient, model: str) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def hold(context: object) -> None:
        begun.set()
        go_on.wait(SECONDS)

    data.jobs().submit("hold", {}, hold)
    assert begun.wait(SECONDS)
    at = open_gradient(PAGE, gradient, model=model, prior="counts").run()
    at.button(key="make_button").click().run()
    assert "once it is whole" in texts(at)
    assert gradient.digest in [c.value for c in at.code]
    at.button(key="cancel_archive").click().run()
    go_on.set()
    at.run()
    assert not at.exception
    assert "Stopped: no archive was written" in texts(at)
    assert "What goes in:" in texts(at)
    assert not at.get("download_button")


def test_making_stops_between_steps(gradient: Gradient, model: str) -> None:
    manager, config = JobManager(), preset("best", model=model)
    subject = ToMake(gradient, "small", config, "all", AHEAD)

    def stop_in_the_proof(context: archive_work.JobContext) -> archive_work.Made:
        asked = context.should_stop
        job = manager.get(context._id)

        def should_stop() -> bool:
            nonlocal job
            job = manager.get(context._id)
            if job is not None and "proof" in job.note:
                manager.cancel(context._id)
            return asked()

        context.should_stop = should_stop  # type: ignore[method-assign]
        return make_work(subject, RunOptions())(context)

    ended = manager.wait(manager.submit("archive", {}, stop_in_the_proof).id, SECONDS)
    assert ended is not None
    assert (ended.phase, ended.result, ended.partial) == ("cancelled", None, None)


def test_progress_names_the_phase_and_never_goes_back(gradient: Gradient, model: str) -> None:
    told: list[tuple[str, float | None]] = []

    class Context:
        def say(self, note: str, fraction: float | None = None) -> None:
            told.append((note, fraction))

        def should_stop(self) -> bool:
            return False

        def check(self) -> None:
            pass

    make_work(ToMake(gradient, "small", preset("best", model=model, context_window=128), "auto", AHEAD), RunOptions())(
        Context()  # type: ignore[arg-type]
    )
    notes = [note for note, _ in told]
    assert any("1 of 2: encoding" in note for note in notes)
    assert any("2 of 2: proof by decoding, step" in note for note in notes)
    fractions = [f for _, f in told if f is not None]
    assert all(a <= b for a, b in pairwise(fractions[1:]))
    assert fractions[-1] <= 1


def test_opening_shows_what_an_archive_says(archive: CompressResult) -> None:
    at = open_archive("mine.lmgc", archive.archive)
    shown = texts(at)
    assert "mine" in shown
    assert "Lossless" in shown
    assert "Type the folder" in shown, "a model that is not in the list is asked for, never fetched by the file's word"
    assert at.button(key="decode_button").disabled
    settings = next(d.value for d in at.dataframe if "setting" in d.value.columns)
    rows = dict(zip(settings["setting"], settings["value"], strict=True))
    assert rows["model"] == "tiny"
    assert rows["where to get it"] == "not stated"
    assert rows["who predicts"] == "llm"
    tensors = next(d.value for d in at.dataframe if list(d.value.columns) == ["tensor", "type", "shape"])
    assert tensors["tensor"].tolist() == [t.name for t in awkward_gradient()]


def test_decoding_gives_the_gradient_back_and_hands_it_to_analyze(archive: CompressResult, model: str) -> None:
    at = decode(open_archive("mine.lmgc", archive.archive, model=model))
    assert awkward_gradient().digest in [c.value for c in at.code]
    names = [b.label for b in at.get("download_button")]
    assert names == ["Download .safetensors", "Download .npz"]
    analyze = open_page("app.py", source="archive")
    analyze.query_params[state.UNPACKED] = at.session_state[state.UNPACKED]
    analyze.run()
    assert not analyze.exception
    assert "mine.lmgc, decoded" in texts(analyze).replace("\\", "")


def test_single_tensors_can_be_decoded_alone(archive: CompressResult, model: str) -> None:
    at = open_archive("mine.lmgc", archive.archive, model=model)
    key = f"{state.ARCHIVE_TENSORS}_{hashlib.sha256(archive.archive).hexdigest()[:12]}"
    at.multiselect(key=key).set_value(["z.w"]).run()
    at = decode(at)
    assert awkward_gradient().select(["z.w"]).digest in [c.value for c in at.code]
    assert "Download .npy" in [b.label for b in at.get("download_button")]


def test_another_model_is_one_line_and_nothing_is_shown(archive: CompressResult, other_model: str) -> None:
    key = f"{state.ARCHIVE_MODEL}_{hashlib.sha256(archive.archive).hexdigest()[:12]}"
    at = decode(open_archive("mine.lmgc", archive.archive, **{key: other_model}))
    assert len(at.error) == 1
    assert "was made with" in at.error[0].value
    assert "Nothing was decoded" in at.error[0].value
    assert not at.code
    assert not at.get("download_button")


@pytest.mark.parametrize("how", ["not an archive", "cut", "flipped", "newer", "trailing", "empty"])
def test_a_damaged_archive_is_one_line_and_the_last_one_stays(archive: CompressResult, how: str) -> None:
    good = archive.archive
    bad = {
        "not an archive": b"\x93NUMPY nothing of the sort",
        "cut": good[:-40],
        "flipped": good[:60] + bytes([good[60] ^ 4]) + good[61:],
        "newer": resealed(good[:4] + b"\x63" + good[5:]),
        "trailing": good + b"\0",
        "empty": b"",
    }[how]
    at = open_archive("good.lmgc", good)
    at.file_uploader(key=state.ARCHIVE_UPLOAD).set_value((f"{how}.lmgc", bad, "")).run()
    assert not at.exception
    assert len(at.error) == 1
    line = at.error[0].value.replace("\\", "")
    assert line.startswith(f"{how}.lmgc: ")
    assert "Still showing: good.lmgc" in line
    assert "\n" not in line
    assert "good" in texts(at)
    alone = open_archive(f"{how}.lmgc", bad)
    assert len(alone.error) == 1
    assert not alone.metric
    assert not alone.dataframe


def test_a_path_is_read_where_the_server_is_ones_own(archive: CompressResult, tmp_path: Path) -> None:
    (tmp_path / "mine.lmgc").write_bytes(archive.archive)
    facts = {"mode": "open", "archive_from": "path"}
    at = open_page(PAGE, **facts, archive_path=str(tmp_path / "mine.lmgc")).run()
    assert not at.exception
    assert "Lossless" in texts(at)
    at = open_page(PAGE, **facts, archive_path=str(tmp_path / "none.lmgc")).run()
    assert "none.lmgc: there is no such file" in at.error[0].value.replace("\\", "")


def test_settings_outlive_a_look_at_the_other_side(gradient: Gradient, model: str) -> None:
    at = open_gradient(PAGE, gradient, model=model, preset="lean", prior="counts").run()
    at.session_state[state.ARCHIVE_MODE] = "open"
    at.run()
    at.run()
    at.session_state[state.ARCHIVE_MODE] = "make"
    at.run()
    assert not at.exception
    assert (at.session_state[state.PRESET], at.session_state[state.PRIOR]) == ("lean", "counts")


def test_settings_that_do_not_fit_are_one_line(gradient: Gradient) -> None:
    at = open_gradient(PAGE, gradient, transform="uniform:99").run()
    assert not at.exception
    assert len(at.error) == 1
    assert at.button(key="make_button").disabled


@given(st.lists(st.integers(1, 9), max_size=4), st.integers(1, 400))
def test_a_leading_part_is_the_first_values_in_memory(shape: list[int], n: int) -> None:
    values = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    part = leading_part(Gradient.from_arrays({"w": values}), n)["w"]
    assert 1 <= part.size <= max(n, 1)
    assert part.ndim == values.ndim
    assert part.ravel().tolist() == values.ravel()[: part.size].tolist()
    assert leading_shape(shape, 10**6) == tuple(shape)


def test_a_forecast_follows_the_archives_made_here() -> None:
    ahead = Ahead(600, 8, 75, 600, "llm", 1.0)
    guess = forecast_archive(ahead, [], False)
    assert guess is not None
    assert not guess.measured
    told = forecast_archive(ahead, [(ahead, 2 * ahead.encode_seconds, 3 * ahead.proof_seconds)], True)
    assert told == ArchiveForecast(
        0.0, pytest.approx(2 * ahead.encode_seconds), pytest.approx(3 * ahead.proof_seconds), True
    )
    assert forecast_archive(Ahead(600, 8, 75, 600, "llm", None), [], False) is None
    counted = forecast_archive(Ahead(600, 8, 75, 600, "counts", None), [], False)
    assert counted is not None
    assert counted.loading == 0
    assert counted.seconds < guess.seconds


def test_parts_and_rows_add_up(archive: CompressResult) -> None:
    report = archive.report
    assert sum(archive_parts(report).values()) == report["container_bytes"] == size_rows(report)[-1]["bytes"]
    assert length_rows(report)[-1]["bytes"] == report["payload_bytes"]


def test_formats_say_what_they_cannot_hold() -> None:
    import torch

    brain = Gradient.from_arrays({"w": torch.zeros(2, dtype=torch.bfloat16)})
    assert exports.refusal(brain, ".safetensors") == ""
    assert "bfloat16" in exports.refusal(brain, ".npz")
    assert "one array" in exports.refusal(awkward_gradient(), ".npy")


def test_opening_names_the_file() -> None:
    with pytest.raises(CorruptContainer, match=r"^mine\.lmgc: "):
        open_upload("mine.lmgc", b"nothing")

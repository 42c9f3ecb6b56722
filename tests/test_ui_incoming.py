"""Files on their way into the app: uploads, paths, tables before any choice, slices, what a killed server leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from lmgc_core.errors import UnsupportedInput
from lmgc_core.gradient import Gradient
from pages.ui import data, incoming, state
from tests.file_kinds import npy_bytes, npy_header, write_index, write_safetensors
from tests.test_ui_pages import ROOT, fresh_server, open_page, texts  # noqa: F401

HTML_NAME = "<img src=x onerror=alert(1)>.npy"
MARKED_UP = re.compile(r"(?<!\\)<img|(?<!\\)\]\(java|(?<!\\)\*(?<!\\)\*b")
MARKDOWN_NAME = "[x](javascript:alert(1)) **b** $a_b$ :red[q].npy"


@pytest.fixture(autouse=True)
def own_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of its own, empty again after every test."""
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    yield spool
    assert list(spool.glob("lmgc-upload-*")) == [], "nothing of an upload stays on disk"


def npy(array: np.ndarray) -> bytes:
    return npy_bytes(npy_header(f"'{array.dtype.str}'", array.shape), array.tobytes())


def upload(at: AppTest, *files: tuple[str, bytes]) -> AppTest:
    for name, content in files:
        at.file_uploader(key=state.UPLOAD).upload(name, content)
    return at.run()


def upload_page() -> AppTest:
    return open_page("app.py", source="upload").run()


def table(at: AppTest) -> Any:
    return next(d.value for d in at.dataframe if "not finite" in d.value.columns)


def loaded(at: AppTest) -> Gradient:
    gradient: Gradient = at.session_state[state.LOADED].gradient
    return gradient


def test_the_table_of_tensors_stands_there_before_any_choice(tmp_path: Path) -> None:
    values = np.float32([[0, -0.0, np.nan], [np.inf, 2.0, -4.0]])
    path = tmp_path / "g.npz"
    np.savez(path, w=values, n=np.arange(4, dtype=np.int16))
    at = open_page("app.py", source="path", path=str(path)).run()
    assert not at.exception
    rows = table(at).set_index("tensor")
    w = rows.loc["w"]
    assert (w["shape"], w["dtype"], w["min"], w["max"], w["mean"]) == ("2×3", "float32", -4.0, 2.0, -0.5)
    assert w["std"] == pytest.approx(np.std([0, 0, 2, -4]))
    assert (w["zeros %"], w["not finite"]) == (pytest.approx(100 / 3), 2)
    assert (rows.loc["n", "mean"], rows.loc["n", "not finite"]) == (1.5, 0)


def test_an_upload_gives_its_own_bytes_at_every_run() -> None:
    values = np.random.default_rng(0).normal(size=700).astype("<f4")
    at = upload(upload_page(), ("mine.npy", npy(values)))
    assert not at.exception
    first = loaded(at)
    assert first.to_bytes() == values.tobytes()
    at.session_state[state.PRESET] = "lean"
    at.run()
    assert loaded(at).digest == first.digest
    assert "Files of up to" in at.file_uploader(key=state.UPLOAD).label


def test_files_that_cannot_be_used_are_lines_and_leave_the_others() -> None:
    at = upload(
        upload_page(),
        ("broken.safetensors", b"not a gradient at all"),
        ("good.npy", npy(np.float32([1, 2]))),
        ("page.npy", b"<!doctype html><html>sign in</html>"),
        ("good.npz", b"PK\x03\x04 cut"),
    )
    assert not at.exception
    assert len(at.error) == 3
    shown = "\n".join(e.value.replace("\\", "") for e in at.error)
    for name in ("broken.safetensors", "page.npy", "good.npz"):
        assert name in shown
    assert "lmgc-upload" not in shown
    assert "upload-" not in shown
    assert loaded(at).to_bytes() == np.float32([1, 2]).tobytes()


def test_several_files_become_one_gradient_and_keep_their_names_apart() -> None:
    at = upload(upload_page(), ("step1.npy", npy(np.float32([1]))), ("step2.npy", npy(np.float32([2, 3]))))
    assert not at.exception
    assert {t.name: t.array.tolist() for t in loaded(at)} == {"step1": [1], "step2": [2, 3]}


def test_shards_are_read_with_their_index_and_a_missing_one_is_named(tmp_path: Path) -> None:
    arrays = {"a": np.float32([1, 2]), "b": np.float32([3])}
    write_index(tmp_path / "model.safetensors.index.json", arrays)
    files = [(p.name, p.read_bytes()) for p in sorted(tmp_path.iterdir()) if p.is_file()]
    at = upload(upload_page(), *files)
    assert not at.exception
    assert not at.error
    assert {t.name: t.array.tolist() for t in loaded(at)} == {n: a.tolist() for n, a in arrays.items()}
    at = upload(upload_page(), *[f for f in files if "00002" not in f[0]])
    assert "model-00002-of-00002.safetensors" in at.error[0].value.replace("\\", "")


@pytest.mark.parametrize("name", [HTML_NAME, MARKDOWN_NAME, "../../escape.npy", "a/z\\c.npy", "x\n\x1b[31m.npy"])
def test_names_of_uploads_are_text_and_never_paths(name: str, tmp_path: Path) -> None:
    seen: list[Path] = []
    with incoming._spooled([(name, lambda: b"x")]) as files:
        seen += [path for path, _ in files]
        assert seen[0].parent.parent == Path(tempfile.gettempdir())
        assert incoming.PLAIN_NAME.fullmatch(seen[0].name)
    at = upload(upload_page(), (name, npy(np.float32([1, 2, 3]))))
    assert not at.exception
    assert not [e.value for e in (*at.markdown, *at.caption) if MARKED_UP.search(e.value)]
    refused = upload(upload_page(), (name, b"\x00\x01 nothing"))
    assert len(refused.error) == 1
    assert not MARKED_UP.search(refused.error[0].value)
    assert "\n" not in refused.error[0].value.strip()
    assert not (tmp_path / "escape.npy").exists()


def test_a_wrong_type_is_asked_for_and_then_believed() -> None:
    at = upload(upload_page(), ("g.npy", npy_bytes(npy_header("'<V2'", (2,)), b"\x80\x3f\x00\x40")))
    assert "bfloat16" in at.error[0].value
    at.selectbox(key=state.RAW_DTYPE).set_value("bfloat16").run()
    assert not at.error
    assert loaded(at)[""].astype(float).tolist() == [1.0, 2.0]


def test_equal_bytes_of_another_shape_or_name_are_another_gradient() -> None:
    flat = np.arange(600, dtype="<f4")
    at = upload(upload_page(), ("a.npy", npy(flat)))
    assert table(at)["shape"].tolist() == ["600"]
    other = upload(upload_page(), ("b.npy", npy(flat.reshape(20, 30))))
    assert table(other)["shape"].tolist() == ["20×30"]
    text = next(m.value for m in other.markdown if "float32" in m.value)
    assert "20×30" in text
    assert loaded(at).digest == loaded(other).digest
    assert loaded(at).identity != loaded(other).identity


def test_one_changed_value_among_half_a_million_is_another_gradient() -> None:
    """A cache that samples its key would show the first file's figures for the second."""
    first = np.zeros(510_000, "<f2")
    second = first.copy()
    second[1492] = 7.0
    tables = [table(upload(upload_page(), ("g.npy", npy(a)))) for a in (first, second)]
    assert [t["max"].item() for t in tables] == [0.0, 7.0]


def test_a_slice_is_what_gets_analysed(tmp_path: Path) -> None:
    array = np.arange(4 * 5 * 3 * 2, dtype=np.float32).reshape(4, 5, 3, 2)
    np.savez(tmp_path / "g.npz", **{"conv2.weight": array, "b": np.zeros(3, np.float32)})
    at = open_page("app.py", source="path", path=str(tmp_path / "g.npz"), tensors=["conv2.weight"], part="slice").run()
    assert not at.exception
    keys = {s.key for s in at.slider}
    assert {"slice_2_3_at", "slice_3_2_at", "slice_0_4_range", "slice_1_5_range"} <= keys, "the largest axes are shown"
    at.selectbox(key="slice_axes_4").set_value("1 × 2").run()
    at.slider(key="slice_0_4_at").set_value(3).run()
    at.slider(key="slice_1_5_range").set_value((1, 4)).run()
    assert not at.exception
    name = "conv2.weight[3, 1:4, :, 0]"
    assert any(name in m.value.replace("\\", "") for m in at.markdown), "the headline names the slice"
    at.button(key="run_button").click().run()
    subject = data.jobs().get(at.session_state[state.RUN]).subject
    assert [t.name for t in subject.gradient] == [name]
    assert subject.gradient[name].tobytes() == np.ascontiguousarray(array[3, 1:4, :, 0]).tobytes()
    data.jobs().cancel(at.session_state[state.RUN])


def test_rows_ticked_in_the_table_become_the_choice(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", a=np.zeros(3, np.float32), b=np.ones(5, np.float32))
    at = open_page("app.py", source="path", path=str(tmp_path / "g.npz")).run()
    at.session_state[state.TENSORS] = ["b"]
    at.run()
    assert not at.exception
    assert table(at)["tensor"].tolist() == ["a", "b"], "the table goes on showing the whole file"
    assert at.session_state[state.TENSORS] == ["b"]


def test_figures_of_large_files_are_computed_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pages.ui import before

    monkeypatch.setattr(before, "FIGURES_BYTES", 10)
    np.save(tmp_path / "g.npy", np.float32([1, 2, 9]))
    at = open_page("app.py", source="path", path=str(tmp_path / "g.npy")).run()
    assert table(at)["max"].isna().all()
    at.button(key="compute_figures").click().run()
    assert not at.exception
    assert table(at)["max"].tolist() == [9.0]


def test_a_very_large_file_is_read_only_as_far_as_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "READ_BYTES", 100)
    read: list[str] = []
    real = incoming.Opened.read
    monkeypatch.setattr(incoming.Opened, "read", lambda self, names=(): (read.extend(names), real(self, names))[1])
    arrays = {"a": np.zeros(20, "<f4"), "b": np.arange(30, dtype="<f4")}
    write_safetensors(tmp_path / "g.safetensors", arrays)
    at = open_page("app.py", source="path", path=str(tmp_path / "g.safetensors")).run()
    assert not at.exception
    assert table(at)["tensor"].tolist() == ["a", "b"]
    assert read == []
    assert "Choose in the sidebar" in texts(at)
    at.button(key="compute_figures").click().run()
    assert table(at)["max"].tolist() == [0.0, 29.0]
    assert read == []
    at.multiselect(key=state.READ).set_value(["b"]).run()
    assert not at.exception
    assert read == ["b"]
    assert [t.name for t in loaded(at)] == ["b"]


def test_a_header_of_ten_gigabytes_needs_no_memory(tmp_path: Path) -> None:
    """A sparse file: its tensors are listed though nothing of them could be read in time."""
    n = 10 << 30
    sizes = {"a": [0, n], "b": [n, n + 4]}
    entries = {
        name: {"dtype": "U8", "shape": [last - first], "data_offsets": [first, last]}
        for name, (first, last) in sizes.items()
    }
    header = json.dumps(entries).encode()
    path = tmp_path / "g.safetensors"
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + n + 4)
    at = open_page("app.py", source="path", path=str(path)).run()
    assert not at.exception
    assert table(at)["bytes"].tolist() == [n, 4]
    at.multiselect(key=state.READ).set_value(["b"]).run()
    assert not at.exception
    assert loaded(at).to_bytes() == bytes(4)


def test_paths_are_taken_in_local_mode_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "g.npy", np.float32([5]))
    monkeypatch.setattr(state, "local_mode", lambda: False)
    at = open_page("app.py", source="path", path=str(tmp_path / "g.npy")).run()
    assert not [t for t in at.text_input if t.key == state.PATH]
    assert loaded(at).name != "g.npy"


def test_a_folder_on_the_server_is_one_gradient(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    np.save(folder / "a.npy", np.float32([1]))
    np.save(folder / "b.npy", np.float32([2]))
    at = open_page("app.py", source="path", path=str(folder)).run()
    assert not at.exception
    assert sorted(t.name for t in loaded(at)) == ["a", "b"]


def test_what_a_killed_server_left_is_swept_and_a_living_ones_is_not(own_spool: Path) -> None:
    program = (
        "import sys, time, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from pages.ui.incoming import _spooled\n"
        "with _spooled([('a.npy', lambda: b'x' * 1000)]):\n"
        "    print('here', flush=True); time.sleep(60)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(own_spool)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline().strip() == "here"
    try:
        assert incoming.sweep() == 0
        assert list(own_spool.glob("lmgc-upload-*/upload-0.npy"))
    finally:
        os.kill(other.pid, signal.SIGKILL)
        other.wait(20)
        other.stdout.close()
    for _ in range(50):
        if incoming.sweep():
            break
        time.sleep(0.1)
    assert list(own_spool.glob("lmgc-upload-*")) == []


def test_uploads_that_cannot_be_used_raise_the_first_reason() -> None:
    with pytest.raises(UnsupportedInput, match=r"^a\.npy: the file is empty"):
        incoming.open_uploads([("a.npy", lambda: b""), ("b.npy", lambda: b"")], None)

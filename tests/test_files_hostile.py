"""Paths and files that are no gradient: pages, pointers, pipes, devices, folders, other formats."""

import os
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lmgc_core.errors import LmgcError, UnsupportedInput
from lmgc_core.files import inspect_file, load_gradient, open_source
from lmgc_core.files.source import guarded, one_line
from lmgc_core.files.torch_file import SAVE_AGAIN


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(UnsupportedInput) as caught:
        load_gradient(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert inspect_file(path, **options)["error"] == text
    return text


CONTENT = {
    "nothing": (b"", "empty (0 bytes)"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 42\n", "Git LFS pointer"),
    "page": (b"<!DOCTYPE html><html><body>Sign in</body></html>", "HTML page"),
    "page after a mark": (b"\xef\xbb\xbf\n <HTML>", "HTML page"),
    "XHTML": (b'<?xml version="1.0"?><html xmlns="x">', "HTML page"),
    "JSON": (b'{"error": "not found"}', "JSON"),
    "JSON list": (b"[1, 2]", "JSON"),
    "gzip": (b"\x1f\x8b\x08\x00" + bytes(20), "gunzip"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(20), "zstd"),
    "xz": (b"\xfd7zXZ\x00" + bytes(20), "xz"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(20), "7z"),
    "archive of ours": (b"\x8bLGC" + bytes(20), "decompress it"),
    "PDF": (b"%PDF-1.7\n\x00", "PDF"),
    "PNG": (b"\x89PNG\r\n\x1a\n" + bytes(20), "PNG"),
    "Parquet": (b"PAR1" + bytes(20), "Parquet"),
    "MATLAB": (b"MATLAB 5.0 MAT-file" + bytes(200), "MATLAB"),
    "noise": (bytes(range(128, 256)), "--raw-dtype"),
    "prose": (b"Dear all,\nplease find enclosed\n", "line 2"),
}


@pytest.mark.parametrize("ending", [".npy", ".pt", ".safetensors", ".bin", ".npz", ""])
@pytest.mark.parametrize("what", list(CONTENT))
def test_content_that_is_no_gradient_is_named(what: str, ending: str, tmp_path: Path) -> None:
    data, word = CONTENT[what]
    path = tmp_path / f"upload{ending}"
    path.write_bytes(data)
    text = refusal(path)
    if what == "noise" and ending not in (".bin", ""):
        assert f"not a {ending[1:]} file" in text or "not a whole safetensors file" in text
    else:
        assert word in text


@pytest.mark.parametrize("what", ["nothing", "LFS pointer", "page"])
def test_a_said_type_makes_no_numbers_of_pages(what: str, tmp_path: Path) -> None:
    data, word = CONTENT[what]
    path = tmp_path / "g.bin"
    path.write_bytes(data)
    assert word in refusal(path, raw_dtype="uint8")


def test_tar_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.pt"
    with tarfile.open(path, "w") as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            archive.addfile(tarfile.TarInfo(name))
    assert "tar" in refusal(path)


def test_pipes_sockets_and_devices_do_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.npy"
    os.mkfifo(pipe)
    found: list[str] = []
    worker = threading.Thread(target=lambda: found.append(refusal(pipe)), daemon=True)
    worker.start()
    worker.join(20)
    assert found
    assert "named pipe" in found[0]
    assert "device" in refusal(Path("/dev/zero"))
    assert "device" in refusal(Path("/dev/null"))
    end = socket.socket(socket.AF_UNIX)
    end.bind(str(tmp_path / "s"))
    assert "s: " in refusal(tmp_path / "s")
    end.close()


def test_missing_unreadable_and_impossible_paths(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "missing.npy")
    assert "Not a directory" in refusal(_written(tmp_path / "file") / "inner.npy")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "loop: " in refusal(loop)
    assert "dangling: " in refusal(_linked(tmp_path / "dangling", tmp_path / "nowhere"))
    assert "null" in refusal(tmp_path / "a\0b")
    assert refusal(tmp_path / ("x" * 300))
    closed = _written(tmp_path / "closed.npy")
    closed.chmod(0)
    if os.access(closed, os.R_OK):
        pytest.skip("this user may read everything")
    assert "Permission denied" in refusal(closed)


def _written(path: Path) -> Path:
    np.save(path.open("wb"), np.ones(3))
    return path


def _linked(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def test_names_with_line_ends_and_marks_stay_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a\nb\x1b[31m<img src=x>.npy"
    path.write_bytes(b"")
    text = refusal(path)
    assert "\x1b" not in text
    assert "<img src=x>" in text


RAISED = [
    MemoryError(), RecursionError(), OverflowError("x"), KeyError("x"), RuntimeError("a\nb"), OSError(5, "I/O"),
    EOFError(), AssertionError(), UnicodeDecodeError("utf-8", b"", 0, 1, "x"), IndexError("i"),
]  # fmt: skip


@pytest.mark.parametrize("error", RAISED)
def test_whatever_a_library_raises_becomes_one_line(error: Exception) -> None:
    with pytest.raises(UnsupportedInput) as caught, guarded("g.x", "npy"):
        raise error
    assert str(caught.value).startswith("g.x: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_stop_is_no_bad_file(error: type[BaseException]) -> None:
    with pytest.raises(error), guarded("g.x", "npy"):
        raise error


def test_one_line_is_short_and_printable() -> None:
    long = one_line("found " + "a" * 1000 + "; fetch it again")
    assert len(long) == 300
    assert long.startswith("found aaa")
    assert long.endswith("…" + "a" * 84 + "; fetch it again")
    assert one_line("a\tb\r\nc\x07") == "a b c\\x07"


def test_one_bad_file_leaves_the_others(tmp_path: Path) -> None:
    good = _written(tmp_path / "good.npy")
    bad = tmp_path / "bad.npy"
    bad.write_bytes(b"\x93NUMPY")
    answers = [inspect_file(p) for p in (bad, good, bad)]
    assert ["error" in a for a in answers] == [True, False, True]


def test_values_that_change_under_a_source_raise_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, g=np.ones(1000))
    source = open_source(path)
    path.write_bytes(b"")
    with pytest.raises(LmgcError):
        source.read("g")


def test_reading_numpy_files_needs_no_torch(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.ones(3))
    program = (
        "import sys, lmgc_core.files as f; f.inspect_file(sys.argv[1]); "
        "print([m for m in ('torch', 'h5py', 'gguf', 'safetensors', 'pandas') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "g.npy")], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("advice", [SAVE_AGAIN, "fetch it again", "the file is damaged, fetch or save it again"])
@pytest.mark.parametrize("n", [10, 250, 400])
def test_a_long_line_keeps_what_to_do_whole(advice: str, n: int) -> None:
    shown = one_line(f"{'x; ' * (n // 3)}found; {advice}")
    assert shown.endswith(f"; {advice}")
    assert len(shown) <= 300


def test_a_long_name_that_is_blocked_leaves_the_advice_whole(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/data.pkl", b"\x80\x02ctorch\n" + b"very_long_name_" * 20 + b"\n.")
    answer = inspect_file(tmp_path / "a.pt")
    assert answer["error"].endswith(f"; {SAVE_AGAIN}")

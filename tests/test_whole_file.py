"""A file is its old content or its new one, whatever happens while it is written."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lmgc_core.whole_file import STALE_SECONDS, whole_file, write_whole

ROOT = Path(__file__).parent.parent


def test_new_content_replaces_the_old_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def write_half(path: Path, error: type[BaseException]) -> None:
    with whole_file(path) as place:
        place.write_bytes(b"ne")
        assert place.suffix == path.suffix, "writers go by the ending"
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError, SystemExit])
def test_an_interrupted_write_leaves_the_old_file(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_whole(path, b"old")
    with pytest.raises(error):
        write_half(path, error)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_readers_see_the_old_file_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")
    with whole_file(path) as place:
        place.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_folder_that_cannot_be_written_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        write_whole(tmp_path / "nowhere" / "a", b"x")


def test_a_killed_writer_leaves_the_old_file_and_the_next_one_sweeps(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_whole(path, b"old")
    program = (
        "import sys, time; from lmgc_core.whole_file import whole_file\n"
        "with whole_file(sys.argv[1]) as place:\n"
        "    place.write_bytes(b'half'); print('writing', flush=True); time.sleep(60)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert writer.stdout is not None
    writer.stdout.readline()
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait(20)
    writer.stdout.close()
    assert path.read_bytes() == b"old"
    (left,) = [p for p in tmp_path.iterdir() if p != path]
    write_whole(path, b"new")
    assert left.exists(), "a file that young may have a living writer"
    old = time.time() - STALE_SECONDS - 1
    os.utime(left, (old, old))
    write_whole(path, b"newer")
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]

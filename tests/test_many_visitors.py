"""Many visitors at once on one real server, and a server that is killed at work. Loopback only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core.codec import measure
from lmgc_core.gradient import Gradient
from lmgc_core.language_model.cache import BUILDING
from lmgc_core.settings import DEFAULT_LIMIT, preset
from lmgc_core.whole_file import MARK
from pages.ui.format import number
from tests.app_server import Server, Visitor, app_server
from tests.file_kinds import npy_bytes, npy_header
from tests.tiny_models import tiny_llama

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

N_VISITORS = 20
MEMORY_BYTES = 150 << 20  # what half as many visitors more, with other files, may add
DEADLINE_SECONDS = 500.0
BROKEN: list[tuple[str, bytes, str]] = [
    ("garbage.safetensors", b"not a gradient at all", "garbage.safetensors"),
    ("pointer.npy", b"version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 42\n", "Git LFS pointer"),
    ("cut.npz", b"PK\x03\x04 and no more", "cut.npz"),
    ("code.pt", b"\x80\x02cos\nmkdir\nX\x01\x00\x00\x00x\x85R.", "pickle"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("visitors")
    (place / "spool").mkdir()
    tiny_llama(place / "tiny")
    return place


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Any:
    from lmgc_core.language_model import load_model

    return load_model(str(folder / "tiny"))


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with app_server(folder, LMGC_CACHE=str(folder / "cache"), TMPDIR=str(folder / "spool")) as running:
        yield running


def array_of(visitor: int) -> np.ndarray:
    """Another array for each visitor: other values, another size, and another share of zeros, so another rate."""
    generator = np.random.default_rng(1000 + visitor)
    array = generator.normal(size=(14 + visitor, 30)) * 1e-3
    return np.where(generator.random(array.shape) < visitor % N_VISITORS / N_VISITORS, 0, array).astype("<f4")


def npy(array: np.ndarray) -> bytes:
    return npy_bytes(npy_header("'<f4'", array.shape), array.tobytes())


def visit(server: Server, model: Path, number_: int) -> str:
    """One visitor's way through: a broken file first for some, then their own; the bits per parameter shown."""
    visitor = Visitor(server, source="upload", model=str(model))
    try:
        if number_ % 4 == 0:
            name, content, words = BROKEN[number_ // 4 % len(BROKEN)]
            visitor.upload(name, content)
            (line,) = visitor.errors()
            assert words in line.replace("\\", ""), line
            assert "\n" not in line.strip()
        array = array_of(number_)
        visitor.upload(f"mine-{number_}.npy", npy(array))
        assert visitor.errors() == []
        assert f"{array.shape[0]}×{array.shape[1]}" in visitor.texts(), "the headline is of this visitor's file"
        visitor.run("Run")
        until = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < until:
            if visitor.metrics() and not visitor.all("progress"):
                assert visitor.errors() == []
                assert f"mine\\-{number_}\\.npy" in visitor.texts()
                return visitor.metrics()["bits per parameter"]
            time.sleep(2.0 + number_ % 7 / 5)
            visitor.run()
        raise TimeoutError(f"visitor {number_} waited more than {DEADLINE_SECONDS:.0f} s")
    finally:
        visitor.close()


def a_round(server: Server, folder: Path, visitors: range) -> dict[int, str]:
    with ThreadPoolExecutor(len(visitors)) as pool:
        shown = pool.map(lambda n: visit(server, folder / "tiny", n), visitors)
        return dict(zip(visitors, shown, strict=True))


def test_twenty_visitors_at_once_get_their_own_numbers_from_one_model(server: Server, folder: Path, tiny: Any) -> None:
    config = preset("best", model=str(folder / "tiny"), seed=0, transform="none")
    held = []
    for visitors in (range(N_VISITORS), range(N_VISITORS, N_VISITORS + N_VISITORS // 2)):
        shown = a_round(server, folder, visitors)
        expected = {}
        for visitor in visitors:
            gradient = Gradient.from_arrays({"": array_of(visitor)})
            report = measure(gradient, tiny, config, limit=DEFAULT_LIMIT)
            expected[visitor] = number(report.totals.bits_per_parameter)
        assert shown == expected
        assert len(set(shown.values())) > len(visitors) - 3, "numbers that differ, so that a mix-up would show"
        held.append(server.resident_bytes())
    assert server.loads.read_text().splitlines() == [str(folder / "tiny")], "one model, loaded once"
    assert held[1] - held[0] < MEMORY_BYTES
    assert "Traceback" not in server.log.read_text()
    assert list((folder / "spool").glob("lmgc-*")) == []


def partial_files(folder: Path) -> list[str]:
    """Whatever looks like a file or folder that was not finished."""
    marks, starts = (MARK, BUILDING), ("lmgc-", "tmp")
    return [str(p) for p in folder.rglob("*") if any(m in p.name for m in marks) or p.name.startswith(starts)]


def test_a_server_killed_at_work_leaves_nothing_half_and_the_next_one_starts(folder: Path) -> None:
    cache, spool = folder / "cache", folder / "spool"
    places = {"LMGC_CACHE": str(cache), "TMPDIR": str(spool)}
    array = np.random.default_rng(5).normal(size=(400, 250)).astype("<f4")
    first = Server(folder, **places)
    try:
        visitor = Visitor(first, source="upload", model=str(folder / "tiny"), limit="0")
        visitor.upload("large.npy", npy(array))
        visitor.run("Run")
        until = time.monotonic() + 120
        while not visitor.metrics() and time.monotonic() < until:
            time.sleep(0.5)
            visitor.run()
        assert visitor.metrics(), "the first windows are there"
        assert visitor.all("progress"), "and the run goes on"
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait(30)
    finally:
        first.end(signal.SIGKILL)
    left = spool / "lmgc-upload-left"  # as a server leaves it that is killed while an upload is written
    left.mkdir()
    (left / "upload-0.npy").write_bytes(b"half")
    left.with_name(f"{left.name}.lock").touch()
    assert partial_files(cache) == []
    with app_server(folder, **places) as second:
        again = Visitor(second, source="upload", model=str(folder / "tiny"))
        assert partial_files(spool) == [], "swept at the start"
        again.upload("small.npy", npy(array[:9]))
        again.run("Run")
        until = time.monotonic() + 120
        while (again.all("progress") or not again.metrics()) and time.monotonic() < until:
            time.sleep(0.5)
            again.run()
        assert again.metrics()
        assert again.errors() == []
        again.close()
    assert partial_files(folder / "spool") == []

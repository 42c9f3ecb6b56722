"""The main jobs in a real Chromium: the command line's numbers, archives there and back, clear lines for bad files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pages.ui.format import number
from tests.tiny_models import tiny_llama

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent
CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run"
)
MILLISECONDS = 300_000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model and a small gradient."""
    place = tmp_path_factory.mktemp("browser")
    tiny_llama(place / "tiny")
    rng = np.random.default_rng(0)
    np.savez(place / "small.npz", w=(rng.standard_normal((40, 9, 3)) * 1e-3).astype(np.float32))
    (place / "broken.safetensors").write_bytes(b"not a gradient at all")
    return place


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The app on a port of its own, as the README starts it."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true", f"--server.port={port}"]
    environment = {**os.environ, "LMGC_CACHE": str(folder / "cache")}
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2)
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def page() -> Iterator[Any]:
    """A fresh browser window; requests to other hosts fail the test."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        window = browser.new_page(viewport={"width": 1280, "height": 900})
        window.set_default_timeout(MILLISECONDS)
        outside: list[str] = []
        window.on("request", lambda r: outside.append(r.url) if is_outside(r.url) else None)
        yield window
        browser.close()
        assert not outside, f"the page asked other hosts: {outside[:3]}"


def is_outside(url: str) -> bool:
    return url.startswith(("http", "ws")) and "//localhost:" not in url and "//127.0.0.1:" not in url


def command_line(*arguments: str) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-m", "lmgc_core", *arguments, "--json"], capture_output=True, text=True, cwd=ROOT, timeout=600
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_a_run_gives_the_number_of_the_command_line(page: Any, address: str, folder: Path) -> None:
    model = str(folder / "tiny")
    page.goto(f"{address}/?source=path&model={model}")
    page.get_by_role("textbox", name="File on this computer").fill(str(folder / "small.npz"))
    page.keyboard.press("Enter")
    page.get_by_text("small.npz").first.wait_for()
    page.get_by_text("tokens per parameter (fewer").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("The whole file").wait_for()
    card = page.get_by_test_id("stMetric").filter(has_text="bits per parameter").first
    shown = card.get_by_test_id("stMetricValue").inner_text()
    arguments = ["measure", str(folder / "small.npz"), "--model", model, "--preset", "best", "--limit", "8"]
    expected = command_line(*arguments)["totals"]["bits_per_parameter"]
    assert shown == number(expected)
    tokens = page.locator("[role=listbox] [role=option]")
    assert tokens.count() > 500
    tokens.nth(2).focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("the model's likeliest:").wait_for()
    page.keyboard.press("Enter")
    page.locator("[role=option][aria-selected=true]").first.wait_for()
    page.get_by_text("click a cell or a token for another").wait_for(state="detached")
    page.reload()
    page.get_by_text("The whole file").wait_for()
    assert card.get_by_test_id("stMetricValue").inner_text() == shown


def test_a_file_that_cannot_be_used_is_one_clear_line(page: Any, address: str, folder: Path) -> None:
    page.goto(f"{address}/?source=upload")
    page.locator("input[type=file]").set_input_files(str(folder / "broken.safetensors"))
    alert = page.get_by_role("alert").first
    alert.wait_for()
    line = alert.inner_text()
    assert "broken.safetensors" in line
    assert "\n" not in line.strip()
    assert "Traceback" not in page.content()


def test_an_archive_made_here_decodes_to_the_same_values(page: Any, address: str, folder: Path) -> None:
    page.goto(f"{address}/Archive?source=path&archive_values=144&model={folder / 'tiny'}")
    page.get_by_role("textbox", name="File on this computer").fill(str(folder / "small.npz"))
    page.keyboard.press("Enter")
    page.get_by_text("What goes in:").wait_for()
    page.get_by_text("small.npz").first.wait_for()
    page.get_by_role("button", name="Make", exact=True).click()
    page.get_by_text("Bit for bit equal.").wait_for()
    original, decoded = (page.get_by_test_id("stCode").nth(i).inner_text().strip() for i in (0, 1))
    assert original == decoded
    assert len(original) == 64
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download .lmgc").click()
    target = folder / "made.lmgc"
    waiting.value.save_as(target)
    assert command_line("describe", str(target))["tensors"] == [{"name": "w", "dtype": "float32", "shape": [5, 9, 3]}]

    page.get_by_text("Open an archive", exact=True).click()
    uploader = page.locator("input[type=file]")
    uploader.set_input_files(str(target))
    page.get_by_role("button", name="Decode", exact=True).click()
    page.get_by_text("What came back").wait_for()
    assert page.get_by_test_id("stCode").first.inner_text().strip() == original
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download .npy").click()
    waiting.value.save_as(folder / "back.npy")
    values = np.load(folder / "small.npz")["w"].ravel()[:135]
    assert np.load(folder / "back.npy").tobytes() == values.tobytes()
    assert hashlib.sha256(values.tobytes()).hexdigest() == original

    broken = folder / "broken.lmgc"
    broken.write_bytes(target.read_bytes()[:-1])
    uploader.set_input_files(str(broken))
    alert = page.get_by_role("alert").first
    alert.wait_for()
    assert "broken.lmgc" in alert.inner_text()
    assert "Still showing: made.lmgc" in alert.inner_text()
    page.get_by_text("What came back").wait_for()
    page.get_by_role("link", name="Analyze").last.click()
    page.get_by_text("made.lmgc, decoded").first.wait_for()
    page.get_by_text("What the model will read").wait_for()


def test_a_guessing_game_of_five_digits(page: Any, address: str, folder: Path) -> None:
    page.goto(f"{address}/Learn?lesson=guess&digits=5&lesson_seed=3&model={folder / 'tiny'}")
    page.get_by_role("button", name="Start a game").click()
    main = page.get_by_test_id("stMain")
    for i in range(5):
        page.get_by_text(f"Digit {i + 1} of 5").wait_for()
        main.get_by_role("button", name="b", exact=True).click()
        page.get_by_text("Right costs").wait_for()
        page.get_by_role("button", name="Guess", exact=True).click()
    page.get_by_text("The game is over").wait_for()
    uniform = page.get_by_test_id("stMetric").filter(has_text="uniform guess")
    assert uniform.get_by_test_id("stMetricValue").inner_text() == "20.0"
    page.get_by_text("All digits so far").wait_for()
    page.reload()
    page.get_by_text("Digit 1 of 5").wait_for()  # the same game is there without a new run of the model


def test_arithmetic_coding_to_the_end_and_back(page: Any, address: str, folder: Path) -> None:
    page.goto(f"{address}/Learn?lesson=code&message=3b8f&model={folder / 'tiny'}")
    page.get_by_role("button", name="Get the model's probabilities").click()
    page.get_by_text("Nothing is coded yet").wait_for()
    for step in range(1, 10):
        page.get_by_role("button", name="Next", exact=True).click()
        page.get_by_text(f"Step {step} of 9").wait_for()
    page.get_by_text("The message is back: 3b8f.").wait_for()
    for step in range(8, -1, -1):
        page.get_by_role("button", name="Back", exact=True).click()
        page.get_by_text(f"Step {step} of 9").wait_for()
    page.get_by_text("Nothing is coded yet").wait_for()

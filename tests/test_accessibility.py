"""axe-core on every page in Chromium, and the main job by keyboard alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.test_browser import address, folder, page  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

PAGES = ("", "Serialize", "Compare", "Generate", "Archive", "Learn", "Runs")
BAD = ("serious", "critical")


def serious(window: Any) -> list[str]:
    """What axe-core finds serious or critical on the page once two readings a second apart agree, a line a finding."""
    window.add_style_tag(content="* { transition: none !important; animation: none !important }")
    earlier, found = None, findings(window)
    while found != earlier:
        window.wait_for_timeout(1000)
        earlier, found = found, findings(window)
    return found


def findings(window: Any) -> list[str]:
    """What axe-core finds serious or critical on the page as it is, a line a finding."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    violations = axe.Axe().run(window).response["violations"]
    return [
        f"{v['id']}: {n['html'][:200]}: {n['any'][0]['message'] if n['any'] else ''}"
        for v in violations
        if v["impact"] in BAD
        for n in v["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(page: Any, address: str, folder: Path, name: str, scheme: str) -> None:  # noqa: F811
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{address}/{name}?model={folder / 'tiny'}&limit=2")
    page.get_by_role("heading", level=1).wait_for()
    page.get_by_test_id("stApp").and_(page.locator("[data-test-script-state=notRunning]")).wait_for()
    page.wait_for_timeout(1500)
    assert serious(page) == []


def tab_to(window: Any, name: str, limit: int = 150) -> None:
    """Presses Tab until what is in focus has a name of that form (a regular expression)."""
    for _ in range(limit):
        window.keyboard.press("Tab")
        text = window.evaluate("(document.activeElement.ariaLabel || document.activeElement.innerText || '').trim()")
        if re.fullmatch(name, text, re.DOTALL):
            return
    raise AssertionError(f"{limit} presses of Tab did not lead to {name!r}")


def test_the_main_job_by_keyboard_alone(page: Any, address: str, folder: Path) -> None:  # noqa: F811
    page.goto(f"{address}/?model={folder / 'tiny'}&limit=2")
    page.get_by_text("tokens per parameter (fewer").wait_for()
    tab_to(page, "Sample")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    chosen = page.evaluate("document.activeElement.value")
    assert "ConvNet on MNIST, step 60" not in chosen
    page.get_by_test_id("stMarkdown").filter(has_text=chosen).first.wait_for()
    tab_to(page, "Run")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "focus is visible"
    page.keyboard.press("Enter")
    page.get_by_text("Go on to the whole file").wait_for()
    tab_to(page, r"axis \d .1: .*bits")
    page.keyboard.press("Enter")
    page.get_by_text("click a cell or a token for another").wait_for(state="detached")
    page.locator("[role=option][aria-selected=true]").first.wait_for()
    assert serious(page) == []

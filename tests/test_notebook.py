"""Reports in notebooks, and report.html without network."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core import store
from lmgc_core.codec import measure
from lmgc_core.gradient import Gradient
from lmgc_core.report import Report
from lmgc_core.report_html import report_html
from lmgc_core.settings import preset

ROOT = Path(__file__).parent.parent
LOADING = {"src", "href", "srcset", "data", "action", "poster", "background", "formaction", "xlink:href"}


class Seen(HTMLParser):
    """Tags, and every address that a browser would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in LOADING]
        self.addresses += re.findall(r"url\(([^)]*)\)", " ".join(v or "" for n, v in attrs if n == "style"))
        if tag not in ("br", "img", "meta", "input", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report(tiny_model: Any) -> Report:
    values = (np.random.default_rng(0).standard_normal((20, 9)) * 1e-3).astype(np.float32)
    gradient = Gradient.from_arrays({"<script src=http://x/>": values, "b": values[0]}, "<img src=http://y/>")
    return measure(gradient, tiny_model, preset("best", model=tiny_model.id), limit=0)


def test_a_report_shows_itself(report: Report) -> None:
    seen = Seen(report._repr_html_())
    assert set(seen.tags) == {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert seen.open == []
    text = report._repr_html_()
    assert f"{report.totals.bits_per_parameter:.4g}" in text
    assert f"{100 * (report.totals.compression_rate or 0):.4g}" in text
    assert "&lt;script src" in text


def test_report_html_loads_nothing(report: Report) -> None:
    text = report_html(report)
    seen = Seen(text)
    assert seen.addresses != []
    assert all(address.startswith("data:") for address in seen.addresses)
    assert not {"script", "link", "iframe", "object", "embed", "base"} & set(seen.tags)
    assert "@import" not in text
    assert "url(http" not in text


def test_the_notebook_page_runs(tiny_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMGC_CACHE", str(tmp_path))
    monkeypatch.delenv(store.LIMIT_NAME)
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "notebook.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    assert len([line for line in blocks[0].splitlines() if line]) <= 6  # the import, and five lines
    scope: dict[str, Any] = {}
    for block in blocks:
        exec(block.replace('"smollm2-135m"', repr(tiny_model.id)), scope)
    assert scope["report"]._repr_html_().startswith("<div>")
    assert scope["found"].report.totals == scope["report"].totals
    assert [row.title for row in store.RunStore().rows()] == ["from a notebook"]

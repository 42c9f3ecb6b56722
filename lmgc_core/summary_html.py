"""A report's main figures as a piece of HTML, for notebooks: no script, no style sheet, nothing from elsewhere.

Takes the content of report.json; every text in it is escaped. Colours are the page's own, so that light and dark
notebooks both stay readable.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

MOST_TENSORS = 8


def summary_html(found: dict[str, Any]) -> str:
    """The figures of a report.json object as one `<div>`.

    Args:
        found: as `Report.to_dict` gives it.
    """
    totals, sample, given, model = found["totals"], found["sample"], found["input"], found["model"]
    rate, interval = totals["compression_rate"], totals["rate_ci95"]
    scope = "the whole gradient" if sample["complete"] else "an estimate"
    spread = f", 95 % interval {100 * interval[0]:.2f} to {100 * interval[1]:.2f} %" if interval else ""
    rows = [
        ("bits per parameter", _figure(totals["bits_per_parameter"]), "all parts included; lower is better"),
        ("rate, % of raw", _figure(None if rate is None else 100 * rate), f"lower is better{spread}"),
        ("tokens per parameter", _figure(totals["tokens_per_parameter"]), "lower is faster"),
        ("raw bytes per token", _figure(totals["raw_bytes_per_token"]), "higher is better"),
    ]
    about = (
        f"{sample['n_blocks']} of {sample['n_blocks_total']} blocks scored: {scope}. Model {model['id']}, "
        f"{model['dtype']} on {model['device']}."
    )
    tensors = sorted(found["tensors"], key=lambda t: -t["n_sampled"])[:MOST_TENSORS]
    measured = [
        (
            t["name"] or "(no name)",
            "×".join(map(str, t["shape"])) or "scalar",
            _figure(t["bits_per_parameter"]),
            _figure(t["llm_bits_per_parameter"]),
        )
        for t in tensors
        if t["n_sampled"]
    ]
    left_out = len(found["tensors"]) - len(measured)
    note = f"<p>and {left_out} more tensors, or ones without sampled values</p>" if left_out else ""
    return (
        f"<div><p><strong>{html.escape(given['name'] or 'gradient')}</strong> · {html.escape(about)}</p>"
        + _table(("figure", "value", "note"), rows)
        + _table(("tensor", "shape", "bits per parameter", "the model's part"), measured)
        + note
        + "</div>"
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    top = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _figure(value: float | None) -> str:
    """Four significant figures, or n/a.

    >>> _figure(26.0312), _figure(None)
    ('26.03', 'n/a')
    """
    return "n/a" if value is None else f"{value:.4g}"

"""A comparison as one flat table: what the page shows, and what CSV and a standalone HTML page hold."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Mapping
from typing import Any

from lmgc_core.compare import Comparison, difference, step_of
from lmgc_core.report_html import STYLE

COLUMNS: dict[str, str] = {
    "settings": "settings",
    "kind": "kind",
    "percent_of_raw": "% of raw (lower is better)",
    "low_percent": "95 % interval from, %",
    "high_percent": "to, %",
    "above_best_points": "above the best row of the same lossy step, points",
    "above_low_points": "95 % interval of the difference from, points",
    "above_high_points": "to, points",
    "bits_per_parameter": "bits/parameter",
    "tokens_per_parameter": "tokens/parameter (lower is faster)",
    "parameters_per_second": "parameters/s (higher is faster)",
    "psnr_db": "PSNR, dB (higher is better; empty: no error, or values overflowed)",
    "published_percent": "% of raw that the published code would count",
    "pareto": "no other row of its lossy step is better in both bits and tokens",
}


def comparison_table(found: Comparison, labels: Mapping[int, str]) -> list[dict[str, Any]]:
    """One row for each of the settings, each baseline and each control, the lowest rate first.

    Args:
        found: what is known so far.
        labels: what the settings are called, by number.
    """
    rows: list[dict[str, Any]] = []
    for row in found.rows:
        report, totals = row.report, row.report.totals
        low, high = totals.rate_ci95 or (None, None)
        best = found.best_rows[step_of(row)]
        gap = difference(report, best.report) if best is not row else None
        audit = report.audit
        lossy = report.coding.config.transform != "none"
        rows.append(
            {
                "settings": labels[row.number],
                "kind": "model" if report.coding.config.prior != "counts" else "counts alone",
                "percent_of_raw": _percent(totals.compression_rate),
                "low_percent": _percent(low),
                "high_percent": _percent(high),
                "above_best_points": _percent(gap.value) if gap else None,
                "above_low_points": _percent(gap.low) if gap else None,
                "above_high_points": _percent(gap.high) if gap else None,
                "bits_per_parameter": totals.bits_per_parameter,
                "tokens_per_parameter": totals.tokens_per_parameter,
                "parameters_per_second": report.n_parameters_sampled / report.seconds if report.seconds else None,
                "psnr_db": report.error.psnr_db if lossy else None,
                "published_percent": _percent(audit.published_compression_rate) if audit else None,
                "pareto": row.number in found.pareto,
            }
        )
    for step, results in found.baselines.items():
        after = "" if step == "none" else f" after {step}"
        for result in results:
            if result.verified and result.compression_rate is not None:
                rows.append(
                    {
                        "settings": result.id + after,
                        "kind": "baseline, whole file",
                        "percent_of_raw": _percent(result.compression_rate),
                    }
                )
    for control in found.controls:
        rows.append(
            {
                "settings": control.id.replace("_", " ") + (" (ALARM)" if control.alarm else ""),
                "kind": "null control, % of its own bits",
                "percent_of_raw": _percent(control.compression_rate),
            }
        )
    full = [{**dict.fromkeys(COLUMNS), **row} for row in rows]
    return sorted(full, key=lambda r: (r["percent_of_raw"] is None, r["percent_of_raw"] or 0.0, r["settings"]))


def _percent(rate: float | None) -> float | None:
    return None if rate is None else 100 * rate


def comparison_csv(found: Comparison, labels: Mapping[int, str]) -> str:
    """The table as CSV, one line a row; what is not known is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(comparison_table(found, labels))
    return out.getvalue()


def comparison_html(found: Comparison, labels: Mapping[int, str], title: str) -> str:
    """The table as a page that opens from disk, without network or scripts; every name is escaped."""
    name = html.escape(title)
    head = "".join(f"<th>{html.escape(words)}</th>" for words in COLUMNS.values())
    body = "".join(
        "<tr>" + "".join(_cell(row[column]) for column in COLUMNS) + "</tr>" for row in comparison_table(found, labels)
    )
    refused = "".join(f"<p>{html.escape(labels[n])}: {html.escape(line)}</p>" for n, line in found.refused.items())
    about = ""
    if found.rows:
        report = found.rows[0].report
        about = (
            f"{len(report.sampled_blocks)} of {len(report.coding.blocks)} blocks of {report.coding.raw.n_parameters} "
            f"parameters, the same for every row; model {report.model.id}, fingerprint {report.model.fingerprint}."
        )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{name}</title><style>{STYLE}</style></head><body><h1>{name}</h1>"
        f'<p class="soft">{html.escape(about)}</p><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{refused}</body></html>"
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return f"<td>{'yes' if value else ''}</td>"
    if isinstance(value, float):
        return f'<td class="n">{value:.4g}</td>'
    return f"<td>{html.escape('' if value is None else str(value))}</td>"

"""report.html: one report as a page that opens from disk, without network or scripts.

Names and texts from files are escaped; the heatmap is a picture inside the page. Colours: cividis, the same
scale for heatmap and tokens, its range stated.
"""

from __future__ import annotations

import base64
import html
import io
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.report import Report
from lmgc_core.wording import counted

# Eight points of the cividis map (public-domain colour data of matplotlib's "cividis").
CIVIDIS = np.array(
    [
        (0, 34, 78),
        (35, 62, 108),
        (76, 85, 107),
        (108, 107, 112),
        (136, 131, 120),
        (168, 156, 118),
        (203, 182, 105),
        (254, 232, 56),
    ],
    np.float64,
)
MAX_SIDE = 256
MAX_TOKENS = 2000
VISIBLE = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍", "\0": "␀"})

STYLE = """
:root{color-scheme:light dark;--ink:#1b2430;--soft:#5b6675;--line:#d5dae1;--paper:#fff}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa6b5;--line:#343c48;--paper:#12161c}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:2rem auto;max-width:62rem;
padding:0 1rem}
h1{font-size:1.3rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}
.soft{color:var(--soft)}.cards{display:flex;flex-wrap:wrap;gap:.75rem;margin:1rem 0}
.card{border:1px solid var(--line);border-radius:6px;padding:.6rem .9rem;min-width:10rem}
.card b{display:block;font-size:1.25rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;padding:.25rem .6rem;
border-bottom:1px solid var(--line)}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}.strip{font:13px/1.9 ui-monospace,monospace;overflow-wrap:anywhere}
.strip span{padding:1px 2px;border-radius:2px}
img{image-rendering:pixelated;max-width:100%;border:1px solid var(--line)}
.bar{display:inline-block;height:.7rem;background:#4c556b;vertical-align:middle}
"""


def report_html(report: Report) -> str:
    """The whole page as text."""
    found = report.to_dict()
    title = html.escape(found["input"]["name"] or "gradient")
    body = [
        f"<h1>{title}</h1>",
        f'<p class="soft">{html.escape(_what_and_who(found))}</p>',
        _cards(found),
        "<h2>Where the bits go (bits per parameter)</h2>",
        _parts(found["parts"]),
        "<h2>The language model's bits over the tensor</h2>",
        *(_heatmap(name, report.llm_bits[name]) for name in _sampled(report)),
        "<h2>Tokens, coloured by surprisal</h2>",
        _strip(report),
        "<h2>Bits along the context</h2>",
        _curve(found["context_curve"]),
        "<h2>Tensors</h2>",
        _tensors(found["tensors"]),
        "<h2>Settings</h2>",
        _settings(found),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body>{''.join(body)}</body></html>"
    )


def _what_and_who(found: dict[str, Any]) -> str:
    sample, given, model = found["sample"], found["input"], found["model"]
    scope = "the whole gradient" if sample["complete"] else "a sample (estimate)"
    return (
        f"{_counted(given['n_parameters'], 'parameter')} in {_counted(given['n_tensors'], 'tensor')} "
        f"({', '.join(given['dtypes'])}), "
        f"{sample['n_blocks']} of {_counted(sample['n_blocks_total'], 'block')} scored: {scope}. "
        f"Model {model['id']}, {model['dtype']}, on {model['device']}."
    )


def _counted(n: int, noun: str) -> str:
    return counted(n, noun).replace(",", "\u202f")


def _figure(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "n/a"
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}".replace(",", "\u202f")


def _cards(found: dict[str, Any]) -> str:
    totals = found["totals"]
    rate = totals["compression_rate"]
    interval = totals["rate_ci95"]
    spread = f"95 % interval {100 * interval[0]:.2f} to {100 * interval[1]:.2f} %" if interval else "no interval"
    cards = [
        (f"{_figure(totals['bits_per_parameter'], 4)} bits/parameter", "all parts included; lower is better"),
        ("n/a" if rate is None else f"{100 * rate:.2f} % of raw", f"lower is better; {spread}"),
        (f"{_figure(totals['compression_ratio'])} ×", "raw size over size; higher is better"),
        (f"{_figure(totals['tokens_per_parameter'])} tokens/parameter", "lower is faster"),
        (f"{_figure(totals['raw_bytes_per_token'])} bytes/token", "raw bytes a token carries; higher is better"),
    ]
    made = "".join(
        f'<div class="card"><b>{html.escape(a)}</b><span class="soft">{html.escape(b)}</span></div>' for a, b in cards
    )
    return f'<div class="cards">{made}</div>'


def _parts(parts: dict[str, Any]) -> str:
    tables = parts if "modelled" not in parts else {"": parts}
    rows = []
    for dtype, part in tables.items():
        label = f"{dtype} " if dtype else ""
        named = [(f"{label}symbol {i + 1}", b) for i, b in enumerate(part["modelled"])]
        named += [
            (f"{label}{key.replace('_', ' ')}", part[key]) for key in ("separator", "remainder", "side_information")
        ]
        widest = max((b for _, b in named), default=1.0) or 1.0
        rows += [
            f'<tr><td>{html.escape(n)}</td><td class="n">{b:.3f}</td>'
            f'<td><span class="bar" style="width:{12 * max(b, 0) / widest:.2f}rem"></span></td></tr>'
            for n, b in named
        ]
    return f'<table><tr><th>part</th><th class="n">bits/parameter</th><th></th></tr>{"".join(rows)}</table>'


def _sampled(report: Report) -> list[str]:
    return [row.name for row in report.tensors if row.n_sampled][:6]


def colours(values: npt.NDArray[Any], low: float, high: float) -> npt.NDArray[np.uint8]:
    """RGB of values on the cividis scale between low and high, shape (..., 3); values outside are clamped."""
    share = np.clip((np.asarray(values, np.float64) - low) / (high - low if high > low else 1.0), 0, 1)
    place = np.nan_to_num(share) * (len(CIVIDIS) - 1)
    below = np.minimum(place.astype(int), len(CIVIDIS) - 2)
    part = (place - below)[..., None]
    mixed: npt.NDArray[np.uint8] = np.rint(CIVIDIS[below] * (1 - part) + CIVIDIS[below + 1] * part).astype(np.uint8)
    return mixed


def _heatmap(name: str, cells: npt.NDArray[np.float32]) -> str:
    from PIL import Image

    grid = cells.reshape(cells.shape[0], -1) if cells.ndim > 1 else cells.reshape(1, -1)
    factors = [max(1, -(-side // MAX_SIDE)) for side in grid.shape]
    padded = np.full([f * -(-s // f) for f, s in zip(factors, grid.shape, strict=True)], np.nan, np.float32)
    padded[: grid.shape[0], : grid.shape[1]] = grid
    tiles = padded.reshape(padded.shape[0] // factors[0], factors[0], padded.shape[1] // factors[1], factors[1])
    known = np.isfinite(tiles).sum(axis=(1, 3))
    means = np.nansum(tiles, axis=(1, 3)) / np.maximum(known, 1)
    if not known.any():
        return ""
    low, high = float(means[known > 0].min()), float(means[known > 0].max())
    picture = np.where((known > 0)[..., None], colours(means, low, high), np.uint8(128)).astype(np.uint8)
    scale = max(1, 640 // max(picture.shape[1], 1))
    image = Image.fromarray(picture).resize(
        (picture.shape[1] * scale, picture.shape[0] * min(scale, 8)), Image.Resampling.NEAREST
    )
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    shown = html.escape(name or "(unnamed)")
    reduced = "" if factors == [1, 1] else f"; each cell is the mean of {factors[0]} × {factors[1]}"
    return (
        f'<p>{shown} <span class="soft">shape {tuple(cells.shape)}; dark {low:.2f} to bright {high:.2f} bits; '
        f"grey: not sampled{reduced}</span></p>"
        f'<img alt="Heatmap of the bits that the language model needs for each parameter of {shown}" '
        f'src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode("ascii")}">'
    )


def _strip(report: Report) -> str:
    spans: list[str] = []
    shown = 0
    high = 8.0
    for result in report.results:
        for text, bits, rgb in zip(
            result.token_texts, result.surprisal_bits, colours(result.surprisal_bits, 0.0, high), strict=True
        ):
            ink = "#000" if int(rgb.sum()) > 380 else "#fff"
            colour = "#" + bytes(rgb.tolist()).hex()
            shown_text = html.escape(text.translate(VISIBLE))
            spans.append(f'<span style="background:{colour};color:{ink}" title="{bits:.2f} bits">{shown_text}</span>')
            shown += 1
            if shown == MAX_TOKENS:
                break
        if shown == MAX_TOKENS:
            break
        spans.append("<br>")
    note = (
        f"The first {shown} of {_counted(report.totals.n_tokens, 'token')}; dark 0 to bright {high:.0f} bits and more."
    )
    return f'<p class="soft">{note}</p><div class="strip">{"".join(spans)}</div>'


def _curve(curve: dict[str, list[float]]) -> str:
    positions, bits = curve["token_position"], curve["bits_per_token"]
    if not positions:
        return "<p>n/a</p>"
    width, height = 640, 160
    top = max(bits) or 1.0
    points = " ".join(
        f"{width * x / positions[-1]:.1f},{height - height * y / top:.1f}" for x, y in zip(positions, bits, strict=True)
    )
    return (
        f'<p class="soft">Bits per token from position 1 to {positions[-1]:.0f}; height {top:.2f} bits.</p>'
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Bits per token along the context" '
        f'style="width:100%;max-width:{width}px"><polyline fill="none" stroke="currentColor" stroke-width="1.5" '
        f'points="{points}"/></svg>'
    )


def _tensors(rows: list[dict[str, Any]]) -> str:
    made = "".join(
        f"<tr><td>{html.escape(r['name'] or '(unnamed)')}</td><td>{html.escape(r['dtype'])}</td>"
        f"<td>{'×'.join(map(str, r['shape'])) or 'scalar'}</td><td class='n'>{r['n_parameters']}</td>"
        f"<td class='n'>{r['n_sampled']}</td><td class='n'>{_figure(r['bits_per_parameter'], 4)}</td>"
        f"<td class='n'>{_figure(r['llm_bits_per_parameter'], 4)}</td></tr>"
        for r in rows[:200]
    )
    return (
        '<div class="scroll"><table><tr><th>name</th><th>dtype</th><th>shape</th><th class="n">parameters</th>'
        '<th class="n">sampled</th><th class="n">bits/parameter</th><th class="n">of these, the model\'s</th></tr>'
        f"{made}</table></div>"
    )


def _settings(found: dict[str, Any]) -> str:
    rows = {
        **found["settings"],
        "model fingerprint": found["model"]["fingerprint"],
        "input sha256": found["input"]["sha256"],
    }
    made = "".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(str(v))}</td></tr>" for k, v in rows.items())
    return f'<div class="scroll"><table>{made}</table></div>'

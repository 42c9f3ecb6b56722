"""docs/results.md from benchmarks/results/paper_grid.json and whole_files.csv.

    python -m lmgc_core compare sample_gradients/convnet_mnist_step60.safetensors --tensor conv2.weight \
        --grid paper --limit 4 --json > benchmarks/results/paper_grid.json
    python -m benchmarks.whole_files --archives convnet_digits_update,mlp_digits_adamw_exp_avg_sq,vit_mnist_step40
    python -m benchmarks.results_page
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results.md"

HEAD = """# Results

Made by `python -m benchmarks.results_page` from what the commands below wrote; every rate is of the raw bits,
with all parts included (lower is better). Intervals are 95 %.
"""


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, the first column to the left and the others to the right."""
    lines = [columns, ["---", *("---:" for _ in columns[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def percent(rate: float | None, digits: int = 2) -> str:
    return "n/a" if rate is None else f"{100 * rate:.{digits}f}"


def paper_rows(found: dict[str, Any]) -> list[list[str]]:
    """The grid's rows in its own order."""
    rows = []
    for row in found["rows"]:
        settings, totals = row["settings"], row["totals"]
        low, high = totals["rate_ci95"] or (None, None)
        rows.append(
            [
                settings["alphabet"],
                settings["separator"],
                str(settings["group_size"]),
                f"{settings['context_window']:,}",
                percent(totals["compression_rate"]),
                f"{percent(low)} to {percent(high)}",
                f"{totals['tokens_per_parameter']:.2f}",
                f"{totals['bits_per_token']:.3f}",
                percent(row.get("audit", {}).get("published_compression_rate")),
            ]
        )
    return rows


def paper_part(found: dict[str, Any]) -> str:
    """The authors' table."""
    first = found["rows"][0]
    best = min((b for b in found["baselines"] if b["verified"]), key=lambda b: b["bytes"])
    controls = ", ".join(
        f"{n.replace('_', ' ')} {percent(c['compression_rate'])} %" for n, c in found["controls"].items()
    )
    return f"""
## The authors' grid

```
python -m lmgc_core compare sample_gradients/convnet_mnist_step60.safetensors --tensor conv2.weight \\
    --grid paper --limit 4
```

{first["sample"]["n_parameters"]:,} of {
        first["input"]["n_parameters"]:,} values of one convolution's gradient in fp32 (SHA-256
`{first["input"]["sha256"][:16]}…`), seed {first["settings"]["seed"]}, model {first["model"]["id"]} ({
        first["model"]["dtype"]
    },
fingerprint `{
        first["model"]["fingerprint"][:16]
    }…`), little-endian, full vocabulary, the model alone. "Published count" is what
the paper's code would have counted for the same probabilities.

{
        table(
            [
                "text",
                "separator",
                "symbols a group",
                "context, tokens",
                "% of raw",
                "interval",
                "tokens/parameter",
                "bits/token",
                "published count, %",
            ],
            paper_rows(found),
        )
    }
Best of all baselines on the whole tensor: {best["id"]}, {
        percent(best["compression_rate"])
    } % of raw. Null controls under the best
row's settings, of the bits they hold: {controls}.
"""


def whole_part(rows: list[dict[str, str]]) -> str:
    """Whole gradients."""
    shown = [
        [
            row["sample"],
            f"{int(row['n_parameters']):,}",
            percent(float(row["mix_rate"])),
            percent(float(row["counts_rate"])),
            percent(float(row["llm_rate"])),
            f"{percent(float(row['baseline_rate']))} ({row['best_baseline']})",
            row["points_below"],
            f"{percent(float(row['archive_rate']))} + {percent(float(row['names_and_shapes_rate']))}"
            if row["archive_rate"]
            else "",
        ]
        for row in rows
    ]
    return f"""
## Whole gradients

Preset best on every bundled gradient of 32-bit floats, all of it (`measure --preset best --limit 0`; written by
`python -m benchmarks.whole_files`): what the mixture, counts alone and the model alone need, and the best of all
baselines, decoded and compared, on the same bytes. "Archive" is the size of a real .lmgc file, names and shapes apart.

{
        table(
            [
                "gradient",
                "values",
                "mix, % of raw",
                "counts, %",
                "model, %",
                "best baseline, %",
                "mix below it, points",
                "archive, % + names",
            ],
            shown,
        )
    }"""


def main() -> None:
    """Writes the page."""
    text = HEAD
    with open(RESULTS / "paper_grid.json", encoding="utf-8") as file:
        text += paper_part(json.load(file))
    with open(RESULTS / "whole_files.csv", encoding="utf-8") as file:
        text += whole_part(list(csv.DictReader(file)))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

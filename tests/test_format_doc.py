"""docs/format.md prints the tables that the code uses."""

from __future__ import annotations

import re
from pathlib import Path

from lmgc_core.archive_header import DTYPE_CODES
from lmgc_core.container import MAGIC, VERSION
from lmgc_core.guarded_rounding import BANDS, CELLS_PER_BIT, GUARD_EXPONENT, expected_exceptions, grid

TEXT = (Path(__file__).parent.parent / "docs" / "format.md").read_text("utf-8")


def test_the_printed_weights_are_the_tables() -> None:
    rows = re.findall(r"^ *(\d+)  ([\d ]+)$", TEXT, re.MULTILINE)
    printed = []
    for first, row in rows:
        assert int(first) == len(printed)
        printed += [int(x) for x in row.split()]
    assert printed == grid().weights.tolist()


def test_the_printed_bins_are_the_bands() -> None:
    edges = [int(x) for x in re.findall(r"up to\s+(\d+)", TEXT.split("3. **Bins.**")[1].split("4.")[0])]
    assert edges == [stop * CELLS_PER_BIT for stop, _ in BANDS]


def test_magic_version_guard_and_codes() -> None:
    assert f"`{MAGIC.hex(' ')}`" in TEXT
    assert re.search(rf"^\| {VERSION} \|", TEXT, re.MULTILINE)
    assert f"2^-{GUARD_EXPONENT} = {2.0**-GUARD_EXPONENT:.1e}".replace("e-10", "e-10") in TEXT
    codes = re.findall(r"(\d+) ([a-z_0-9]+)", TEXT.split("Dtypes:")[1].split("\n\n")[0])
    assert [name for _, name in codes] == list(DTYPE_CODES)
    assert [int(number) for number, _ in codes] == list(range(len(DTYPE_CODES)))


def test_the_stated_exceptions_are_the_bound() -> None:
    found = re.findall(r"([\d.]+e-\d) (?:a token\s+)?for ([\d,]+)", TEXT)
    assert len(found) == 4
    for n, stated in found:
        assert expected_exceptions(int(stated.replace(",", ""))) <= 1.05 * float(n)

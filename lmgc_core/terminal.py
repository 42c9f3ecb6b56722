"""What commands print: JSON objects, lines for people, progress on stderr."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmgc_core.errors import UnsupportedInput

if TYPE_CHECKING:
    from lmgc_core.language_model import FetchProgress


def emit(found: Any) -> None:
    """One JSON object as one line on stdout."""
    sys.stdout.write(json.dumps(found, ensure_ascii=True, allow_nan=False) + "\n")
    sys.stdout.flush()


def complain(line: str) -> None:
    """One line about a failure on stderr."""
    sys.stderr.write(" ".join(line.split()).encode("ascii", "backslashreplace").decode() + "\n")


def say(line: str = "") -> None:
    """One line for people on stdout; what the terminal's encoding cannot show is escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


SECONDS_BETWEEN_LINES = 2.0


def check_target(path: Path, folder: bool = False) -> None:
    """Makes sure, before the work, that a result can be written.

    Args:
        path: the file to write, or the folder to write into.
        folder: `path` is a folder, made if it is not there.

    Raises:
        UnsupportedInput: when it cannot.
    """
    place = path if folder else path.parent
    if not folder and path.is_dir():
        raise UnsupportedInput(f"{path}: is a folder; give the name of a file")
    if folder and path.exists() and not path.is_dir():
        raise UnsupportedInput(f"{path}: is a file; give the name of a folder")
    while folder and not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise UnsupportedInput(f"{path}: there is no folder {place}; make it first")
    if not os.access(place, os.W_OK | os.X_OK) or place.resolve().parts[1:2] in (("proc",), ("sys",)):
        raise UnsupportedInput(f"{path}: nothing can be written to {place}")


class ProgressLine:
    """Progress on stderr, on a terminal or when asked for."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.shown = bool(arguments.progress) or sys.stderr.isatty()
        self.rewrites = sys.stderr.isatty()
        self.last, self.next_time = "", 0.0

    def show(self, text: str) -> None:
        """Shows a line: in place on a terminal, else at most one in two seconds and none twice."""
        now = time.monotonic()
        if not self.shown or text == self.last or (not self.rewrites and now < self.next_time):
            return
        self.last, self.next_time = text, now + SECONDS_BETWEEN_LINES
        sys.stderr.write(f"\r\033[K{text}" if self.rewrites else f"{text}\n")
        sys.stderr.flush()

    def show_fetch(self, now: FetchProgress) -> None:
        share = f" {100 * now.done_bytes / now.total_bytes:.0f} %" if now.total_bytes else ""
        self.show(f"model: {now.stage}{share}")

    def close(self) -> None:
        if self.shown and self.rewrites:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def figure(value: float | None, unit: str = "", digits: int = 4) -> str:
    """A number for people: significant figures and unit, or n/a.

    >>> figure(26.0312, "bits/parameter"), figure(None)
    ('26.03 bits/parameter', 'n/a')
    """
    return "n/a" if value is None else f"{value:.{digits}g} {unit}".rstrip()

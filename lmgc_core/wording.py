"""Counts with their nouns, in the one place that knows when a noun takes its plural."""

from __future__ import annotations


def counted(n: int, noun: str, plural: str = "") -> str:
    """A count and its noun: "1 parameter", "2 parameters".

    Args:
        n: how many.
        noun: for one.
        plural: for any other number, where it is not the noun with an s.

    >>> counted(1, "parameter"), counted(0, "parameter"), counted(12_345, "index", "indices")
    ('1 parameter', '0 parameters', '12,345 indices')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"

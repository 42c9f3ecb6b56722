"""Arithmetic coding with exact fractions: a message ↔ bits, one interval at a time.

The unit interval is divided among the symbols in proportion to their frequencies; coding a symbol keeps its part, which
is then divided anew. Any number of the last interval names the whole message, and a number with few binary digits is
enough. Inverse pair: `encode` / `decode`. Law: for every message and all frequencies of at least 1, `decode` gives the
message back, and the code is less than two bits longer than the sum of the symbols' surprisals.

Fractions never round, so nothing is carried and nothing underflows; coders for long messages work with whole
numbers of fixed width instead, as `lmgc_core.coder` does. Sources: J. Rissanen, Generalized Kraft inequality and
arithmetic coding, IBM J. Res. Dev. 20 (1976); I. Witten, R. Neal, J. Cleary, Arithmetic coding for data compression,
CACM 30 (1987).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log2

from lmgc_core.errors import CorruptContainer, InvalidSetting

Table = tuple[int, ...]
MAX_SYMBOLS = 8


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` up to, but without, `low + width`; `width` is above 0."""

    low: Fraction = Fraction(0)
    width: Fraction = Fraction(1)

    @property
    def high(self) -> Fraction:
        """Its end, which does not belong to it."""
        return self.low + self.width

    def part(self, table: Table, symbol: int) -> Interval:
        """What a symbol gets of it.

        >>> Interval().part((1, 2, 1), 1)
        Interval(low=Fraction(1, 4), width=Fraction(1, 2))
        """
        total = sum(table)
        low = self.low + self.width * Fraction(sum(table[:symbol]), total)
        return Interval(low, self.width * Fraction(table[symbol], total))

    def symbol_at(self, table: Table, number: Fraction) -> int:
        """The symbol in whose part a number lies.

        Raises:
            CorruptContainer: for a number outside the interval.
        """
        place = (number - self.low) / self.width * sum(table)
        stop = 0
        for symbol, frequency in enumerate(table):
            stop += frequency
            if 0 <= place < stop:
                return symbol
        raise CorruptContainer(
            f"{number} lies outside the interval from {self.low} to {self.high}; the bits are damaged"
        )


@dataclass(frozen=True, slots=True)
class CodingStep:
    """One symbol, as the encoder or the decoder meets it.

    Attributes:
        table: the frequencies of all symbols, each at least 1.
        symbol: the one that is coded.
        before, after: the interval before and after it.
        settled: the first bits of every number in `after`, as "0" and "1": no later symbol changes them.
    """

    table: Table
    symbol: int
    before: Interval
    after: Interval
    settled: str

    @property
    def probability(self) -> Fraction:
        """Of the symbol."""
        return Fraction(self.table[self.symbol], sum(self.table))

    @property
    def surprisal_bits(self) -> float:
        """-log2 of its probability: what the interval shrinks by."""
        return surprisal_bits(self.probability)


@dataclass(frozen=True, slots=True)
class Code:
    """A coded message: how it came about, and its bits."""

    steps: tuple[CodingStep, ...]
    bits: str

    @property
    def interval(self) -> Interval:
        """The message's own."""
        return self.steps[-1].after if self.steps else Interval()

    @property
    def surprisal_bits(self) -> float:
        """-log2 of the message's probability, which is the width of its interval."""
        return surprisal_bits(self.interval.width)


def surprisal_bits(probability: Fraction) -> float:
    """-log2 of a probability.

    >>> surprisal_bits(Fraction(1, 8))
    3.0
    """
    return log2(probability.denominator) - log2(probability.numerator)


def settled_bits(interval: Interval) -> str:
    """The binary digits that all numbers of an interval share.

    >>> settled_bits(Interval(Fraction(5, 16), Fraction(1, 8)))
    '01'
    """
    bits, low, width = "", interval.low, interval.width
    while True:
        if low + width <= Fraction(1, 2):
            bits, low, width = bits + "0", 2 * low, 2 * width
        elif low >= Fraction(1, 2):
            bits, low, width = bits + "1", 2 * low - 1, 2 * width
        else:
            return bits


def closing_bits(interval: Interval) -> str:
    """The fewest bits such that every number which begins with them lies in the interval; the lowest such.

    >>> closing_bits(Interval(Fraction(1, 4), Fraction(1, 2))), closing_bits(Interval())
    ('01', '')
    """
    n_bits = 0
    while True:
        whole = 1 << n_bits
        first = -(-interval.low * whole // 1)  # rounded up
        if Fraction(first + 1, whole) <= interval.high:
            return format(int(first), f"0{n_bits}b") if n_bits else ""
        n_bits += 1


def number_of(bits: str) -> Fraction:
    """The number 0.bits in binary.

    >>> number_of("01")
    Fraction(1, 4)
    """
    return Fraction(int(bits, 2), 1 << len(bits)) if bits else Fraction(0)


def check_message(message: Sequence[int], tables: Sequence[Table]) -> None:
    """Raises InvalidSetting for a message that is too long, or frequencies that leave a symbol no room."""
    if len(message) > MAX_SYMBOLS or len(message) != len(tables):
        raise InvalidSetting(f"a message of {len(message)} symbols; the lesson takes up to {MAX_SYMBOLS}")
    for symbol, table in zip(message, tables, strict=True):
        if min(table, default=0) < 1 or not 0 <= symbol < len(table):
            raise InvalidSetting(f"symbol {symbol} of {len(table)}: every frequency has to be at least 1")


def encode(message: Sequence[int], tables: Sequence[Table]) -> Code:
    """The code of a message.

    Args:
        message: symbols by their place in the tables, up to 8.
        tables: the frequencies before each symbol.

    Raises:
        InvalidSetting: for a longer message, or a frequency below 1.

    >>> encode((1, 0), ((1, 2, 1), (1, 2, 1))).bits
    '010'
    """
    check_message(message, tables)
    interval, steps = Interval(), []
    for symbol, table in zip(message, tables, strict=True):
        after = interval.part(table, symbol)
        steps.append(CodingStep(table, symbol, interval, after, settled_bits(after)))
        interval = after
    return Code(tuple(steps), closing_bits(interval))


def decode(bits: str, n_symbols: int, table_after: Callable[[tuple[int, ...]], Table]) -> tuple[CodingStep, ...]:
    """How the message comes back: inverse of `encode`.

    Args:
        bits: the whole code.
        n_symbols: of the message; a real format writes it into its header or codes an end mark.
        table_after: the frequencies after the symbols so far; a decoder knows nothing else.
    """
    number, interval = number_of(bits), Interval()
    steps: list[CodingStep] = []
    for _ in range(n_symbols):
        table = table_after(tuple(step.symbol for step in steps))
        symbol = interval.symbol_at(table, number)
        after = interval.part(table, symbol)
        steps.append(CodingStep(table, symbol, interval, after, settled_bits(after)))
        interval = after
    return tuple(steps)


def frequencies_of(probabilities: Sequence[float], total: int = 256) -> Table:
    """Whole frequencies, each at least 1, that add up to `total`: what a table in a lesson can show.

    One goes to each symbol and the rest in proportion, by largest remainders, the earlier symbol first.

    Args:
        probabilities: they add up to 1.
        total: more than there are symbols; larger follows the probabilities more closely.

    >>> frequencies_of([0.5, 0.25, 0.25, 0.0], 12)
    (5, 3, 3, 1)
    """
    spread = total - len(probabilities)
    if spread < 0:
        raise InvalidSetting(f"a total of {total} for {len(probabilities)} symbols; each needs at least 1")
    scale = spread / sum(probabilities)
    shares = [p * scale for p in probabilities]
    found = [1 + int(share) for share in shares]
    order = sorted(range(len(shares)), key=lambda i: (int(shares[i]) - shares[i], i))
    for i in order[: total - sum(found)]:
        found[i] += 1
    return tuple(found)

"""Messages for arithmetic coding: a few digits behind a gradient's text, with the model's whole frequencies for each.

The frequencies depend on the digits before alone, so a decoder that asks the same model gets the same tables as soon
as it knows those digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lmgc_core.errors import InvalidSetting, UnsupportedInput
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import LanguageModel
from lmgc_core.lessons.arithmetic_coding import MAX_SYMBOLS, Code, Table, encode, frequencies_of
from lmgc_core.lessons.digits import DIGITS, PER_VALUE, SEPARATOR, digit_distributions, text_of
from lmgc_core.lessons.passages import passage

TOTAL = 256
OWN_DIGITS = 6
HISTORY_VALUES = 40


@dataclass(frozen=True, slots=True)
class Message:
    """Digits to code.

    Attributes:
        history: the text before, which encoder and decoder both have.
        digits: the message.
        is_own: whether it is what the gradient goes on with, not what somebody typed.
        tables: frequencies of the sixteen digits before each, of a total of 256.
    """

    history: str
    digits: str
    is_own: bool
    tables: tuple[Table, ...]

    @property
    def symbols(self) -> tuple[int, ...]:
        """The digits by their places among the sixteen."""
        return tuple(DIGITS.index(d) for d in self.digits)

    @property
    def code(self) -> Code:
        """The message coded."""
        return encode(self.symbols, self.tables)

    def table_after(self, before: tuple[int, ...]) -> Table:
        """What a decoder gets from the model behind these symbols; they have to begin the message."""
        if before != self.symbols[: len(before)]:
            raise InvalidSetting(f"the message does not begin with {''.join(DIGITS[s] for s in before)!r}")
        return self.tables[len(before)]


def digits_of(typed: str) -> str:
    """A typed message as digits; spaces and commas are left out.

    >>> digits_of("3F 80")
    '3f80'

    Raises:
        InvalidSetting: for other characters, or too many.
    """
    found = "".join(c for c in typed.lower() if not c.isspace() and c != SEPARATOR)
    if set(found) - set(DIGITS) or len(found) > MAX_SYMBOLS:
        raise InvalidSetting(f"message {typed[:40]!r}: type 1 to {MAX_SYMBOLS} of the digits {DIGITS}")
    return found


def make_message(
    gradient: Gradient,
    model: LanguageModel,
    seed: int,
    typed: str = "",
    should_stop: Callable[[], bool] | None = None,
) -> Message:
    """A message and its tables, from one pass of the model.

    Args:
        gradient: where the history comes from, and the message where none is typed.
        model: gives the distributions.
        seed: picks the place.
        typed: digits to code instead.
        should_stop: asked before the pass.

    Raises:
        InvalidSetting: for what is no message.
        UnsupportedInput: for a gradient of too few values.
    """
    chosen = digits_of(typed)
    n_values = -(-MAX_SYMBOLS // PER_VALUE)
    values = text_of(passage(gradient, HISTORY_VALUES + n_values, seed)).split(SEPARATOR)
    if len(values) <= n_values:
        raise UnsupportedInput(f"{len(values)} values leave no history for a message; choose another gradient")
    history = SEPARATOR.join(values[:-n_values])
    digits = chosen or "".join(values[-n_values:])[:OWN_DIGITS]
    groups = [digits[i : i + PER_VALUE] for i in range(0, len(digits), PER_VALUE)]
    text = SEPARATOR.join([history, *groups])
    expected = digit_distributions(text, model, should_stop)
    places = [i for i in range(len(history), len(text)) if text[i] != SEPARATOR]
    tables = tuple(frequencies_of(expected[i].tolist(), TOTAL) for i in places)
    return Message(history, digits, not chosen, tables)

"""The guessing game: a person and a language model predict the same digits, both scored in bits.

C. E. Shannon let people guess English letter by letter (Prediction and Entropy of Printed English, Bell System
Technical Journal 30, 1951). Here a guess states a belief: some digits, and the confidence that the truth is among
them. The digits share the confidence evenly, the others share the rest, and the score is -log2 of what the truth got.
Law: a guess is a distribution (it sums to one), so nobody gains in the mean by stating another confidence than their
own: the expected score is least there. Adding up scores gives the length of the code that the beliefs would make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import InvalidSetting, UnsupportedInput
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import LanguageModel
from lmgc_core.lessons.digits import DIGITS, PER_VALUE, SEPARATOR, Distributions, digit_distributions, text_of
from lmgc_core.lessons.passages import passage

UNIFORM_BITS = 4.0
HISTORY_VALUES = 40
MAX_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Guess:
    """A stated belief about the next digit.

    Attributes:
        digits: one or more of the sixteen.
        confidence: that the truth is among them, above 0 and below 1; all of it for all sixteen.

    >>> Guess("3b", 0.8).bits("b"), Guess("3b", 0.8).bits("0") > 6
    (1.3219280948873622, True)
    """

    digits: str
    confidence: float

    def __post_init__(self) -> None:
        if not self.digits or set(self.digits) - set(DIGITS) or len(set(self.digits)) != len(self.digits):
            raise InvalidSetting(f"guess {self.digits!r}: name one or more of the digits {DIGITS}, each once")
        if not 0 < self.confidence < 1:
            raise InvalidSetting(
                f"confidence {self.confidence}: it has to be above 0 and below 1, since nothing is sure"
            )

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Of the sixteen digits."""
        n = len(self.digits)
        if n == len(DIGITS):
            return (1 / n,) * n
        inside, outside = self.confidence / n, (1 - self.confidence) / (len(DIGITS) - n)
        return tuple(inside if d in self.digits else outside for d in DIGITS)

    def bits(self, truth: str) -> float:
        """The score: -log2 of what the truth got; lower is better."""
        return -log2(self.probabilities[DIGITS.index(truth)])


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Digits to guess, and what the machines say about each.

    Attributes:
        history: the text before, which everybody sees.
        truths: the digits in order, commas left out.
        model: the language model's distributions, shape (n, 16).
        counts: those of counting alone, shape (n, 16).
        source: where the values come from.
    """

    history: str
    truths: str
    model: Distributions
    counts: Distributions
    source: str

    def shown(self, n_guessed: int) -> str:
        """The text as far as the player knows it, ready for the next digit."""
        pieces = [self.history]
        for i, digit in enumerate(self.truths[:n_guessed]):
            pieces += [SEPARATOR, digit] if i % PER_VALUE == 0 else [digit]
        if n_guessed < len(self.truths) and n_guessed % PER_VALUE == 0:
            pieces.append(SEPARATOR)
        return "".join(pieces)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one digit cost everybody, in bits."""

    truth: str
    guess: Guess
    player: float
    model: float
    counts: float
    uniform: float = UNIFORM_BITS


def place_counts(text: str) -> Distributions:
    """What counting expects at each character, from the digits before it at the same place of their value.

    Each digit seen counts one and each of the sixteen has one half from the start (Krichevsky and Trofimov,
    IEEE Trans. Inf. Theory 27, 1981). Rows of commas mean nothing.

    Args:
        text: digits and commas.

    >>> float(place_counts("3f80,3f")[5][3])  # one 3 seen at the first place: 1.5 of 9
    0.16666666666666666
    """
    seen = np.full((PER_VALUE, len(DIGITS)), 0.5)
    found = np.full((len(text), len(DIGITS)), 1 / len(DIGITS))
    place = 0
    for i, character in enumerate(text):
        if character == SEPARATOR:
            place = 0
            continue
        found[i] = seen[place] / seen[place].sum()
        seen[place, DIGITS.index(character)] += 1
        place += 1
    return found


def make_game(
    gradient: Gradient,
    model: LanguageModel,
    seed: int,
    n_digits: int,
    should_stop: Callable[[], bool] | None = None,
) -> Game:
    """A game: the same seed, the same digits, the same model's numbers.

    Args:
        gradient: where the values come from.
        model: one pass over history and digits.
        seed: picks the place.
        n_digits: to guess, 1 to 16.
        should_stop: asked before the pass.

    Raises:
        InvalidSetting: for another number of digits.
        UnsupportedInput: for a gradient of too few values.
    """
    if not 1 <= n_digits <= MAX_DIGITS:
        raise InvalidSetting(f"{n_digits} digits; a game has 1 to {MAX_DIGITS}")
    n_values = -(-n_digits // PER_VALUE)
    values = passage(gradient, HISTORY_VALUES + n_values, seed)
    if values.n_parameters <= n_values:
        raise UnsupportedInput(
            f"{values.name} leave no history for a game of {n_digits} digits; choose another gradient"
        )
    text = text_of(values)
    cut = len(text) - n_values * (PER_VALUE + 1)
    places = [i for i in range(cut, len(text)) if text[i] != SEPARATOR][:n_digits]
    expected = digit_distributions(text, model, should_stop)
    return Game(
        history=text[:cut],
        truths="".join(text[i] for i in places),
        model=expected[places],
        counts=place_counts(text)[places],
        source=values.tensors[0].name,
    )


def bits_of(distribution: npt.NDArray[np.float64], truth: str) -> float:
    """-log2 of what a distribution gave the truth."""
    return -log2(float(distribution[DIGITS.index(truth)]))


def turns(game: Game, guesses: Sequence[Guess]) -> tuple[Turn, ...]:
    """The digits guessed so far, with everybody's score."""
    return tuple(
        Turn(truth, guess, guess.bits(truth), bits_of(by_model, truth), bits_of(by_counts, truth))
        for truth, guess, by_model, by_counts in zip(game.truths, guesses, game.model, game.counts, strict=False)
    )


def totals(played: Sequence[Turn]) -> dict[str, float]:
    """Everybody's bits so far, by name: player, model, counts, uniform."""
    return {name: sum(getattr(t, name) for t in played) for name in ("player", "model", "counts", "uniform")}

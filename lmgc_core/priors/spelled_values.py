"""From the value model's chances to those of tokens, where values are spelled as numbers: `-7 5 -9 6 `.

Each window's tokens are followed character by character, so that it is known what of a number has been written. The
chance of a token is that of all values which go on with its text: a digit, the end of a number, and with the end
(where the vocabulary has such a token) the sign of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmgc_core.priors.fixed_point import FLOOR, LOG_MAX, Integers, log_share, tables
from lmgc_core.priors.geometry import Geometry
from lmgc_core.priors.value_model import N_DEPTHS, ValueModel

N_STATES = 4
"""Before a number with its sign open, before its digits, behind one digit, behind more."""

_END = 10
_CHANCE_BITS = 8
_DIGITS = "0123456789"


@dataclass(slots=True)
class _Row:
    """How far a window's text has come.

    Attributes:
        place: the parameter that is being written.
        digits: of it so far.
        negative: its sign, None while it is open.
        pending: what of the boundary before it is still to come.
        supposed: the digits that the model was told to suppose as the parameter's.
        asked: the parameter for which zero and sign have been asked.
        chances: of its depths, None before they were asked for.
        zero: chance of a zero, of 2^16.
        minus: chance of a minus if it is none, of 2^16.
        lost: the text is not one that a serializer writes; nothing more is said about it.
    """

    place: int = 0
    digits: str = ""
    negative: bool | None = None
    pending: str = ""
    supposed: str = ""
    asked: int = -1
    chances: Integers | None = None
    zero: int = 0
    minus: int = 0
    lost: bool = False


class SpelledValues:
    """The value model as an expert about tokens.

    Args:
        geometry: of the segment's windows.
        boundaries: by window, the text behind each parameter.
        token_bytes: of the support.
        exponent_bits: of the dtype: numbers go up to 2^exponent_bits.
        has_sign: whether numbers can be negative.
    """

    def __init__(
        self,
        geometry: Geometry,
        boundaries: Sequence[Sequence[str]],
        token_bytes: Sequence[bytes],
        exponent_bits: int,
        has_sign: bool,
    ) -> None:
        self._model = ValueModel(geometry)
        self._sizes = geometry.sizes.tolist()
        self._boundaries = boundaries
        self._texts = [b.decode("utf-8", "replace") for b in token_bytes]
        self._tokens = {text: index for index, text in reversed(list(enumerate(self._texts)))}
        self._digits = np.array([self._tokens.get(str(d), -1) for d in range(10)], np.int64)
        self._largest, self._has_sign = 1 << exponent_bits, has_sign
        self._rows = [_Row() for _ in self._sizes]
        self._ways: dict[str, Integers] = {}

    def _ways_on(self, digits: str) -> Integers:
        """How the values of each depth go on behind these digits: shares in 2^-8ths of each digit and of the end."""
        found = self._ways.get(digits)
        if found is None:
            found = np.zeros((N_DEPTHS, _END + 1), np.int64)
            deep = self._largest - N_DEPTHS + 2
            for value in range(1, self._largest + 1):
                text = str(value)
                if text.startswith(digits):
                    way = int(text[len(digits)]) if len(text) > len(digits) else _END
                    found[min(value, N_DEPTHS - 1), way] += 1 << _CHANCE_BITS
            if deep > 0:
                found[N_DEPTHS - 1] //= deep
            self._ways[digits] = found
        return found

    def states(self, active: Integers) -> Integers:
        """What kind of token comes next, 0 to N_STATES - 1, shape (n,)."""
        rows = (self._rows[i] for i in active.tolist())
        return np.array([min(len(r.digits) + 1, 3) if r.negative is not None else 0 for r in rows], np.int64)

    def logs(self, active: Integers) -> Integers:
        """log2 of the chance of each token, in 1/4096 bit, shape (n, n_support)."""
        self._ask(active.tolist())
        logs = np.full((len(active), len(self._texts)), FLOOR, np.int64)
        for i, index in enumerate(active.tolist()):
            row = self._rows[index]
            if row.lost or row.place >= self._sizes[index]:
                logs[i] = 0
            elif row.pending:
                self._put(logs[i], [self._tokens.get(row.pending, -1)], np.zeros(1, np.int64))
            else:
                self._tell(logs[i], row, index)
        return logs

    def _ask(self, active: Sequence[int]) -> None:
        """Asks the value model for what the tokens to come depend on, for all rows at once."""
        model = self._model
        inside = [i for i in active if not self._rows[i].lost and self._rows[i].place < self._sizes[i]]
        ending = [i for i in inside if self._rows[i].digits and int(self._rows[i].digits) <= self._largest]
        if ending:
            rows = np.array(ending, np.int64)
            places = np.array([self._rows[i].place for i in ending], np.int64)
            depths = np.array([int(self._rows[i].digits) for i in ending], np.int64)
            negative = np.array([self._rows[i].negative for i in ending], np.bool_)
            model.suppose(rows, places, depths, negative)
            for i in ending:
                self._rows[i].supposed = self._rows[i].digits
            self._ask_sign(rows, places + 1)
        opening = [i for i in inside if self._rows[i].asked < self._rows[i].place]
        if opening:
            rows = np.array(opening, np.int64)
            self._ask_sign(rows, np.array([self._rows[i].place for i in opening], np.int64))
        bare = [i for i in inside if self._rows[i].chances is None and not self._rows[i].pending]
        if bare:
            rows = np.array(bare, np.int64)
            places = np.array([self._rows[i].place for i in bare], np.int64)
            negative = np.array([bool(self._rows[i].negative) for i in bare], np.bool_)
            chances = model.depths(model.slots(rows, places), negative)
            for i, found in zip(bare, chances, strict=True):
                self._rows[i].chances = found

    def _ask_sign(self, rows: Integers, places: Integers) -> None:
        inside = places < np.array(self._sizes, np.int64)[rows]
        rows, places = rows[inside], places[inside]
        if not len(rows):
            return
        self._model.place(rows, places)
        zero, minus = self._model.zero_and_sign(self._model.slots(rows, places))
        for i, place, z, m in zip(rows.tolist(), places.tolist(), zero.tolist(), minus.tolist(), strict=True):
            row = self._rows[i]
            row.asked, row.zero, row.minus = place, z, m if self._has_sign else 0

    def _tell(self, logs: Integers, row: _Row, index: int) -> None:
        """Fills in the tokens that can come next."""
        one = 1 << 16
        not_zero = one - row.zero
        chances = row.chances
        assert chances is not None  # asked for above
        if row.digits == "0":
            ways = np.zeros(_END + 1, np.int64)
            ways[_END] = 1
        else:
            ways = chances @ self._ways_on(row.digits)
        whole = max(int(ways.sum()), 1)
        shares = ways * LOG_MAX // whole
        if row.digits == "" and not row.negative:
            # The sign is open or plus: what is not negative is zero or a plus and digits.
            minus = not_zero * row.minus >> 16
            plus = not_zero - minus
            shares[0] = row.zero
            shares[1:] = shares[1:] * plus >> 16
            if row.negative is None:
                self._put(logs, [self._tokens.get("-", -1)], log_share(np.array([minus], np.int64), one))
            else:
                one = row.zero + plus
            self._put(logs, self._digits.tolist(), log_share(shares[:_END], one))
            return
        self._put(logs, self._digits.tolist(), _logs_of_shares(shares[:_END]))
        end = int(shares[_END])
        boundary = self._boundaries[index][row.place]
        with_sign = self._tokens.get(boundary + "-", -1)
        plain = self._tokens.get(boundary, self._tokens.get(boundary[:1], -1))
        last = row.place + 1 == self._sizes[index]
        if with_sign < 0 or last or not self._has_sign:
            self._put(logs, [plain], _logs_of_shares(shares[_END:]))
        else:
            minus = end * (not_zero * row.minus >> 16) >> 16
            self._put(logs, [plain, with_sign], _logs_of_shares(np.array([end - minus, minus], np.int64)))

    @staticmethod
    def _put(logs: Integers, tokens: Sequence[int], found: Integers) -> None:
        for token, value in zip(tokens, found.tolist(), strict=True):
            if token >= 0:
                logs[token] = max(value, FLOOR)

    def update(self, active: Integers, tokens: Integers) -> None:
        """Takes the token that came in each of the active windows."""
        settled: list[int] = []
        surprising: list[int] = []
        values: list[int] = []
        negatives: list[bool] = []
        for index, token in zip(active.tolist(), tokens.tolist(), strict=True):
            row = self._rows[index]
            text = self._texts[token]
            boundary = ""
            for character in text:
                if row.lost or row.place >= self._sizes[index]:
                    row.lost = True
                    break
                if row.pending:
                    row.lost = character != row.pending[0]
                    row.pending = row.pending[1:]
                elif character == "-":
                    row.lost = row.negative is not None or not self._has_sign
                    row.negative, row.chances = True, None
                elif character in _DIGITS:
                    row.digits += character
                    row.negative = bool(row.negative)
                    row.lost = int(row.digits) > self._largest
                else:
                    boundary = self._boundaries[index][row.place]
                    # A second value in one token is not followed, nor one whose depth could not be asked for.
                    row.lost = character != boundary[:1] or not row.digits or row.chances is None
                    if not row.lost:
                        if row.supposed != row.digits:  # it ended in the token that held its last digit
                            surprising.append(len(settled))
                            row.asked = row.place
                        row.supposed = ""
                        settled.append(index)
                        values.append(int(row.digits))
                        negatives.append(bool(row.negative))
                        row.place, row.digits, row.negative, row.chances = row.place + 1, "", None, None
                        row.pending = boundary[1:]
            if boundary and text == boundary and boundary + "-" in self._tokens and not row.lost:
                row.negative = False
        if settled:
            rows = np.array(settled, np.int64)
            places = np.array([self._rows[i].place - 1 for i in settled], np.int64)
            depths, negative = np.array(values, np.int64), np.array(negatives, np.bool_)
            if surprising:
                own = np.array(surprising, np.int64)
                self._model.suppose(rows[own], places[own], depths[own], negative[own])
            self._model.settle(self._model.slots(rows, places), depths, negative)


def _logs_of_shares(shares: Integers) -> Integers:
    """log2 of shares of 65535, below `FLOOR` for none."""
    found: Integers = tables().log2[shares] - tables().log2[LOG_MAX]
    return found

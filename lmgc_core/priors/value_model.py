"""The value model: sign and exponent of the next parameter, from the window's earlier ones.

A value is seen as its *depth* (0 for an exact zero or denormal, else 1 + reference - exponent field: 1 is the tensor's
largest) and its sign. A linear predictor says the depth to be expected from neighbours along the tensor's axes, running
means and the parameter's column; another says the sign and how sure it is. Three decisions follow, each a
geometric mixture of adaptive counts: zero or not, negative or not, and the depth.

Tables, predictors and weights are the segment's: read before a step, updated after it. All arithmetic is whole.
Source of the starting distribution: the exponent of a normal value whose scale is known to within 0.9 octaves.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lmgc_core.priors.counts import Counts
from lmgc_core.priors.fixed_point import LOG_ONE, Integers, bounded, power_of
from lmgc_core.priors.geometry import Geometry
from lmgc_core.priors.mixing import SHARE_BITS, WEIGHT_ONE, Mixer

N_DEPTHS = 40
"""Depths told apart; the last stands for all that lie deeper."""

DEEPEST = 26
"""Deeper values, and zeros, count as this deep where neighbours are averaged."""

ONE = 256
"""One octave of depth, or one standard deviation of a signed value, in fixed point."""

FIRST_STEP = -12
"""Depths below the expected one that are told apart."""

_NORMAL = np.array(
    [
        [2, 43, 330, 1128, 1936, 1922, 1318, 741, 384, 194, 97, 49, 24, 12, 6, 3, 2],
        [2, 32, 268, 1007, 1871, 1971, 1401, 801, 417, 211, 106, 53, 26, 13, 7, 3, 2],
        [1, 23, 215, 889, 1792, 2008, 1485, 865, 454, 230, 115, 58, 29, 14, 7, 4, 2],
        [1, 16, 170, 776, 1700, 2033, 1567, 932, 493, 251, 126, 63, 31, 16, 8, 4, 2],
        [1, 11, 133, 670, 1598, 2044, 1648, 1004, 536, 273, 137, 69, 34, 17, 9, 4, 2],
        [1, 8, 102, 571, 1488, 2040, 1725, 1078, 582, 297, 150, 75, 37, 19, 9, 5, 2],
        [1, 5, 78, 482, 1371, 2021, 1798, 1156, 631, 324, 163, 82, 41, 20, 10, 5, 3],
        [1, 4, 59, 401, 1250, 1986, 1864, 1236, 684, 353, 178, 89, 45, 22, 11, 6, 3],
    ],
    np.int64,
)
"""Of 8192: depth minus whole expected depth, from -5 on, a row for each eighth of the expected depth's fraction."""

N_STEPS = 32
_STARTS = np.ones((8, N_STEPS), np.int64)
_STARTS[:, -5 - FIRST_STEP : -5 - FIRST_STEP + _NORMAL.shape[1]] = _NORMAL

_LAGS = (1, 2, 3, 4)
_SIGN_LAGS = (1, 2, 3, 4, 5, 6)
_PAD = 1
_SURE = np.array([26, 64, 128, 230, 360], np.int64)
_SIGNED = np.array([-360, -230, -128, -64, -26, -8, 8, 26, 64, 128, 230, 360], np.int64)
_SPREAD = np.array([310, 410, 560], np.int64)
_COLUMN_SIGN = np.array([-128, -26, 26, 128], np.int64)

RATE_DEPTH = 3000
RATE_SIGN = 20000
DRIFT = 64

MOST_WEIGHT = 1 << 24
MOST_SIGNED = 16 * ONE
"""Bounds that only a segment of hundreds of windows, all learning at once, comes near to."""


class ValueModel:
    """Predicts and learns the values of a segment's windows.

    Rows are windows. The order of calls for a row and its parameter q: `place` (values before q are settled, or
    supposed), `zero_and_sign`, `depths`, then `settle`, which learns. What was found about two successive parameters
    is kept at a time, in two *slots* of the row (`slots`), so that q + 1 can be asked about before q is settled.

    Args:
        geometry: where each parameter of each window lies.
    """

    def __init__(self, geometry: Geometry) -> None:
        self._g = geometry
        n, size = geometry.columns.shape
        size = max(size, _SIGN_LAGS[-1])  # looking back from the first parameters ends somewhere, and is not used
        self._depth = np.zeros((n, size + 1), np.int64)  # as text says it: 0 for zero
        self._level = np.zeros((n, size + 1), np.int64)  # in fixed point, zeros as DEEPEST
        self._sign = np.zeros((n, size + 1), np.int64)  # -1, 0, 1
        self._means = np.full((n, size + 2, 3), 6 * ONE, np.int64)  # fast, middle, slow, before each parameter
        self._drifts = np.zeros((n, size + 2, 4), np.int64)  # see `_drift`
        self._error = np.full(n, 384, np.int64)
        n_lags = geometry.lags.shape[2]
        self._n_depth, self._n_sign = len(_LAGS) + n_lags + 6, len(_SIGN_LAGS) + n_lags + 3
        self._depth_weights = np.zeros(self._n_depth, np.int64)
        self._depth_weights[[0, -6, -5, -4]] = [200000, 290000, 290000, 60000]
        self._depth_weights[-2] = 120000
        self._sign_weights = np.zeros(self._n_sign, np.int64)
        self._sign_weights[[0, -2, -1]] = [150000, 250000, 150000]
        n_columns = geometry.n_columns
        self._column_level = np.zeros(n_columns, np.int64)
        self._column_seen = np.zeros(n_columns, np.int64)
        self._column_sign = np.zeros(n_columns, np.int64)
        # Zero or not.
        self._zero_counts = [Counts(size, 2, np.array([6, 2]), 32, 12000) for size in (27, 256, 64)]
        self._zero_mixer = Mixer(2, np.full(3, 2 * WEIGHT_ONE // 5), 10000)
        self._zero_inputs = np.zeros((2 * n, 3, 2), np.int64)
        self._zero_shares = np.zeros((2 * n, 2), np.int64)
        self._zero_contexts = np.zeros((2 * n, 3), np.int64)
        self._zero_sets = np.zeros(2 * n, np.int64)
        # Negative or not.
        self._sign_counts = [Counts(size, 2, 20, 32, 8000) for size in (16, 81, 64, 243, 16 * 5, 256)]
        self._sign_mixer = Mixer(4, np.full(6, WEIGHT_ONE // 3), 10000)
        self._sign_inputs = np.zeros((2 * n, 6, 2), np.int64)
        self._sign_shares = np.zeros((2 * n, 2), np.int64)
        self._sign_contexts = np.zeros((2 * n, 6), np.int64)
        self._sign_sets = np.zeros(2 * n, np.int64)
        # The depth.
        starts = _STARTS * 3 // 32 + 1
        self._step_counts = [
            Counts(6 * 2 * 2 * 8, N_STEPS, np.tile(starts, (24, 1)), 128, 24000),
            Counts(8, N_STEPS, starts, 64, 30000),
            Counts(4 * 8, N_STEPS, np.tile(starts, (4, 1)), 128, 30000),
        ]
        self._depth_counts = [
            Counts(size, N_DEPTHS, 2, 64, 12000)
            for size in (N_DEPTHS * N_DEPTHS, N_DEPTHS * 8, N_DEPTHS * N_DEPTHS * 2, N_DEPTHS * N_DEPTHS)
        ]
        self._n_experts = len(self._step_counts) + len(self._depth_counts)
        start = np.array([524288, 314572, 209715, 40000, 40000, 40000, 40000], np.int64)
        self._depth_mixer = Mixer(8, start, 1500)
        self._depth_inputs = np.zeros((2 * n, self._n_experts, N_DEPTHS), np.int64)
        self._depth_shares = np.zeros((2 * n, N_DEPTHS), np.int64)
        self._depth_contexts = np.zeros((2 * n, self._n_experts), np.int64)
        self._depth_sets = np.zeros(2 * n, np.int64)
        # What `place` found.
        self._at = np.zeros(2 * n, np.int64)
        self._depth_features = np.zeros((2 * n, self._n_depth), np.int64)
        self._sign_features = np.zeros((2 * n, self._n_sign), np.int64)
        self._expected = np.zeros(2 * n, np.int64)
        self._signed = np.zeros(2 * n, np.int64)

    def slots(self, rows: Integers, places: Integers) -> Integers:
        """Where what is found about parameters `places` is kept."""
        return rows + len(self._error) * (places & 1)

    def suppose(self, rows: Integers, places: Integers, depths: Integers, negative: npt.NDArray[np.bool_]) -> None:
        """Takes values as those of parameters `places`, for the predictions behind them; `settle` makes it final."""
        level = np.where(depths == 0, DEEPEST, np.minimum(depths, DEEPEST)) * ONE
        self._depth[rows, places] = np.minimum(depths, N_DEPTHS - 1)
        self._level[rows, places] = level
        self._sign[rows, places] = np.where(depths == 0, 0, np.where(negative, -1, 1))
        before = self._means[rows, places]
        age = places + 1
        speed = np.maximum(np.array([77, 26, 8], np.int64)[None, :], (256 // age)[:, None])
        self._means[rows, places + 1] = before + (((level[:, None] - before) * speed) >> 8)
        self._drift(rows, places, level)

    def _drift(self, rows: Integers, places: Integers, level: Integers) -> None:
        """Follows how the window's values stand to their columns and to the row above: in depth, and in sign.

        An outer product of two vectors has constant differences of depth and products of sign along a row.
        """
        g = self._g
        column, lag, sign = g.columns[rows, places], g.lags[rows, places, 0], self._sign[rows, places]
        seen = (self._column_seen[column] > 0) & (column > 0)
        above = places - lag
        before = self._drifts[rows, places]
        found = np.stack(
            [
                np.where(seen, level - self._column_level[column], before[:, 0]),
                np.where(lag > 0, level - self._level[rows, above], before[:, 1]),
                np.where(seen, sign * bounded(2 * self._column_sign[column], -ONE, ONE), before[:, 2]),
                np.where(lag > 0, sign * self._sign[rows, above] * ONE, before[:, 3]),
            ],
            axis=1,
        )
        self._drifts[rows, places + 1] = before + (((found - before) * DRIFT) >> 8)

    def place(self, rows: Integers, places: Integers) -> None:
        """Looks round from parameters `places`, whose earlier ones are settled or supposed."""
        g, n = self._g, len(rows)
        slots = self.slots(rows, places)
        self._at[slots] = places
        means = self._means[rows, places]
        middle, slow = means[:, 1], means[:, 2]
        lags = g.lags[rows, places]
        column = g.columns[rows, places]
        features = np.empty((n, self._n_depth), np.int64)
        for j, lag in enumerate(_LAGS):
            features[:, j] = np.where(places >= lag, self._level[rows, places - lag], middle)
        far = np.where(lags > 0, self._level[rows[:, None], places[:, None] - lags], middle[:, None])
        drifts = self._drifts[rows, places]
        features[:, len(_LAGS) : -6] = far
        features[:, -6:-4] = means[:, :2]
        seen = (self._column_seen[column] > 0) & (column > 0)
        features[:, -4] = np.where(seen, self._column_level[column], slow)
        features[:, -3] = slow + ONE
        features[:, -2] = np.where(seen, self._column_level[column] + drifts[:, 0], slow)
        features[:, -1] = np.where(lags[:, 0] > 0, far[:, 0] + drifts[:, 1], middle)
        features -= slow[:, None]
        expected = slow + ((features @ self._depth_weights + (1 << 19)) >> 20)
        expected = bounded(expected, -2 * ONE, (N_DEPTHS - 2) * ONE)
        self._depth_features[slots], self._expected[slots] = features, expected
        signed = np.empty((n, self._n_sign), np.int64)
        for j, lag in enumerate(_SIGN_LAGS):
            signed[:, j] = np.where(
                places >= lag, self._sized(rows, places - lag, expected) * self._sign[rows, places - lag], 0
            )
        far_sized = self._sized(rows[:, None], places[:, None] - lags, expected[:, None])
        signed[:, len(_SIGN_LAGS) : -3] = np.where(
            lags > 0, far_sized * self._sign[rows[:, None], places[:, None] - lags], 0
        )
        signed[:, -3] = self._column_sign[column]
        signed[:, -2] = self._column_sign[column] * drifts[:, 2] >> 8
        signed[:, -1] = signed[:, len(_SIGN_LAGS)] * drifts[:, 3] >> 8
        self._sign_features[slots] = signed
        self._signed[slots] = bounded((signed @ self._sign_weights + (1 << 19)) >> 20, -MOST_SIGNED, MOST_SIGNED)

    def _sized(self, rows: Integers, places: Integers, expected: Integers) -> Integers:
        """Sizes of earlier values in units of the expected one, 256 for equal, at most 3 times."""
        steps = bounded((expected - self._level[rows, places]), -6 * ONE, 2 * ONE) * (LOG_ONE // ONE)
        found: Integers = np.minimum(power_of(steps - 2 * LOG_ONE) >> 20, 3 * ONE)
        return found

    def zero_and_sign(self, slots: Integers) -> tuple[Integers, Integers]:
        """The chance of an exact zero, and of a minus if it is none, in 2^-16ths, shape (n,) both."""
        g, places, rows = self._g, self._at[slots], slots % len(self._error)
        column = g.columns[rows, places]
        near = g.near[rows, places]
        kernel = g.kernel[rows, places]
        depth, sign = self._depth, self._sign

        def depth_at(lag: Integers) -> Integers:
            return np.where((lag > 0) & (places >= lag), depth[rows, places - lag], 5)

        def sign_at(lag: Integers) -> Integers:
            return np.where((lag > 0) & (places >= lag), sign[rows, places - lag], 0) + 1

        ones = np.ones(len(rows), np.int64)
        z1, z2, z3, zn = (np.asarray(depth_at(lag) == 0, np.int64) for lag in (ones, 2 * ones, 3 * ones, near))
        expected = self._expected[slots]
        column_zero = np.where(
            (self._column_seen[column] > 0) & (column > 0),
            np.asarray(self._column_level[column] >= (DEEPEST - 2) * ONE, np.int64),
            2,
        )
        contexts = np.stack(
            [
                z1 * 9 + z2 * 3 + zn,
                bounded(expected >> 7, 0, 63) * 4 + z1 * 2 + zn,
                column_zero * 16 + z1 * 8 + z2 * 4 + z3 * 2 + zn,
            ],
            axis=1,
        )
        inputs = np.stack([c.logs(contexts[:, j]) for j, c in enumerate(self._zero_counts)], axis=1)
        sets = z1
        shares = self._zero_mixer.shares(inputs, sets)
        self._zero_contexts[slots], self._zero_inputs[slots] = contexts, inputs
        self._zero_sets[slots], self._zero_shares[slots] = sets, shares
        signed = self._signed[slots]
        s1, s2, s3, sn, sk = (sign_at(lag) for lag in (ones, 2 * ones, 3 * ones, near, kernel))
        sure = np.searchsorted(_SURE, np.abs(signed), side="right")
        side = np.searchsorted(_SIGNED, signed, side="right")
        column_sign = np.searchsorted(_COLUMN_SIGN, self._column_sign[column], side="right")
        contexts = np.stack(
            [
                side,
                s1 * 27 + s2 * 9 + s3 * 3 + sn,
                column_sign * 9 + s1 * 3 + sn,
                s1 * 81 + s2 * 27 + sn * 9 + sk * 3 + s3,
                side * 5 + column_sign,
                np.searchsorted(_SIGNED, self._sign_features[slots, -2], side="right") * 16
                + np.searchsorted(_SIGNED, self._sign_features[slots, -1], side="right"),
            ],
            axis=1,
        )
        inputs = np.stack([c.logs(contexts[:, j]) for j, c in enumerate(self._sign_counts)], axis=1)
        sets = np.minimum(sure // 2, 3)
        sign_shares = self._sign_mixer.shares(inputs, sets)
        self._sign_contexts[slots], self._sign_inputs[slots] = contexts, inputs
        self._sign_sets[slots], self._sign_shares[slots] = sets, sign_shares
        return bounded(shares[:, 1], 4, 65532), bounded(sign_shares[:, 1], 32, 65504)

    def depths(self, slots: Integers, negative: npt.NDArray[np.bool_]) -> Integers:
        """The chance of each depth from 1 on, of a value that is no zero, in 2^-16ths, shape (n, N_DEPTHS)."""
        g, places, rows = self._g, self._at[slots], slots % len(self._error)
        column, near = g.columns[rows, places], g.near[rows, places]
        expected, signed = self._expected[slots], self._signed[slots]
        whole, eighth = expected >> 8, (expected >> 5) & 7
        sure = np.searchsorted(_SURE, np.abs(signed), side="right")
        agrees = np.asarray((signed < 0) == negative, np.int64)
        error = self._error[rows]
        wild = np.asarray(error > 435, np.int64)
        e1 = np.where(places >= 1, self._depth[rows, places - 1], 5)
        e2 = np.where(places >= 2, self._depth[rows, places - 2], 5)
        en = np.where((near > 0) & (places >= near), self._depth[rows, places - near], e1)
        column_depth = np.where(self._column_seen[column] > 0, self._column_level[column] >> 8, 0)
        contexts = np.stack(
            [
                ((sure * 2 + agrees) * 2 + wild) * 8 + eighth,
                eighth,
                np.searchsorted(_SPREAD, error, side="right") * 8 + eighth,
                e1 * N_DEPTHS + e2,
                (agrees * N_DEPTHS + en) * 4 + np.minimum(sure, 3),
                (agrees * N_DEPTHS + e1) * N_DEPTHS + en,
                bounded(column_depth, 0, N_DEPTHS - 1) * N_DEPTHS + bounded(whole, 0, N_DEPTHS - 1),
            ],
            axis=1,
        )
        inputs = np.empty((len(rows), self._n_experts, N_DEPTHS), np.int64)
        steps = bounded(np.arange(N_DEPTHS)[None, :] - whole[:, None] - FIRST_STEP, 0, N_STEPS - 1)
        n_steps = len(self._step_counts)
        for j, c in enumerate(self._step_counts):
            inputs[:, j] = c.logs_at(contexts[:, j], steps)
        for j, d in enumerate(self._depth_counts, n_steps):
            inputs[:, j] = d.logs(contexts[:, j])
        inputs[:, :, 0] = -40 * LOG_ONE
        sets = np.minimum(sure, 3) * 2 + agrees
        shares = self._depth_mixer.shares(inputs, sets)
        self._depth_contexts[slots], self._depth_inputs[slots] = contexts, inputs
        self._depth_sets[slots], self._depth_shares[slots] = sets, shares
        found: Integers = shares + 2
        found[:, 0] = 0
        return found

    def settle(self, slots: Integers, depths: Integers, negative: npt.NDArray[np.bool_]) -> None:
        """Learns the values of the parameters where the rows stand; all three decisions must have been asked for,
        the depth's only for values that are no zero."""
        if not len(slots):
            return
        rows = slots % len(self._error)
        column = self._g.columns[rows, self._at[slots]]
        zero = np.asarray(depths == 0, np.int64)
        for j, c in enumerate(self._zero_counts):
            c.add(self._zero_contexts[slots, j], zero)
        self._zero_mixer.learn(self._zero_inputs[slots], self._zero_sets[slots], self._zero_shares[slots], zero)
        level = np.where(depths == 0, DEEPEST, np.minimum(depths, DEEPEST)) * ONE
        self._learn_columns(column, level)
        live = np.flatnonzero(depths > 0)
        if not len(live):
            return
        slots, rows, level, column = slots[live], rows[live], level[live], column[live]
        depths, negative = depths[live], negative[live]
        minus = np.asarray(negative, np.int64)
        for j, c in enumerate(self._sign_counts):
            c.add(self._sign_contexts[slots, j], minus)
        self._sign_mixer.learn(self._sign_inputs[slots], self._sign_sets[slots], self._sign_shares[slots], minus)
        capped = np.minimum(depths, N_DEPTHS - 1)
        expected = self._expected[slots]
        steps = bounded(capped - (expected >> 8) - FIRST_STEP, 0, N_STEPS - 1)
        for j, c in enumerate(self._step_counts):
            c.add(self._depth_contexts[slots, j], steps)
        for j, c in enumerate(self._depth_counts, len(self._step_counts)):
            c.add(self._depth_contexts[slots, j], capped)
        self._depth_mixer.learn(self._depth_inputs[slots], self._depth_sets[slots], self._depth_shares[slots], capped)
        # The predictors: normalised least mean squares.
        error = bounded(level - expected, -3 * ONE, 5 * ONE)
        self._error[rows] += ((np.abs(error) - self._error[rows]) * 15) >> 8
        features = self._depth_features[slots]
        power = (features * features).sum(axis=1) + (2 << 16)
        self._depth_weights += ((error[:, None] * features * RATE_DEPTH) // power[:, None]).sum(axis=0)
        self._depth_weights = bounded(self._depth_weights, -MOST_WEIGHT, MOST_WEIGHT)
        sized = np.minimum(power_of(bounded(expected - level, -6 * ONE, 2 * ONE) * 16 - 2 * LOG_ONE) >> 20, 3 * ONE)
        target = np.where(negative, -sized, sized)
        features = self._sign_features[slots]
        power = (features * features).sum(axis=1) + (1 << 16)
        missed = target - self._signed[slots]
        self._sign_weights += ((missed[:, None] * features * RATE_SIGN) // power[:, None]).sum(axis=0)
        self._sign_weights = bounded(self._sign_weights, -MOST_WEIGHT, MOST_WEIGHT)
        _draw(self._column_sign, column, bounded(target, -2 * ONE, 2 * ONE), 77)

    def _learn_columns(self, column: Integers, level: Integers) -> None:
        _draw(self._column_level, column, level, 40, self._column_seen)
        np.add.at(self._column_seen, column, 1)

    @property
    def share_bits(self) -> int:
        """Chances are in units of 2^-16."""
        return SHARE_BITS


def _draw(values: Integers, columns: Integers, found: Integers, speed: int, seen: Integers | None = None) -> None:
    """Draws `values`, in place, towards the mean of what was found in each column, by `speed` 256ths for each find.

    Column 0 stands for none and stays. With `seen`, columns seen seldom move faster, towards the mean of all finds.
    """
    names, index, times = np.unique(columns, return_inverse=True, return_counts=True)
    sums = np.zeros(len(names), np.int64)
    np.add.at(sums, index, found)
    pull = np.minimum(speed * times, 224)
    if seen is not None:
        pull = np.maximum(pull, 256 * times // (seen[names] + times))
    old = values[names]
    values[names] = np.where(names == 0, old, old + (((sums // times - old) * pull) >> 8))

"""docs/prior_arithmetic.md as a plain program: one number at a time, no arrays, nothing of the library.

Slow, and only for tests: the library has to give the same frequencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isqrt, prod

STARTS = """
2 43 330 1128 1936 1922 1318 741 384 194 97 49 24 12 6 3 2
2 32 268 1007 1871 1971 1401 801 417 211 106 53 26 13 7 3 2
1 23 215 889 1792 2008 1485 865 454 230 115 58 29 14 7 4 2
1 16 170 776 1700 2033 1567 932 493 251 126 63 31 16 8 4 2
1 11 133 670 1598 2044 1648 1004 536 273 137 69 34 17 9 4 2
1 8 102 571 1488 2040 1725 1078 582 297 150 75 37 19 9 5 2
1 5 78 482 1371 2021 1798 1156 631 324 163 82 41 20 10 5 3
1 4 59 401 1250 1986 1864 1236 684 353 178 89 45 22 11 6 3
"""
FLOOR = -81920


def clamp(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def count(x: int, *numbers: int) -> int:
    return sum(n <= x for n in numbers)


def exact_log2(n: int) -> int:
    """floor(4096 log2 n): the bits of n^4096, less one."""
    return (n**4096).bit_length() - 1 if n else FLOOR


def exact_power(k: int) -> int:
    """floor(2^30 2^(-k/4096)): the 4096th root of 2^(30 4096 - k), by twelve whole square roots."""
    root = 1 << 30 * 4096 - k
    for _ in range(12):
        root = isqrt(root)
    return root


LOG2: dict[int, int] = {}
POWER: dict[int, int] = {}


def log2(n: int) -> int:
    if n not in LOG2:
        LOG2[n] = exact_log2(n)
    return LOG2[n]


def power(x: int) -> int:
    d = min(-x, 163840)
    k = d % 4096
    if k not in POWER:
        POWER[k] = exact_power(k)
    return POWER[k] >> (d // 4096)


def share_log(a: int, b: int) -> int:
    return log2(max(65535 * a // b, 1)) - log2(65535)


class Counts:
    def __init__(self, start: Sequence[int], increment: int, limit: int) -> None:
        self.start, self.increment, self.limit = start, increment, limit
        self.contexts: dict[int, list[int]] = {}

    def at(self, context: int) -> list[int]:
        n = len(self.start)
        first = self.start[context % n] if isinstance(self.start[0], list) else self.start
        return self.contexts.setdefault(context, list(first))  # type: ignore[call-overload]

    def logs(self, context: int) -> list[int]:
        counts = self.at(context)
        whole = log2(sum(counts))
        return [log2(c) - whole for c in counts]

    def learn(self, pairs: Sequence[tuple[int, int]]) -> None:
        for context, symbol in pairs:
            self.at(context)[symbol] += self.increment
        for context in {c for c, _ in pairs}:
            while sum(self.at(context)) > self.limit:
                self.contexts[context] = [(c + 1) >> 1 for c in self.contexts[context]]


@dataclass
class Mixed:
    """A question to a mixer, as it has to be remembered."""

    chosen: int
    inputs: list[list[int]]
    masses: list[int]
    shares: list[int]


class Mixer:
    def __init__(self, start: Sequence[int], rate: int) -> None:
        self.start, self.rate = list(start), rate
        self.weights: dict[int, list[int]] = {}
        self.used: dict[int, int] = {}

    def ask(self, chosen: int, inputs: list[list[int]]) -> Mixed:
        weights = self.weights.setdefault(chosen, list(self.start))
        mixed = [sum(w * x[s] for w, x in zip(weights, inputs, strict=True)) >> 20 for s in range(len(inputs[0]))]
        masses = [power(m - max(mixed)) for m in mixed]
        return Mixed(chosen, inputs, masses, [65536 * m // sum(masses) for m in masses])

    def learn(self, found: Sequence[tuple[Mixed, int]]) -> None:
        grown: dict[int, list[int]] = {}
        for q, z in found:
            rate = self.rate + 32 * self.rate // (16 + self.used.get(q.chosen, 0))
            for i, x in enumerate(q.inputs):
                expected = sum(a * b for a, b in zip(x, q.shares, strict=True)) >> 16
                step = ((x[z] - expected) * rate + 2048) >> 12
                grown.setdefault(q.chosen, [0] * len(q.inputs))[i] += step
        for chosen, steps in grown.items():
            self.weights[chosen] = [
                clamp(w + s, -(1 << 20), 1 << 23) for w, s in zip(self.weights[chosen], steps, strict=True)
            ]
        for q, _ in found:
            self.used[q.chosen] = self.used.get(q.chosen, 0) + 1


@dataclass
class Look:
    expected: int = 0
    signed: int = 0
    depth_features: list[int] = field(default_factory=list)
    sign_features: list[int] = field(default_factory=list)
    zero_contexts: list[int] = field(default_factory=list)
    zero_mixed: Mixed | None = None
    sign_contexts: list[int] = field(default_factory=list)
    sign_mixed: Mixed | None = None
    depth_contexts: list[int] = field(default_factory=list)
    depth_mixed: Mixed | None = None


class ValueWindow:
    """What is known of one window's values."""

    def __init__(self, pieces: Sequence[tuple[int, int, tuple[int, ...]]], columns: dict[tuple[int, ...], int]) -> None:
        self.lags: list[list[int]] = []
        self.near: list[int] = []
        self.kernel: list[int] = []
        self.column: list[int] = []
        for n, first, shape in pieces:
            strides, stride = [], 1
            for size in reversed(shape[1:]):
                stride *= size
                if stride > 1 and stride not in strides:
                    strides.append(stride)
            if not strides:
                lags, near, kernel = [9, 18, 27, 8, 10], 9, 18
            elif len(strides) == 1:
                a = strides[0]
                lags, near, kernel = [a, a - 1, a + 1, 2 * a, 3 * a], a, 2 * a
            else:
                a, b = strides[:2]
                third = strides[2] if len(strides) > 2 and strides[2] <= 216 else 3 * b
                lags, near, kernel = [b, b - 1, b + 1, a if a > 4 else 2 * b, third], a, b
            key, row = shape[1:], prod(shape[1:])
            if len(shape) > 1 and key not in columns:
                columns[key] = columns[()]
                columns[()] += min(row, 65536)
            for i in range(n):
                self.lags.append([lag if 1 < lag <= i else 0 for lag in lags])
                self.near.append(near if near <= i else 0)
                self.kernel.append(kernel if kernel <= i else 0)
                self.column.append(columns[key] + (first + i) % row % 65536 if len(shape) > 1 else 0)
        self.n = len(self.lags)
        self.depth: dict[int, int] = {}
        self.level: dict[int, int] = {}
        self.sign: dict[int, int] = {}
        self.means = {0: [1536, 1536, 1536]}
        self.drifts = {0: [0, 0, 0, 0]}
        self.error = 384
        self.looks: dict[int, Look] = {}


class ValueModel:
    def __init__(self) -> None:
        self.level: dict[int, int] = {}
        self.sign: dict[int, int] = {}
        self.finds: dict[int, int] = {}
        self.depth_weights = [200000, 0, 0, 0, 0, 0, 0, 0, 0, 290000, 290000, 60000, 0, 120000, 0]
        self.sign_weights = [150000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 250000, 150000]
        self.zero_counts = [Counts([6, 2], 32, 12000) for _ in range(3)]
        self.zero_mixer = Mixer([419430] * 3, 10000)
        self.sign_counts = [Counts([20, 20], 32, 8000) for _ in range(6)]
        self.sign_mixer = Mixer([349525] * 6, 10000)
        rows = []
        for line in STARTS.split("\n")[1:-1]:
            row = [1] * 32
            for step, x in enumerate(line.split(), 7):
                row[step] = 1 + 3 * int(x) // 32
            rows.append(row)
        steps = [Counts(rows, n, limit) for n, limit in ((128, 24000), (64, 30000), (128, 30000))]  # type: ignore[arg-type]
        self.depth_counts = steps + [Counts([2] * 40, 64, 12000) for _ in range(4)]
        self.depth_mixer = Mixer([524288, 314572, 209715] + [40000] * 4, 1500)

    def known(self, column: int) -> bool:
        return column != 0 and self.finds.get(column, 0) > 0

    def suppose(self, w: ValueWindow, q: int, d: int, minus: bool) -> None:
        level = w.level[q] = 256 * (26 if d == 0 else min(d, 26))
        w.depth[q] = min(d, 39)
        sign = w.sign[q] = 0 if d == 0 else -1 if minus else 1
        speeds = [max(v, 256 // (q + 1)) for v in (77, 26, 8)]
        w.means[q + 1] = [m + (((level - m) * v) >> 8) for m, v in zip(w.means[q], speeds, strict=True)]
        c, lag, t = w.column[q], w.lags[q][0], w.drifts[q]
        x = list(t)
        if self.known(c):
            x[0] = level - self.level.get(c, 0)
            x[2] = sign * clamp(2 * self.sign.get(c, 0), -256, 256)
        if lag:
            x[1] = level - w.level[q - lag]
            x[3] = 256 * sign * w.sign[q - lag]
        w.drifts[q + 1] = [a + (((b - a) * 64) >> 8) for a, b in zip(t, x, strict=True)]

    @staticmethod
    def size(expected: int, level: int) -> int:
        return min(power(16 * clamp(expected - level, -1536, 512) - 8192) >> 20, 768)

    def look(self, w: ValueWindow, q: int) -> tuple[int, int]:
        found = w.looks[q] = Look()
        fast, middle, slow = w.means[q]
        c, lags, drift = w.column[q], w.lags[q], w.drifts[q]
        known = self.known(c)
        features = [w.level[q - i] if q >= i else middle for i in (1, 2, 3, 4)]
        features += [w.level[q - lag] if lag else middle for lag in lags]
        features += [fast, middle, self.level[c] if known else slow, slow + 256]
        features += [self.level[c] + drift[0] if known else slow]
        features += [w.level[q - lags[0]] + drift[1] if lags[0] else middle]
        found.depth_features = [f - slow for f in features]
        total = sum(f * v for f, v in zip(found.depth_features, self.depth_weights, strict=True))
        expected = found.expected = clamp(slow + ((total + (1 << 19)) >> 20), -512, 9728)

        def sized(at: int) -> int:
            return self.size(expected, w.level[at]) * w.sign[at]

        features = [sized(q - i) if q >= i else 0 for i in range(1, 7)]
        features += [sized(q - lag) if lag else 0 for lag in lags]
        own = self.sign.get(c, 0)
        features += [own, own * drift[2] >> 8, features[6] * drift[3] >> 8]
        found.sign_features = features
        total = sum(f * v for f, v in zip(features, self.sign_weights, strict=True))
        signed = found.signed = clamp((total + (1 << 19)) >> 20, -4096, 4096)

        near, kernel = w.near[q], w.kernel[q]
        z1, z2, z3 = (int(q >= i and w.depth[q - i] == 0) for i in (1, 2, 3))
        zn = int(near > 0 and w.depth[q - near] == 0)
        k = 2 if not known else int(self.level[c] >= 6144)
        found.zero_contexts = [
            9 * z1 + 3 * z2 + zn,
            4 * clamp(expected >> 7, 0, 63) + 2 * z1 + zn,
            16 * k + 8 * z1 + 4 * z2 + 2 * z3 + zn,
        ]
        inputs = [t.logs(x) for t, x in zip(self.zero_counts, found.zero_contexts, strict=True)]
        found.zero_mixed = self.zero_mixer.ask(z1, inputs)

        s1, s2, s3 = (w.sign[q - i] + 1 if q >= i else 1 for i in (1, 2, 3))
        sn, sk = (w.sign[q - lag] + 1 if lag else 1 for lag in (near, kernel))

        def band(x: int) -> int:
            return count(x, -360, -230, -128, -64, -26, -8, 8, 26, 64, 128, 230, 360)

        sure = count(abs(signed), 26, 64, 128, 230, 360)
        t, r = band(signed), count(own, -128, -26, 26, 128)
        found.sign_contexts = [
            t,
            27 * s1 + 9 * s2 + 3 * s3 + sn,
            9 * r + 3 * s1 + sn,
            81 * s1 + 27 * s2 + 9 * sn + 3 * sk + s3,
            5 * t + r,
            16 * band(features[12]) + band(features[13]),
        ]
        inputs = [table.logs(x) for table, x in zip(self.sign_counts, found.sign_contexts, strict=True)]
        found.sign_mixed = self.sign_mixer.ask(sure // 2, inputs)
        return clamp(found.zero_mixed.shares[1], 4, 65532), clamp(found.sign_mixed.shares[1], 32, 65504)

    def depth(self, w: ValueWindow, q: int, minus: bool) -> list[int]:
        found = w.looks[q]
        whole, g = found.expected >> 8, (found.expected >> 5) & 7
        sure = count(abs(found.signed), 26, 64, 128, 230, 360)
        agrees = int((found.signed < 0) == minus)
        e1, e2 = (w.depth[q - i] if q >= i else 5 for i in (1, 2))
        en = w.depth[q - w.near[q]] if w.near[q] else e1
        c = w.column[q]
        deep = self.level.get(c, 0) >> 8 if self.finds.get(c, 0) else 0
        found.depth_contexts = [
            8 * (4 * sure + 2 * agrees + int(w.error > 435)) + g,
            g,
            8 * count(w.error, 310, 410, 560) + g,
            40 * e1 + e2,
            4 * (40 * agrees + en) + min(sure, 3),
            40 * (40 * agrees + e1) + en,
            40 * clamp(deep, 0, 39) + clamp(whole, 0, 39),
        ]
        inputs = []
        for i, (table, context) in enumerate(zip(self.depth_counts, found.depth_contexts, strict=True)):
            logs = table.logs(context)
            logs = [logs[clamp(d - whole + 12, 0, 31)] for d in range(40)] if i < 3 else logs
            inputs.append([-163840, *logs[1:]])
        found.depth_mixed = self.depth_mixer.ask(2 * min(sure, 3) + agrees, inputs)
        return [0] + [s + 2 for s in found.depth_mixed.shares[1:]]

    def learn(self, finds: Sequence[tuple[ValueWindow, int, int, bool]]) -> None:
        looks = [w.looks[q] for w, q, _, _ in finds]
        levels = [256 * (26 if d == 0 else min(d, 26)) for _, _, d, _ in finds]
        zeros = [int(d == 0) for _, _, d, _ in finds]
        for j, table in enumerate(self.zero_counts):
            table.learn([(f.zero_contexts[j], z) for f, z in zip(looks, zeros, strict=True)])
        self.zero_mixer.learn([(f.zero_mixed, z) for f, z in zip(looks, zeros, strict=True)])  # type: ignore[misc]
        columns = [w.column[q] for w, q, _, _ in finds]
        self.draw(self.level, list(zip(columns, levels, strict=True)), 40, True)
        for c in columns:
            self.finds[c] = self.finds.get(c, 0) + 1
        live = [i for i, z in enumerate(zeros) if not z]
        for j, table in enumerate(self.sign_counts):
            table.learn([(looks[i].sign_contexts[j], int(finds[i][3])) for i in live])
        self.sign_mixer.learn([(looks[i].sign_mixed, int(finds[i][3])) for i in live])  # type: ignore[misc]
        capped = [min(d, 39) for _, _, d, _ in finds]
        for j, table in enumerate(self.depth_counts):
            table.learn(
                [
                    (
                        looks[i].depth_contexts[j],
                        clamp(capped[i] - (looks[i].expected >> 8) + 12, 0, 31) if j < 3 else capped[i],
                    )
                    for i in live
                ]
            )
        self.depth_mixer.learn([(looks[i].depth_mixed, capped[i]) for i in live])  # type: ignore[misc]
        depth_steps, sign_steps, targets = [0] * 15, [0] * 14, []
        for i in live:
            w, _, _, minus = finds[i]
            f = looks[i]
            e = clamp(levels[i] - f.expected, -768, 1280)
            w.error += ((abs(e) - w.error) * 15) >> 8
            norm = sum(x * x for x in f.depth_features) + 131072
            depth_steps = [s + 3000 * e * x // norm for s, x in zip(depth_steps, f.depth_features, strict=True)]
            size = self.size(f.expected, levels[i])
            target = -size if minus else size
            targets.append((columns[i], clamp(target, -512, 512)))
            norm = sum(x * x for x in f.sign_features) + 65536
            missed = target - f.signed
            sign_steps = [s + 20000 * missed * x // norm for s, x in zip(sign_steps, f.sign_features, strict=True)]
        most = 1 << 24
        self.depth_weights = [clamp(a + b, -most, most) for a, b in zip(self.depth_weights, depth_steps, strict=True)]
        self.sign_weights = [clamp(a + b, -most, most) for a, b in zip(self.sign_weights, sign_steps, strict=True)]
        self.draw(self.sign, targets, 77, False)

    def draw(self, values: dict[int, int], found: Sequence[tuple[int, int]], speed: int, by_finds: bool) -> None:
        for c in {c for c, _ in found} - {0}:
            here = [x for d, x in found if d == c]
            k, v = len(here), values.get(c, 0)
            pull = min(speed * k, 224)
            if by_finds:
                pull = max(pull, 256 * k // (self.finds.get(c, 0) + k))
            values[c] = v + (((sum(here) // k - v) * pull) >> 8)


@dataclass
class Spelling:
    """How far the text of a window has come."""

    q: int = 0
    digits: str = ""
    sign: str = "open"
    pending: str = ""
    chances: list[int] | None = None
    lost: bool = False
    supposed: str = ""
    looked: int = -1
    zero: int = 0
    minus: int = 0


class ValueExpert:
    def __init__(
        self,
        windows: Sequence[Sequence[tuple[int, int, tuple[int, ...]]]],
        boundaries: Sequence[Sequence[str]],
        tokens: Sequence[bytes],
        exponent_bits: int,
        has_signs: bool,
    ) -> None:
        self.model = ValueModel()
        columns: dict[tuple[int, ...], int] = {(): 1}
        self.windows = [ValueWindow(pieces, columns) for pieces in windows]
        self.boundaries, self.has_signs, self.most = boundaries, has_signs, 1 << exponent_bits
        self.texts = [t.decode("utf-8", "replace") for t in tokens]
        self.rows = [Spelling() for _ in windows]
        self.kept: dict[str, list[list[int]]] = {}

    def token(self, text: str) -> int:
        return self.texts.index(text) if text in self.texts else -1

    def ways(self, digits: str) -> list[list[int]]:
        """W of the page."""
        if digits not in self.kept:
            shares = self.kept[digits] = [[0] * 11 for _ in range(40)]
            for v in range(1, self.most + 1):
                if str(v).startswith(digits):
                    rest = str(v)[len(digits) :]
                    shares[min(v, 39)][int(rest[0]) if rest else 10] += 256
            if self.most > 38:
                shares[39] = [x // (self.most - 38) for x in shares[39]]
        return self.kept[digits]

    def state(self, i: int) -> int:
        row = self.rows[i]
        return 0 if row.sign == "open" else min(1 + len(row.digits), 3)

    def look(self, i: int, q: int) -> None:
        row = self.rows[i]
        row.looked = q
        row.zero, row.minus = self.model.look(self.windows[i], q)
        row.minus = row.minus if self.has_signs else 0

    def logs(self, i: int) -> list[int]:
        row, w = self.rows[i], self.windows[i]
        logs = [FLOOR] * len(self.texts)
        if row.lost or row.q == w.n:
            return [0] * len(logs)
        if row.digits:
            self.model.suppose(w, row.q, int(row.digits), row.sign == "minus")
            row.supposed = row.digits
            if row.q + 1 < w.n:
                self.look(i, row.q + 1)
        if row.looked < row.q:
            self.look(i, row.q)
        if row.chances is None and not row.pending:
            row.chances = self.model.depth(w, row.q, row.sign == "minus")

        def put(text: str, log: int) -> None:
            at = self.token(text)
            if at >= 0:
                logs[at] = max(log, FLOOR)

        if row.pending:
            put(row.pending, 0)
            return logs
        ways = [0] * 11
        if row.digits == "0":
            ways[10] = 1
        else:
            for g, line in zip(row.chances, self.ways(row.digits), strict=True):  # type: ignore[arg-type]
                ways = [a + g * b for a, b in zip(ways, line, strict=True)]
        s = [65535 * x // max(sum(ways), 1) for x in ways]
        if not row.digits and row.sign != "minus":
            m = (65536 - row.zero) * row.minus >> 16
            p = 65536 - row.zero - m
            s = [row.zero] + [x * p >> 16 for x in s[1:]]
            whole = 65536 if row.sign == "open" else row.zero + p
            if row.sign == "open":
                put("-", share_log(m, whole))
            for k in range(10):
                put(str(k), share_log(s[k], whole))
            return logs

        def log(x: int) -> int:
            return log2(x) - log2(65535)

        for k in range(10):
            put(str(k), log(s[k]))
        boundary = self.boundaries[i][row.q]
        plain = boundary if self.token(boundary) >= 0 else boundary[0]
        if self.token(boundary + "-") >= 0 and self.has_signs and row.q + 1 < w.n:
            m = s[10] * ((65536 - row.zero) * row.minus >> 16) >> 16
            put(plain, log(s[10] - m))
            put(boundary + "-", log(m))
        else:
            put(plain, log(s[10]))
        return logs

    def learn(self, step: Sequence[tuple[int, int]]) -> None:
        finds = []
        for i, token in step:
            row, w = self.rows[i], self.windows[i]
            met = None
            for character in self.texts[token]:
                if row.lost or row.q == w.n:
                    row.lost = True
                    break
                if row.pending:
                    row.lost = character != row.pending[0]
                    row.pending = row.pending[1:]
                elif character == "-":
                    row.lost = row.sign != "open" or not self.has_signs
                    row.sign, row.chances = "minus", None
                elif character in "0123456789":
                    row.digits += character
                    row.sign = "plus" if row.sign == "open" else row.sign
                    row.lost = int(row.digits) > self.most
                else:
                    met = self.boundaries[i][row.q]
                    if character != met[0] or not row.digits or row.chances is None:
                        row.lost = True
                        continue
                    finds.append((w, row.q, int(row.digits), row.sign == "minus"))
                    if row.supposed != row.digits:
                        self.model.suppose(*finds[-1])
                        row.looked = row.q
                    row.supposed = ""
                    row.q, row.digits, row.sign, row.chances, row.pending = row.q + 1, "", "open", None, met[1:]
            if met is not None and self.texts[token] == met and self.token(met + "-") >= 0 and not row.lost:
                row.sign = "plus"
        if finds:
            self.model.learn(finds)


class Table:
    """Counts of tokens, with rows for contexts as they come."""

    def __init__(self, size: int) -> None:
        self.counts = Counts([1] * size, 64, 16000)
        self.rows: dict[int, int] = {}

    def row(self, context: int) -> int:
        if context not in self.rows:
            self.rows[context] = len(self.rows) if len(self.rows) < 4096 else context % 4096
        return self.rows[context]


class ReferencePrior:
    """A segment's prior.

    Args:
        mix: whether the model takes part.
        windows: (values, flat index of the first, shape) of each piece of each window.
        tokens: the support's bytes.
        end_bytes: as on the page.
        characters_a_value: Q, for hex and iso, else 0.
        numbers: for number segments (the boundary behind each value of each window, exponent bits, whether signs).
    """

    def __init__(
        self,
        mix: bool,
        windows: Sequence[Sequence[tuple[int, int, tuple[int, ...]]]],
        tokens: Sequence[bytes],
        end_bytes: set[int],
        characters_a_value: int,
        numbers: tuple[Sequence[Sequence[str]], int, bool] | None,
    ) -> None:
        self.mix, self.tokens, self.ends, self.period = mix, tokens, end_bytes, characters_a_value
        self.n = len(tokens)
        self.small = self.n <= 256
        self.values = ValueExpert(windows, numbers[0], tokens, *numbers[1:]) if numbers and self.small else None
        self.places = {t: t for t in range(self.n)} if self.small else {}
        self.taken = self.n if self.small else 1
        self.tables = [Table(self.n if self.small else 256) for _ in range(2 if self.values else 4)]
        if self.values:
            start = [720896, 327680] if mix else [1048576]
            start += [43690] * 2
        else:
            start = [524288, *[174762] * 4] if mix else [262144] * 4
        self.mixer = Mixer(start, 2000)
        self.past = [[-1, -1, -1] for _ in windows]
        self.p = [0] * len(windows)
        self.group: list[list[int]] = [[] for _ in windows]
        self.last: list[list[int]] = [[] for _ in windows]

    def contexts(self, i: int) -> list[int]:
        (a, b, c), size, p = self.past[i], self.n + 1, self.p[i]
        if self.values:
            return [(a + 1) * size + b + 1, ((a + 1) * size + b + 1) * size + c + 1]
        group, last = self.group[i], self.last[i]
        v = last[len(group)] if len(group) < len(last) else -1
        f = last[0] if last else -1
        return [
            p,
            16 * (a + 1) + p,
            16 * ((a + 1) * size + b + 1) + p,
            16 * (((v + 1) * size + a + 1) * size + f + 1) + p,
        ]

    def frequencies(self, active: Sequence[int], model_logs: Sequence[Sequence[int]] | None) -> list[list[int]]:
        self.asked: dict[int, tuple[Mixed, list[int]]] = {}
        rows = {i: [t.row(c) for t, c in zip(self.tables, self.contexts(i), strict=True)] for i in active}
        return [
            self._one(
                i, rows[i], None if model_logs is None else model_logs[j], self.values.logs(i) if self.values else None
            )
            for j, i in enumerate(active)
        ]

    def _one(self, i: int, rows: list[int], model: Sequence[int] | None, values: list[int] | None) -> list[int]:
        inputs = [values] if values is not None else []
        u = [1] * self.n
        if model is not None:
            logs = [max(x, -98304) for x in model]
            if self.small:
                inputs.append(logs)
            else:
                u = [power(x) >> 14 for x in logs]
                hidden = max(sum(x for t, x in enumerate(u) if t not in self.places), 1)
                k = max(hidden.bit_length() - 16, 0)
                first = min(0, log2(hidden >> k) + 4096 * (k - 16))
                inputs.append([first, *(logs[t] for t in self.places)])
        inputs += [t.counts.logs(r)[: self.taken] for t, r in zip(self.tables, rows, strict=True)]
        mixed = self.mixer.ask(self.values.state(i) if self.values else self.p[i], inputs)
        self.asked[i] = mixed, rows
        spread, total = (1 << 24) - self.n, sum(mixed.masses)
        h = [m * spread // total for m in mixed.masses]
        if self.small:
            f = [1 + x for x in h]
        else:
            u = [0 if t in self.places else x for t, x in enumerate(u)]
            u = u if sum(u) else [1] * self.n
            whole = sum(u)
            f = [1 + x * h[0] // whole + (h[self.places[t]] if t in self.places else 0) for t, x in enumerate(u)]
        f[f.index(max(f))] += (1 << 24) - sum(f)
        return f

    def update(self, step: Sequence[tuple[int, int]]) -> None:
        self.mixer.learn([(self.asked[i][0], self.places.get(t, 0)) for i, t in step])
        for _, t in step:
            if t not in self.places and self.taken < 256:
                self.places[t] = self.taken
                self.taken += 1
        for j, table in enumerate(self.tables):
            table.counts.learn([(self.asked[i][1][j], self.places.get(t, 0)) for i, t in step])
        for i, t in step:
            self.past[i] = [t, *self.past[i][:2]]
            spelled = self.tokens[t]
            behind = next((k for k, byte in enumerate(reversed(spelled)) if byte in self.ends), None)
            if behind is not None:
                self.last[i], self.group[i], self.p[i] = self.group[i], [], min(15, behind)
                continue
            self.group[i].append(t)
            self.p[i] += sum(byte >> 6 != 2 for byte in spelled)
            if self.period and not self.ends:
                if self.p[i] >= self.period:
                    self.last[i], self.group[i] = self.group[i], []
                self.p[i] %= self.period
            self.p[i] = min(self.p[i], 15)
        if self.values:
            self.values.learn(step)

"""A reader of remainders written from docs/format.md alone, value by value, asks the library's questions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lmgc_core.remainder import RemainderPlan, code_remainders, remainder_model, write_plan
from lmgc_core.remainder.adaptive import Integers, Values
from lmgc_core.remainder.bits import TAILS, BitPlan
from tests.test_remainder import BF16, LEVELS, NORMAL, STEP, WEIGHTS, Replay, Tape, remainders


class Page:
    """The section "Remainders", sentence by sentence, in plain whole numbers."""

    def __init__(self, choices: Any, contexts: list[int], b: int) -> None:
        self.choices, self.contexts, self.b = choices, contexts, b
        self.counts: dict[Any, list[int]] = defaultdict(lambda: [0, 0])

    def number(self, bits: int) -> int:
        return int(self.choices.raw(np.zeros(1, np.uint64), bits)[0])

    def decide(self, key: Any, r: int = 1, s: int = 2, counted: bool = True) -> int:
        n1, n0 = self.counts[key] if counted else (0, 0)
        bit = int(self.choices.decision(-1, min(max((n1 * s + r) * 2**16 // ((n0 + 1) * s), 1), 2**16 - 1)))
        self.counts[key][0] += bit
        self.counts[key][1] += 1
        return bit

    def read(self) -> list[int]:
        low, top, tail, repeats, n_grids = (self.number(bits) for bits in (6, 3, 2, 2, 2))
        depth = self.number(3) if n_grids else 0
        grids = []
        for _ in range(n_grids):
            origin = self.number(10) - 256
            grids.append((origin, self.number(37) + 2**37))
        left = list(range(len(self.contexts)))
        source: dict[int, int] = {}
        if repeats & 2:
            left = self.repeats("context", left, [self.contexts[i] for i in left], source)
        if repeats & 1:
            left = self.repeats("segment", left, [1] * len(left), source)
        values = self.grids(left, grids, depth) if grids else {}
        left = [i for i in left if i not in values]
        values |= self.bits(left, low, top, tail)
        return [values[source.get(source.get(i, i), source.get(i, i))] for i in range(len(self.contexts))]

    def repeats(self, name: str, left: list[int], groups: list[int], source: dict[int, int]) -> list[int]:
        met: dict[int, list[int]] = defaultdict(list)  # first places of the different values
        counts: dict[int, list[int]] = defaultdict(list)
        history: dict[int, list[tuple[int, int, int]]] = defaultdict(lambda: [(1, 0, -1), (1, 0, -1)])
        new = []
        for i, group in zip(left, groups, strict=True):
            before, last = history[group][-2:]
            which, again = -1, 0
            if met[group] and not self.decide((name, "new", group, last[0], before[0])):
                again = 1 if len(met[group]) == 1 else self.decide((name, "again", group, last[1], before[1]))
                which = last[2]
                others = [j for j in range(len(met[group])) if j != last[2]]
                if not again and len(others) == 1:
                    which = others[0]
                elif not again:
                    c = [counts[group][j] for j in others]
                    f = [x * (2**24 // sum(c)) for x in c]
                    f[0] += 2**24 - sum(f)
                    which = others[self.choices.symbol(-1, np.array(f))]
            if which < 0:
                which = len(met[group])
                met[group].append(i)
                counts[group].append(0)
                new.append(i)
                history[group].append((1, 0, which))
            else:
                source[i] = met[group][which]
                history[group].append((0, again, which))
            counts[group][which] += 1
        return new

    def multiple(self, k: int, origin: int, step: int) -> tuple[int, int]:
        p = k * step
        length = p.bit_length()
        divisor = 2 ** (length - self.b - 1)
        m, rest = divmod(p, divisor)
        m += 2 * rest > divisor or (2 * rest == divisor and m % 2)
        return (origin + length + 1, 0) if m == 2 ** (self.b + 1) else (origin + length, m - 2**self.b)

    def first(self, context: int, grid: tuple[int, int]) -> int:
        low, high = 1, 2**24
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.multiple(middle, *grid)[0] >= context else (middle + 1, high)
        return low

    def grids(self, left: list[int], grids: list[tuple[int, int]], depth: int) -> dict[int, int]:
        values: dict[int, int] = {}
        before = len(grids)
        for i in left:
            context, on = self.contexts[i], len(grids)
            for g, grid in enumerate(grids):
                f = self.first(context, grid)
                n = self.first(context + 1, grid) - f if context else 0
                if n and self.decide(("on", g, before)):
                    on, z, so_far = g, 0, ""
                    for place in range((n - 1).bit_length() - 1, -1, -1):
                        h, bit = 2**place, 0
                        s = min(n - z, 2 * h)
                        if s - h > 0:
                            key = ("index", g, context, so_far) if len(so_far) < depth else "free"
                            bit = self.decide(key, s - h, s, counted=len(so_far) < depth)
                        z, so_far = z + bit * h, so_far + str(bit)
                    values[i] = self.multiple(f + z, *grid)[1]
                    break
            before = on
        return values

    def bits(self, left: list[int], low: int, top: int, tail: int) -> dict[int, int]:
        k = self.b - low
        w = k - top
        values, between, zeros = dict.fromkeys(left, 0), {}, 0
        for i in left if k else []:
            context = self.contexts[i]
            if context == 0 and self.decide("zero"):
                continue
            begin = ""
            for _ in range(top):
                begin += str(self.decide(("top", context, begin)))
            values[i] = int("0" + begin, 2) << w
            h, found = 0, 0
            if tail:
                while not found and h < w:
                    key = {1: h, 2: context + h, 3: (h, zeros > h)}[tail]
                    found = self.decide(("tail", key))
                    values[i] |= found << h
                    h += 1
                zeros = h - found
            between[i] = (w - h, h)
        for size in range(1, w + 1):
            those = [i for i in left if between.get(i, (0, 0))[0] == size]
            if those:
                for i, raw in zip(those, self.choices.raw(np.zeros(len(those), np.uint64), size), strict=True):
                    values[i] |= int(raw) << between[i][1]
        return {i: v << low for i, v in values.items()}


KINDS = {
    "noise": NORMAL,
    "bf16": BF16,
    "scaled bf16": BF16 * STEP,
    "two signs": np.sign(NORMAL) * STEP,
    "int8": np.round(NORMAL * 30) * STEP,
    "levels": LEVELS[np.clip(NORMAL * 32 + 128, 0, 255).astype(int)],
    "clipped": np.clip(NORMAL, -1, 1) * np.float32(0.3),
    "small halves": (NORMAL * 1e-5).astype("f2").astype("f4"),
    "difference": (WEIGHTS + NORMAL * np.float32(1e-3)) - WEIGHTS,
    "sparse": np.where(np.abs(NORMAL) > 1, NORMAL, 0),
    "double": NORMAL.astype("f8") * 1.3,
    "two quantisers": np.concatenate([np.round(NORMAL[:500] * 30) * STEP, np.round(NORMAL[500:900] * 9) / 7]),
}


def check(remainder: Values, context: Integers, n_bits: int, plan: RemainderPlan) -> None:
    tape = Tape()
    write_plan(tape, plan)
    code_remainders(tape, remainder, context, n_bits, plan)
    replay = Replay(tape)
    assert Page(replay, context.tolist(), n_bits).read() == remainder.tolist()
    assert next(replay.choices, None) is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_says_what_the_code_does(kind: str) -> None:
    values = KINDS[kind][:900]
    found = remainders(values.astype("f4") if values.dtype != "f8" else values)
    check(*found, remainder_model(*found))


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("repeats", range(4))
def test_and_so_it_does_for_plans_that_do_not_pay(tail: int, repeats: int) -> None:
    remainder, context, n_bits = remainders(KINDS["two quantisers"][300:700].astype("f4"))
    best = remainder_model(remainder, context, n_bits)
    assert best.grids
    bits = BitPlan(best.bit_plan.low if repeats == 0 else 0, 0 if repeats == 0 else 3, tail)
    for grids in (best.grids, best.grids[:1], ()):
        low = bits if grids == best.grids else replace(bits, low=0)
        check(
            remainder,
            context,
            n_bits,
            replace(best, in_context=repeats > 1, anywhere=repeats % 2 > 0, grids=grids, bit_plan=low),
        )


def test_the_kinds_use_every_part() -> None:
    plans = [remainder_model(*remainders(v[:900].astype("f4"))) for v in KINDS.values()]
    assert any(plan.in_context for plan in plans)
    assert any(plan.anywhere for plan in plans)
    assert any(len(plan.grids) > 1 for plan in plans)
    assert any(plan.depth for plan in plans)
    assert {plan.bit_plan.tail for plan in plans} >= {0, 2}
    assert any(plan.bit_plan.top for plan in plans)

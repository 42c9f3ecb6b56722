"""The remainder's model: what the bits outside the text cost, and how they are coded.

A segment's remainders are coded in three steps, all by choices whose chances are whole numbers. First `repeats`: which
values were there before, in their context or anywhere in the segment. Then `grids`: which of the new ones are whole
multiples of a step. Then `bits`: what the others are. A plan of a few bits in front says what is used; the encoder
takes what costs least, and leaves out what does not pay. Everything is fresh in each segment.

Inverse pair: `code_remainders` with a writer / with a reader: one function, which asks for the same choices in both
directions. Law: `remainder_model` says exactly what a writer is asked to spend.
"""

from lmgc_core.remainder.adaptive import Choices
from lmgc_core.remainder.model import (
    HEADER_BITS,
    RemainderPlan,
    code_remainders,
    read_plan,
    remainder_model,
    write_plan,
)

__all__ = [
    "HEADER_BITS", "Choices", "RemainderPlan", "code_remainders", "read_plan", "remainder_model", "write_plan",
]  # fmt: skip

"""Why tokens matter: the same values written in several ways, with their tokens and the model's bits for each.

What the text leaves out (the remainder) is coded beside it and counted, so that all ways hold the same values and
their totals can be compared. Source: LM-GC section 3.2 (NeurIPS 2024) for hexadecimal and ISO text and separators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lmgc_core.codec import measure
from lmgc_core.errors import Cancelled, LmgcError
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import LanguageModel
from lmgc_core.report import Report
from lmgc_core.settings import CodecConfig, Serialization

N_VALUES = 48

WAYS: dict[str, Serialization] = {
    "decimal text": Serialization("all", "big", "float", "space"),
    "hex, bytes apart": Serialization("all", "big", "hex", "space", 1),
    "hex, values apart": Serialization("all", "big", "hex", "space", "auto"),
    "hex, nothing apart": Serialization("all", "big", "hex", "none", 0),
    "ISO characters": Serialization("all", "big", "iso", "none", 0),
    "bytes as decimals": Serialization("all", "big", "decimal", "space", 1),
    "sign and exponent as numbers": Serialization("head", "big", "numbers", "space", "auto"),
    "sign and exponent as letters": Serialization("head", "big", "letters", "none", 0),
}


@dataclass(frozen=True, slots=True)
class Writing:
    """One way of writing the values.

    Attributes:
        name: of the way, a key of `WAYS`.
        report: what the model made of it, all values; None where the way does not fit.
        refused: why it does not.
    """

    name: str
    report: Report | None
    refused: str = ""

    @property
    def tokens_per_parameter(self) -> float | None:
        """How much the model has to read."""
        return None if self.report is None else self.report.totals.tokens_per_parameter

    @property
    def text_bits(self) -> float | None:
        """Bits per parameter that the model spends on the text."""
        if self.report is None or not self.report.coding.coded.n_parameters:
            return None
        return self.report.totals.surprisal_bits / self.report.coding.coded.n_parameters

    @property
    def stored_bits(self) -> float | None:
        """Bits of each value that the text leaves out, taken as they are: a mantissa is nearly noise."""
        if self.report is None:
            return None
        (serializer,) = self.report.coding.serializers.values()
        return float(serializer.remainder_bits)

    @property
    def bits(self) -> float | None:
        """Both together; comparable between all ways."""
        if self.text_bits is None or self.stored_bits is None:
            return None
        return self.text_bits + self.stored_bits


def config_of(name: str, model: str) -> CodecConfig:
    """The settings of one way; the model alone predicts."""
    way = WAYS[name]
    return CodecConfig(
        model=model,
        planes=way.planes,
        byte_order=way.byte_order,
        alphabet=way.alphabet,
        separator=way.separator,
        group_size=way.group_size,
        line=way.line,
    )


def written_in_every_way(
    values: Gradient,
    model: LanguageModel,
    on_writing: Callable[[tuple[Writing, ...]], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[Writing, ...]:
    """Every way of `WAYS` on the same values.

    Args:
        values: a passage.
        model: reads each way once.
        on_writing: told of those done so far.
        should_stop: asked before each pass.

    Raises:
        Cancelled: when asked to stop.
    """
    found: tuple[Writing, ...] = ()
    for name in WAYS:
        try:
            report = measure(values, model, config_of(name, model.id), limit=0, should_stop=should_stop)
            found = (*found, Writing(name, report))
        except Cancelled:
            raise
        except LmgcError as error:
            found = (*found, Writing(name, None, str(error)))
        if on_writing is not None:
            on_writing(found)
    return found

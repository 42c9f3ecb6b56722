"""What a decoder must know (`CodecConfig`) and what never changes a byte (`RunOptions`).

A preset chooses the serialization per tensor by its dtype; explicit options override it wherever
they stand. `CodecConfig.serialization(dtype)` is the only place where the two meet.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from lmgc_core.errors import InvalidSetting

if TYPE_CHECKING:
    from lmgc_core.gradient import DType

Planes = Literal["all", "high", "exponent", "head"]
ByteOrder = Literal["big", "little"]
Alphabet = Literal["hex", "iso", "decimal", "letters", "numbers", "float"]
Separator = Literal["none", "space", "comma", "comma+space", "semicolon", "newline", "0x"]
SupportKind = Literal["alphabet", "full"]
PriorKind = Literal["llm", "counts", "mix"]
Precision = Literal["fp32", "int8", "bf16", "fp64"]
Preset = Literal["none", "paper", "lean", "best"]
Backend = Literal["local", "ray"]

CHOICES: dict[str, tuple[str, ...]] = {
    "planes": get_args(Planes),
    "byte_order": get_args(ByteOrder),
    "alphabet": get_args(Alphabet),
    "separator": get_args(Separator),
    "support": get_args(SupportKind),
    "prior": get_args(PriorKind),
    "preset": get_args(Preset),
    "dtype": get_args(Precision),
    "backend": get_args(Backend),
}

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_LIMIT = 8


@dataclass(frozen=True, slots=True)
class Serialization:
    """How one tensor's values become text; all that `serialization.Serializer` needs besides the dtype.

    Attributes:
        planes: which bits of a value are symbols: all bytes, the top two, the exponent, the head (sign, exponent).
        byte_order: order of a value's bytes where the symbols are bytes.
        alphabet: how one symbol is spelled.
        separator: what stands between groups.
        group_size: symbols between separators; "auto" is one parameter's, 0 none.
        line: parameters a line; 0 none, "auto" the tensor's innermost row or kernel.
    """

    planes: Planes = "all"
    byte_order: ByteOrder = "big"
    alphabet: Alphabet = "hex"
    separator: Separator = "space"
    group_size: int | Literal["auto"] = "auto"
    line: int | Literal["auto"] = 0

    def __post_init__(self) -> None:
        for name in ("planes", "byte_order", "alphabet", "separator"):
            check_choice(name, getattr(self, name))
        check_count("group_size", self.group_size, auto=True)
        check_count("line", self.line, auto=True)


SERIALIZATION_FIELDS = tuple(f.name for f in fields(Serialization))


@dataclass(frozen=True, slots=True)
class CodecConfig:
    """All that a decoder must know beside the data. See interface: command line, CODEC.

    With `preset` other than "none" the serialization fields named in `explicit` hold for every
    tensor and the others are the preset's choice for the tensor's dtype; use `preset(...)`.
    """

    model: str = DEFAULT_MODEL
    planes: Planes = "all"
    byte_order: ByteOrder = "big"
    alphabet: Alphabet = "hex"
    separator: Separator = "space"
    group_size: int | Literal["auto"] = "auto"
    line: int | Literal["auto"] = 0
    context_window: int = 1024
    support: SupportKind = "alphabet"
    prior: PriorKind = "llm"
    segment: int = 16
    transform: str = "none"
    seed: int = 0
    preset: Preset = "none"
    explicit: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Serialization(self.planes, self.byte_order, self.alphabet, self.separator, self.group_size, self.line)
        for name in ("support", "prior", "preset"):
            check_choice(name, getattr(self, name))
        if not isinstance(self.model, str) or not self.model.strip():
            raise InvalidSetting(
                f"model {self.model!r}: a catalogue id, a folder, a Hub id or a .gguf file is needed; "
                "see python -m lmgc_core models"
            )
        for name, low in (("context_window", 2), ("segment", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise InvalidSetting(f"{name.replace('_', ' ')} {value!r}: a whole number of {low} or more is needed")

    def serialization(self, dtype: DType) -> Serialization:
        """The serialization of tensors of that dtype (after the transform)."""
        own = Serialization(self.planes, self.byte_order, self.alphabet, self.separator, self.group_size, self.line)
        if self.preset == "none":
            return own
        chosen = preset_serialization(self.preset, dtype)
        return replace(chosen, **{n: getattr(self, n) for n in self.explicit if n in SERIALIZATION_FIELDS})

    def to_dict(self) -> dict[str, Any]:
        """Every option by its name with underscores."""
        return {**asdict(self), "explicit": list(self.explicit)}


def preset_serialization(preset: Preset, dtype: DType) -> Serialization:
    """What a preset writes for tensors of that dtype.

    `paper` is the authors' format for every dtype; `lean` spends few tokens; `best` few bits.
    """
    whole = 4 if dtype.item_bytes >= 4 else dtype.item_bytes
    if preset == "paper":
        return Serialization("all", "little", "hex", "space", whole, 0)
    head = dtype.kind == "float" or dtype.item_bytes == 1
    if not head:
        return Serialization("all", "big", "hex", "space", "auto", 0)
    if preset == "lean" and dtype.kind == "float":
        return Serialization("head", "big", "letters", "none", 0, 0)
    return Serialization("head", "big", "numbers", "space", "auto", 0)


def preset(name: Preset, **explicit: Any) -> CodecConfig:
    """The configuration of a preset, with explicit options on top.

    >>> preset("paper").byte_order, preset("paper", byte_order="big").byte_order
    ('little', 'big')
    >>> preset("best").prior, preset("best", prior="llm").prior
    ('mix', 'llm')
    """
    check_choice("preset", name)
    known = {f.name for f in fields(CodecConfig)} - {"preset", "explicit"}
    unknown = sorted(set(explicit) - known)
    if unknown:
        raise InvalidSetting(f"no setting is called {unknown[0]!r}; there are {', '.join(sorted(known))}")
    if name == "none":
        return CodecConfig(**explicit)
    from lmgc_core.gradient import DTYPES

    base: dict[str, Any] = asdict(preset_serialization(name, DTYPES["float32"]))
    if name == "paper":
        base |= {"support": "full", "context_window": 2048}
    if name in ("lean", "best"):
        base |= {"prior": "mix"}
    return CodecConfig(**{**base, **explicit}, preset=name, explicit=tuple(sorted(explicit)))


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How the work is done; never changes a byte that decodes.

    Attributes:
        batch_size: windows in one forward pass, or "auto".
        threads: 0 leaves the library's own choice.
        device: "auto", "cpu", "cuda" ...
        dtype: the model's precision while measuring (archives always use fp64).
        backend: "local" is this process; "ray" spreads segments over actors of a Ray cluster.
        address: of a running cluster, "auto" for the one found; "" starts one on this machine for the run's time.
        actors: most actors, each with a model of its own; "auto" is as many as the cluster has room for.
    """

    batch_size: int | Literal["auto"] = "auto"
    threads: int = 0
    device: str = "auto"
    dtype: Precision = "fp32"
    backend: Backend = "local"
    address: str = ""
    actors: int | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype)
        check_choice("backend", self.backend)
        check_count("batch_size", self.batch_size, auto=True, low=1)
        check_count("threads", self.threads, auto=False)
        check_count("actors", self.actors, auto=True, low=1)
        if self.address and self.backend != "ray":
            raise InvalidSetting(f"address {self.address!r} is a Ray cluster's; choose backend ray with it")


def check_context_window(context_window: int, most: int, model: str) -> None:
    """Raises InvalidSetting for a context window of more tokens than the model sees at once."""
    if context_window > most:
        raise InvalidSetting(
            f"context window {context_window} is more than {model} sees at once ({most}); choose {most} or less"
        )


def asks_model(prior: str) -> bool:
    """Whether a prior needs the language model, not its tokenizer alone.

    >>> [asks_model(prior) for prior in ("llm", "counts", "mix")]
    [True, False, True]
    """
    return prior != "counts"


def check_choice(name: str, value: object) -> None:
    """Raises InvalidSetting unless `value` is one of the choices of setting `name`."""
    if value not in CHOICES[name]:
        raise InvalidSetting(
            f"{name.replace('_', ' ')} {value!r} is not known; choose one of {', '.join(CHOICES[name])}"
        )


def check_count(name: str, value: object, auto: bool, low: int = 0) -> None:
    """Raises InvalidSetting unless `value` is a whole number of `low` or more (or "auto" where allowed)."""
    if auto and value == "auto":
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        also = ' or "auto"' if auto else ""
        raise InvalidSetting(f"{name.replace('_', ' ')} {value!r}: a whole number of {low} or more{also} is needed")

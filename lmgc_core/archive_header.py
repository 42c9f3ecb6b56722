"""An archive's header: settings, tensors, fingerprints and how blocks were cut ↔ bytes, before they are deflated.

Inverse pair: `write_header` / `read_header`. Law: only what the writer makes is read; docs/format.md names every field.
Codes are places in the tuples below, which are only ever appended to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmgc_core.byte_fields import FieldReader, FieldWriter
from lmgc_core.errors import IncompatibleContainer
from lmgc_core.gradient import DTYPES, DType, TensorSpec
from lmgc_core.guarded_rounding import GRID_VERSION
from lmgc_core.settings import PriorKind, Serialization, asks_model

MODEL_FINGERPRINT_BYTES, TOKENIZER_FINGERPRINT_BYTES = 8, 4
MAX_DIMENSIONS, MAX_SIZE = 32, 1 << 48
MAX_SEGMENT = 1 << 12
MAX_CONTEXT = 1 << 24
MAX_TREE_BITS = 1 << 11
LONGEST_UNIT = 16
"""The longest window is stated in these units of tokens, rounded up."""

MODEL_CODES = ("", "smollm2-135m")
"""Models that one byte names; 0 is followed by the name. Only ever appended to."""

DTYPE_CODES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
)  # fmt: skip
PLANES = ("all", "high", "exponent", "head")
BYTE_ORDERS = ("big", "little")
ALPHABETS = ("hex", "iso", "decimal", "letters", "numbers", "float")
SEPARATORS = ("none", "space", "comma", "comma+space", "semicolon", "newline", "0x")
SUPPORTS = ("alphabet", "full")
PRIORS: tuple[PriorKind, ...] = ("llm", "counts", "mix")
PRESETS = ("none", "paper", "lean", "best")


@dataclass(frozen=True, slots=True)
class Header:
    """What an archive says about itself.

    Attributes:
        model: id, as the encoder was given it; the model whose tokenizer it is.
        source: where to get the model, for people; "" where the id says it.
        model_fingerprint, tokenizer_fingerprint: the first 8 and 4 bytes of the SHA-256; the model's is b"" where the
            prior does not ask it: then the tokenizer alone is needed.
        context_window: tokens, BOS included.
        longest_window: a bound on the tokens of any window, a multiple of 16: what decoding has to make room for.
        memory_megabytes: what the model takes to decode one segment: fp64 weights, keys and values; 0 without it.
        segment: windows in step.
        support, prior, preset: as in the settings.
        guard_exponent: the guard is 2^-guard_exponent bits.
        transform: spelling of the lossy step.
        seed: the configuration's.
        serializations: by the name of each coded dtype, in the order of first appearance among the tensors.
        specs: the tensors that come back.
        coded_specs: what is coded; equal to `specs` without a lossy step.
        references: of the coded tensors; empty where no serialization needs them.
        cuts: runs (number of blocks, tree) of blocks halved alike; a tree is its questions "halve?" in preorder as
            bits behind a leading 1.
        side: the lossy step's side information.
    """

    model: str
    source: str
    model_fingerprint: bytes
    tokenizer_fingerprint: bytes
    context_window: int
    longest_window: int
    memory_megabytes: int
    segment: int
    support: str
    prior: PriorKind
    preset: str
    guard_exponent: int
    transform: str
    seed: int
    serializations: dict[str, Serialization]
    specs: tuple[TensorSpec, ...]
    coded_specs: tuple[TensorSpec, ...]
    references: tuple[int, ...]
    cuts: tuple[tuple[int, int], ...]
    side: bytes


def tensor_fields(specs: Sequence[TensorSpec]) -> bytes:
    """Names, dtypes and shapes as they stand in the header."""
    out = FieldWriter()
    _write_specs(out, specs)
    return bytes(out.data)


def longest_stated(n_tokens: int) -> int:
    """The bound on a window's tokens that a header states.

    >>> longest_stated(890)
    896
    """
    return -(-n_tokens // LONGEST_UNIT) * LONGEST_UNIT


def write_header(header: Header) -> bytes:
    """The header's fields, not yet deflated."""
    out = FieldWriter()
    code = MODEL_CODES.index(header.model) if header.model in MODEL_CODES[1:] and not header.source else 0
    flags = SUPPORTS.index(header.support) | PRIORS.index(header.prior) << 1 | PRESETS.index(header.preset) << 3
    lossy = header.transform != "none"
    out.number(flags | lossy << 6)
    out.number(code)
    if not code:
        out.text(header.model)
        out.text(header.source)
    out.fixed(header.model_fingerprint)
    out.fixed(header.tokenizer_fingerprint)
    out.number(header.context_window)
    out.number(header.longest_window // LONGEST_UNIT)
    out.number(header.memory_megabytes)
    out.number(header.segment)
    out.number(header.guard_exponent << 1 | GRID_VERSION - 1)
    if lossy:
        out.text(header.transform)
    out.number(header.seed)
    _write_specs(out, header.specs)
    if lossy:
        for spec in header.coded_specs:
            out.number(DTYPE_CODES.index(spec.dtype.name))
            _write_shape(out, spec.shape)
        out.block(header.side)
    for serialization in header.serializations.values():
        _write_serialization(out, serialization)
    for reference in header.references:
        out.number(reference)
    out.number(len(header.cuts))
    for n_blocks, tree in header.cuts:
        out.number(n_blocks)
        out.number(tree)
    return bytes(out.data)


def _write_specs(out: FieldWriter, specs: Sequence[TensorSpec]) -> None:
    out.number(len(specs))
    for spec in specs:
        out.text(spec.name)
        out.number(DTYPE_CODES.index(spec.dtype.name))
        _write_shape(out, spec.shape)


def _write_shape(out: FieldWriter, shape: Sequence[int]) -> None:
    out.number(len(shape))
    for size in shape:
        out.number(size)


def _write_serialization(out: FieldWriter, chosen: Serialization) -> None:
    packed = ALPHABETS.index(chosen.alphabet) | PLANES.index(chosen.planes) << 3
    out.number(packed | BYTE_ORDERS.index(chosen.byte_order) << 5 | (chosen.group_size != "auto") << 6)
    out.number(SEPARATORS.index(chosen.separator) | (chosen.line != 0) << 3)
    if chosen.group_size != "auto":
        out.number(chosen.group_size)
    if chosen.line != 0:
        out.number(0 if chosen.line == "auto" else chosen.line)


def read_header(data: bytes) -> Header:
    """The inverse of `write_header`.

    Raises:
        IncompatibleContainer: for a grid that this version does not know.
        CorruptContainer, TruncatedContainer: for fields that contradict themselves.
    """
    fields = FieldReader(data, what="header")
    flags = fields.number()
    if flags >> 7 or flags >> 5 & 1 or flags >> 1 & 3 == 3:
        raise IncompatibleContainer("the archive uses a prior or an option that this version does not know; update")
    prior = PRIORS[flags >> 1 & 3]
    code = fields.number(len(MODEL_CODES))
    model, source = (MODEL_CODES[code], "") if code else (fields.text(), fields.text())
    prints = fields.fixed(MODEL_FINGERPRINT_BYTES * asks_model(prior)), fields.fixed(TOKENIZER_FINGERPRINT_BYTES)
    context = fields.number(MAX_CONTEXT)
    longest, memory, segment = (
        fields.number(MAX_CONTEXT) * LONGEST_UNIT,
        fields.number(),
        fields.number(MAX_SEGMENT + 1),
    )
    grid = fields.number()
    if grid & 1 != GRID_VERSION - 1:
        raise IncompatibleContainer("the archive uses a rounding grid that this version does not know; update")
    if context < 2 or segment < 1 or longest >= context + LONGEST_UNIT or not 10 <= grid >> 1 <= 48:
        raise fields.damaged(f"a context of {context}, windows of {longest}, segments of {segment}, guard {grid >> 1}")
    lossy = bool(flags >> 6)
    transform, seed = fields.text() if lossy else "none", fields.number()
    specs = _read_specs(fields)
    coded, side = specs, b""
    if lossy:
        coded = tuple(TensorSpec(s.name, _read_dtype(fields), _read_shape(fields)) for s in specs)
        side = fields.block()
    dtypes = dict.fromkeys(s.dtype.name for s in coded)
    serializations = {name: _read_serialization(fields) for name in dtypes}
    referenced = [s for s in coded if needs_reference(s, serializations[s.dtype.name])]
    references = tuple(fields.number(1 << max(1, s.dtype.exponent_bits)) for s in referenced)
    cuts = tuple((fields.number(), fields.number(bits=MAX_TREE_BITS)) for _ in range(fields.number(fields.left + 1)))
    fields.finish()
    found = Header(
        model, source, *prints, context, longest, memory, segment, SUPPORTS[flags & 1], prior,
        PRESETS[flags >> 3 & 3], grid >> 1, transform, seed, serializations,
        specs, coded, references, cuts, side,
    )  # fmt: skip
    if write_header(found) != data:
        raise fields.damaged("its fields are not spelled as they should be")
    return found


def needs_reference(spec: TensorSpec, serialization: Serialization) -> bool:
    """Whether the header holds a reference for this coded tensor: letters and numbers of floats that have values."""
    return spec.dtype.kind == "float" and serialization.alphabet in ("letters", "numbers") and spec.n_parameters > 0


def _read_dtype(fields: FieldReader) -> DType:
    return DTYPES[DTYPE_CODES[fields.number(len(DTYPE_CODES))]]


def _read_shape(fields: FieldReader) -> tuple[int, ...]:
    shape = tuple(fields.number(MAX_SIZE) for _ in range(fields.number(MAX_DIMENSIONS + 1)))
    whole = 1
    for size in shape:
        whole *= max(size, 1)
    if whole >= MAX_SIZE:
        raise fields.damaged(f"a tensor of shape {shape}")
    return shape


def _read_specs(fields: FieldReader) -> tuple[TensorSpec, ...]:
    n = fields.number(fields.left + 1)
    specs = tuple(TensorSpec(fields.text(), _read_dtype(fields), _read_shape(fields)) for _ in range(n))
    if len({spec.name for spec in specs}) != len(specs):
        raise fields.damaged("two tensors have one name")
    return specs


def _read_serialization(fields: FieldReader) -> Serialization:
    first, second = fields.number(128), fields.number(16)
    if first & 7 >= len(ALPHABETS) or second & 7 >= len(SEPARATORS):
        raise fields.damaged("an alphabet or separator that there is not")
    group = fields.number(1 << 32) if first >> 6 else "auto"
    line = fields.number(MAX_SIZE) if second >> 3 else 0
    return Serialization(
        planes=PLANES[first >> 3 & 3],  # type: ignore[arg-type]
        byte_order=BYTE_ORDERS[first >> 5 & 1],  # type: ignore[arg-type]
        alphabet=ALPHABETS[first & 7],  # type: ignore[arg-type]
        separator=SEPARATORS[second & 7],  # type: ignore[arg-type]
        group_size=group,  # type: ignore[arg-type]
        line="auto" if second >> 3 and line == 0 else line,
    )

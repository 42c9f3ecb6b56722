"""Command-line options as settings objects; only what was given on the line overrides a preset."""

from __future__ import annotations

import argparse
from typing import Any

from lmgc_core.settings import (
    CHOICES,
    DEFAULT_LIMIT,
    SERIALIZATION_FIELDS,
    CodecConfig,
    RunOptions,
    preset,
)

CODEC_FIELDS = (*SERIALIZATION_FIELDS, "model", "context_window", "support", "prior", "segment", "transform", "seed")
RUN_FIELDS = ("batch_size", "threads", "device", "dtype")
FILE_FIELDS = ("raw_dtype", "raw_byte_order", "raw_offset", "tensors", "max_bytes")


def count_or_auto(text: str) -> int | str:
    """A whole number, or "auto"."""
    return text if text == "auto" else int(text)


count_or_auto.__name__ = 'number or "auto"'


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """FILE options: for files that do not say their type, and for choosing tensors."""
    group = parser.add_argument_group("file")
    group.add_argument("--raw-dtype", metavar="DTYPE", help="element type of raw, csv and V2/V1 .npy files")
    group.add_argument("--raw-byte-order", choices=["little", "big"], default="little")
    group.add_argument("--raw-offset", type=int, default=0, metavar="BYTES", help="bytes to skip at the start")
    group.add_argument(
        "--tensor", action="append", default=[], dest="tensors", metavar="NAME", help="only this tensor; repeatable"
    )
    group.add_argument(
        "--max-bytes", type=int, default=1_000_000_000, metavar="N", help="largest declared size of compressed members"
    )


def add_codec_options(parser: argparse.ArgumentParser) -> None:
    """CODEC options: what a decoder must know."""
    group = parser.add_argument_group("codec (an option given here overrides the preset)")
    kept: dict[str, Any] = {"default": argparse.SUPPRESS}
    group.add_argument("--preset", choices=[c for c in CHOICES["preset"] if c != "none"], **kept)
    group.add_argument("--model", help="catalogue id, folder, Hub id or .gguf file (smollm2-135m)", **kept)
    group.add_argument("--planes", choices=CHOICES["planes"], help="which bits are written as text (all)", **kept)
    group.add_argument("--byte-order", choices=CHOICES["byte_order"], help="big", **kept)
    group.add_argument("--alphabet", choices=CHOICES["alphabet"], help="spelling of a symbol (hex)", **kept)
    group.add_argument("--separator", choices=CHOICES["separator"], help="between groups (space)", **kept)
    group.add_argument(
        "--group-size", type=count_or_auto, metavar="N", help="symbols between separators; auto, 0 none", **kept
    )
    group.add_argument(
        "--line", type=count_or_auto, metavar="N", help="parameters a line; auto: the tensor's row (0: none)", **kept
    )
    group.add_argument("--context-window", type=int, metavar="N", help="tokens, BOS included (1024)", **kept)
    group.add_argument("--support", choices=CHOICES["support"], help="tokens that count as possible (alphabet)", **kept)
    group.add_argument("--prior", choices=CHOICES["prior"], help="llm", **kept)
    group.add_argument("--segment", type=int, metavar="N", help="windows in step (16)", **kept)
    group.add_argument("--transform", metavar="STEP", help="lossy step, e.g. bf16, uniform:8, topk:0.1 (none)", **kept)
    group.add_argument("--seed", type=int, metavar="N", help="of the sample and of random steps (0)", **kept)


def add_run_options(parser: argparse.ArgumentParser, precision: bool) -> None:
    """RUN options: how the work is done."""
    group = parser.add_argument_group("run")
    group.add_argument("--batch-size", type=count_or_auto, default="auto", metavar="N", help="windows in one pass")
    group.add_argument("--threads", type=int, default=0, metavar="N", help="0: the library's choice")
    group.add_argument("--device", default="auto")
    if precision:
        group.add_argument("--dtype", choices=CHOICES["dtype"], default="fp32", help="the model's precision")


def add_sample_options(parser: argparse.ArgumentParser) -> None:
    """SAMPLE options: how much of the gradient is scored."""
    parser.add_argument_group("sample").add_argument(
        "--limit", type=int, default=DEFAULT_LIMIT, metavar="N", help=f"blocks; 0 is the whole file ({DEFAULT_LIMIT})"
    )


def codec_config(arguments: argparse.Namespace) -> CodecConfig:
    """The configuration that the line asks for."""
    given = {n: getattr(arguments, n) for n in CODEC_FIELDS if hasattr(arguments, n)}
    return preset(getattr(arguments, "preset", "none"), **given)


def run_options(arguments: argparse.Namespace) -> RunOptions:
    """The run options that the line asks for."""
    return RunOptions(**{n: getattr(arguments, n) for n in RUN_FIELDS if hasattr(arguments, n)})


def file_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `load_gradient`."""
    return {n: getattr(arguments, n) for n in FILE_FIELDS}

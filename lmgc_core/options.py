"""Command-line options as settings objects; only what was given on the line overrides a preset."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

from lmgc_core.grids import GRIDS
from lmgc_core.settings import (
    CHOICES,
    DEFAULT_LIMIT,
    SERIALIZATION_FIELDS,
    CodecConfig,
    RunOptions,
    preset,
)

CODEC_FIELDS = (*SERIALIZATION_FIELDS, "model", "context_window", "support", "prior", "segment", "transform", "seed")
RUN_FIELDS = ("batch_size", "threads", "device", "dtype", "backend", "address", "actors")
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


def add_codec_options(parser: argparse.ArgumentParser, lists: bool = False) -> None:
    """CODEC options: what a decoder must know. With `lists`, each takes several values with commas."""
    title = "codec (an option given here overrides the preset)"
    group = parser.add_argument_group(f"{title}; several values with commas" if lists else title)

    def add(flag: str, text: str, choices: tuple[str, ...] | None = None, kind: Callable[[str], Any] = str) -> None:
        one = choice_of(choices) if choices else kind
        metavar = "|".join(choices) if choices else "N" if kind is not str else flag[2:].upper()
        parse = list_of(one) if lists else one
        group.add_argument(flag, help=text, default=argparse.SUPPRESS, type=parse, metavar=metavar)

    add("--preset", "settings for a purpose, by dtype", tuple(c for c in CHOICES["preset"] if c != "none"))
    add("--model", "catalogue id, folder, Hub id or .gguf file (smollm2-135m)")
    add("--planes", "which bits are written as text (all)", CHOICES["planes"])
    add("--byte-order", "order of a value's bytes (big)", CHOICES["byte_order"])
    add("--alphabet", "spelling of a symbol (hex)", CHOICES["alphabet"])
    add("--separator", "between groups (space)", CHOICES["separator"])
    add("--group-size", "symbols between separators; auto is one parameter's, 0 none (auto)", kind=count_or_auto)
    add("--line", "parameters a line; auto is the tensor's row or kernel, 0 none (0)", kind=count_or_auto)
    add("--context-window", "most tokens of a window, BOS included (1024)", kind=int)
    add("--support", "tokens that count as possible (alphabet)", CHOICES["support"])
    add("--prior", "who predicts (llm)", CHOICES["prior"])
    add("--segment", "windows decoded in step (16)", kind=int)
    add("--transform", "lossy step: bf16, uniform:8, topk:0.1, chained with + (none)")
    add("--seed", "of the sample and of random steps (0)", kind=int)


def choice_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    """A parser that takes one of the choices."""

    def parse(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is not known; choose one of {', '.join(choices)}")
        return text

    return parse


def list_of(one: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """A parser of several values with commas."""

    def parse(text: str) -> list[Any]:
        try:
            return [one(part) for part in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}: whole numbers with commas are needed") from None

    return parse


def add_run_options(parser: argparse.ArgumentParser, precision: bool, spreads: bool = False) -> None:
    """RUN options: how the work is done; `spreads` adds those of a cluster."""
    group = parser.add_argument_group("run")
    group.add_argument("--batch-size", type=count_or_auto, default="auto", metavar="N", help="windows in one pass")
    group.add_argument("--threads", type=int, default=0, metavar="N", help="0: the library's choice")
    group.add_argument("--device", default="auto")
    if precision:
        group.add_argument("--dtype", choices=CHOICES["dtype"], default="fp32", help="the model's precision")
    if spreads:
        group.add_argument(
            "--backend", choices=CHOICES["backend"], default="local", help="this process, or actors of a Ray cluster"
        )
        group.add_argument(
            "--address", default="", metavar="HOST:PORT", help="of a Ray cluster; auto: the running one (starts one)"
        )
        group.add_argument(
            "--actors", type=count_or_auto, default="auto", metavar="N", help="most actors, each with a model (auto)"
        )


def add_sample_options(parser: argparse.ArgumentParser, default: int | None = DEFAULT_LIMIT) -> None:
    """SAMPLE options: how much of the gradient is scored."""
    parser.add_argument_group("sample").add_argument(
        "--limit", type=int, default=default, metavar="N", help=f"blocks; 0 is the whole file ({DEFAULT_LIMIT})"
    )


def add_grid_option(parser: argparse.ArgumentParser) -> None:
    """A named list of settings; options given beside it hold in every row."""
    parser.add_argument("--grid", choices=list(GRIDS), help="a named list of settings; other options hold in each row")


def codec_config(arguments: argparse.Namespace) -> CodecConfig:
    """The configuration that the line asks for."""
    given = {n: getattr(arguments, n) for n in CODEC_FIELDS if hasattr(arguments, n)}
    return preset(getattr(arguments, "preset", "none"), **given)


def listed_options(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Every combination of the listed values, in the order of the line's options."""
    given = {n: getattr(arguments, n) for n in CODEC_FIELDS if hasattr(arguments, n)}
    return [dict(zip(given, row, strict=True)) for row in itertools.product(*given.values())]


def codec_configs(arguments: argparse.Namespace) -> list[CodecConfig]:
    """The configurations of every combination, preset by preset."""
    presets, rows = getattr(arguments, "preset", ["none"]), listed_options(arguments)
    return list(dict.fromkeys(preset(name, **row) for name in presets for row in rows))


def run_options(arguments: argparse.Namespace) -> RunOptions:
    """The run options that the line asks for."""
    return RunOptions(**{n: getattr(arguments, n) for n in RUN_FIELDS if hasattr(arguments, n)})


def file_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `load_gradient`."""
    return {n: getattr(arguments, n) for n in FILE_FIELDS}

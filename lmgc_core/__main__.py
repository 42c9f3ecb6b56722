"""`python -m lmgc_core COMMAND`: parser and exit codes; the work is in `commands`.

Exit code 0, or 2 with one line on stderr for a mistake or a file that cannot be used.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from lmgc_core.errors import LmgcError
from lmgc_core.options import (
    add_codec_options,
    add_file_options,
    add_grid_option,
    add_run_options,
    add_sample_options,
)


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = Parser(prog="python -m lmgc_core", description="What language models know about gradients.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument("--json", action="store_true", help="one JSON object on stdout and nothing else")
        added.add_argument("--progress", action="store_true", help="progress on stderr even without a terminal")
        return added

    inspect = command("inspect", "what is in each file; no model needed")
    inspect.add_argument("files", nargs="+", metavar="FILE")
    inspect.add_argument("--digest", action="store_true", help="digests and statistics of large files too")
    add_file_options(inspect)

    tokens = command("tokens", "serialization and tokens only; the model is not asked")
    tokens.add_argument("file", metavar="FILE")
    add_file_options(tokens)
    add_codec_options(tokens)
    add_sample_options(tokens)

    measure = command("measure", "bits for each token, cell and tensor")
    measure.add_argument("file", metavar="FILE")
    measure.add_argument(
        "--output", metavar="DIR", help="writes report.json, tokens.parquet, bits.npz and report.html there"
    )
    measure.add_argument("--resume", action="store_true", help="go on with the same run where it was killed")
    measure.add_argument("--again", action="store_true", help="measure anew even if the same run is kept")
    add_file_options(measure)
    add_codec_options(measure)
    add_run_options(measure, precision=True, spreads=True)
    add_sample_options(measure)

    compare = command("compare", "several settings on one sample, with baselines and null controls")
    compare.add_argument("file", metavar="FILE")
    add_file_options(compare)
    add_codec_options(compare, lists=True)
    add_grid_option(compare)
    add_run_options(compare, precision=True, spreads=True)
    add_sample_options(compare, default=None)

    baselines = command("baselines", "other compressors on the same values, decoded and compared")
    baselines.add_argument("file", metavar="FILE")
    add_file_options(baselines)

    compress = command("compress", "an archive that decodes bit for bit on any machine")
    compress.add_argument("file", metavar="FILE")
    compress.add_argument("-o", "--output", required=True, metavar="OUT.lmgc")
    compress.add_argument(
        "--verify",
        choices=["auto", "all", "none"],
        default="auto",
        help="how much is decoded as a proof; auto: whole up to 10,000 tokens, else a sample of that size",
    )
    add_file_options(compress)
    add_codec_options(compress)
    add_run_options(compress, precision=False, spreads=True)

    decompress = command("decompress", "the gradient in an archive")
    decompress.add_argument("archive", metavar="ARCHIVE.lmgc")
    decompress.add_argument("-o", "--output", required=True, metavar="OUT", help=".safetensors, .npz or .npy")
    decompress.add_argument("--tensor", action="append", default=[], dest="tensors", metavar="NAME")
    decompress.add_argument("--model", help="where the archive's model is, if not under its own name")
    add_run_options(decompress, precision=False)

    verify = command("verify", "decodes an archive whole, and compares it with FILE where one is given")
    verify.add_argument("archive", metavar="ARCHIVE.lmgc")
    verify.add_argument("file", nargs="?", metavar="FILE")
    verify.add_argument("--model", help="where the archive's model is, if not under its own name")
    add_file_options(verify)
    add_run_options(verify, precision=False)

    describe = command("describe", "what an archive says about itself; no model needed")
    describe.add_argument("archive", metavar="ARCHIVE.lmgc")

    generate = command("generate", "train a small network and record its gradients")
    generate.add_argument("-o", "--output", required=True, metavar="OUT.safetensors")
    generate.add_argument("--network", default="mlp", help="mlp, convnet, vgg16, resnet18, vit (mlp)")
    generate.add_argument("--data", default="digits", help="digits, mnist, cifar10:DIR, tinyimagenet:DIR (digits)")
    generate.add_argument("--steps", type=int, default=60)
    generate.add_argument("--record-at", default=None, metavar="N,N", help="steps to record (the last)")
    generate.add_argument("--batch-size", type=int, default=128)
    generate.add_argument("--width", type=int, default=None)
    generate.add_argument("--optimizer", choices=["sgd", "adamw"], default="sgd")
    generate.add_argument("--record", choices=["gradient", "exp_avg", "exp_avg_sq", "update"], default="gradient")
    generate.add_argument("--seed", type=int, default=0)

    models = command("models", "the catalogue of language models; models fetch ID gets one")
    models.add_argument("action", nargs="?", choices=["fetch"])
    models.add_argument("id", nargs="?", metavar="ID")
    models.add_argument("--from", dest="from_file", metavar="FILE", help="a file fetched by other means")

    runs = command("runs", "results kept on disk; runs show ID and runs delete ID")
    runs.add_argument("action", nargs="?", choices=["show", "delete"])
    runs.add_argument("id", nargs="?", metavar="ID")
    runs.add_argument("--output", metavar="DIR", help="with show: writes the report's four files there")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    parsed = build_parser().parse_args(arguments)
    from lmgc_core import commands

    try:
        return commands.COMMANDS[parsed.command](parsed)
    except LmgcError as error:
        from lmgc_core.terminal import complain

        complain(str(error))
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())

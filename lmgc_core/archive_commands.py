"""The commands about archives: compress, decompress, verify, describe."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lmgc_core.errors import (
    CorruptContainer,
    IncompatibleContainer,
    InvalidSetting,
    TruncatedContainer,
    UnsupportedInput,
)
from lmgc_core.options import codec_config, file_options, run_options
from lmgc_core.settings import asks_model
from lmgc_core.terminal import ProgressLine, check_target, emit, figure, say
from lmgc_core.whole_file import write_whole
from lmgc_core.wording import counted

if TYPE_CHECKING:
    from lmgc_core.archive_decoding import ArchiveProgress
    from lmgc_core.language_model import LanguageModel, TextTokenizer

OUTPUTS = (".safetensors", ".npz", ".npy")


def run_compress(arguments: argparse.Namespace) -> int:
    """Writes an archive that is proven by decoding it."""
    from lmgc_core.archive import compress
    from lmgc_core.files import load_gradient
    from lmgc_core.language_model import load_model, load_tokenizer

    config, options = codec_config(arguments), run_options(arguments)
    target = Path(arguments.output)
    if target.suffix != ".lmgc":
        raise InvalidSetting(f"--output {target.name!r}: an archive's name ends in .lmgc")
    check_target(target)
    gradient = load_gradient(arguments.file, **file_options(arguments))
    progress = ProgressLine(arguments)
    model: LanguageModel | TextTokenizer
    if asks_model(config.prior):
        model = load_model(config.model, options, on_progress=progress.show_fetch)
    else:
        model = load_tokenizer(config.model, on_progress=progress.show_fetch)
    with closing(progress):
        made = compress(
            gradient,
            model,
            config,
            options=options,
            verify=arguments.verify,
            on_progress=lambda now: show_archive(progress, now),
        )
    try:
        write_whole(target, made.archive)
    except OSError as error:
        raise UnsupportedInput(f"{target}: cannot be written ({error.strerror or error})") from None
    found = made.report
    if arguments.json:
        emit(found)
        return 0
    rate = found["compression_rate"]
    size = counted(found["container_bytes"], "byte")
    say(f"{target}: {size}, {figure(None if rate is None else 100 * rate, '% of raw')}")
    say(
        f"  header {found['header_bytes']} (of these, names and shapes {found['names_and_shapes_bytes']}), "
        f"payload {found['payload_bytes']}, exceptions {counted(found['exceptions_bytes'], 'byte')}"
    )
    say(
        f"  surprisal {figure(found['surprisal_bits'] / 8, 'bytes', 7)} of text by prior {found['prior']}, "
        f"verified: {found['verified']}"
    )
    return 0


def run_decompress(arguments: argparse.Namespace) -> int:
    """Writes the gradient that an archive holds."""
    from lmgc_core.archive import decompress
    from lmgc_core.files import save_gradient

    target = Path(arguments.output)
    if target.suffix not in OUTPUTS:
        raise InvalidSetting(f"--output {target.name!r}: end the name in one of {', '.join(OUTPUTS)}")
    check_target(target)
    archive = read_archive(arguments.archive)
    progress = ProgressLine(arguments)
    with named(arguments.archive), closing(progress):
        gradient = decompress(
            archive,
            archive_model(arguments, progress, archive),
            tensors=arguments.tensors,
            options=run_options(arguments),
            on_progress=lambda now: show_archive(progress, now),
        )
    save_gradient(gradient, target)
    if arguments.json:
        emit({"file": str(target), "n_parameters": gradient.n_parameters, "sha256": gradient.digest})
    else:
        say(f"{target}: {counted(gradient.n_parameters, 'parameter')}, sha256 {gradient.digest}")
    return 0


def run_verify(arguments: argparse.Namespace) -> int:
    """Decodes an archive whole, and holds it against a file where one is given."""
    from lmgc_core.archive import verify_archive
    from lmgc_core.files import load_gradient

    archive = read_archive(arguments.archive)
    gradient = load_gradient(arguments.file, **file_options(arguments)) if arguments.file else None
    progress = ProgressLine(arguments)
    with named(arguments.archive), closing(progress):
        found = verify_archive(
            archive,
            gradient,
            archive_model(arguments, progress, archive),
            options=run_options(arguments),
            on_progress=lambda now: show_archive(progress, now),
        )
    if arguments.json:
        emit(found)
    else:
        held = f", equal to {Path(arguments.file).name}" if gradient is not None else ""
        say(f"{arguments.archive}: prior {found['prior']}, decodes whole{held}; sha256 {found['sha256']}")
    return 0


def run_describe(arguments: argparse.Namespace) -> int:
    """What an archive says about itself; no model is needed."""
    from lmgc_core.archive import describe

    with named(arguments.archive):
        found = describe(read_archive(arguments.archive))
    if arguments.json:
        emit(found)
        return 0
    rate = found["compression_rate"]
    size, raw = counted(found["container_bytes"], "byte"), counted(found["raw_bytes"], "byte")
    say(f"{arguments.archive}: {size} for {raw} raw")
    say(f"  {figure(None if rate is None else 100 * rate, '% of raw')}, {counted(found['n_segments'], 'segment')}")
    source = f"{found['model']['id']} ({found['model']['source'] or 'no source stated'})"
    if found["decoding"]["needs"] == "model":
        say(f"  prior {found['settings']['prior']}, model {source}")
        say(f"  decoding needs about {found['decoding']['memory_bytes'] / 1e9:.1f} GB of memory")
    else:
        say(f"  prior {found['settings']['prior']}, tokenizer of {source}; decoding needs no model")
    if found["lossy"]:
        say(f"  lossy: {found['settings']['transform']}; what comes back is the transformed gradient")
    for tensor in found["tensors"]:
        say(f"  {tensor['name']!r}: {tensor['dtype']} {'×'.join(map(str, tensor['shape'])) or 'scalar'}")
    return 0


@contextmanager
def named(archive: str) -> Iterator[None]:
    """Errors about an archive begin with its name."""
    try:
        yield
    except (TruncatedContainer, CorruptContainer, IncompatibleContainer) as error:
        raise type(error)(f"{archive}: {error}") from None


def show_archive(progress: ProgressLine, now: ArchiveProgress) -> None:
    """One line of progress."""
    progress.show(f"{now.stage}: {now.n_parameters_done} of {counted(now.n_parameters, 'parameter')}")


def archive_model(
    arguments: argparse.Namespace, progress: ProgressLine, archive: bytes
) -> LanguageModel | TextTokenizer | None:
    """The model that the line names, its tokenizer alone where that is enough; None to take the archive's own word."""
    from lmgc_core.archive_decoding import open_archive
    from lmgc_core.language_model import load_model, load_tokenizer

    if arguments.model is None:
        return None
    if not asks_model(open_archive(archive).header.prior):
        return load_tokenizer(arguments.model, on_progress=progress.show_fetch)
    return load_model(arguments.model, run_options(arguments), on_progress=progress.show_fetch)


def read_archive(name: str) -> bytes:
    """The bytes of an archive file.

    Raises:
        UnsupportedInput: when it is not there or cannot be read.
    """
    path = Path(name)
    if not path.is_file():
        raise UnsupportedInput(f"{name}: {'is not a file' if path.exists() else 'there is no such file'}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnsupportedInput(f"{name}: cannot be read ({error.strerror or error})") from None

"""numpy's .npz: a zip archive of .npy members, each under its name.

Members that are not numbers (objects are pickles) are refused by name while the others load.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

import numpy as np

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.npy import MAGIC, MAX_HEADER_BYTES, NpyHeader, RefusedMember, check_length, parse_npy_header
from lmgc_core.files.source import ReadOptions, Source, damaged, empty_words, make_source, one_line, too_large
from lmgc_core.files.zip_archive import compressed_bytes, member_pieces, open_zip
from lmgc_core.gradient import TensorSpec, Words


def open_npz(file: FileBytes, options: ReadOptions) -> Source:
    """One tensor a member, under the member's name without ".npy".

    Raises:
        UnsupportedInput: for members of one name, for members that declare more than they hold, and
            when the chosen compressed members declare more than `options.max_bytes`.
    """
    archive = open_zip(file)
    members: dict[str, tuple[zipfile.ZipInfo, NpyHeader]] = {}
    refused: dict[str, str] = {}
    notes: list[str] = []
    chosen = [m for m in archive.infolist() if options.wants(_array_name(m))]
    if (declared := compressed_bytes(chosen)) > options.max_bytes:
        raise too_large(declared, options.max_bytes, "in compressed members")
    for member in archive.infolist():
        name = _array_name(member)
        if name in members or name in refused:
            raise UnsupportedInput(f"duplicate name: two members are both called {name!r}; give each its own name")
        try:
            header = _member_header(archive, member, options)
            if trailing := check_length(header.spec(name), member.file_size - header.n_bytes):
                notes.append(f"{name!r}: {trailing}")
            members[name] = member, header
        except RefusedMember as error:
            refused[name] = str(error)
        except UnsupportedInput as error:
            raise UnsupportedInput(f"{name!r}: {one_line(error)}") from error
        except (zipfile.BadZipFile, EOFError) as error:
            raise damaged(f"{name!r}: {one_line(error, 120)}") from error

    def stream(spec: TensorSpec) -> Iterator[Words]:
        member, header = members[spec.name]
        if header.fortran and len(spec.shape) > 1:
            yield fetch(spec)
            return
        stored_type = spec.dtype.word.newbyteorder("<" if header.byte_order == "little" else ">")
        rest = b""
        for piece in member_pieces(archive, member, header.n_bytes, spec.raw_bytes):
            piece = rest + piece
            whole = len(piece) - len(piece) % spec.dtype.item_bytes
            rest = piece[whole:]
            yield np.frombuffer(piece[:whole], stored_type).astype(spec.dtype.word, copy=False)

    def fetch(spec: TensorSpec) -> Words:
        member, header = members[spec.name]
        words = empty_words(spec)
        room, filled = words.view(np.uint8), 0
        for piece in member_pieces(archive, member, header.n_bytes, spec.raw_bytes):
            room[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)
        if header.byte_order == "big":
            words.byteswap(inplace=True)
        if header.fortran and len(spec.shape) > 1:
            words = np.ascontiguousarray(words.reshape(spec.shape, order="F")).reshape(-1)
        return words

    specs = [header.spec(name) for name, (_, header) in members.items()]
    return make_source(file.label, "npz", specs, fetch, stream=stream, notes=notes, refused=refused)


def _array_name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _member_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo, options: ReadOptions) -> NpyHeader:
    if member.is_dir():
        raise RefusedMember("a folder inside the archive, not an array; save arrays alone")
    with archive.open(member) as stream:
        head = stream.read(MAX_HEADER_BYTES + 12)
    if not head.startswith(MAGIC):
        raise RefusedMember("this member is not an npy array; save it as one")
    return parse_npy_header(head, options)

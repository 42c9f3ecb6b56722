"""A zip archive's directory, checked before any member is opened. Source: PKWARE's application note.

Members are found by name only; nothing is ever extracted to disk.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import damaged

METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}


def open_zip(file: FileBytes) -> zipfile.ZipFile:
    """The archive, its directory read and checked.

    Raises:
        UnsupportedInput: for a directory that is missing, names a member twice, or lies about sizes.
    """
    try:
        archive = zipfile.ZipFile(file.path)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError) as error:
        raise UnsupportedInput(
            f"a zip archive that is truncated or corrupt ({error}); its central directory must be whole: fetch it again"
        ) from error
    seen: set[str] = set()
    for member in archive.infolist():
        name = member.filename
        if name in seen:
            raise UnsupportedInput(f"duplicate member {name!r} in the zip archive; give each array its own name")
        seen.add(name)
        if member.flag_bits & 0x1:
            raise UnsupportedInput(f"member {name!r} is encrypted; save without a password")
        if member.compress_type not in METHODS:
            raise damaged(
                f"member {name!r}: compression method {member.compress_type} is not supported; store or deflate it"
            )
        stored = member.compress_type == zipfile.ZIP_STORED
        if member.compress_size > file.size or (stored and member.file_size != member.compress_size):
            raise damaged(
                f"member {name!r} is corrupt: it declares {member.file_size:,} bytes "
                f"({member.compress_size:,} in the archive), the file has {file.size:,}"
            )
    return archive


def compressed_bytes(members: list[zipfile.ZipInfo]) -> int:
    """Declared size of the members that are stored compressed."""
    return sum(m.file_size for m in members if m.compress_type != zipfile.ZIP_STORED)


def member_pieces(archive: zipfile.ZipFile, member: zipfile.ZipInfo, skip: int, n_bytes: int) -> Iterator[bytes]:
    """The member's bytes in pieces of at most a megabyte, `skip` left out, exactly `n_bytes`; its CRC is checked.

    Raises:
        UnsupportedInput: when it ends early.
    """
    with archive.open(member) as stream:
        if len(stream.read(skip)) < skip:
            raise damaged(f"member {member.filename!r} is truncated")
        left = n_bytes
        while left:
            piece = stream.read(min(left, 1 << 20))
            if not piece:
                raise damaged(f"member {member.filename!r} is truncated: {left:,} bytes are missing")
            left -= len(piece)
            yield piece
        while stream.read(1 << 20):  # the CRC is compared at the end
            pass

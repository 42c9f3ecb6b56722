"""The container: header and segments ↔ the bytes of an .lmgc file; docs/format.md specifies every bit.

Knows nothing of models or text: it stores what it is given and refuses what it would not have written. Inverse
pair: `write_container` / `read_container`. Law: every strict prefix, every flipped bit and every trailing byte is
refused with an `LmgcError`.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lmgc_core.archive_header import Header, read_header, write_header
from lmgc_core.byte_fields import FieldReader, FieldWriter
from lmgc_core.errors import CorruptContainer, IncompatibleContainer, LmgcError, TruncatedContainer

MAGIC = b"\x8bLGC"
VERSION = 1
DIGEST_BYTES = 32
CHECK_BYTES = 4
MAX_HEADER_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """One segment as it is stored.

    Attributes:
        exceptions: see `exception_lists`; b"" for none.
        payload: of the range coder.
        check: CRC-32 of the exceptions, the payload and the little-endian words that they decode to.
    """

    exceptions: bytes
    payload: bytes
    check: int

    def check_of(self, words: bytes) -> int:
        """What `check` has to be when the segment decodes to these bytes."""
        return zlib.crc32(words, zlib.crc32(self.payload, zlib.crc32(self.exceptions)))


@dataclass(frozen=True, slots=True)
class Container:
    """A parsed archive; `header_bytes` counts all but exceptions and payloads."""

    header: Header
    segments: tuple[StoredSegment, ...]
    n_bytes: int

    @property
    def payload_bytes(self) -> int:
        return sum(len(s.payload) for s in self.segments)

    @property
    def exceptions_bytes(self) -> int:
        return sum(len(s.exceptions) for s in self.segments)

    @property
    def header_bytes(self) -> int:
        return self.n_bytes - self.payload_bytes - self.exceptions_bytes


def write_container(header: Header, segments: Sequence[StoredSegment]) -> bytes:
    """The bytes of an archive."""
    raw = write_header(header)
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = packed.compress(raw) + packed.flush()
    out = FieldWriter()
    out.fixed(MAGIC)
    out.number(VERSION)
    smaller = len(deflated) < len(raw)
    out.number(len(raw) << 1 | smaller)
    out.block(deflated) if smaller else out.fixed(raw)
    for segment in segments:
        n = len(segment.payload) + len(segment.exceptions)
        out.number(n << 1 | bool(segment.exceptions))
        if segment.exceptions:
            out.number(len(segment.exceptions))
        out.fixed(segment.check.to_bytes(CHECK_BYTES, "little"))
    for segment in segments:
        out.fixed(segment.exceptions)
        out.fixed(segment.payload)
    out.fixed(hashlib.sha256(out.data).digest())
    return bytes(out.data)


def read_container(data: bytes, n_segments_of: Callable[[Header], int]) -> Container:
    """The archive in these bytes.

    Args:
        data: a whole file.
        n_segments_of: how many segments a header implies.

    Raises:
        TruncatedContainer: when it ends too early.
        IncompatibleContainer: when it was written by a newer version.
        CorruptContainer: for anything else that `write_container` would not have written.
    """
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise CorruptContainer("this is not an .lmgc archive: it does not begin like one")
    fields = FieldReader(data)
    fields.fixed(len(MAGIC))
    version = fields.number()
    if version > VERSION:
        raise IncompatibleContainer(f"the archive has format {version}, this version reads up to {VERSION}; update")
    if version < 1:
        raise fields.damaged("format 0 does not exist")
    body, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    intact = len(data) > DIGEST_BYTES and hashlib.sha256(body).digest() == digest
    try:
        header, segments = _read_body(fields, n_segments_of)
        if fields.fixed(DIGEST_BYTES) == b"" or fields.left:
            raise fields.damaged(f"{fields.left} bytes follow its end")
    except TruncatedContainer:
        raise
    except LmgcError:
        if intact:
            raise
        raise CorruptContainer(
            "the archive's SHA-256 does not match its content; it is damaged, fetch it again"
        ) from None
    if not intact:
        raise CorruptContainer("the archive's SHA-256 does not match its content; it is damaged, fetch it again")
    return Container(header, segments, len(data))


def _read_body(fields: FieldReader, n_segments_of: Callable[[Header], int]) -> tuple[Header, tuple[StoredSegment, ...]]:
    packed = fields.number(MAX_HEADER_BYTES << 1)
    n_raw = packed >> 1
    header = read_header(_inflated(fields, n_raw) if packed & 1 else fields.fixed(n_raw))
    n_segments = n_segments_of(header)
    if n_segments * (1 + CHECK_BYTES) > fields.left:
        raise TruncatedContainer(f"the archive ends before the table of its {n_segments} segments; fetch it again")
    table = []
    for _ in range(n_segments):
        n = fields.number()
        n_exceptions = fields.number((n >> 1) + 1) if n & 1 else 0
        if n & 1 and not n_exceptions:
            raise fields.damaged("exceptions of no bytes")
        table.append((n_exceptions, (n >> 1) - n_exceptions, int.from_bytes(fields.fixed(CHECK_BYTES), "little")))
    return header, tuple(StoredSegment(fields.fixed(e), fields.fixed(p), check) for e, p, check in table)


def _inflated(fields: FieldReader, n_raw: int) -> bytes:
    """The header from its deflated form; never more than it says."""
    stored = fields.block()
    inflate = zlib.decompressobj(-15)
    try:
        raw = inflate.decompress(stored, n_raw + 1)
    except zlib.error:
        raise fields.damaged("the header cannot be inflated") from None
    if len(raw) != n_raw or not inflate.eof or inflate.unused_data or len(stored) >= n_raw:
        raise fields.damaged("the header is not as long as it says")
    return raw

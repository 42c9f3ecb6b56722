"""Numbers and texts ↔ bytes of a header: varints, counted UTF-8 texts, fixed runs; strict on reading.

Inverse pair: `FieldWriter` / `FieldReader`. A varint is LEB128: seven bits a byte, low ones first; the highest bit says
that more follow. Law: only what the writer makes is read; a longer spelling of the same number is damage.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lmgc_core.errors import CorruptContainer, TruncatedContainer

MAX_VARINT_BITS = 63


@dataclass(slots=True)
class FieldWriter:
    """Appends fields to `data`."""

    data: bytearray = field(default_factory=bytearray)

    def number(self, value: int) -> None:
        """A whole number of 0 or more as a varint.

        >>> writer = FieldWriter()
        >>> writer.number(300), writer.data.hex()
        (None, 'ac02')
        """
        while value > 127:
            self.data.append(value & 127 | 128)
            value >>= 7
        self.data.append(value)

    def text(self, value: str) -> None:
        """UTF-8, its length in bytes before it; lone surrogates pass."""
        self.block(value.encode("utf-8", "surrogatepass"))

    def block(self, value: bytes) -> None:
        """Bytes, their number before them."""
        self.number(len(value))
        self.data += value

    def fixed(self, value: bytes) -> None:
        """Bytes whose number the reader knows."""
        self.data += value


@dataclass(slots=True)
class FieldReader:
    """Reads fields back; every read past the end is a `TruncatedContainer`.

    Attributes:
        data: the bytes.
        place: how many have been read.
        what: named in errors.
    """

    data: bytes
    place: int = 0
    what: str = "archive"

    @property
    def left(self) -> int:
        """Bytes not yet read."""
        return len(self.data) - self.place

    def fixed(self, n: int) -> bytes:
        """The next n bytes."""
        if n > self.left:
            raise TruncatedContainer(
                f"the {self.what} ends after {len(self.data)} bytes, {n - self.left} too early; fetch it again"
            )
        self.place += n
        return self.data[self.place - n : self.place]

    def number(self, below: int = 1 << MAX_VARINT_BITS, bits: int = MAX_VARINT_BITS) -> int:
        """A varint.

        Args:
            below: what it must be less than.
            bits: the most bits it may have.

        Raises:
            CorruptContainer: for one too large, or spelled with more bytes than it needs.
        """
        value, shift = 0, 0
        while True:
            byte = self.fixed(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
            if shift > bits:
                raise self.damaged("a number has too many bytes")
        if byte == 0 and shift > 7:
            raise self.damaged("a number is spelled with needless bytes")
        if value >= below and bits == MAX_VARINT_BITS:
            raise self.damaged(f"{value} stands where a number below {below} belongs")
        return value

    def text(self) -> str:
        """A counted UTF-8 text."""
        try:
            return self.block().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self.damaged("a text is not UTF-8") from None

    def block(self) -> bytes:
        """Counted bytes."""
        return self.fixed(self.number())

    def finish(self) -> None:
        """Raises CorruptContainer unless everything has been read."""
        if self.left:
            raise self.damaged(f"{self.left} bytes follow its end")

    def damaged(self, why: str) -> CorruptContainer:
        """The error to raise."""
        return CorruptContainer(f"the {self.what} is damaged at byte {self.place}: {why}; fetch it again")

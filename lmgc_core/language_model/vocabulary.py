"""What each token of a vocabulary spells, as bytes: the part of a tokenizer that decoding rests on.

A tokenizer.json says how token strings stand for text: byte-level BPE writes every byte as one printable
character (GPT-2's table), SentencePiece writes a space as ▁ and an unknown byte as <0x41>, WordPiece
marks what continues a word with ##. Only the first two can be exact; the others are read as well as
they can be and refused where text does not come back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

SPACE_MARK = "▁"
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@cache
def byte_of_character() -> Mapping[str, int]:
    """GPT-2's printable stand-in of every byte, inverted: 256 characters.

    Printable Latin-1 stands for itself, the other bytes take the characters from U+0100 on, in order.

    >>> byte_of_character()["A"], byte_of_character()["Ġ"]
    (65, 32)
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}


def parts_of(component: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """A normalizer, pre-tokenizer or decoder of tokenizer.json with its sequences unfolded."""
    if not component:
        return
    if component.get("type") == "Sequence":
        for name in ("normalizers", "pretokenizers", "decoders"):
            for part in component.get(name) or ():
                yield from parts_of(part)
    else:
        yield component


def token_ids(content: Mapping[str, Any]) -> dict[str, int]:
    """The model's own tokens by their strings: a mapping in the file, or for Unigram a list of [token, score]."""
    vocab = content["model"].get("vocab") or {}
    return dict(vocab) if isinstance(vocab, dict) else {pair[0]: i for i, pair in enumerate(vocab)}


def vocabulary_bytes(content: Mapping[str, Any], n_rows: int) -> tuple[list[bytes], frozenset[int]]:
    """The bytes that each id spells, and the ids that are special.

    Args:
        content: a parsed tokenizer.json.
        n_rows: how many ids there are; ids without a token spell b"".

    Returns:
        a list of `n_rows` byte strings, and the ids of special added tokens (they spell nothing:
        data never becomes one).
    """
    model = content["model"]
    vocabulary = token_ids(content)
    kinds = {part["type"] for name in ("pre_tokenizer", "decoder") for part in parts_of(content.get(name))}
    spell = _spell_byte_level if "ByteLevel" in kinds else _spelled_by_mark(content)
    table = [b""] * n_rows
    for token, token_id in vocabulary.items():
        if token_id < n_rows:
            table[token_id] = spell(token)
    special = set()
    for added in content.get("added_tokens") or ():
        if added["id"] < n_rows:
            table[added["id"]] = b"" if added["special"] else added["content"].encode("utf-8")
            if added["special"]:
                special.add(added["id"])
    unknown = model.get("unk_token", model.get("unk_id"))
    unknown_id = unknown if isinstance(unknown, int) else vocabulary.get(unknown or "")
    if unknown_id is not None and unknown_id < n_rows:
        table[unknown_id] = b""
        special.add(unknown_id)
    return table, frozenset(special)


def stand_ins(content: Mapping[str, Any], table: list[bytes], free_ids: frozenset[int]) -> dict[str, int]:
    """Special tokens that spell characters which a byte-level vocabulary forgot, by character.

    SmolLM2's vocabulary has no token for six control characters and drops them in silence. Its special tokens
    never come out of text, so some of them can stand for those characters: the highest ids for
    the lowest characters. Empty where nothing is missing, or there are too few special tokens.
    """
    kinds = {part["type"] for name in ("pre_tokenizer", "decoder") for part in parts_of(content.get(name))}
    if "ByteLevel" not in kinds or content["model"].get("byte_fallback"):
        return {}
    single = {spelled for spelled in table if len(spelled) == 1}
    lost = [chr(code) for code in range(128) if bytes([code]) not in single]
    return dict(zip(lost, sorted(free_ids, reverse=True), strict=False)) if len(lost) <= len(free_ids) else {}


def _spell_byte_level(token: str) -> bytes:
    table = byte_of_character()
    try:
        return bytes([table[character] for character in token])
    except KeyError:  # not made of stand-ins: a token that was added by hand
        return token.encode("utf-8")


def _spelled_by_mark(content: Mapping[str, Any]) -> Any:
    model = content["model"]
    components = [p for name in ("normalizer", "pre_tokenizer", "decoder") for p in parts_of(content.get(name))]
    marks_space = any(
        part["type"] == "Metaspace" or (part["type"] == "Replace" and SPACE_MARK in str(part)) for part in components
    )
    byte_fallback = bool(model.get("byte_fallback")) or any(part["type"] == "ByteFallback" for part in components)
    prefix = model.get("continuing_subword_prefix") or ""
    suffix = model.get("end_of_word_suffix") or ""

    def spell(token: str) -> bytes:
        if byte_fallback and (found := BYTE_TOKEN.fullmatch(token)):
            return bytes([int(found[1], 16)])
        if prefix:
            token = token.removeprefix(prefix)
        if suffix:
            token = token.removesuffix(suffix)
        return (token.replace(SPACE_MARK, " ") if marks_space else token).encode("utf-8")

    return spell


def without_dummy_prefix(content: Mapping[str, Any]) -> dict[str, Any]:
    """A tokenizer.json that adds nothing to text and drops nothing from it.

    Removed: the space that SentencePiece-like tokenizers put before the first word (so that " a" and "a"
    differ, and a window may begin anywhere), its counterpart in the decoder, special tokens around the text,
    truncation and padding.
    """

    def clean(component: Any) -> Any:
        if not component:
            return component
        kind = component.get("type")
        if kind == "Sequence":
            copy = dict(component)
            for name in ("normalizers", "pretokenizers", "decoders"):
                if name in copy:
                    copy[name] = [part for part in map(clean, copy[name]) if part is not None]
            key = next((n for n in ("normalizers", "pretokenizers", "decoders") if n in copy), None)
            return copy if key is None or copy[key] else None
        if kind == "Prepend" and component.get("prepend") == SPACE_MARK:
            return None
        if kind == "Strip" and "content" in component:  # the decoder's; a normalizer's loses spaces: refused later
            return None
        if kind == "Metaspace":
            return {**component, "prepend_scheme": "never"}
        if kind == "ByteLevel" and component.get("add_prefix_space"):
            return {**component, "add_prefix_space": False}
        return component

    cleaned = {name: clean(content.get(name)) for name in ("normalizer", "pre_tokenizer", "decoder")}
    return {**content, **cleaned, "post_processor": None, "truncation": None, "padding": None}

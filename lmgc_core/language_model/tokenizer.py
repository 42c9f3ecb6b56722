"""Text ↔ token ids, exact or refused; on the `tokenizers` library alone, so that it loads in a moment.

Law: `decode(encode(text)) == text`, held at run time by `check` for every window, not assumed. Decoding joins the
bytes of the tokens: no clean-up of spaces, no special tokens dropped, characters split over tokens put
together again. The text of a special token that stands in data is split as plain text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import InvalidSetting, ModelUnavailable, NotReversible
from lmgc_core.language_model.cache import read_json
from lmgc_core.language_model.vocabulary import stand_ins, token_ids, vocabulary_bytes, without_dummy_prefix

TokenIds = npt.NDArray[np.int32]


CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")


class TextTokenizer:
    """A tokenizer as the codec sees it.

    Attributes:
        bos_id: the token that every window begins with, or None where the model names none.
        vocabulary_size: ids run from 0 to one less; the rows of the model's output head.
        context_length: the most tokens the model can see, start token included; None where its files name no limit.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        bos_id: int | None,
        n_rows: int | None = None,
        context_length: int | None = None,
    ) -> None:
        """Builds it from a parsed tokenizer.json.

        Args:
            content: the parsed file.
            bos_id: the model's convention, see `start_token`.
            n_rows: rows of the output head, where it is known to differ from the vocabulary.
            context_length: what the model's configuration says.

        Raises:
            ModelUnavailable: when the library cannot read it.
        """
        from tokenizers import Tokenizer

        self._content = without_dummy_prefix(content)
        try:
            self._library = Tokenizer.from_str(json.dumps(self._content))
        except Exception as error:  # the library raises bare Exception
            raise ModelUnavailable(f"tokenizer.json cannot be used ({error}); is it a whole, current file?") from None
        self._library.encode_special_tokens = True
        ids = self._library.get_vocab(with_added_tokens=True).values()
        self.vocabulary_size = n_rows if n_rows is not None else max(ids, default=-1) + 1
        self.bos_id = bos_id
        self.context_length = context_length

    @property
    def start_id(self) -> int:
        """What stands before the first token: `bos_id`, or token 0 for a model that names no start token."""
        return 0 if self.bos_id is None else self.bos_id

    def encode(self, text: str) -> TokenIds:
        """The ids of a text, shape (n,); no special tokens are added, none is read out of the text."""
        replaced = self._stand_ins
        if not replaced.keys() & set(text):
            return np.asarray(self._library.encode(text, add_special_tokens=False).ids, np.int32)
        ids: list[int] = []
        for piece in re.split(f"([{re.escape(''.join(replaced))}])", text):
            if piece in replaced:
                ids.append(replaced[piece])
            elif piece:
                ids.extend(self._library.encode(piece, add_special_tokens=False).ids)
        return np.asarray(ids, np.int32)

    def decode(self, ids: Sequence[int] | TokenIds) -> str:
        """The text of a whole run of ids.

        Raises:
            NotReversible: when the run is not UTF-8, so was not made from a text.
        """
        data = b"".join(self.token_bytes(ids))
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise NotReversible("these tokens do not spell a text; a character is cut at their end or start") from None

    def token_bytes(self, ids: Sequence[int] | TokenIds) -> list[bytes]:
        """The UTF-8 bytes that each id adds to the text; special ids add none."""
        table = self._table[0]
        try:
            return [table[i] for i in np.asarray(ids, np.int64).tolist()]
        except IndexError:
            raise InvalidSetting(f"a token id is beyond the vocabulary of {self.vocabulary_size:,}") from None

    def check(self, text: str, ids: Sequence[int] | TokenIds) -> None:
        """Makes sure that the ids spell exactly the text.

        Raises:
            NotReversible: naming the first character that is lost or changed.
        """
        wanted, spelled = text.encode("utf-8"), b"".join(self.token_bytes(ids))
        if wanted == spelled:
            return
        pairs = zip(wanted, spelled, strict=False)
        place = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(wanted), len(spelled)))
        before = wanted[:place].decode("utf-8", "ignore")
        character = text[len(before) : len(before) + 1]
        name = f"{character!r} (U+{ord(character):04X})" if character else "the end of the text"
        raise NotReversible(
            f"this tokenizer does not give the text back: {name} at character {len(before)} is lost or changed; "
            "choose another model, or an alphabet that it keeps (hex works with most)"
        )

    def self_test(self, alphabet_bytes: frozenset[int] | None = None) -> None:
        """Tries every character of an alphabet alone, doubled, beside a space and between letters.

        Args:
            alphabet_bytes: the UTF-8 bytes that texts will be made of; None for all of Latin-1.

        Raises:
            NotReversible: naming the first lost character.
        """
        everything = [chr(code) for code in range(256)]
        if alphabet_bytes is None:
            characters = everything
        else:
            characters = [c for c in everything if set(c.encode("utf-8")) <= alphabet_bytes]
        space = " " if alphabet_bytes is None or 0x20 in alphabet_bytes else ""
        for character in characters:
            for text in (character, character * 2, space + character, character + space + character):
                try:
                    self.check(text, self.encode(text))
                except NotReversible:
                    raise NotReversible(
                        f"this tokenizer does not keep {character!r} (U+{ord(character):04X}); "
                        "choose another model, or an alphabet without that character (hex works with most)"
                    ) from None

    def support(self, alphabet_bytes: frozenset[int] | None) -> TokenIds:
        """Sorted ids of every token made only of these bytes, shape (m,); all ids for None.

        Depends on the vocabulary and the alphabet alone, never on data. Special tokens, the unknown token and rows
        without a token spell nothing and are left out, except from the full vocabulary.
        """
        if alphabet_bytes is None:
            return np.arange(self.vocabulary_size, dtype=np.int32)
        allowed = np.zeros(256, bool)
        allowed[list(alphabet_bytes)] = True
        flat, lengths = self._flat_table
        spelling = np.flatnonzero(lengths)
        if not len(spelling):
            return np.empty(0, np.int32)
        starts = np.concatenate([[0], np.cumsum(lengths[spelling])[:-1]])
        return spelling[np.logical_and.reduceat(allowed[flat], starts)].astype(np.int32)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that ids depend on, hex: what each id spells, merges or scores, steps, start token.

        Made of the content, not of the file's text, so that another version of the library, or another order of
        keys, gives the same.
        """
        model = self._content["model"]
        state = hashlib.sha256(b"lmgc tokenizer 1\n")
        steps = [self._content.get("normalizer"), self._content.get("pre_tokenizer")]
        merges = [m.split(" ", 1) if isinstance(m, str) else list(m) for m in model.get("merges") or ()]
        scores = [] if isinstance(model["vocab"], dict) else model["vocab"]
        head = [model.get("type"), self.bos_id, self.vocabulary_size, _without_defaults(steps), merges, scores]
        state.update(json.dumps(head, sort_keys=True).encode())
        for spelled in self._table[0]:
            state.update(len(spelled).to_bytes(4, "little") + spelled)
        return state.hexdigest()

    @property
    def special_ids(self) -> frozenset[int]:
        """Added special tokens and the unknown token: no text becomes one, unless it stands in for a lost character."""
        return self._table[1]

    @cached_property
    def _table(self) -> tuple[list[bytes], frozenset[int]]:
        table, special = vocabulary_bytes(self._content, self.vocabulary_size)
        for character, token_id in stand_ins(self._content, table, special - {self.start_id}).items():
            table[token_id] = character.encode("utf-8")
        return table, special

    @cached_property
    def _stand_ins(self) -> dict[str, int]:
        return {self._table[0][i].decode("utf-8"): i for i in self.special_ids if self._table[0][i]}

    @cached_property
    def _flat_table(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        table = self._table[0]
        lengths = np.fromiter((len(spelled) for spelled in table), np.int64, len(table))
        return np.frombuffer(b"".join(table), np.uint8), lengths


def _without_defaults(component: Any) -> Any:
    """The same steps without empty or false fields, which versions of the library add and drop."""
    if isinstance(component, dict):
        return {k: _without_defaults(v) for k, v in component.items() if v not in (None, False, "", [])}
    return [_without_defaults(part) for part in component] if isinstance(component, list) else component


def start_token(
    vocabulary: Mapping[str, int], tokenizer_config: Mapping[str, Any], config: Mapping[str, Any]
) -> int | None:
    """The id that windows begin with, by the model's convention.

    The tokenizer's BOS, else the model configuration's, else the end token of either (GPT-2 begins texts with
    it), else None.
    """
    for role in ("bos", "eos"):
        token = tokenizer_config.get(f"{role}_token")
        text = token.get("content") if isinstance(token, dict) else token
        if isinstance(text, str) and text in vocabulary:
            return vocabulary[text]
        ids = config.get(f"{role}_token_id")
        first = ids[0] if isinstance(ids, list) and ids else ids
        if isinstance(first, int) and not isinstance(first, bool) and first >= 0:
            return first
    return None


def tokenizer_of_folder(folder: Path) -> TextTokenizer:
    """The tokenizer of a model's folder.

    Raises:
        ModelUnavailable: when there is none that can be read.
    """
    content = read_json(folder / "tokenizer.json")
    if content is None:
        from lmgc_core.language_model.slow_tokenizer import tokenizer_content

        content = tokenizer_content(folder)
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise ModelUnavailable(f"{folder / 'tokenizer.json'} is not a tokenizer; fetch the model's files again")
    config = read_json(folder / "config.json") or {}
    settings = read_json(folder / "tokenizer_config.json") or {}
    vocabulary = token_ids(content) | {added["content"]: added["id"] for added in content.get("added_tokens") or ()}
    text = config.get("text_config") or {}
    rows = config.get("vocab_size") or text.get("vocab_size")
    limits = [both.get(name) for both in (text, config) for name in CONTEXT_NAMES]
    limit = next((n for n in limits if isinstance(n, int) and n > 0), None)
    return TextTokenizer(content, start_token(vocabulary, settings, config), rows, limit)

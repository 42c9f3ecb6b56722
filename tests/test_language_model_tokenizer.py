"""Text ↔ ids is exact or refused; supports depend on the alphabet alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmgc_core.errors import InvalidSetting, ModelUnavailable, NotReversible
from lmgc_core.language_model.tokenizer import TextTokenizer, start_token, tokenizer_of_folder
from tests.tiny_models import (
    byte_level_tokenizer,
    lowercasing_tokenizer,
    sentencepiece_like_tokenizer,
    word_piece_tokenizer,
)

HEX = frozenset(b"0123456789abcdef ")
LATIN_1 = st.text(st.characters(max_codepoint=255), max_size=60)


def text_tokenizer(library_tokenizer: object, bos_id: int | None = 1) -> TextTokenizer:
    return TextTokenizer(json.loads(library_tokenizer.to_str()), bos_id)  # type: ignore[attr-defined]


EXACT = {
    "byte-level": text_tokenizer(byte_level_tokenizer()),
    "sentencepiece": text_tokenizer(sentencepiece_like_tokenizer()),
}


@pytest.mark.parametrize("kind", EXACT)
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(text=LATIN_1)
def test_any_text_comes_back(kind: str, text: str) -> None:
    tokenizer = EXACT[kind]
    ids = tokenizer.encode(text)
    tokenizer.check(text, ids)
    assert tokenizer.decode(ids) == text
    assert b"".join(tokenizer.token_bytes(ids)) == text.encode("utf-8")
    assert not set(ids.tolist()) & tokenizer.special_ids


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize(
    "text",
    [
        "<|endoftext|>00<|im_start|>",
        "<s> </s> <unk> <0x41>",
        "  two leading",
        "trailing  ",
        "   ",
        "a\x00b\r\n\x85\xa0\x1c",
        "Ã©Â\xff",
        " .,!?'s n't 've",
    ],
)
def test_texts_that_tokenizers_trip_over(kind: str, text: str) -> None:
    tokenizer = EXACT[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not set(ids.tolist()) & tokenizer.special_ids


def test_a_leading_space_makes_a_difference() -> None:
    tokenizer = EXACT["sentencepiece"]
    assert tokenizer.encode("the").tolist() != tokenizer.encode(" the").tolist()
    assert tokenizer.token_bytes(tokenizer.encode(" the")) == [b" the"]


@pytest.mark.parametrize("kind", EXACT)
def test_exact_tokenizers_pass_the_self_test(kind: str) -> None:
    EXACT[kind].self_test()
    EXACT[kind].self_test(HEX)


def test_lowercasing_is_refused_for_latin_1_and_allowed_for_lower_case_hex() -> None:
    tokenizer = text_tokenizer(lowercasing_tokenizer())
    tokenizer.self_test(HEX)
    with pytest.raises(NotReversible, match=r"'A' \(U\+0041\)"):
        tokenizer.self_test()
    with pytest.raises(NotReversible, match=r"'A' \(U\+0041\) at character 2"):
        tokenizer.check("00AA", tokenizer.encode("00AA"))


def test_word_piece_loses_spaces_and_is_refused() -> None:
    with pytest.raises(NotReversible):
        text_tokenizer(word_piece_tokenizer(), None).self_test(HEX)


def test_forgotten_control_characters_get_stand_ins() -> None:
    content = json.loads(byte_level_tokenizer(("<|endoftext|>", "<|im_start|>", "<file_sep>", "<jupyter>")).to_str())
    stand_in = {chr(0x100 + 4): 4, chr(0x100 + 6): 6}  # GPT-2's printable names of bytes 4 and 6
    vocab = content["model"]["vocab"]
    for name in stand_in:
        vocab[f"unused {name}"] = vocab.pop(name)
    tokenizer = TextTokenizer(content, bos_id=1)
    text = "a\x04\x06\x04b <file_sep>"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert ids[1:4].tolist() == [3, 2, 3]
    assert {2, 3} <= set(tokenizer.support(frozenset(b"\x04\x06")).tolist())
    assert not {2, 3} & set(tokenizer.support(HEX).tolist())
    tokenizer.self_test()


def test_support_is_every_token_made_of_the_alphabet() -> None:
    tokenizer = EXACT["byte-level"]
    support = tokenizer.support(HEX)
    by_hand = [i for i in range(tokenizer.vocabulary_size) if (b := tokenizer.token_bytes([i])[0]) and set(b) <= HEX]
    assert support.tolist() == by_hand
    assert support.dtype == np.int32
    assert set(tokenizer.encode("3f80 0000 be19").tolist()) <= set(support.tolist())
    assert tokenizer.support(None).tolist() == list(range(tokenizer.vocabulary_size))
    assert not set(tokenizer.special_ids) & set(support.tolist())


@settings(deadline=None, max_examples=60)
@given(text=st.text("0123456789abcdef ", max_size=50))
def test_support_covers_every_text_of_the_alphabet(text: str) -> None:
    for tokenizer in EXACT.values():
        support = set(tokenizer.support(HEX).tolist())
        assert set(tokenizer.encode(text).tolist()) <= support


def test_a_run_that_is_no_text_is_refused() -> None:
    tokenizer = EXACT["byte-level"]
    half = next(i for i in range(tokenizer.vocabulary_size) if tokenizer.token_bytes([i]) == [b"\xc3"])
    with pytest.raises(NotReversible, match="character is cut"):
        tokenizer.decode([half])
    with pytest.raises(InvalidSetting, match="beyond the vocabulary"):
        tokenizer.token_bytes([10**6])


def test_fingerprint_follows_content_not_spelling() -> None:
    content = json.loads(byte_level_tokenizer().to_str())
    base = TextTokenizer(content, 1).fingerprint
    reordered = dict(reversed(content.items())) | {"padding": None, "truncation": {"max_length": 5}}
    assert TextTokenizer(reordered, 1).fingerprint == base
    joined = json.loads(json.dumps(content))
    joined["model"]["merges"] = [" ".join(pair) for pair in joined["model"]["merges"]]
    assert TextTokenizer(joined, 1).fingerprint == base
    assert TextTokenizer(content, 0).fingerprint != base
    swapped = json.loads(json.dumps(content))
    swapped["model"]["merges"][0], swapped["model"]["merges"][1] = (
        swapped["model"]["merges"][1],
        swapped["model"]["merges"][0],
    )
    assert TextTokenizer(swapped, 1).fingerprint != base


@pytest.mark.parametrize(
    ("tokenizer_config", "config", "expected"),
    [
        ({"bos_token": "<s>"}, {"bos_token_id": 7}, 1),
        ({"bos_token": {"content": "<s>"}}, {}, 1),
        ({}, {"bos_token_id": 7}, 7),
        ({"eos_token": "</s>"}, {"bos_token_id": None}, 2),
        ({}, {"eos_token_id": [5, 6]}, 5),
        ({}, {}, None),
    ],
)
def test_start_token_convention(tokenizer_config: dict, config: dict, expected: int | None) -> None:  # type: ignore[type-arg]
    assert start_token({"<s>": 1, "</s>": 2}, tokenizer_config, config) == expected


def test_rows_of_the_head_beyond_the_vocabulary_spell_nothing(tiny_folder: Callable[[str], Path]) -> None:
    tokenizer = tokenizer_of_folder(tiny_folder("tiny_sentencepiece_llama"))
    assert len(tokenizer.support(None)) == tokenizer.vocabulary_size
    assert tokenizer.token_bytes([tokenizer.vocabulary_size - 1]) == [b""]


def test_folders_without_a_usable_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no tokenizer"):
        tokenizer_of_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "BPE"}}', encoding="utf-8")
    with pytest.raises(ModelUnavailable, match=r"tokenizer\.json"):
        tokenizer_of_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ModelUnavailable, match="not a tokenizer"):
        tokenizer_of_folder(tmp_path)


def test_tokenizing_needs_neither_torch_nor_transformers(tiny_folder: Callable[[str], Path]) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from lmgc_core.language_model import load_tokenizer; "
        f"load_tokenizer({str(tiny_folder('tiny_llama'))!r}).encode('3f80'); "
        "print([m for m in ('torch', 'transformers', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_slow_tokenizer_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMGC_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    byte_level_tokenizer(("<|endoftext|>",)).model.save(str(folder))  # vocab.json and merges.txt, as GPT-2 has
    (folder / "config.json").write_text('{"model_type": "gpt2", "vocab_size": 330}', encoding="utf-8")
    first = tokenizer_of_folder(folder)
    assert first.decode(first.encode("3f80 \xff<|endoftext|>")) == "3f80 \xff<|endoftext|>"
    kept = list((tmp_path / "cache" / "tokenizers").iterdir())
    assert len(kept) == 1
    assert tokenizer_of_folder(folder).fingerprint == first.fingerprint


@pytest.mark.model
def test_the_default_tokenizer_keeps_all_of_latin_1() -> None:
    from lmgc_core.language_model import load_tokenizer

    tokenizer = load_tokenizer("smollm2-135m")
    tokenizer.self_test()
    assert (tokenizer.bos_id, tokenizer.vocabulary_size) == (1, 49152)
    text = bytes(range(256)).decode("latin-1") + "<|im_end|>3f80 0000"
    assert tokenizer.decode(tokenizer.encode(text)) == text

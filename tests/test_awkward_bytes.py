"""Bytes and lengths that tokenizers, windows and coders trip over, all the way through an archive and back.

Written as Latin-1 text without separators, a gradient's bytes are the characters that a tokenizer sees.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core.archive import compress, decompress
from lmgc_core.codec import measure
from lmgc_core.errors import IncompatibleContainer, InvalidSetting, NotReversible
from lmgc_core.gradient import DTYPES, Gradient, Tensor, TensorSpec
from lmgc_core.language_model import load_model, load_tokenizer
from lmgc_core.plan import prepare
from lmgc_core.settings import CodecConfig
from lmgc_core.token_efficiency import count_tokens
from tests.tiny_models import byte_level_tokenizer, lowercasing_tokenizer, word_piece_tokenizer

LATIN_1 = CodecConfig(
    planes="all", alphabet="iso", separator="none", group_size=0, byte_order="little", context_window=128, segment=3
)
SPECIAL_NAMES = b"<|endoftext|><|im_start|><s></s><unk><0x41>[PAD]  "
AWKWARD = {
    "spaces before punctuation": b" . , ! ? ' n't 's ; : ( ) [ ]   ",
    "two leading spaces": b"  two leading...",
    "trailing spaces": b"trailing spaces   \x00 ",
    "only spaces": b" " * 40,
    "names of special tokens": SPECIAL_NAMES + bytes(-len(SPECIAL_NAMES) % 4),
    "NUL in the middle": b"ab\x00cd\x00\x00\x00ef\x00g",
    "all NUL": bytes(256),
    "every kind of line end": b"a\rb\nc\r\nd\n\re\x0bf\x0cg\x1ch\x1di\x1ej\x85k\xa0l..",
    "looks like UTF-8": "Ã©â‚¬ÃŸ".encode("latin1", "ignore") + "é€ß😀".encode() + b"\xc3",
    "every byte": bytes(range(256)),
    "nothing likely": np.random.default_rng(29).bytes(512),
    "ends in zeros": np.random.default_rng(30).bytes(32) + bytes(96),
    "ends in ones": np.random.default_rng(30).bytes(32) + b"\xff" * 96,
}


def as_float32(data: bytes) -> Gradient:
    data += bytes(-len(data) % 4)
    return Gradient.from_bytes([TensorSpec("w", DTYPES["float32"], (len(data) // 4,))], data)


@pytest.mark.parametrize("family", ["tiny_llama", "tiny_sentencepiece_llama"])
@pytest.mark.parametrize("what", AWKWARD)
def test_awkward_bytes_come_back_from_their_tokens(what: str, family: str, tiny_folder: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(str(tiny_folder(family)))
    gradient = as_float32(AWKWARD[what])
    coding = prepare(gradient, LATIN_1)
    words = []
    for window in coding.windows(range(len(coding.blocks)), tokenizer, LATIN_1.context_window):
        assert not set(window.ids.tolist()) & tokenizer.special_ids
        assert set(window.ids.tolist()) <= set(tokenizer.support(coding.serializers["float32"].alphabet_bytes).tolist())
        pieces = coding.values(window.pieces)
        words += coding.serializers["float32"].read(tokenizer.decode(window.ids), pieces, window.text.remainder)
    assert b"".join(w.tobytes() for w in words) == gradient.to_bytes()


def test_awkward_bytes_come_back_from_an_archive(tiny_model: Any) -> None:
    """All of them at once, so that their windows decode in step."""
    gradient = Gradient(tuple(replace_name(as_float32(data), what) for what, data in AWKWARD.items()))
    found = decompress(compress(gradient, tiny_model, replace(LATIN_1, segment=64), verify="none"), tiny_model)
    assert found.specs == gradient.specs
    assert found.to_bytes() == gradient.to_bytes()


def replace_name(gradient: Gradient, name: str) -> Tensor:
    tensor = gradient.tensors[0]
    return Tensor(replace(tensor.spec, name=name), tensor.words)


@pytest.mark.parametrize("n", [0, 1, 126, 127, 128, 255])
def test_token_counts_around_the_context_of_absolute_positions(n: int, tiny_folder: Callable[[str], Path]) -> None:
    """GPT-2 sees 128 tokens, the start token included; one token a value makes counts exact."""
    model = load_model(str(tiny_folder("tiny_gpt2")))
    config = CodecConfig(
        planes="all", alphabet="iso", separator="none", group_size=0, context_window=128, support="full"
    )
    # No two of these bytes stand together in a token, so each value is a token of its own.
    gradient = Gradient.from_arrays({"w": np.resize(np.uint8([1, 2, 3, 4, 5]), n)})
    report = measure(gradient, model, config, limit=0)
    assert report.totals.n_tokens == n
    windows = [r.window for r in report.results]
    assert sum(len(w.ids) for w in windows) == n
    assert all(len(w.ids) <= 127 for w in windows)
    assert len(windows) >= -(-n // 127)
    if n:
        assert report.tokens.groupby("window")["position"].min().eq(1).all(), "every window starts after BOS"
        costs = [float(r.surprisal_bits.sum()) for r in report.results]
        assert sum(costs) == pytest.approx(report.totals.surprisal_bits)
    assert decompress(compress(gradient, model, config, verify="none"), model).to_bytes() == gradient.to_bytes()


def test_a_context_window_beyond_the_models_is_refused(tiny_folder: Callable[[str], Path]) -> None:
    model = load_model(str(tiny_folder("tiny_gpt2")))
    with pytest.raises(InvalidSetting, match=r"more than .* sees at once \(128\)"):
        measure(as_float32(bytes(8)), model, CodecConfig(context_window=129))


def test_ten_times_the_text_is_ten_times_as_many_pieces_and_none_longer(tiny_folder: Callable[[str], Path]) -> None:
    """Tokenizers may need time that grows with the square of a text without spaces: texts are cut first."""
    tokenizer = load_tokenizer(str(tiny_folder("tiny_llama")))

    class Watched:
        def __init__(self) -> None:
            self.lengths: list[int] = []

        def encode(self, text: str) -> Any:
            self.lengths.append(len(text))
            return tokenizer.encode(text)

        def check(self, text: str, ids: Any) -> None:
            tokenizer.check(text, ids)

    config = CodecConfig(separator="none", group_size=0, context_window=2048)
    seen = []
    for n in (864, 8640):
        coding = prepare(as_float32(np.random.default_rng(25).bytes(4 * n)), config)
        watched = Watched()
        windows = list(coding.windows(range(len(coding.blocks)), watched, config.context_window))
        assert sum(w.n_parameters for w in windows) == n
        seen.append(watched.lengths)
    assert max(seen[0]) == max(seen[1]) == 432 * 8
    assert sum(seen[1]) == pytest.approx(10 * sum(seen[0]), rel=0.2)


def unigram_without_bytes() -> Any:
    """As T5, ALBERT and XLNet have it: compatibility forms folded, no byte fallback, an unknown token."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    pieces = [("<unk>", 0.0), *((c, -3.0) for c in "▁0123456789abcdefghijklmnopqrstuvwxyz.,-")]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


LOSSY = {
    "unigram, NFKC": (unigram_without_bytes, r"'\\x00' \(U\+0000\)"),
    "word pieces": (word_piece_tokenizer, r"'\\x00' \(U\+0000\)"),
    "folded case, NFKC": (lowercasing_tokenizer, r"'A' \(U\+0041\)"),
}


@pytest.mark.parametrize("kind", LOSSY)
def test_a_tokenizer_that_loses_characters_is_refused_before_any_value_is_read(kind: str, tmp_path: Path) -> None:
    build, first_lost = LOSSY[kind]
    build().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"bos_token_id": 0}))
    tokenizer = load_tokenizer(str(tmp_path))
    harmless = as_float32(b"0123" * 2)  # characters that all of them keep
    with pytest.raises(NotReversible, match=f"does not keep {first_lost}") as caught:
        count_tokens(harmless, tokenizer, LATIN_1)
    assert "choose another model, or an alphabet" in str(caught.value)
    with pytest.raises(NotReversible, match="does not keep"):
        compress(harmless, tokenizer, replace(LATIN_1, prior="counts"))


def test_a_model_whose_tokenizer_folds_case_still_reads_hexadecimal(tiny_folder: Callable[[str], Path]) -> None:
    model = load_model(str(tiny_folder("tiny_irreversible")))
    with pytest.raises(NotReversible, match="'A'"):
        measure(as_float32(bytes(4)), model, LATIN_1)
    assert measure(as_float32(bytes(64)), model, CodecConfig(), limit=0).totals.n_tokens > 0


def test_a_tokenizer_changed_by_one_merge_is_refused_before_decoding(
    tiny_folder: Callable[[str], Path], tmp_path: Path
):
    folder = tiny_folder("tiny_llama")
    tokenizer = load_tokenizer(str(folder))
    config = CodecConfig(prior="counts", context_window=128)
    made = compress(as_float32(bytes(range(64))), tokenizer, config, verify="none")
    content = json.loads(byte_level_tokenizer().to_str())
    merges = content["model"]["merges"]
    merges[0], merges[1] = merges[1], merges[0]
    for name in ("config.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    other = load_tokenizer(str(tmp_path))
    with pytest.raises(IncompatibleContainer) as caught:
        decompress(made, other)
    for fingerprint in (tokenizer.fingerprint, other.fingerprint):
        assert fingerprint[:8] in str(caught.value), "both fingerprints are named"

"""Tiny random models with real files: folders that transformers and tokenizers read in a moment.

Each function fills a folder with config.json, model.safetensors and a tokenizer, and returns it. The weights
are random with a seed, and large enough that predictions are far from uniform.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CORPUS = [
    "0123456789abcdef " * 4,
    "3f80 0000 bf80 0000 3e99 999a",
    "-7 5 -9 6 12 -3 0 0 1",
    "aAbBcC dD eE fF\nx, y; z",
    "the quick brown fox jumps over the lazy dog",
]


def byte_level_tokenizer(special: Iterable[str] = ("<|endoftext|>", "<|im_start|>"), n_tokens: int = 420) -> Any:
    """A byte-level BPE tokenizer that keeps every byte; special tokens take the first ids."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=n_tokens,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def sentencepiece_like_tokenizer() -> Any:
    """BPE as Llama 2 has it: ▁ for a space, one put before the text, bytes for unknown characters."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    vocab |= {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    for piece in [*"▁0123456789abcdefghijklmnopqrstuvwxyz-,", "▁▁", "▁a", "▁3", "ab", "00", "▁-", "he", "the", "▁the"]:
        vocab.setdefault(piece, len(vocab))
    merges = [("▁", "▁"), ("▁", "a"), ("▁", "3"), ("a", "b"), ("0", "0"), ("▁", "-")]
    merges += [("h", "e"), ("t", "he"), ("▁", "the")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def lowercasing_tokenizer() -> Any:
    """Byte-level BPE behind a normaliser that folds case and compatibility forms: not reversible."""
    from tokenizers import normalizers

    tokenizer = byte_level_tokenizer()
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    return tokenizer


def word_piece_tokenizer() -> Any:
    """WordPiece as BERT has it: white space is lost."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = "0123456789abcdef"
    vocab = {"[UNK]": 0} | {c: 1 + i for i, c in enumerate(letters)} | {f"##{c}": 17 + i for i, c in enumerate(letters)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def save_folder(folder: Path, config: Any, tokenizer: Any, roles: dict[str, str] | None = None, seed: int = 0) -> Path:
    """A folder with a randomly initialised causal model of that configuration and that tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(roles or {}), encoding="utf-8")
    return folder


def llama_config(n_tokens: int, **changes: Any) -> Any:
    """The configuration of a two-layer Llama."""
    from transformers import LlamaConfig

    settings = {
        "vocab_size": n_tokens,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.4,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    return LlamaConfig(**(settings | changes))


def tiny_llama(folder: Path, **changes: Any) -> Path:
    """Llama with a byte-level BPE tokenizer; BOS is id 1, as SmolLM2's is."""
    tokenizer = byte_level_tokenizer()
    config = llama_config(tokenizer.get_vocab_size(), **({"tie_word_embeddings": True} | changes))
    return save_folder(Path(folder), config, tokenizer, {"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>"})


def tiny_sentencepiece_llama(folder: Path) -> Path:
    """Llama with a SentencePiece-like tokenizer (byte fallback, prefix space) and five rows more than tokens."""
    tokenizer = sentencepiece_like_tokenizer()
    config = llama_config(tokenizer.get_vocab_size() + 5)
    return save_folder(Path(folder), config, tokenizer, {"bos_token": "<s>", "eos_token": "</s>"})


def tiny_gpt2(folder: Path) -> Path:
    """GPT-2: absolute positions, a context of 128, no BOS of its own (its end token starts texts)."""
    from transformers import GPT2Config

    tokenizer = byte_level_tokenizer(("<|endoftext|>",))
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(),
        n_positions=128,
        n_embd=32,
        n_layer=2,
        n_head=4,
        initializer_range=0.4,
        bos_token_id=None,
        eos_token_id=None,
    )
    return save_folder(Path(folder), config, tokenizer, {"eos_token": "<|endoftext|>"})


def tiny_llama_without_bos(folder: Path) -> Path:
    """Llama whose files name neither a start nor an end token."""
    tokenizer = byte_level_tokenizer(())
    return save_folder(Path(folder), llama_config(tokenizer.get_vocab_size()), tokenizer)


def tiny_irreversible(folder: Path) -> Path:
    """Llama with a tokenizer that folds case: to be refused."""
    tokenizer = lowercasing_tokenizer()
    return save_folder(Path(folder), llama_config(tokenizer.get_vocab_size()), tokenizer)


def tiny_softcapped(folder: Path) -> Path:
    """Gemma 2: the head's outputs are capped with a tanh."""
    from transformers import Gemma2Config

    tokenizer = byte_level_tokenizer()
    config = Gemma2Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        final_logit_softcapping=3.0,
        initializer_range=0.4,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return save_folder(Path(folder), config, tokenizer, {"bos_token": "<|im_start|>"})


def tiny_scaled(folder: Path) -> Path:
    """Granite: logits are divided by a constant."""
    from transformers import GraniteConfig

    tokenizer = byte_level_tokenizer()
    config = GraniteConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        logits_scaling=4.0,
        initializer_range=0.4,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return save_folder(Path(folder), config, tokenizer, {"bos_token": "<|im_start|>"})


def tiny_bidirectional(folder: Path) -> Path:
    """BERT, which transformers loads as a causal model although it looks to the right: to be refused."""
    from transformers import BertConfig

    tokenizer = byte_level_tokenizer()
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        initializer_range=0.4,
        is_decoder=False,
    )
    return save_folder(Path(folder), config, tokenizer, {"bos_token": "<|im_start|>"})

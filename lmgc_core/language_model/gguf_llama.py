"""Llama weights with a GPT-2 style vocabulary in a .gguf, written as a folder without torch or transformers.

The default model is one. transformers reads it too, and every other architecture, but takes ten times as
long; a test holds the two against each other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.language_model.gguf_file import GgufFile

PRE_TOKENIZERS = ("smollm", "gpt-2", "default")
CONTROL_TOKEN = 3
NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def is_plain_llama(file: GgufFile) -> bool:
    """Whether `write_folder` understands all that the file holds."""
    meta = file.metadata
    known = all(transformers_name(tensor.name) is not None for tensor in file.tensors)
    scaled = any(key.startswith(("llama.rope.scaling", "llama.expert")) for key in meta)
    texts = meta.get("tokenizer.ggml.model") == "gpt2" and meta.get("tokenizer.ggml.pre", "default") in PRE_TOKENIZERS
    return meta.get("general.architecture") == "llama" and texts and known and not scaled


def transformers_name(name: str) -> str | None:
    """The name of a tensor in a transformers checkpoint, None for one that Llama does not have.

    >>> transformers_name("blk.3.attn_q.weight")
    'model.layers.3.self_attn.q_proj.weight'
    """
    if name in NAMES:
        return NAMES[name]
    parts = name.split(".")
    if (
        len(parts) == 4
        and parts[0] == "blk"
        and parts[1].isdigit()
        and parts[2] in BLOCK_NAMES
        and parts[3] == "weight"
    ):
        return f"model.layers.{parts[1]}.{BLOCK_NAMES[parts[2]]}.weight"
    return None


def write_folder(file: GgufFile, folder: Path) -> None:
    """config.json, tokenizer.json, tokenizer_config.json and model.safetensors (fp32) of a plain Llama."""
    from safetensors.numpy import save_file

    meta = file.metadata
    heads = int(meta["llama.attention.head_count"])
    heads_kv = int(meta.get("llama.attention.head_count_kv", heads))
    weights: dict[str, npt.NDArray[np.float32]] = {}
    for name, array in file.arrays():
        rows = {"attn_q": heads, "attn_k": heads_kv}.get(name.split(".")[2] if name.startswith("blk.") else "")
        weights[transformers_name(name) or name] = array if rows is None else halves_of_heads(array, rows)
    tied = "lm_head.weight" not in weights
    for path, content in (
        ("config.json", _config(meta, heads, heads_kv, tied)),
        ("tokenizer.json", _tokenizer(meta)),
        ("tokenizer_config.json", _roles(meta)),
    ):
        (folder / path).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})


def halves_of_heads(array: npt.NDArray[np.float32], n_heads: int) -> npt.NDArray[np.float32]:
    """Rows of a query or key matrix from llama.cpp's order (pairs that rotate together are neighbours) to
    transformers' (first halves, then second halves of each head).

    >>> halves_of_heads(np.float32([[0], [1], [2], [3]]), 1).ravel().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    pairs = array.reshape(n_heads, array.shape[0] // n_heads // 2, 2, *array.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(array.shape))


def _config(meta: dict[str, Any], heads: int, heads_kv: int, tied: bool) -> dict[str, Any]:
    width = int(meta["llama.embedding_length"])
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": int(meta["llama.feed_forward_length"]),
        "num_hidden_layers": int(meta["llama.block_count"]),
        "num_attention_heads": heads,
        "num_key_value_heads": heads_kv,
        "head_dim": int(meta.get("llama.rope.dimension_count", width // heads)),
        "hidden_act": "silu",
        "max_position_embeddings": int(meta["llama.context_length"]),
        "rms_norm_eps": float(meta["llama.attention.layer_norm_rms_epsilon"]),
        "rope_parameters": {"rope_theta": float(meta.get("llama.rope.freq_base", 10000.0)), "rope_type": "default"},
        "tie_word_embeddings": tied,
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
        "bos_token_id": meta.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": meta.get("tokenizer.ggml.eos_token_id"),
        "dtype": "float32",
    }


def _tokenizer(meta: dict[str, Any]) -> dict[str, Any]:
    tokens = meta["tokenizer.ggml.tokens"]
    kinds = meta.get("tokenizer.ggml.token_type") or []
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": tokens[i], **flags} for i, kind in enumerate(kinds) if kind == CONTROL_TOKEN
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in meta["tokenizer.ggml.merges"]],
        },
    }


def _roles(meta: dict[str, Any]) -> dict[str, str]:
    tokens = meta["tokenizer.ggml.tokens"]
    named = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    ids = {role: meta.get(f"tokenizer.ggml.{name}_token_id") for role, name in named.items()}
    return {role: tokens[i] for role, i in ids.items() if isinstance(i, int) and i < len(tokens)}

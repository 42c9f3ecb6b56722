"""One step of a Llama in fp64 on a CPU, for all windows together: ids → the last hidden states.

What transformers computes, with the model's own weights and without what its layers cost beside the products.
Only plain Llamas are taken, and only after a probe has given what the model itself gives; others go the general way.
Law: equal to the model's own hidden states up to `PROBE_TOLERANCE` of the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from lmgc_core.language_model.model import LanguageModel

Matrix = Any
"""A torch tensor of float64 on the CPU."""

PROBE_TOKENS = 4
PROBE_TOLERANCE = 1e-11
_STEADY_ROTARY = ("default", "linear", "llama3")
"""Kinds of rotary tables that do not change with the length of a window."""


class LlamaSteps:
    """Windows at the same position, and what attention keeps of them. Use it under `inference_mode`.

    Args:
        model: a plain Llama in fp64 on the CPU.
        n_rows: windows.
        n_tokens: the most steps.
    """

    def __init__(self, model: LanguageModel, n_rows: int, n_tokens: int) -> None:
        import torch

        backbone = model.module.base_model
        self._backbone, config = backbone, backbone.config
        self._head_width = int(backbone.layers[0].self_attn.head_dim)
        self._position, self._n_rows = 0, n_rows
        positions = torch.arange(n_tokens)[None]
        cos, sin = backbone.rotary_emb(torch.zeros(1, dtype=torch.float64), positions)
        self._cos, self._sin = cos[0], sin[0]
        shape = len(backbone.layers), n_rows, int(config.num_key_value_heads), n_tokens, self._head_width
        self._keys = torch.empty(shape, dtype=torch.float64)
        self._values = torch.empty(shape, dtype=torch.float64)

    def step(self, ids: Sequence[int] | npt.NDArray[np.int64]) -> Matrix:
        """Takes one token of each window; their last hidden states, shape (n_rows, width)."""
        import torch
        from torch.nn.functional import linear, silu

        found = self._backbone.embed_tokens.weight[torch.as_tensor(ids, dtype=torch.int64)]
        for index, layer in enumerate(self._backbone.layers):
            found += self._attention(index, layer.self_attn, _normed(found, layer.input_layernorm))
            rows = _normed(found, layer.post_attention_layernorm)
            gated = silu(linear(rows, layer.mlp.gate_proj.weight)).mul_(linear(rows, layer.mlp.up_proj.weight))
            found += linear(gated, layer.mlp.down_proj.weight)
        self._position += 1
        return _normed(found, self._backbone.norm)

    def _attention(self, index: int, attention: Any, rows: Matrix) -> Matrix:
        """What a layer's attention adds, for inputs of shape (n_rows, width)."""
        import torch
        from torch.nn.functional import linear

        n, width, last = self._n_rows, self._head_width, self._position
        cos, sin = self._cos[last], self._sin[last]
        keys, values = self._keys[index, :n], self._values[index, :n]
        keys[:, :, last] = _turned(linear(rows, attention.k_proj.weight).view(n, -1, width), cos, sin)
        values[:, :, last] = linear(rows, attention.v_proj.weight).view(n, -1, width)
        asked = _turned(linear(rows, attention.q_proj.weight).view(n, -1, width), cos, sin) * width**-0.5
        scores = asked.view(n, keys.shape[1], -1, width) @ keys[:, :, : last + 1].transpose(2, 3)
        mixed = torch.softmax(scores, dim=-1) @ values[:, :, : last + 1]
        return linear(mixed.view(n, -1), attention.o_proj.weight)

    def keep(self, rows: Sequence[int]) -> None:
        """Goes on with these windows alone; rising indices."""
        for room in (self._keys[:, :, :, : self._position], self._values[:, :, :, : self._position]):
            for new, old in enumerate(rows):
                if new != old:
                    room[:, new] = room[:, old]
        self._n_rows = len(rows)


def has_steps(model: LanguageModel) -> bool:
    """Whether `LlamaSteps` computes what a model does.

    Call under `fp64_mode` and `inference_mode`. Found out by a few tokens, on which both have to agree.
    """
    import torch

    if model.device != "cpu" or model.dtype != "fp64" or not _is_plain(model.module.config):
        return False
    ids = torch.arange(PROBE_TOKENS) % model.vocabulary_size
    own = model.hidden_states(ids[None])[0]
    steps = LlamaSteps(model, 1, PROBE_TOKENS)
    found = torch.cat([steps.step([i % model.vocabulary_size]) for i in range(PROBE_TOKENS)])
    return float((found - own).abs().max()) <= PROBE_TOLERANCE * max(1.0, float(own.abs().max()))


def _is_plain(config: Any) -> bool:
    """Whether a configuration is a Llama's without what `LlamaSteps` leaves out."""
    rotary = getattr(config, "rope_parameters", None) or {}
    return (
        getattr(config, "model_type", None) == "llama"
        and config.hidden_act == "silu"
        and not config.attention_bias
        and not config.mlp_bias
        and config.num_hidden_layers > 0
        and rotary.get("rope_type") in _STEADY_ROTARY
    )


def _turned(heads: Matrix, cos: Matrix, sin: Matrix) -> Matrix:
    """Queries or keys turned by their position, shape (n_rows, heads, head_width)."""
    import torch

    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat([-second, first], dim=-1) * sin


def _normed(rows: Matrix, norm: Any) -> Matrix:
    """Rows over their root mean square, times the norm's scale."""
    import torch

    return torch.nn.functional.rms_norm(rows, (rows.shape[-1],), norm.weight, norm.variance_epsilon)

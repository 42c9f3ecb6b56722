"""One step of a Llama in fp64 on a CPU, for all windows together: ids → the last hidden states.

What transformers computes, without what its layers cost beside the products, and with products that read weights the
way they lie in memory: few rows times a matrix is bound by how fast its weights are read and repacked.
Only plain Llamas are taken, and only after a probe has given what the model itself gives; others go the general way.
Law: equal to the model's own hidden states up to `PROBE_TOLERANCE` of the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from lmgc_core.language_model.model import LanguageModel

Matrix = npt.NDArray[np.float64]

PROBE_TOKENS = 4
PROBE_TOLERANCE = 1e-11
_STEADY_ROTARY = ("default", "linear", "llama3")
"""Kinds of rotary tables that do not change with the length of a window."""


@dataclass(frozen=True, slots=True, eq=False)
class LlamaLayer:
    """One layer's weights, each shape (inputs, outputs).

    Attributes:
        norm_in, norm_between: scales of the norms before attention and before the gated layers, shape (width,).
        heads: queries, keys and values side by side.
        out: of attention.
        gates: gate and up side by side.
        down: back to the width.
    """

    norm_in: Matrix
    heads: Matrix
    out: Matrix
    norm_between: Matrix
    gates: Matrix
    down: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class LlamaWeights:
    """Views of a model's weights; nothing is copied.

    Attributes:
        embedding: shape (vocabulary, width).
        layers: in order.
        norm: scales of the last norm, shape (width,).
        epsilon: of the norms.
        n_heads, n_groups, head_width: of attention.
    """

    embedding: Matrix
    layers: tuple[LlamaLayer, ...]
    norm: Matrix
    epsilon: float
    n_heads: int
    n_groups: int
    head_width: int


class LlamaSteps:
    """Windows at the same position, and what attention keeps of them. Make it under `fp64_mode`.

    Args:
        model: in fp64, with weights as `pack` leaves them.
        weights: its views.
        n_rows: windows.
        n_tokens: the most steps.
    """

    def __init__(self, model: LanguageModel, weights: LlamaWeights, n_rows: int, n_tokens: int) -> None:
        from threadpoolctl import ThreadpoolController

        self._products = ThreadpoolController()  # numpy's products use the threads that torch was given
        self._weights, self._position, self._n_rows = weights, 0, n_rows
        self._cos, self._sin = _rotary(model, n_tokens)
        shape = len(weights.layers), n_rows, weights.n_groups
        self._keys = np.empty((*shape, weights.head_width, n_tokens))
        self._values = np.empty((*shape, n_tokens, weights.head_width))

    def step(self, ids: Sequence[int] | npt.NDArray[np.int64]) -> Matrix:
        """Takes one token of each window; their last hidden states, shape (n_rows, width)."""
        import torch

        weights = self._weights
        found = weights.embedding[np.asarray(ids)]
        with self._products.limit(limits=torch.get_num_threads(), user_api="blas"), np.errstate(over="ignore"):
            for index, layer in enumerate(weights.layers):
                found = found + self._attention(index, _normed(found, layer.norm_in, weights.epsilon) @ layer.heads)
                gate, up = np.split(_normed(found, layer.norm_between, weights.epsilon) @ layer.gates, 2, axis=1)
                found += (gate / (1 + np.exp(-gate)) * up) @ layer.down
        self._position += 1
        return _normed(found, weights.norm, weights.epsilon)

    def _attention(self, index: int, heads: Matrix) -> Matrix:
        """What a layer's attention adds, from its queries, keys and values, shape (n_rows, heads + 2 groups)."""
        weights, n, last = self._weights, self._n_rows, self._position
        groups, width = weights.n_groups, weights.head_width
        split = heads.reshape(n, weights.n_heads + 2 * groups, width)
        turned = _turned(split[:, :-groups], self._cos[last], self._sin[last])
        keys, values = self._keys[index, :n], self._values[index, :n]
        keys[..., last] = turned[:, weights.n_heads :]
        values[:, :, last] = split[:, -groups:]
        asked = turned[:, : weights.n_heads].reshape(n, groups, -1, width) * width**-0.5
        scores = asked @ keys[..., : last + 1]
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        mixed = (scores @ values[:, :, : last + 1]) / scores.sum(axis=-1, keepdims=True)
        found: Matrix = mixed.reshape(n, -1) @ weights.layers[index].out
        return found

    def keep(self, rows: Sequence[int]) -> None:
        """Goes on with these windows alone; rising indices."""
        for room in (self._keys[..., : self._position], self._values[:, :, :, : self._position]):
            for new, old in enumerate(rows):
                if new != old:
                    room[:, new] = room[:, old]
        self._n_rows = len(rows)


def steps_weights(model: LanguageModel) -> LlamaWeights | None:
    """Views of the weights of a model that `LlamaSteps` can stand in for, None for any other.

    Call under `fp64_mode`. Found out by a few tokens, on which both have to agree.
    """
    import torch

    if model.device != "cpu" or model.dtype != "fp64" or not _is_plain(model.module.config):
        return None
    weights = _views(model.module.base_model)
    if weights is None:
        return None
    ids = np.arange(PROBE_TOKENS) % model.vocabulary_size
    with torch.inference_mode():
        own = model.hidden_states(torch.as_tensor(ids[None]))[0].numpy()
        steps = LlamaSteps(model, weights, 1, PROBE_TOKENS)
        found = np.concatenate([steps.step(ids[i : i + 1]) for i in range(PROBE_TOKENS)])
    gap = np.abs(found - own).max()
    return weights if gap <= PROBE_TOLERANCE * max(1.0, np.abs(own).max()) else None


def pack(module: Any) -> None:
    """Lays out the weights of a plain Llama for `LlamaSteps`, each (inputs, outputs); the module keeps views of them.

    Values and shapes stay as they are, and so does the memory taken.

    Args:
        module: of transformers, in fp64, its weights its own.
    """
    if not _is_plain(module.config):
        return
    for layer in module.base_model.layers:
        attention, gated = layer.self_attn, layer.mlp
        _side_by_side([attention.q_proj, attention.k_proj, attention.v_proj])
        _side_by_side([attention.o_proj])
        _side_by_side([gated.gate_proj, gated.up_proj])
        _side_by_side([gated.down_proj])


def _side_by_side(linears: Sequence[Any]) -> None:
    """Puts the weights of layers with the same inputs into one matrix (inputs, all outputs)."""
    import torch

    joined = torch.cat([linear.weight.detach().t() for linear in linears], dim=1).contiguous()
    first = 0
    for linear in linears:
        last = first + linear.weight.shape[0]
        linear.weight.data = joined[:, first:last].t()
        first = last


def _joined(linears: Sequence[Any]) -> Matrix | None:
    """The one matrix that the layers' weights are views of, as `_side_by_side` left it; None where they are not."""
    import torch

    first = linears[0].weight.detach()
    width, outputs = first.shape[1], sum(linear.weight.shape[0] for linear in linears)
    start = first.storage_offset()
    for linear in linears:
        weight = linear.weight.detach()
        if weight.stride() != (1, outputs) or weight.storage_offset() != start or linear.bias is not None:
            return None
        if weight.untyped_storage().data_ptr() != first.untyped_storage().data_ptr():
            return None
        start += weight.shape[0]
    found: Matrix = torch.as_strided(first, (width, outputs), (outputs, 1), first.storage_offset()).numpy()
    return found


def _views(backbone: Any) -> LlamaWeights | None:
    config, layers = backbone.config, []
    for layer in backbone.layers:
        attention, gated = layer.self_attn, layer.mlp
        found = [
            _joined([attention.q_proj, attention.k_proj, attention.v_proj]),
            _joined([attention.o_proj]),
            _joined([gated.gate_proj, gated.up_proj]),
            _joined([gated.down_proj]),
        ]
        heads, out, gates, down = found
        if heads is None or out is None or gates is None or down is None:
            return None
        norm_in, norm_between = _numbers(layer.input_layernorm), _numbers(layer.post_attention_layernorm)
        layers.append(LlamaLayer(norm_in, heads, out, norm_between, gates, down))
    return LlamaWeights(
        _numbers(backbone.embed_tokens),
        tuple(layers),
        _numbers(backbone.norm),
        float(config.rms_norm_eps),
        int(config.num_attention_heads),
        int(config.num_key_value_heads),
        int(backbone.layers[0].self_attn.head_dim),
    )


def _numbers(layer: Any) -> Matrix:
    found: Matrix = layer.weight.detach().numpy()
    return found


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


def _rotary(model: LanguageModel, n_tokens: int) -> tuple[Matrix, Matrix]:
    """The model's own cosines and sines, each shape (n_tokens, head_width)."""
    import torch

    with torch.inference_mode():
        positions = torch.arange(n_tokens)[None]
        cos, sin = model.module.base_model.rotary_emb(torch.zeros(1, dtype=torch.float64), positions)
    return cos[0].numpy(), sin[0].numpy()


def _turned(heads: Matrix, cos: Matrix, sin: Matrix) -> Matrix:
    """Queries and keys turned by their position, shape (n_rows, heads, head_width)."""
    half = heads.shape[-1] // 2
    swapped = np.concatenate([-heads[..., half:], heads[..., :half]], axis=-1)
    found: Matrix = heads * cos + swapped * sin
    return found


def _normed(rows: Matrix, scale: Matrix, epsilon: float) -> Matrix:
    """Rows over their root mean square, times the scale."""
    squares = np.einsum("ij,ij->i", rows, rows) / rows.shape[1]
    found: Matrix = rows * (1 / np.sqrt(squares + epsilon))[:, None] * scale
    return found

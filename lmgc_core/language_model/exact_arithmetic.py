"""A language model whose every number is fp64, norms and rotary tables too.

Models cast to fp32 inside (RMSNorm, softmax, rotary tables), whatever their weights are; two machines then
differ by 4e-6 and no archive survives. `Fp64Mode` turns each such cast into one to fp64, for any architecture:
by intercepting what the model asks of torch, not by knowing the model. Built and run under it, one parallel pass and
token-by-token steps agree to about 1e-13. Source of the mechanism: torch.overrides, TorchFunctionMode.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lmgc_core.errors import ModelUnavailable

if TYPE_CHECKING:
    from lmgc_core.language_model.model import LanguageModel

ATTENTION_NAME = "lmgc_exact"


def fp64_mode() -> Any:
    """A context in which torch computes in fp64 wherever fp32 or less is asked for or would come out."""
    import torch
    from torch.overrides import TorchFunctionMode

    narrow = (torch.float32, torch.float16, torch.bfloat16)
    casts = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)
    float64, is_tensor = torch.float64, torch.Tensor

    class Fp64Mode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in casts:
                return args[0].double()
            for argument in args:
                if type(argument) is torch.dtype and argument in narrow:
                    args = tuple(float64 if type(a) is torch.dtype and a in narrow else a for a in args)
                    break
            if kwargs:
                if kwargs.get("dtype") in narrow:
                    kwargs = {**kwargs, "dtype": float64}
                result = func(*args, **kwargs)
            else:
                result = func(*args)
            if isinstance(result, is_tensor) and result.dtype in narrow:
                return result.double()
            return result

    return Fp64Mode()


def exact_model(model: LanguageModel) -> LanguageModel:
    """The same model in fp64, its tables (rotary frequencies ...) computed anew in fp64; shares the tokenizer.

    Call it, and its methods, under `fp64_mode`.

    Raises:
        ModelUnavailable: for weights that are not what the fingerprint stands for (int8, bf16), a model that cannot
            be built again.
    """
    if model.dtype not in ("fp32", "fp64"):
        raise ModelUnavailable(
            f"{model.id} is loaded as {model.dtype}, which rounds its weights; archives need it as fp32 or fp64"
        )
    with fp64_mode():
        return type(model)(
            _exact_module(model.module),
            model.tokenizer,
            model_id=model.id,
            fingerprint=model.fingerprint,
            dtype="fp64",
            device=model.device,
        )


def exact_bytes(model: LanguageModel) -> int:
    """What the fp64 copy of a model takes beside it; nothing where it has fp64 weights already."""
    return 0 if model.dtype == "fp64" else 8 * model.n_parameters


def _exact_module(module: Any) -> Any:
    import torch
    from transformers.initialization import no_init_weights

    config = copy.deepcopy(module.config)
    if getattr(type(module), "_supports_attention_backend", False):
        _register_attention()
        config._attn_implementation = ATTENTION_NAME
    else:
        config._attn_implementation = "eager"
    with no_init_weights():
        exact = type(module)(config)
    weights = module.state_dict()
    shared = all(t.dtype == torch.float64 for t in weights.values() if t.is_floating_point())
    exact = exact.to(device=next(module.parameters()).device)
    missing, unexpected = exact.load_state_dict(weights, strict=False, assign=shared)
    exact.tie_weights()
    lost = [name for name in missing if not _is_tied(exact, name, weights)]
    if lost or unexpected:
        raise ModelUnavailable(
            f"{type(module).__name__} cannot be built again in fp64 ({len(lost)} weights missing, "
            f"{len(unexpected)} unknown); archives cannot be made with it"
        )
    return exact.double().eval().requires_grad_(False)


def _is_tied(module: Any, name: str, given: Any) -> bool:
    """Whether a weight that was not given shares its storage with one that was."""
    own = module.state_dict(keep_vars=True)
    return any(own[other].data_ptr() == own[name].data_ptr() for other in given if other in own)


def _register_attention() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, exact_attention)


def exact_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **others: Any,
) -> tuple[Any, None]:
    """Causal attention over all keys so far, grouped queries without copying keys, in the precision given.

    Windows of a batch are at the same position and padded at the end only, so no mask is needed beyond causality.

    Args:
        query: shape (n, heads, q, d); the last q positions of
        key, value: shape (n, groups, t, d).
        scaling: of the scores; 1/sqrt(d) if not given.
        sliding_window: how many keys back a query sees, None for all.
        softcap: tanh cap of the scores.
        s_aux: a score a head that goes to no key.

    Returns: shape (n, q, heads, d), and None for the weights.
    """
    import torch

    n, heads, q, d = query.shape
    groups, t = key.shape[1], key.shape[2]
    scaling = d**-0.5 if scaling is None else scaling
    slides = sliding_window is not None and sliding_window < t
    plain = softcap is None and s_aux is None and not slides
    if plain and q == t and q > 1:
        found = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=groups != heads
        )
        return found.transpose(1, 2), None
    rows = (query * scaling).reshape(n, groups, heads // groups * q, d)
    scores = torch.matmul(rows, key.transpose(2, 3)).view(n, heads, q, t)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if q > 1 or slides:
        back = torch.arange(t - q, t, device=query.device)[:, None] - torch.arange(t, device=query.device)[None, :]
        hidden = back < 0
        if slides:
            hidden = hidden | (back >= int(sliding_window or 0))
        scores = scores.masked_fill(hidden, float("-inf"))
    if s_aux is not None:
        scores = torch.cat([scores, s_aux.view(1, heads, 1, 1).expand(n, heads, q, 1)], dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., :t]
    found = torch.matmul(weights.reshape(n, groups, heads // groups * q, t), value)
    return found.view(n, heads, q, d).transpose(1, 2), None


def step_cache(model: LanguageModel, n_rows: int, n_tokens: int) -> Any:
    """A cache for `n_rows` windows of up to `n_tokens`, allocated once; `keep(rows)` drops the other rows.

    Raises:
        ModelUnavailable: for a model that keeps something else than keys and values (recurrent layers).
    """
    import torch
    from transformers import cache_utils

    layer_base: Any = cache_utils.CacheLayerMixin
    cache_base: Any = cache_utils.Cache

    class Layer(layer_base):  # type: ignore[misc]
        is_sliding = False

        def __init__(self) -> None:
            super().__init__()
            self.length, self.rows = 0, n_rows

        def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
            def room(states: Any) -> Any:
                return torch.empty(
                    (n_rows, states.shape[1], n_tokens, states.shape[3]), dtype=states.dtype, device=states.device
                )

            self.keys, self.values = room(key_states), room(value_states)
            self.is_initialized = True

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            start, stop = self.length, self.length + key_states.shape[2]
            self.length = stop
            for room, states in ((self.keys, key_states), (self.values, value_states)):
                room[: self.rows, :, start:stop] = states
            return self.keys[: self.rows, :, :stop], self.values[: self.rows, :, :stop]

        def keep(self, rows: list[int]) -> None:
            for room in (self.keys, self.values):
                for new, old in enumerate(rows):
                    if new != old:
                        room[new, :, : self.length] = room[old, :, : self.length]
            self.rows = len(rows)

        def get_seq_length(self) -> int:
            return self.length

        def get_max_length(self) -> int:
            return n_tokens

        def get_max_cache_shape(self) -> int:
            return n_tokens

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return self.length + query_length, 0

    class StepCache(cache_base):  # type: ignore[misc]
        def keep(self, rows: list[int]) -> None:
            for layer in self.layers:
                layer.keep(rows)

    config = model.module.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if not kinds <= {"full_attention", "sliding_attention"}:
        raise ModelUnavailable(
            f"{model.id} has layers of kind {', '.join(sorted(kinds))}; archives need a model with attention alone"
        )
    return StepCache(layers=[Layer() for _ in range(config.num_hidden_layers)])


def cache_bytes_per_token(model: LanguageModel) -> int:
    """What the fp64 keys and values of one token of one window take, by the configuration."""
    config = model.module.config.get_text_config()
    heads = int(config.num_attention_heads)
    groups = int(getattr(config, "num_key_value_heads", None) or heads)
    width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    return 2 * 8 * int(config.num_hidden_layers) * groups * width


def cache_argument(forward: Callable[..., Any]) -> str:
    """The name under which a model's forward takes its cache; it changed in transformers 5."""
    import inspect

    names = inspect.signature(forward).parameters
    return "cache" if "cache" in names else "past_key_values"

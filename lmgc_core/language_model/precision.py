"""The model's precision while measuring: int8 weights and activations where that is faster and nearly as good.

Dynamic quantisation, one scale an output channel for weights, one a pass for activations. The projection out
of each MLP stays fp32: its inputs have outliers, and quantising it too costs 0.4 bits a token on the default
model. The output head stays fp32 as well. Only the CPU has these kernels.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lmgc_core.errors import InvalidSetting

if TYPE_CHECKING:
    from lmgc_core.language_model.model import LanguageModel

KEPT_EXACT = ("down_proj", "fc2", "w2", "dense_4h_to_h", "fc_out")


def quantise_backbone(model: LanguageModel) -> None:
    """Replaces the linear layers of a loaded fp32 model, but for those that suffer, with int8 ones; in place.

    Raises:
        InvalidSetting: on a device other than the CPU, or for a model without such layers.
    """
    import torch

    if model.device != "cpu":
        raise InvalidSetting(f"int8 is for the CPU, not {model.device}; choose --dtype bf16 or fp32 there")
    head = model.module.get_output_embeddings()
    names = [
        name
        for name, module in model.module.named_modules()
        if type(module) is torch.nn.Linear and module is not head and name.rsplit(".", 1)[-1] not in KEPT_EXACT
    ]
    if not names:
        raise InvalidSetting(f"{model.id} has no linear layers that int8 is for; choose --dtype fp32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantization: Any = import_module("torch.ao.quantization")
        plan = dict.fromkeys(names, quantization.per_channel_dynamic_qconfig)
        quantization.quantize_dynamic(model.module, plan, dtype=torch.qint8, inplace=True)

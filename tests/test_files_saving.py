"""Saving: the same bits back, a file as a whole or not at all, and what a format cannot hold."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files import load_gradient, save_gradient
from lmgc_core.gradient import DTYPES, Gradient, Tensor, TensorSpec
from tests.file_kinds import some_arrays

NUMPY_DTYPES = [n for n in DTYPES if not n.startswith(("bfloat", "float8"))]


def as_map(gradient: Gradient) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {t.name: (t.dtype.name, t.shape, t.words.tobytes()) for t in gradient}


@pytest.mark.parametrize("ending", [".safetensors", ".npz"])
def test_the_same_bits_come_back(ending: str, tmp_path: Path) -> None:
    gradient = Gradient.from_arrays(some_arrays())
    assert as_map(load_gradient(save_gradient(gradient, tmp_path / f"g{ending}"))) == as_map(gradient)


@st.composite
def gradients(draw: st.DrawFn) -> Gradient:
    tensors = []
    names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
    for name in draw(st.lists(names, unique=True, max_size=4)):
        dtype = DTYPES[draw(st.sampled_from(list(DTYPES)))]
        shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
        spec = TensorSpec(name, dtype, shape)
        data = draw(st.binary(min_size=spec.raw_bytes, max_size=spec.raw_bytes))
        tensors.append(Tensor(spec, np.frombuffer(data, dtype.word)))
    return Gradient(tuple(tensors))


@settings(max_examples=80, deadline=None)
@given(gradient=gradients(), ending=st.sampled_from([".safetensors", ".npz"]))
def test_any_gradient_round_trips_or_says_why(
    gradient: Gradient, ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("s")
    path = folder / f"g{ending}"
    held_by_numpy = all(t.dtype.name in NUMPY_DTYPES for t in gradient)
    try:
        save_gradient(gradient, path)
    except UnsupportedInput:
        assert (ending == ".npz" and not held_by_numpy) or not len(gradient)
        assert list(folder.iterdir()) == []
        return
    if len(gradient):
        assert as_map(load_gradient(path)) == as_map(gradient)


@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".npy"])
def test_every_type_is_kept_or_refused_by_name(dtype: str, ending: str, tmp_path: Path) -> None:
    words = np.arange(8, dtype=np.uint64).astype(DTYPES[dtype].word)
    gradient = Gradient((Tensor(TensorSpec("g", DTYPES[dtype], (2, 4)), words),))
    path = tmp_path / f"g{ending}"
    if ending != ".safetensors" and dtype not in NUMPY_DTYPES:
        with pytest.raises(UnsupportedInput, match=rf"^g\{ending}: .*{dtype}.*\.safetensors"):
            save_gradient(gradient, path)
        assert not list(tmp_path.iterdir())
    else:
        (tensor,) = load_gradient(save_gradient(gradient, path))
        assert (tensor.dtype.name, tensor.shape, tensor.words.tobytes()) == (dtype, (2, 4), words.tobytes())


def test_libraries_read_what_was_saved(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    gradient = Gradient.from_arrays({"w": np.arange(6, dtype="<f4").reshape(2, 3), "b": np.array(1.5, "<f8")})
    assert load_file(save_gradient(gradient, tmp_path / "g.safetensors"))["w"].tolist() == gradient["w"].tolist()
    with np.load(save_gradient(gradient, tmp_path / "g.npz")) as archive:
        assert archive["w"].tobytes() == gradient["w"].tobytes()
        assert archive["b"].shape == ()
    assert np.load(save_gradient(gradient.select(["w"]), tmp_path / "g.npy")).tolist() == gradient["w"].tolist()


def test_torch_layouts_are_saved_in_logical_order(tmp_path: Path) -> None:
    tensor = torch.arange(48.0).reshape(2, 3, 2, 4).to(memory_format=torch.channels_last).to(torch.bfloat16)
    gradient = Gradient.from_arrays({"w": tensor, "t": torch.arange(6.0).reshape(2, 3).t()})
    back = load_gradient(save_gradient(gradient, tmp_path / "g.safetensors"))
    assert back.tensor("w").words.tobytes() == tensor.contiguous().view(torch.uint8).numpy().tobytes()
    assert back["t"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_metadata_goes_along(tmp_path: Path) -> None:
    gradient = Gradient(Gradient.from_arrays({"w": np.ones(2)}).tensors, metadata={"step": "60"})
    assert load_gradient(save_gradient(gradient, tmp_path / "g.safetensors")).metadata == {"step": "60"}


def test_a_file_is_replaced_as_a_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "g.npy"
    old = Gradient.from_arrays({"w": np.ones(2)})
    save_gradient(old, path)
    with pytest.raises(UnsupportedInput):
        save_gradient(Gradient.from_arrays({"w": torch.ones(2, dtype=torch.bfloat16)}), path)
    assert load_gradient(path).digest == old.digest

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lmgc_core.files.saving._write_array", full)
    with pytest.raises(UnsupportedInput, match="No space left"):
        save_gradient(old, path)
    assert load_gradient(path).digest == old.digest
    assert [p.name for p in tmp_path.iterdir()] == ["g.npy"]


@pytest.mark.parametrize(
    ("path", "word"),
    [("g.txt", "end the name in one of"), ("missing/g.npy", "No such file"), ("g.npy", "holds one array, there are 4")],
)
def test_what_cannot_be_saved_is_said(path: str, word: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedInput, match=word):
        save_gradient(Gradient.from_arrays(some_arrays()), tmp_path / path)


@pytest.mark.parametrize(
    ("name", "ending"),
    [("__metadata__", ".safetensors"), ("a\0b", ".npz"), ("\ud800", ".safetensors"), ("\ud800", ".npz")],
)
def test_names_that_a_format_cannot_hold(name: str, ending: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedInput):
        save_gradient(Gradient.from_arrays({name: np.ones(2)}), tmp_path / f"g{ending}")
    assert not list(tmp_path.iterdir())


def test_saved_files_are_as_readable_as_others(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    saved = save_gradient(Gradient.from_arrays({"w": np.ones(2)}), tmp_path / "g.npz")
    assert saved.stat().st_mode == other.stat().st_mode


def test_equal_gradients_give_equal_files(tmp_path: Path) -> None:
    gradient = Gradient.from_arrays(some_arrays())
    for ending in (".npz", ".safetensors"):
        one, two = (save_gradient(gradient, tmp_path / f"{n}{ending}").read_bytes() for n in "ab")
        assert one == two

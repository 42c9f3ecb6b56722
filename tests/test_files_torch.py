"""torch checkpoints: what people save, and what must stay closed."""

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files import inspect_file, load_gradient, open_source


def saved(content: Any, folder: Path, **how: Any) -> Path:
    path = folder / "g.pt"
    torch.save(content, path, **how)
    return path


def floats(n: int = 6) -> torch.Tensor:
    return torch.arange(n, dtype=torch.float32) - 2.5


def rewritten(path: Path, change: dict[str, bytes | None], method: int = zipfile.ZIP_STORED) -> Path:
    """The archive with members replaced (None: left out); keys are the names' ends."""
    held = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(held) as old, zipfile.ZipFile(path, "w", method) as new:
        for member in old.infolist():
            data: bytes | None = old.read(member)
            for end, replacement in change.items():
                if member.filename.endswith(end):
                    data = replacement
            if data is not None:
                new.writestr(member.filename, data)
    return path


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(UnsupportedInput) as caught:
        load_gradient(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert "weights_only=False" not in text
    assert "weights_only` set to `False" not in text
    assert "trust" not in text
    return text


def test_nested_names_are_joined_and_other_values_left_out(tmp_path: Path) -> None:
    content = {
        "model": OrderedDict(w=floats(), b=torch.nn.Parameter(floats(2))),
        "history": [floats(1), (floats(3), None)],
        "epoch": 7,
        "note": "two\nlines",
        "nothing": None,
        3: floats(4),
    }
    gradient = load_gradient(saved(content, tmp_path))
    assert [t.name for t in gradient] == ["model.w", "model.b", "history.0", "history.1.0", "3"]
    assert gradient.metadata["epoch"] == "7"
    assert gradient.metadata["note"] == "two lines"


def test_a_bare_tensor_has_no_name(tmp_path: Path) -> None:
    gradient = load_gradient(saved(floats(), tmp_path))
    assert gradient[""].tolist() == floats().tolist()


def test_the_published_checkpoints_of_gradients(tmp_path: Path) -> None:
    content = {"state_dict": {"features.0.weight": floats(), "features.0.bias": floats(2)}, "batch_step": 400}
    path = tmp_path / "grad_00000400.ckpt"
    torch.save(content, path)
    gradient = load_gradient(path)
    assert [t.name for t in gradient] == ["state_dict.features.0.weight", "state_dict.features.0.bias"]
    assert gradient.metadata == {"batch_step": "400"}


def test_views_tied_strided_and_expanded(tmp_path: Path) -> None:
    base = torch.arange(2000, dtype=torch.float32)
    content = {
        "view": base[100:110],
        "tied": base[100:110],
        "every_third": base[0:12:3],
        "turned": base[:6].reshape(2, 3).t(),
        "one_repeated": base[5:6].expand(2, 4),
        "channels_last": torch.arange(48.0).reshape(2, 3, 2, 4).to(memory_format=torch.channels_last),
    }
    gradient = load_gradient(saved(content, tmp_path))
    for name, tensor in content.items():
        assert gradient[name].tobytes() == tensor.contiguous().numpy().tobytes()
        assert gradient.tensor(name).shape == tuple(tensor.shape)


WIDTHS = [
    "bfloat16",
    "float16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
    "float8_e5m2fnuz",
    "bool",
    "int8",
    "uint64",
]


@pytest.mark.parametrize("dtype", [getattr(torch, name) for name in WIDTHS])
def test_every_width_by_its_bytes(dtype: torch.dtype, tmp_path: Path) -> None:
    stored = torch.arange(256).to(torch.uint8)
    if dtype == torch.bool:
        stored = stored % 2
    gradient = load_gradient(saved({"g": stored.view(dtype)}, tmp_path))
    assert gradient.tensor("g").words.tobytes() == stored.numpy().tobytes()
    assert gradient.tensor("g").dtype.name == str(dtype).removeprefix("torch.")


def test_optimizer_states_take_the_parameters_names_where_the_file_has_them(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 1)
    for named, expected in ((False, "state.0.exp_avg"), (True, "state.weight.exp_avg")):
        parameters = module.named_parameters() if named else module.parameters()
        optimizer = torch.optim.AdamW(parameters, lr=0.1)
        module(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        names = [t.name for t in load_gradient(saved(optimizer.state_dict(), tmp_path))]
        assert expected in names
        assert len(names) == 6


def test_sparse_values_become_dense_and_equal_places_add_up(tmp_path: Path) -> None:
    sparse = torch.sparse_coo_tensor([[0, 2, 0], [1, 0, 1]], [1.5, 2.0, 4.0], (3, 2))
    gradient = load_gradient(saved({"emb": sparse}, tmp_path))
    assert gradient["emb"].tolist() == [[0, 5.5], [0, 0], [2, 0]]


@pytest.mark.parametrize("place", [999, 3, -1])
def test_sparse_indices_outside_the_shape_are_refused(place: int, tmp_path: Path) -> None:
    path = saved({"emb": torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,))}, tmp_path)
    wrong = np.array([[0, place]], "<i8").tobytes()
    text = refusal(rewritten(path, {"data/0": wrong}))
    assert "'emb'" in text
    assert "sparse" in text
    assert "sparse" in inspect_file(path)["error"]


def test_a_sparse_tensor_of_huge_shape_needs_leave(tmp_path: Path) -> None:
    path = saved({"emb": torch.sparse_coo_tensor([[0]], [1.0], (1 << 40,))}, tmp_path)
    assert "--max-bytes" in refusal(path)


def test_a_repeated_tensor_of_huge_shape_needs_leave(tmp_path: Path) -> None:
    path = saved({"g": torch.ones(1).expand(1 << 40), "small": floats()}, tmp_path)
    assert "--max-bytes 4398046511104" in refusal(path)
    assert load_gradient(path, tensors=["small"]).n_parameters == 6


REFUSED_TENSORS = {
    "complex64": (lambda: torch.ones(2, dtype=torch.complex64), "complex64"),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "quantised"),
    "meta": (lambda: torch.ones(2, device="meta"), "meta"),
    "sparse rows": (lambda: torch.eye(3).to_sparse_csr(), "sparse_csr"),
}


@pytest.mark.parametrize("what", list(REFUSED_TENSORS))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_cannot_be_held_are_named_and_others_load(what: str, tmp_path: Path) -> None:
    make, word = REFUSED_TENSORS[what]
    assert word in refusal(saved({"odd one": make()}, tmp_path))
    gradient = load_gradient(saved({"odd one": make(), "g": floats()}, tmp_path))
    assert [t.name for t in gradient] == ["g"]
    assert any("'odd one'" in w and word in w for w in gradient.warnings)
    assert word in refusal(tmp_path / "g.pt", tensors=["odd one"])


def test_numpy_scalars_and_arrays_beside_tensors_load_without_numpys_code(tmp_path: Path) -> None:
    stored = np.array([[1, 2], [3, 4]], "<i2")
    content = {"lr": np.float64(0.1), "n": np.int32(3), "g": floats(), "a": stored, "f": np.asfortranarray(stored),
               "b": stored.astype(">f4"), "text": np.array(["x"])}  # fmt: skip
    gradient = load_gradient(saved(content, tmp_path))
    assert [t.name for t in gradient] == ["g", "a", "f", "b"]
    assert gradient["a"].tolist() == gradient["f"].tolist() == gradient["b"].tolist() == stored.tolist()
    assert any("'text'" in w for w in gradient.warnings)


class Runs:
    """A pickle of this calls a function when it is opened."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("how", [{}, {"_use_new_zipfile_serialization": False}])
@pytest.mark.parametrize("function", [os.mkdir, os.system, eval, exec, pickle.loads, getattr, np.load, torch.load])
def test_no_foreign_code_runs(function: Any, how: dict[str, Any], tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    argument: Any = str(canary) if function is os.mkdir else f"__import__('os').mkdir({str(canary)!r})"
    if function is os.system:
        argument = f"mkdir {canary}"
    path = saved({"g": floats(), "x": Runs(function, argument)}, tmp_path, **how)
    text = refusal(path)
    assert function.__name__ in text
    assert "torch.save" in text
    assert "error" in inspect_file(path)
    assert not canary.exists()


@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
def test_a_bare_pickle_is_never_opened(protocol: int, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    path = tmp_path / "g.pkl"
    path.write_bytes(pickle.dumps(Runs(os.mkdir, str(canary)), protocol))
    refusal(path)
    assert not canary.exists()


def test_pickles_of_unknown_classes_are_named(tmp_path: Path) -> None:
    text = refusal(saved({"args": Path("x"), "g": floats()}, tmp_path))
    assert "Path" in text


@pytest.mark.parametrize("imported", [False, True])
def test_distributed_tensors_are_named_whatever_was_imported(imported: bool, tmp_path: Path) -> None:
    if imported:
        import torch.distributed.tensor  # noqa: F401
    path = saved({"w": floats()}, tmp_path)
    with zipfile.ZipFile(path) as archive:
        pickled = next(archive.read(n) for n in archive.namelist() if n.endswith("data.pkl"))
    asked = pickled.replace(b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch.distributed.tensor\nDTensor\n")
    assert asked != pickled
    text = refusal(rewritten(path, {"data.pkl": asked}))
    assert "DTensor" in text
    assert "full_tensor" in text


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(
    ("data", "word"), [(b"", "0 bytes"), (b"1234" * 4, "16 bytes"), (b"1" * 400, "400"), (None, "not in")]
)
def test_storages_that_are_not_as_long_as_said(method: int, data: bytes | None, word: str, tmp_path: Path) -> None:
    path = rewritten(saved({"g": floats(64)}, tmp_path), {"data/0": data}, method)
    text = refusal(path)
    assert "storage" in text
    assert word in text


def test_a_tensor_beyond_its_storage_is_refused(tmp_path: Path) -> None:
    path = saved({"g": torch.arange(64.0)[:5]}, tmp_path)
    with zipfile.ZipFile(path) as archive:
        pickled = next(archive.read(n) for n in archive.namelist() if n.endswith("data.pkl"))
    longer = pickled.replace(b"K\x05\x85", b"M\xff\xff\x85")
    assert longer != pickled
    assert "g.pt: " in refusal(rewritten(path, {"data.pkl": longer}))


def test_big_endian_checkpoints_come_back_in_order(tmp_path: Path) -> None:
    path = saved({"g": floats()}, tmp_path)
    rewritten(path, {"byteorder": b"big", "data/0": floats().numpy().astype(">f4").tobytes()})
    assert load_gradient(path)["g"].tolist() == floats().tolist()


@pytest.mark.parametrize("n_levels", [20, 60])
def test_lists_of_lists_of_the_same_list_end(n_levels: int, tmp_path: Path) -> None:
    content: Any = [floats(1)]
    for _ in range(n_levels):
        content = [content, content]
    assert "nested" in refusal(saved(content, tmp_path))


def test_a_list_that_holds_itself_ends(tmp_path: Path) -> None:
    content: list[Any] = [floats()]
    content.append(content)
    assert "nested" in refusal(saved(content, tmp_path))


def test_two_places_of_one_name_are_an_error(tmp_path: Path) -> None:
    assert "duplicate" in refusal(saved({"a.b": floats(), "a": {"b": floats()}}, tmp_path))


def test_no_tensors_is_said(tmp_path: Path) -> None:
    assert "no tensors" in refusal(saved({"epoch": 3}, tmp_path))


def test_names_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    path = saved({"abc": floats()}, tmp_path)
    with zipfile.ZipFile(path) as archive:
        pickled = next(archive.read(n) for n in archive.namelist() if n.endswith("data.pkl"))
    assert "no valid text" in refusal(rewritten(path, {"data.pkl": pickled.replace(b"abc", b"\xed\xa0\x80")}))


def test_programs_are_named(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02N.")
        archive.writestr("m/constants.pkl", b"\x80\x02).")
        archive.writestr("m/code/__torch__.py", b"raise SystemExit")
    assert "TorchScript" in refusal(path)


def test_compressed_storages_are_limited_by_their_declared_size(tmp_path: Path) -> None:
    path = rewritten(saved({"g": torch.zeros(1 << 18)}, tmp_path), {}, zipfile.ZIP_DEFLATED)
    assert "--max-bytes" in refusal(path, max_bytes=1 << 20)
    assert load_gradient(path, max_bytes=2 << 20).n_parameters == 1 << 18


def test_an_old_torch_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved({"g": floats()}, tmp_path)
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    assert "2.10" in refusal(path)


def test_values_are_mapped_and_not_read(tmp_path: Path) -> None:
    path = saved({"g": torch.zeros(1 << 20)}, tmp_path)
    words = open_source(path).read("g").words
    assert str(path) in Path("/proc/self/maps").read_text() if Path("/proc/self/maps").exists() else True
    assert words.nbytes == 4 << 20


def test_two_threads_open_checkpoints_at_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = saved({"lr": np.float64(1), "g": floats()}, tmp_path)
    allowed = torch.serialization.get_safe_globals()
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: load_gradient(path).digest, range(24)))
    assert len(set(opened)) == 1
    assert torch.serialization.get_safe_globals() == allowed

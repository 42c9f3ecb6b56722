"""The bundled gradients: what the manifest says is what the files hold."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors import safe_open

from lmgc_core.errors import InvalidSetting, UnsupportedInput
from lmgc_core.gradient import Gradient
from lmgc_core.samples import SAMPLES_FOLDER, Sample, list_samples, sample_path

SAMPLES = list_samples()
MANIFEST = json.loads((SAMPLES_FOLDER / "MANIFEST.json").read_text(encoding="utf-8"))


def read(path: Path) -> Gradient:
    torch = pytest.importorskip("torch")
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert all(isinstance(t, torch.Tensor) for t in tensors.values())
    return Gradient.from_arrays(tensors)


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_samples", SAMPLES_FOLDER / "make_samples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_samples"] = module
    spec.loader.exec_module(module)
    return module


def test_the_kinds_of_gradient_that_people_start_from_are_there() -> None:
    titles = [s.title for s in SAMPLES]
    assert "ConvNet on MNIST, step 2" in titles
    assert "ConvNet on MNIST, step 60" in titles
    assert any(title.startswith("ViT") for title in titles)
    assert any("row-sparse" in title for title in titles)
    assert {"float32", "bfloat16"} <= {dtype for s in SAMPLES for dtype in s.dtypes}
    assert len(set(titles)) == len(titles)


def test_manifest_and_folder_hold_the_same_files_within_the_limit(maker: ModuleType) -> None:
    files = sorted(SAMPLES_FOLDER.glob("*.safetensors"))
    assert [f.stem for f in files] == sorted(s.name for s in SAMPLES) == sorted(p.name for p in maker.PLANS)
    assert sum(f.stat().st_size for f in files) < 2_500_000


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda e: e["file"])
def test_an_entry_says_what_its_file_holds(entry: dict[str, object]) -> None:
    path = SAMPLES_FOLDER / str(entry["file"])
    assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
    gradient = read(path)
    listed = [(t["name"], t["shape"], t["dtype"]) for t in entry["tensors"]]  # type: ignore[index,attr-defined]
    assert sorted((t.name, list(t.shape), t.dtype.name) for t in gradient) == sorted(listed)
    assert gradient.digest == entry["digest"]
    assert gradient.n_parameters == entry["n_parameters"]
    assert gradient.raw_bytes == entry["raw_bytes"]
    assert entry["licence"] == "MIT"
    with safe_open(path, "np") as file:
        metadata = file.metadata()
    assert metadata["title"] == entry["title"]
    assert json.loads(metadata["settings"]) == entry["settings"]


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda e: e["file"])
def test_tensors_are_cut_to_whole_leading_slices_only(entry: dict[str, object]) -> None:
    for tensor in entry["tensors"]:  # type: ignore[attr-defined]
        shape, full = tensor["shape"], tensor["full_shape"]
        assert shape[1:] == full[1:]
        assert shape[0] <= full[0]
        if entry["kept"] == "all":
            assert shape == full


def test_the_embeddings_gradient_is_zero_in_most_rows() -> None:
    gradient = read(sample_path("embedding_words_step30"))
    rows = np.any(gradient["embedding.weight"] != 0, axis=1)
    assert 10 <= rows.sum() <= 64
    assert rows.mean() < 0.1


def test_values_are_finite_and_not_all_zero() -> None:
    for sample in SAMPLES:
        values = np.concatenate([t.array.astype(np.float64).ravel() for t in read(sample.path)])
        assert np.isfinite(values).all(), sample.name
        assert np.count_nonzero(values) > len(values) / 20, sample.name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp_digits_fp16_step60", "mlp_digits_adamw_exp_avg_sq", "embedding_words_step30"])
def test_making_a_sample_twice_gives_equal_bytes(
    name: str, maker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maker, "FOLDER", tmp_path)
    maker.main([name])
    first = (tmp_path / f"{name}.safetensors").read_bytes()
    maker.main([name])
    assert (tmp_path / f"{name}.safetensors").read_bytes() == first


def test_listing_needs_no_heavy_package() -> None:
    script = (
        "import sys; from lmgc_core.samples import list_samples; assert list_samples(); "
        "print([m for m in ('torch', 'safetensors', 'numpy') if m in sys.modules])"
    )
    root = SAMPLES_FOLDER.parent
    shown = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_a_sample_is_found_by_its_name() -> None:
    assert sample_path(SAMPLES[0].name) == SAMPLES[0].path
    assert SAMPLES[0].path.is_file()
    with pytest.raises(InvalidSetting, match=r"no sample is called 'nothing'; there are convnet"):
        sample_path("nothing")


def test_folders_that_are_not_right(tmp_path: Path) -> None:
    assert list_samples(tmp_path) == []
    with pytest.raises(InvalidSetting, match="folder sample_gradients is missing"):
        sample_path("x", tmp_path)
    (tmp_path / "MANIFEST.json").write_text(json.dumps(MANIFEST[:1]), encoding="utf-8")
    (listed,) = list_samples(tmp_path)
    assert isinstance(listed, Sample)
    with pytest.raises(UnsupportedInput, match=r"listed but missing; make it again with: python"):
        sample_path(listed.name, tmp_path)
    (tmp_path / "MANIFEST.json").write_text("{", encoding="utf-8")
    with pytest.raises(UnsupportedInput, match=r"can't be read"):
        list_samples(tmp_path)
    (tmp_path / "MANIFEST.json").write_text('[{"file": "../../x.safetensors"}]', encoding="utf-8")
    with pytest.raises(UnsupportedInput, match=r"can't be read"):
        list_samples(tmp_path)

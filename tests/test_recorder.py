"""The recorder in real training loops: files hold the bits that the optimizer was about to use."""

from __future__ import annotations

import socket
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import load_file

from lmgc_core.errors import InvalidSetting, UnsupportedInput
from lmgc_core.training import record_gradients

torch = pytest.importorskip("torch")
nn = torch.nn


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(16, 4, generator=generator), torch.randint(3, (16,), generator=generator)


def backward(module: nn.Module, step: int) -> None:
    inputs, labels = batch(step)
    nn.functional.cross_entropy(module(inputs), labels).backward()


def train(module: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[dict[str, torch.Tensor]]:
    """Trains, and keeps by hand what the recorder should have written at each step."""
    kept = []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        backward(module, step)
        kept.append({n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None})
        optimizer.step()
    return kept


def metadata(path: Path) -> dict[str, str]:
    with safe_open(path, "pt") as file:
        return file.metadata()


def assert_same_bits(path: Path, kept: dict[str, torch.Tensor]) -> None:
    loaded = load_file(path)
    assert set(loaded) == set(kept)
    for name, tensor in kept.items():
        assert loaded[name].dtype == tensor.dtype
        assert loaded[name].shape == tensor.shape
        assert torch.equal(loaded[name].view(torch.uint8), tensor.contiguous().view(torch.uint8)), name


@pytest.mark.parametrize("given", [True, False], ids=["optimizer given", "any optimizer"])
def test_every_nth_step_is_a_file_with_the_gradients_bits(tmp_path: Path, given: bool) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    with record_gradients(module, tmp_path / "run", every=3, optimizer=optimizer if given else None) as recorder:
        kept = train(module, optimizer, 7)
    assert [p.name for p in recorder.files] == ["step_00000003.safetensors", "step_00000006.safetensors"]
    assert sorted((tmp_path / "run").iterdir()) == recorder.files
    assert_same_bits(recorder.files[0], kept[2])
    assert_same_bits(recorder.files[1], kept[5])
    assert recorder.n_steps == 7
    assert recorder.n_bytes == sum(p.stat().st_size for p in recorder.files)
    notes = metadata(recorder.files[1])
    assert (notes["step"], notes["module"], notes["optimizer"]) == ("6", "Sequential", "SGD")
    assert (notes["torch"], notes["loss_scale"], notes["recorded"]) == (torch.__version__, "1.0", "gradient")


def test_training_is_not_changed_by_being_recorded(tmp_path: Path) -> None:
    plain, recorded = network(), network()
    train(plain, torch.optim.AdamW(plain.parameters()), 4)
    with record_gradients(recorded, tmp_path, every=1):
        train(recorded, torch.optim.AdamW(recorded.parameters()), 4)
    for before, after in zip(plain.parameters(), recorded.parameters(), strict=True):
        assert torch.equal(before, after)


def test_nothing_is_recorded_after_the_block_or_for_other_modules(tmp_path: Path) -> None:
    module, other = network(), network()
    optimizer, others = torch.optim.SGD(module.parameters(), lr=0.1), torch.optim.SGD(other.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=2) as recorder:
        train(other, others, 5)
        train(module, optimizer, 3)
    train(module, optimizer, 5)
    assert [p.name for p in recorder.files] == ["step_00000002.safetensors"]


def test_steps_that_are_not_due_read_no_gradient(tmp_path: Path) -> None:
    class Watched(nn.Linear):
        reads = 0

        def named_parameters(self, *args: object, **kwargs: object):
            Watched.reads += 1
            return super().named_parameters(*args, **kwargs)

    module = Watched(4, 3)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=1000) as recorder:
        reads = Watched.reads
        for step in range(1, 6):
            backward(module, step)
            optimizer.step()
        assert Watched.reads == reads
    assert recorder.files == []
    assert list(tmp_path.iterdir()) == []
    assert not any(p._backward_hooks for p in module.parameters())
    assert not optimizer._optimizer_step_pre_hooks


def test_accumulation_records_the_sum_once_a_step(tmp_path: Path) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=1) as recorder:
        for step in range(1, 9):
            backward(module, step)
            if step % 4 == 0:
                kept = {n: p.grad.clone() for n, p in module.named_parameters()}
                optimizer.step()
                optimizer.zero_grad()
    assert len(recorder.files) == 2
    assert_same_bits(recorder.files[1], kept)


def test_clipping_before_the_step_is_in_the_record(tmp_path: Path) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=1) as recorder:
        backward(module, 1)
        nn.utils.clip_grad_norm_(module.parameters(), 1e-3)
        optimizer.step()
    total = sum(float((g.double() ** 2).sum()) for g in load_file(recorder.files[0]).values()) ** 0.5
    assert total == pytest.approx(1e-3, rel=1e-3)


def test_autocast_in_bfloat16_records_the_float32_gradients(tmp_path: Path) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=1) as recorder:
        inputs, labels = batch(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = module(inputs)
            loss = nn.functional.cross_entropy(outputs, labels)
        assert outputs.dtype == torch.bfloat16
        loss.backward()
        kept = {n: p.grad.clone() for n, p in module.named_parameters()}
        optimizer.step()
    assert {t.dtype for t in kept.values()} == {torch.float32}
    assert_same_bits(recorder.files[0], kept)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_dtypes_are_kept(tmp_path: Path, dtype: torch.dtype) -> None:
    module = network().to(dtype)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=1) as recorder:
        inputs, labels = batch(1)
        nn.functional.cross_entropy(module(inputs.to(dtype)), labels).backward()
        kept = {n: p.grad.clone() for n, p in module.named_parameters()}
        optimizer.step()
    assert {t.dtype for t in load_file(recorder.files[0]).values()} == {dtype}
    assert_same_bits(recorder.files[0], kept)


@pytest.mark.parametrize("fused", [False, True], ids=["scaler unscales", "optimizer unscales"])
def test_the_loss_scale_says_what_the_values_carry(tmp_path: Path, fused: bool) -> None:
    plain, module = network(), network()
    backward(plain, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with record_gradients(module, tmp_path, every=1) as recorder:
        inputs, labels = batch(1)
        scaler.scale(nn.functional.cross_entropy(module(inputs), labels)).backward()
        scaler.step(optimizer)
        scaler.update()
    scale = float(metadata(recorder.files[0])["loss_scale"])
    assert scale == (1024.0 if fused else 1.0)
    loaded = load_file(recorder.files[0])
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(loaded[name] / scale, parameter.grad)


@pytest.mark.parametrize("fused", [False, True], ids=["scaler unscales", "optimizer unscales"])
def test_a_step_that_the_scaler_skips_is_not_recorded(tmp_path: Path, fused: bool) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with warnings.catch_warnings(), record_gradients(module, tmp_path, every=1) as recorder:
        warnings.simplefilter("ignore")
        inputs, labels = batch(1)
        scaler.scale(nn.functional.cross_entropy(module(inputs * float("inf")), labels)).backward()
        scaler.step(optimizer)
        scaler.update()
        recorder_files = list(recorder.files)
        optimizer.zero_grad()
        backward(module, 2)
        optimizer.step()
    assert recorder_files == []
    assert recorder.n_overflowed == (1 if fused else 0)
    assert len(recorder.files) == 1


def test_a_closure_is_recorded_after_it_has_run(tmp_path: Path) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    kept = {}

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        inputs, labels = batch(1)
        loss = nn.functional.cross_entropy(module(inputs), labels)
        loss.backward()
        kept.update({n: p.grad.clone() for n, p in module.named_parameters()})
        return loss

    with record_gradients(module, tmp_path, every=1) as recorder:
        optimizer.step(closure)
    assert_same_bits(recorder.files[0], kept)


def test_parameters_without_a_gradient_are_left_out_and_counted(tmp_path: Path) -> None:
    module = nn.ModuleDict({"used": nn.Linear(4, 3), "unused": nn.Linear(2, 2), "frozen": nn.Linear(2, 2)})
    module["frozen"].requires_grad_(False)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=1) as recorder:
        backward(module["used"], 1)
        optimizer.step()
    assert set(load_file(recorder.files[0])) == {"used.weight", "used.bias"}
    assert recorder.n_none == 2
    notes = metadata(recorder.files[0])
    assert notes["n_none"] == "2"
    assert notes["none"] == '["unused.weight", "unused.bias"]'


def test_a_step_without_any_gradient_writes_no_file(tmp_path: Path) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=1) as recorder:
        optimizer.step()
    assert recorder.files == []
    assert recorder.n_none == 4


def test_sparse_gradients_become_dense_with_repeated_rows_added(tmp_path: Path) -> None:
    module = nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=1) as recorder:
        module(torch.tensor([1, 7, 1])).sum().backward()
        assert module.weight.grad.is_sparse
        optimizer.step()
    expected = np.zeros((10, 3), np.float32)
    expected[1], expected[7] = 2, 1
    assert np.array_equal(load_file(recorder.files[0])["weight"].numpy(), expected)
    assert metadata(recorder.files[0])["n_sparse"] == "1"


def test_memory_layout_does_not_matter(tmp_path: Path) -> None:
    module = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=1) as recorder:
        module(torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last)).square().sum().backward()
        kept = {n: p.grad.clone() for n, p in module.named_parameters()}
        optimizer.step()
    assert not kept["weight"].is_contiguous()
    assert_same_bits(recorder.files[0], kept)


def test_include_chooses_by_name(tmp_path: Path) -> None:
    module = network()
    with record_gradients(module, tmp_path, every=1, include=r"^2\.|bias") as recorder:
        train(module, torch.optim.SGD(module.parameters(), lr=0.1), 1)
    assert set(load_file(recorder.files[0])) == {"0.bias", "2.weight", "2.bias"}


def test_max_bytes_ends_recording_and_not_the_training(tmp_path: Path) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path / "a", every=1) as recorder:
        train(module, optimizer, 1)
    bound = 3 * recorder.n_bytes + 500
    with (
        pytest.warns(RuntimeWarning, match=r"recording ended before step \d+.*max_bytes"),
        record_gradients(module, tmp_path / "b", every=1, max_bytes=bound) as bounded,
    ):
        train(module, optimizer, 10)
    assert bounded.n_steps == 10
    assert 1 <= len(bounded.files) <= 3
    assert sum(p.stat().st_size for p in (tmp_path / "b").iterdir()) == bounded.n_bytes <= bound
    assert "max_bytes" in bounded.problem


def test_a_folder_that_vanishes_ends_recording_and_not_the_training(tmp_path: Path) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    folder = tmp_path / "run"
    with record_gradients(module, folder, every=1) as recorder:
        folder.rmdir()
        with pytest.warns(RuntimeWarning, match="recording ended before step 1"):
            train(module, optimizer, 3)
    assert recorder.n_steps == 3
    assert recorder.files == []


def test_an_optimizer_made_anew_goes_on_counting(tmp_path: Path) -> None:
    module = network()
    with record_gradients(module, tmp_path, every=2) as recorder:
        for _ in range(2):
            train(module, torch.optim.SGD(module.parameters(), lr=0.1), 3)
    assert [p.name for p in recorder.files] == [f"step_0000000{n}.safetensors" for n in (2, 4, 6)]


def test_two_optimizers_of_one_module_write_their_own_parts(tmp_path: Path) -> None:
    module = network()
    first = torch.optim.SGD(module[0].parameters(), lr=0.1)
    second = torch.optim.AdamW(module[2].parameters())
    with record_gradients(module, tmp_path, every=1) as recorder:
        backward(module, 1)
        first.step()
        second.step()
    assert [p.name for p in recorder.files] == ["step_00000001.safetensors", "step_00000001.optimizer1.safetensors"]
    assert set(load_file(recorder.files[0])) == {"0.weight", "0.bias"}
    assert set(load_file(recorder.files[1])) == {"2.weight", "2.bias"}


def test_a_resumed_training_adds_to_its_folder(tmp_path: Path) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, tmp_path, every=2):
        train(module, optimizer, 4)
    with pytest.raises(InvalidSetting, match="start=4"), record_gradients(module, tmp_path, every=2):
        pass
    with record_gradients(module, tmp_path, every=2, start=4) as recorder:
        train(module, optimizer, 2)
    assert [p.name for p in recorder.files] == ["step_00000006.safetensors"]
    assert len(list(tmp_path.iterdir())) == 3


def test_compiled_modules_keep_their_own_names(tmp_path: Path) -> None:
    module = network()
    whole = torch.compile(module, backend="eager")
    with record_gradients(whole, tmp_path / "whole", every=1) as recorder:
        kept = train(module, torch.optim.SGD(whole.parameters(), lr=0.1), 1)
    assert_same_bits(recorder.files[0], kept[0])
    assert metadata(recorder.files[0])["module"] == "Sequential"

    module = network()
    part = nn.Sequential(torch.compile(module[0], backend="eager"), *module[1:])
    with record_gradients(part, tmp_path / "part", every=1) as recorder:
        train(part, torch.optim.SGD(part.parameters(), lr=0.1), 1)
    assert set(load_file(recorder.files[0])) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_no_step_seen_is_said(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="saw no step"), record_gradients(network(), tmp_path):
        pass


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"every": 0}, "every 0"),
        ({"every": 2.5}, r"every 2\.5"),
        ({"max_bytes": 0}, "max bytes 0"),
        ({"start": -1}, "start -1"),
        ({"include": "("}, "not a regular expression"),
        ({"include": "nowhere"}, r"nowhere.*there are 0\.weight"),
        ({"optimizer": object()}, "register_step_pre_hook"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSetting, match=said) as refused:
        record_gradients(network(), tmp_path, **options)
    assert "\n" not in str(refused.value)


def test_modules_that_cannot_be_recorded_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="no parameter that is trained"):
        record_gradients(network().requires_grad_(False), tmp_path)
    with pytest.raises(InvalidSetting, match=r"is a dict; a torch\.nn\.Module"):
        record_gradients({}, tmp_path)
    with pytest.raises(InvalidSetting, match="complex"):
        record_gradients(nn.Linear(2, 2, dtype=torch.complex64), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UnsupportedInput, match="can't be made"), record_gradients(network(), tmp_path / "file"):
        pass


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _train_distributed(rank: int, port: int, folder: str) -> None:
    from datetime import timedelta

    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2, timeout=timedelta(seconds=200)
    )
    module = nn.parallel.DistributedDataParallel(network(), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with record_gradients(module, folder, every=2) as recorder:
        for step in (1, 2):
            optimizer.zero_grad()
            backward(module, 10 * step + rank)
            optimizer.step()
    Path(f"{folder}.rank{rank}").write_text(str(len(recorder.files)))
    distributed.destroy_process_group()


needs_gloo = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch is built without gloo")


@needs_gloo
def test_a_distributed_module_keeps_its_own_names(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        module = network()
        wrapped = nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        with record_gradients(wrapped, tmp_path / "run", every=1) as recorder:
            backward(wrapped, 1)
            kept = {n: p.grad.clone() for n, p in module.named_parameters()}
            optimizer.step()
    finally:
        torch.distributed.destroy_process_group()
    assert_same_bits(recorder.files[0], kept)
    assert metadata(recorder.files[0])["module"] == "Sequential"


def test_other_ranks_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmgc_core.training.recorder._rank", lambda: 1)
    module = network()
    with record_gradients(module, tmp_path / "run", every=1) as recorder:
        train(module, torch.optim.SGD(module.parameters(), lr=0.1), 3)
    assert recorder.files == []
    assert recorder.n_steps == 3
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@needs_gloo
def test_two_processes_record_their_average_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    context = torch.multiprocessing.spawn(_train_distributed, (_port(), str(folder)), nprocs=2, join=False)
    for _ in range(24):
        if context.join(timeout=10):
            break
    else:
        for process in context.processes:
            process.terminate()
        pytest.fail("two processes did not end within four minutes")
    assert [(tmp_path / f"run.rank{r}").read_text() for r in (0, 1)] == ["1", "0"]
    (file,) = folder.iterdir()
    assert file.name == "step_00000002.safetensors"
    assert metadata(file)["module"] == "Sequential"
    assert metadata(file)["n_processes"] == "2"

    alone = network()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in (1, 2):
        optimizer.zero_grad()
        for rank in (0, 1):
            backward(alone, 10 * step + rank)
        for parameter in alone.parameters():
            parameter.grad /= 2
        optimizer.step()
    for name, parameter in alone.named_parameters():
        torch.testing.assert_close(load_file(file)[name], parameter.grad)

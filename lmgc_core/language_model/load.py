"""Loading a model or its tokenizer; what does not fit, or is no causal model, is refused before it hurts."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from lmgc_core.errors import LmgcError, ModelUnavailable
from lmgc_core.language_model.identity import model_fingerprint
from lmgc_core.language_model.locate import ModelFiles, locate
from lmgc_core.language_model.model import LanguageModel
from lmgc_core.language_model.tokenizer import TextTokenizer, tokenizer_of_folder
from lmgc_core.settings import RunOptions

BYTES_PER_WEIGHT = {"fp32": 4, "int8": 5, "bf16": 2, "fp64": 12}  # while loading: int8 and fp64 are made from fp32
WORKING_BYTES = 300_000_000


def load_tokenizer(
    id_or_path: str,
    *,
    on_progress: Callable[[Any], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> TextTokenizer:
    """The tokenizer of a model, without torch or transformers; fetches the model's files if they are not here.

    Raises:
        ModelUnavailable: when there is no such model, or it cannot be had.
    """
    files = locate(id_or_path, weights=False, on_progress=on_progress, should_stop=should_stop)
    return tokenizer_of_folder(files.folder)


def load_model(
    id_or_path: str,
    options: RunOptions | None = None,
    *,
    on_progress: Callable[[Any], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> LanguageModel:
    """A model ready to score.

    Args:
        id_or_path: a catalogue id, a folder, a .gguf file or a Hub id.
        options: precision, device and threads; defaults for None.
        on_progress: told how a fetch goes on, see `fetch_model`.
        should_stop: stops a fetch.

    Raises:
        ModelUnavailable: when there is no such model, it cannot be had, does not fit in memory, or is not causal.
        Cancelled: when asked to stop.
    """
    options = options or RunOptions()
    files = locate(id_or_path, on_progress=on_progress, should_stop=should_stop)
    tokenizer = tokenizer_of_folder(files.folder)
    check_memory(files, options)
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    device = resolved_device(options.device)
    module = _read(files, options, device)
    model = LanguageModel(
        module,
        tokenizer,
        model_id=files.id,
        fingerprint=model_fingerprint(files.folder, tokenizer.fingerprint),
        dtype="fp32" if options.dtype == "fp64" else options.dtype,
        device=device,
    )
    if options.dtype == "int8":
        from lmgc_core.language_model.precision import quantise_backbone

        quantise_backbone(model)
    elif options.dtype == "fp64":
        from lmgc_core.language_model.exact_arithmetic import exact_model

        return exact_model(model)
    return model


def resolved_device(wanted: str) -> str:
    """The device to compute on; "auto" is an accelerator if torch sees one.

    Raises:
        LmgcError: for a device that torch does not have here.
    """
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=wanted)
    except Exception as error:  # RuntimeError, AssertionError or NotImplementedError, by device
        reason = " ".join(str(error).split())[:120]
        raise LmgcError(f"device {wanted!r} cannot be used here ({reason}); choose auto or cpu") from None
    return wanted


def _read(files: ModelFiles, options: RunOptions, device: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    from lmgc_core.language_model.quiet import quiet_transformers

    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32  # fp64 is built from fp32
    with quiet_transformers():
        try:
            module = AutoModelForCausalLM.from_pretrained(
                files.folder, dtype=dtype, local_files_only=True, trust_remote_code=False
            )
        except MemoryError:
            raise ModelUnavailable(
                f"{files.id} does not fit in memory; choose a smaller model or --dtype bf16"
            ) from None
        except Exception as error:  # every architecture fails in its own way
            raise ModelUnavailable(_why_not(files, error)) from None
    if getattr(module.config, "is_encoder_decoder", False):
        raise ModelUnavailable(f"{files.id} is an encoder-decoder, not a causal language model; choose another")
    usable: Any = module
    return usable.eval().requires_grad_(False).to(device)


def _why_not(files: ModelFiles, error: Exception) -> str:
    text = " ".join(str(error).split())
    if "trust_remote_code" in text:
        return f"{files.id} needs code of its own to run, which is never executed here; choose another model"
    if (
        "Unrecognized configuration class" in text
        or "Unrecognized model" in text
        or "does not recognize this arch" in text
    ):
        return f"{files.id} is not a causal language model that transformers knows; choose another"
    return f"{files.id} cannot be loaded ({type(error).__name__}: {text[:200]})"


def check_memory(files: ModelFiles, options: RunOptions) -> None:
    """Compares what the weights will take with what is free.

    Raises:
        ModelUnavailable: with both figures, when it cannot fit.
    """
    stored = weight_elements(files.folder)
    free = available_memory()
    if stored is None or free is None or resolved_device_kind(options.device) != "cpu":
        return
    need = stored * BYTES_PER_WEIGHT[options.dtype] + WORKING_BYTES
    if need > free:
        raise ModelUnavailable(
            f"{files.id} takes about {need / 1e9:.1f} GB of memory as {options.dtype} and "
            f"{free / 1e9:.1f} GB are free; close something, choose a smaller model, or --dtype bf16"
        )


def resolved_device_kind(wanted: str) -> str:
    """The kind of a device name without asking torch for "cpu"."""
    return "cpu" if wanted == "cpu" else resolved_device(wanted).split(":")[0]


def weight_elements(folder: Path) -> int | None:
    """How many weights a folder's files hold, from their headers; None where that is not known."""
    from safetensors import SafetensorError, safe_open

    total = 0
    paths = sorted(folder.glob("*.safetensors"))
    for path in paths:
        try:
            with safe_open(path, framework="np") as file:
                for name in file.keys():  # noqa: SIM118 - not a mapping
                    n = 1
                    for size in file.get_slice(name).get_shape():
                        n *= size
                    total += n
        except (SafetensorError, OSError) as error:
            raise ModelUnavailable(f"{path} cannot be read ({error}); fetch it again") from None
    if not paths:
        total = sum(path.stat().st_size for path in folder.glob("pytorch_model*.bin")) // 2
    return total or None


def available_memory() -> int | None:
    """Bytes that can be used without swapping, inside a container's limit too; None where the system does not say."""
    found = []
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
    except OSError:
        try:
            psutil: Any = import_module("psutil")
        except ImportError:
            return None
        found.append(int(psutil.virtual_memory().available))
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii").strip()
        if limit.isdigit() and used.isdigit():
            found.append(max(0, int(limit) - int(used)))
    except OSError:
        pass
    return min(found) if found else None

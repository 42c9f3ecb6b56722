"""Child processes that a fetch starts: watched, stopped alone, and silent on our own output streams."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

from lmgc_core.errors import Cancelled

POLL_SECONDS = 0.1
GRACE_SECONDS = 5.0


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    on_tick: Callable[[], None],
    should_stop: Callable[[], bool] | None,
) -> tuple[int, str]:
    """Exit status and all that the child printed, once it has ended.

    Args:
        command: program and arguments.
        environment: the child's whole environment.
        on_tick: called about ten times a second while it runs.
        should_stop: asked as often; true ends this child and no other process.

    Raises:
        Cancelled: when asked to stop; the child has ended by then.
    """
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            list(command), env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while child.poll() is None:
                if should_stop is not None and should_stop():
                    raise Cancelled("stopped while fetching the model; nothing of it was kept")
                on_tick()
                time.sleep(POLL_SECONDS)
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(GRACE_SECONDS)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
        output.seek(0)
        return child.returncode, output.read().decode("utf-8", "replace")


def last_line(text: str) -> str:
    """The last line that says anything, preferably one that begins with ERROR; "" for silence.

    >>> last_line("ERROR: no matching distribution\\n\\nhint: upgrade pip\\n")
    'no matching distribution'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [""])[-1]

"""The image's steps without an engine: what the Dockerfile copies is enough, and its scripts serve and tell health."""

import os
import re
import shutil
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from tests.app_server import Server, Visitor, free_port

ROOT = Path(__file__).parents[1]
STEPS = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text()).splitlines()


def steps(kind: str) -> list[str]:
    return [line.split(" ", 1)[1] for line in STEPS if line.startswith(f"{kind} ")]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `COPY . .` brings of the tracked files, in a folder of its own."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("the list of files comes from git")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    left_out = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]
    folder = tmp_path_factory.mktemp("image")
    for name in listed.stdout.decode().splitlines():
        parts = [*Path(name).parents, Path(name)]
        if (ROOT / name).exists() and not any(fnmatch(str(p), pattern) for p in parts for pattern in left_out):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": "", "LMGC_CACHE": str(folder / "cache"), **more}


def test_every_file_that_the_steps_name_is_in_the_image(image: Path) -> None:
    assert steps("USER") == ["lmgc"]
    for line in (*steps("RUN"), *steps("CMD"), *steps("HEALTHCHECK")):
        for script in re.findall(r"deploy/\w+\.sh", line):
            assert os.access(image / script, os.X_OK), script
    for line in steps("COPY"):
        for source in line.split()[:-1]:
            assert (image / source).exists(), source
    assert not (image / "tests").exists()
    assert not (image / ".git").exists()


def test_the_scripts_are_plain_shell(image: Path) -> None:
    for script in (image / "deploy").glob("*.sh"):
        assert script.read_text().startswith("#!/bin/sh\n")
        subprocess.run(["sh", "-n", script], check=True)


def test_what_is_served_from_the_image_shows_a_gradient_and_no_paths(image: Path, tmp_path: Path) -> None:
    port = free_port()
    served = environment(tmp_path, PORT=str(port), ADDRESS="127.0.0.2")  # loopback, but not this computer's own name
    healthy = [image / "deploy/healthy.sh"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([image / "deploy/serve.sh"], cwd=tmp_path, env=served, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 120
        while subprocess.run(healthy, env=served, capture_output=True).returncode != 0:
            if time.monotonic() > until or process.poll() is not None:
                pytest.fail((tmp_path / "log").read_text()[-2000:])
            time.sleep(0.5)
        visitor = Visitor(cast(Server, SimpleNamespace(host="127.0.0.2", port=port)))
        assert visitor.all("plotly_chart")
        offered = [option.content for group in visitor.all("button_group") for option in group.options]
        assert "upload" in offered
        assert "path" not in offered
        visitor.close()
    finally:
        process.terminate()
        process.wait(30)
    assert subprocess.run(healthy, env=served, capture_output=True).returncode != 0


def test_the_front_matter_names_the_image(image: Path) -> None:
    found: dict[str, Any] = yaml.safe_load((image / "README.md").read_text().split("---\n")[1])
    assert found["sdk"] == "docker"
    assert str(found["app_port"]) == dict(re.findall(r"(\w+)=(\w+)", " ".join(steps("ENV"))))["PORT"]
    assert [str(found["app_port"])] == steps("EXPOSE")

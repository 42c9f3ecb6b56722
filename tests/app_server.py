"""The app as a real server, and visitors that speak Streamlit's own protocol over a websocket.

A visitor keeps what the page shows (one run of its script) and answers as a browser would, without drawing: twenty
of them cost no more than one browser. Loopback only.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.sync.client import connect

ROOT = Path(__file__).parent.parent
SECONDS = 300.0

# Starts Streamlit as its command does, and writes a line for every model that is loaded.
PROGRAM = """
import sys
from pathlib import Path
import lmgc_core.language_model as models
log, load = Path(sys.argv.pop(1)), models.load_model
def told(name, *more, **named):
    with log.open("a") as file:
        file.write(f"{name}\\n")
    return load(name, *more, **named)
models.load_model = told
from streamlit.web.cli import main
sys.exit(main())
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A running app.

    Attributes:
        host, port: where it listens.
        process: of its own.
        loads: the file with a line for every model loaded.
    """

    host = "127.0.0.1"

    def __init__(self, folder: Path, **environment: str) -> None:
        self.port = free_port()
        self.loads = folder / "loads.txt"
        self.log = folder / f"server-{self.port}.log"
        arguments = ["run", "app.py", "--server.headless=true", f"--server.port={self.port}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(self.loads), *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            try:
                requests.get(f"http://127.0.0.1:{self.port}/_stcore/health", timeout=2).raise_for_status()
                return
            except requests.RequestException:
                time.sleep(0.2)
        self.end(signal.SIGKILL)
        raise RuntimeError(f"the app did not start: {self.log.read_text()[-2000:]}")

    def resident_bytes(self) -> int:
        """What the process holds in memory now."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1])

    def end(self, how: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)


@contextmanager
def app_server(folder: Path, **environment: str) -> Iterator[Server]:
    """A server for as long as the block lasts."""
    server = Server(folder, **environment)
    try:
        yield server
    finally:
        server.end()


class Visitor:
    """One browser tab, as far as the server can tell."""

    def __init__(self, server: Server, **query: str) -> None:
        self._address = f"http://{server.host}:{server.port}"
        self._query = urllib.parse.urlencode(query)
        self._web = requests.Session()
        self._web.get(f"{self._address}/_stcore/health", timeout=30)
        self._cached: dict[str, Any] = {}
        self._states: dict[str, WidgetState] = {}
        self.session_id = ""
        self.elements: dict[tuple[int, ...], Any] = {}
        self._socket = connect(
            f"ws://{server.host}:{server.port}/_stcore/stream",
            subprotocols=["streamlit"],  # type: ignore[list-item]
            max_size=None,
            open_timeout=60,
        )
        self.run()

    def close(self) -> None:
        self._socket.close()
        self._web.close()

    def run(self, *triggers: str) -> None:
        """Runs the page's script to its end, with these buttons pressed."""
        message = BackMsg()
        message.rerun_script.query_string = self._query
        states = message.rerun_script.widget_states.widgets
        states.extend(self._states.values())
        states.extend(WidgetState(id=self._id("button", label), trigger_value=True) for label in triggers)
        message.rerun_script.SetInParent()
        self._socket.send(message.SerializeToString())
        while True:
            kind, found = self._receive()
            if kind == "new_session":
                self.session_id = found.new_session.initialize.session_id or self.session_id
                self.elements = {}
            elif kind == "delta" and found.delta.WhichOneof("type") == "new_element":
                self.elements[tuple(found.metadata.delta_path)] = found.delta.new_element
            elif kind == "script_finished" and found.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
                break
        if failures := self.all("exception"):
            raise RuntimeError(f"{failures[0].type}: {failures[0].message}")

    def upload(self, name: str, content: bytes) -> None:
        """Puts a file into the page's one uploader, and runs the page."""
        message = BackMsg()
        message.file_urls_request.request_id = name
        message.file_urls_request.file_names.append(name)
        message.file_urls_request.session_id = self.session_id
        self._socket.send(message.SerializeToString())
        kind, found = self._receive()
        while kind != "file_urls_response":
            kind, found = self._receive()
        place = found.file_urls_response.file_urls[0]
        answer = self._web.put(
            self._address + urllib.parse.urlsplit(place.upload_url).path,
            files={"file": (name, content)},
            headers={"X-Xsrftoken": self._web.cookies.get("_streamlit_xsrf") or ""},
            timeout=60,
        )
        answer.raise_for_status()
        state = WidgetState(id=self.all("file_uploader")[0].id)
        info = state.file_uploader_state_value.uploaded_file_info.add()
        info.name, info.size, info.file_id = name, len(content), place.file_id
        info.file_urls.CopyFrom(place)
        self._states[state.id] = state
        self.run()

    def all(self, kind: str) -> list[Any]:
        """What the page shows of a kind, in its order."""
        return [getattr(e, kind) for _, e in sorted(self.elements.items()) if e.WhichOneof("type") == kind]

    def metrics(self) -> Mapping[str, str]:
        return {m.label: m.body for m in self.all("metric")}

    def errors(self) -> list[str]:
        from streamlit.proto.Alert_pb2 import Alert

        return [a.body for a in self.all("alert") if a.format == Alert.ERROR]

    def texts(self) -> str:
        return "\n".join(m.body for m in self.all("markdown"))

    def _id(self, kind: str, label: str) -> str:
        return next(str(b.id) for b in self.all(kind) if b.label == label)

    def _receive(self) -> tuple[str, Any]:
        found = ForwardMsg()
        found.ParseFromString(self._socket.recv(timeout=SECONDS))
        kind = str(found.WhichOneof("type"))
        if kind == "ref_hash":
            cached = ForwardMsg()
            cached.CopyFrom(self._cached[found.ref_hash])
            cached.metadata.CopyFrom(found.metadata)
            return str(cached.WhichOneof("type")), cached
        if found.hash:
            self._cached[found.hash] = found
        return kind, found

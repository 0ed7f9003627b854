"""Terminals in browsers for tests: the API as a real process, users logged in by cookie, and their WebSockets."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from tests.support.gateway import Gateway
from tests.support.promises import PATIENT
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.process import PARENT_PID, READY_FD
from postern.protocols.terminal import terminal_frames as m
from postern.settings import load

PASSWORD = "a long enough password"
SUBPROTOCOL = "postern.terminal.v1"
SIZE = {"columns": 90, "rows": 20}


class ApiProcess:
    """The API of a gateway. A second one of the same gateway has a different `port`."""

    def __init__(self, gateway: Gateway, name: str = "api", **settings: object) -> None:
        changed = {f"POSTERN_{key.upper()}": str(value) for key, value in settings.items()}
        self.settings = load({**gateway.settings.environment(), **changed})
        self.url = f"http://localhost:{self.settings.api_port}"
        self._log = gateway.home / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        reading, writing = os.pipe()
        environment = {**os.environ, **self.settings.environment()}
        environment |= {READY_FD: str(writing), PARENT_PID: str(os.getpid())}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "postern", "api"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[writing],
                start_new_session=True,
            )
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], PATIENT)
        said = os.read(reading, 100) if ready else b""
        os.close(reading)
        if said != b"ready\n":
            self.kill()
            raise RuntimeError(f"the API did not start:\n{self.log()}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def alive(self) -> bool:
        """Whether it still answers."""
        assert self._process is not None
        return self._process.poll() is None and httpx.get(f"{self.url}/api/healthz").status_code < 500

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def resident(self) -> int:
        """Bytes of memory that it holds now."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(30)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Browser:
    """A user's browser at one API, logged in by cookie."""

    def __init__(self, api: ApiProcess, email: str, *, at: str | None = None) -> None:
        self.api = api
        self.http = httpx.Client(
            base_url=f"{at or api.url}/api", headers={"Origin": api.url, "Sec-Fetch-Site": "same-origin"}
        )
        answer = self.http.post("/localauth/login?session=cookie", json={"email": email, "password": PASSWORD})
        assert answer.status_code == 200, answer.text
        self.csrf: str = answer.json()["csrf_token"]

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())

    def write(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.http.request(method, path, json=body, headers={"X-CSRF-Token": self.csrf})

    def login_id(self) -> str:
        identifier: str = self.http.get("/login/session").json()["login_id"]
        return identifier

    def connect(
        self,
        connection: str,
        *,
        origin: str | None = "own",
        headers: Mapping[str, str] | None = None,
        subprotocols: list[str] | None = None,
        cookie: str | None = None,
        port: int | None = None,
    ) -> ClientConnection:
        """A WebSocket that has sent nothing yet. Raises InvalidStatus."""
        names = [SUBPROTOCOL] if subprotocols is None else subprotocols
        sent = {"Cookie": self.cookie if cookie is None else cookie, **(headers or {})}
        return connect(
            f"ws://localhost:{port or self.api.settings.api_port}/api/connections/{connection}/terminal",
            origin=None if origin is None else Origin(self.api.url if origin == "own" else origin),
            subprotocols=[Subprotocol(name) for name in names] or None,
            additional_headers={name: value for name, value in sent.items() if value},
            compression=None,
            max_size=None,
            ping_interval=None,
            close_timeout=5,
            proxy=None,
        )

    @contextmanager
    def terminal(self, connection: str, **options: Any) -> Iterator[Terminal]:
        """An open terminal."""
        has_credit = options.pop("has_credit", True)
        with self.connect(connection, **options.pop("handshake", {})) as socket:
            terminal = Terminal(socket, has_credit=has_credit)
            terminal.begin(self.csrf, **options)
            terminal.until(lambda: terminal.opened is not None or terminal.closed is not None)
            assert terminal.opened is not None, (terminal.closed, self.api.log())
            yield terminal


class Terminal:
    """A page's end of a WebSocket. With `has_credit` it returns credit at once for all output."""

    def __init__(self, socket: ClientConnection, *, has_credit: bool = True) -> None:
        self.socket = socket
        self.has_credit = has_credit
        self.frames: list[tuple[int, bytes]] = []
        self.messages: list[dict[str, Any]] = []
        self.close_frame: Close | None = None
        self.size = 0
        self.keeps = True

    def begin(self, csrf: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"csrf_token": csrf, **SIZE, **fields}))

    def send(self, *frames: bytes) -> None:
        self.socket.send(b"".join(frames))

    def type(self, text: str) -> None:
        self.send(m.frame(m.STDIN, text.encode()))

    def receive(self, timeout: float = 60.0) -> bool:
        """Receive one message; False once the socket is closed. Raises TimeoutError."""
        try:
            message = self.socket.recv(timeout)
        except ConnectionClosed as closed:
            self.close_frame = closed.rcvd
            return False
        if isinstance(message, str):
            self.messages.append(json.loads(message))
            return True
        reader = m.TerminalFrameReader()
        for kind, payload in reader.feed(message):
            self.size += len(payload)
            if self.keeps or kind not in (m.STDOUT, m.STDERR):
                self.frames.append((kind, payload))
            if self.has_credit and kind in (m.STDOUT, m.STDERR):
                with suppress(ConnectionClosed):
                    self.send(m.credit(len(payload)))
        assert reader.waiting == 0, "a message has an incomplete frame"
        return True

    def until(self, true: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            left = deadline - time.monotonic()
            assert left > 0, f"not within {seconds:g} s: {self.messages} {self.text()!r} {self.text(m.STDERR)!r}"
            try:
                if not self.receive(left):
                    assert true(), f"closed: {self.close_frame} {self.messages} {self.text()!r} {self.text(m.STDERR)!r}"
                    return
            except TimeoutError:
                pass

    def shows(self, text: str, seconds: float = 60.0) -> None:
        self.until(lambda: text in self.text(), seconds)

    def until_closed(self, seconds: float = 60.0) -> dict[str, Any]:
        """The last message, once the socket is closed as that says."""
        deadline = time.monotonic() + seconds
        while self.receive(max(0.01, deadline - time.monotonic())):
            pass
        assert self.closed is not None, (self.close_frame, self.messages)
        assert self.close_frame is not None
        assert self.close_frame.code == self.closed["code"]
        assert self.closed["message"].startswith(self.close_frame.reason)
        return self.closed

    def text(self, kind: int = m.STDOUT) -> str:
        return b"".join(payload for found, payload in self.frames if found == kind).decode(errors="replace")

    @property
    def opened(self) -> dict[str, Any] | None:
        return next((message for message in self.messages if message["status"] == "opened"), None)

    @property
    def closed(self) -> dict[str, Any] | None:
        return next((message for message in self.messages if message["status"] == "closed"), None)

    @property
    def exit(self) -> m.Exit | None:
        return next((m.read_exit(payload) for kind, payload in self.frames if kind == m.EXIT), None)


def add_user(gateway: Gateway, email: str, *groups: str) -> Principal:
    fields = {"email": email, "groups": groups, "password": Secret(PASSWORD)}
    return gateway.call(gateway.services.users.create(gateway.admin, fields)).principal

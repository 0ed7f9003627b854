"""Repositories, and a real git server for them: git's own `git http-backend` behind a small HTTP(S) server."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.certificates import issue

ADA = "Ada Example <ada@example.com>"
_PLAIN = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada Example",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada Example",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    """What it printed. Raises CalledProcessError."""
    done = subprocess.run(["git", *words], cwd=folder, input=given, env=_PLAIN, check=True, capture_output=True)
    return done.stdout.decode(errors="replace").strip()


@dataclass
class Bare:
    """A bare repository on disk."""

    path: Path

    @classmethod
    def made(cls, path: Path, branch: str = "main") -> Bare:
        path.mkdir(parents=True)
        git(path, "init", "--quiet", "--bare", f"--initial-branch={branch}", ".")
        git(path, "config", "http.receivepack", "true")
        return cls(path)

    def commit(
        self,
        files: Mapping[Any, str | bytes],
        message: str = "change",
        *,
        branch: str = "main",
        modes: Mapping[Any, str] | None = None,
    ) -> str:
        """Those files and no others, by git's fast-import, which takes any mode; the commit's name."""
        parts = [f"commit refs/heads/{branch}\ncommitter {ADA} {int(time.time())} +0000\n".encode()]
        parts += [_data(message.encode())]
        if self._has(branch):
            parts.append(f"from refs/heads/{branch}^0\n".encode())
        parts.append(b"deleteall\n")
        for path, content in files.items():
            name = path if isinstance(path, bytes) else path.encode()
            mode = (modes or {}).get(path, "100644").encode()
            raw = content if isinstance(content, bytes) else content.encode()
            if mode == b"160000":
                parts.append(b"M 160000 %s %s\n" % (raw, _quoted(name)))
            else:
                parts += [b"M %s inline %s\n" % (mode, _quoted(name)), _data(raw)]
        git(self.path, "fast-import", "--quiet", "--force", given=b"".join(parts))
        return self.head(branch)

    def head(self, branch: str = "main") -> str:
        return git(self.path, "rev-parse", f"refs/heads/{branch}")

    def raw(self, kind: str, content: bytes) -> str:
        """An object as it is given, however odd; its name."""
        return git(self.path, "hash-object", "-t", kind, "-w", "--literally", "--stdin", given=content)

    def commit_tree(self, tree: str, branch: str = "main") -> str:
        commit = git(self.path, "commit-tree", tree, "-m", "raw")
        git(self.path, "update-ref", f"refs/heads/{branch}", commit)
        return commit

    def text(self, path: str, branch: str = "main") -> str:
        return git(self.path, "show", f"refs/heads/{branch}:{path}")

    def log(self, form: str, branch: str = "main") -> list[str]:
        return git(self.path, "log", f"--format={form}", f"refs/heads/{branch}").splitlines()

    def _has(self, branch: str) -> bool:
        with suppress(subprocess.CalledProcessError):
            return bool(self.head(branch))
        return False


def tree(*entries: tuple[str, bytes, str]) -> bytes:
    """A folder's content, of mode, name and object: in the order given."""
    return b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(sha) for mode, name, sha in entries)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _quoted(name: bytes) -> bytes:
    shown = b"".join(b"\\%03o" % byte if byte < 33 or byte > 126 or byte in b'"\\' else bytes([byte]) for byte in name)
    return b'"' + shown + b'"'


Answer = Callable[["_Handler"], bool]  # False: git answers


@dataclass
class Forge:
    """`users`: who may do anything; nobody is asked while there is none. `answer` may take a request's answer over."""

    root: Path
    url: str = ""
    authority: Path = Path()
    users: dict[str, str] = field(default_factory=dict)
    answer: Answer = lambda _: False
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, authorization

    def repository(self, path: str = "team/runbooks.git", branch: str = "main") -> Bare:
        return Bare.made(self.root / path, branch)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    forge: Forge

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        given = self.headers.get("Authorization", "")
        self.forge.asked.append((self.command, self.path, given))
        body = self._body()
        if self.forge.answer(self):
            return
        user = self._user(given)
        if self.forge.users and user is None:
            self.plain(401, b"who are you?", {"WWW-Authenticate": 'Basic realm="forge"'})
            return
        environment = {
            **_PLAIN,
            "GIT_PROJECT_ROOT": str(self.forge.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": user or "anybody",
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        self.plain(int(lines.pop("Status", "200").split()[0]), content, lines)

    do_GET = do_POST = _serve  # noqa: N815 - http.server's own names

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def plain(self, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(content)

    def _user(self, given: str) -> str | None:
        with suppress(ValueError):
            user, _, password = base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")
            if user in self.forge.users and self.forge.users[user] == password:
                return user
        return None

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def forge(folder: Path, *, tls: bool = True) -> Iterator[Forge]:
    root = folder / "repositories"
    root.mkdir()
    made = Forge(root)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"forge": made}))
    server.daemon_threads = True
    if tls:
        issued = issue("localhost")
        made.authority = folder / "authority.pem"
        made.authority.write_text(issued.authority)
        chain = folder / "server.pem"
        chain.write_bytes(issued.certificate + b"\n" + issued.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        # The handshake belongs to the thread of its connection, so that nobody waits for one that hangs.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    made.url = f"{'https' if tls else 'http'}://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

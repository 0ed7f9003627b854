"""Programs that belong to real applications, through a gateway: clients of Jupyter's kernels, and git."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import websockets
from tests.support.gateway import Gateway
from tests.support.gits import Bare, Forge, forge
from tests.support.http_applications import JUPYTER_TOKEN, GatewayHost, running_jupyter

MASKED: dict[str, Any] = {"redact_enabled": True, "redact_types": ("EMAIL_ADDRESS",)}
OWN = {"Authorization": f"token {JUPYTER_TOKEN}"}
BINARY = "v1.kernel.websocket.jupyter.org"


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_jupyter(tmp_path_factory.mktemp("jupyter")) as url:
        yield url


def execute_request(source: str) -> dict[str, Any]:
    header = {"msg_id": uuid4().hex, "username": "", "session": "s", "msg_type": "execute_request", "version": "5.3"}
    content = {"code": source, "silent": False, "store_history": False, "allow_stdin": False, "stop_on_error": True}
    return {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}


def packed(message: dict[str, Any]) -> bytes:
    """Return a message in Jupyter's binary form: a table of offsets, then the parts."""
    parts = [message["channel"].encode()]
    parts += [json.dumps(message[name]).encode() for name in ("header", "parent_header", "metadata", "content")]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)


def unpacked(data: bytes) -> dict[str, Any]:
    (count,) = struct.unpack_from("<Q", data)
    offsets = struct.unpack_from(f"<{count}Q", data, 8)
    parts = [data[begin:end] for begin, end in itertools.pairwise(offsets)]
    return {"header": json.loads(parts[1]), "parent_header": json.loads(parts[2]), "content": json.loads(parts[4])}


async def output_of(host: GatewayHost, kernel: str, source: str, *, binary: bool) -> str:
    """Return what a cell prints."""
    url = f"ws://127.0.0.1:{host.port}/api/kernels/{kernel}/channels"
    headers = {**OWN, "Cookie": f"postern={'.'.join(host.login)}"}
    chosen: Any = [BINARY] if binary else None
    async with websockets.connect(url, additional_headers=headers, subprotocols=chosen) as socket:
        request = execute_request(source)
        await socket.send(packed(request) if socket.subprotocol else json.dumps(request))
        printed = ""
        async with asyncio.timeout(60):
            while True:
                received = await socket.recv()
                answer = unpacked(received) if isinstance(received, bytes) else json.loads(received)
                kind, content = answer["header"]["msg_type"], answer["content"]
                if answer["parent_header"].get("msg_id") != request["header"]["msg_id"]:
                    continue
                if kind == "stream":
                    printed += content["text"]
                if kind == "status" and content["execution_state"] == "idle":
                    return printed


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("binary", [False, True])
def test_kernel_answers_a_program(gateway: Gateway, jupyter: str, *, binary: bool, masked: bool) -> None:
    fields = MASKED if masked else {}
    host = GatewayHost(gateway, f"kernel-{binary}-{masked}".lower(), jupyter, **fields)
    kernel = host.client().post("/api/kernels", headers=OWN, json={}).json()["id"]
    try:
        printed = asyncio.run(output_of(host, kernel, "print('ann' + '@' + 'example.com')", binary=binary))
    finally:
        host.client().delete(f"/api/kernels/{kernel}", headers=OWN)
    if masked:
        assert "ann@example.com" not in printed
        assert "*" in printed
    else:
        assert printed == "ann@example.com\n"


# Git

MOST_OF_A_PUSH = 3 << 20  # bytes; git sends more than 1 MiB in chunks


@pytest.fixture
def git_server(tmp_path: Path) -> Iterator[Forge]:
    with forge(tmp_path, tls=False) as server:
        yield server


@pytest.fixture
def repository(git_server: Forge) -> Bare:
    made = git_server.repository()
    made.commit({"README.md": "mail to ann@example.com"})
    return made


class GitClient:
    """Git itself, without anybody's settings."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._folder = folder
        self._settings = [word for setting in settings for word in ("-c", setting)]

    def run(self, *words: str, folder: str = ".") -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder), "GIT_TERMINAL_PROMPT": "0"}
        for role in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{role}_NAME": "Ann", f"GIT_{role}_EMAIL": "ann@example.com"}
        return subprocess.run(
            ["git", *self._settings, *words],
            cwd=self._folder / folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def clone(self, url: str) -> None:
        done = self.run("clone", "--quiet", url, "copy")
        assert done.returncode == 0, done.stderr

    def push(self, size: int) -> subprocess.CompletedProcess[str]:
        """Commit a file that cannot be compressed, and push it."""
        (self._folder / "copy" / "large.bin").write_bytes(os.urandom(size))
        for words in (("add", "."), ("commit", "--quiet", "--message", "large")):
            assert self.run(*words, folder="copy").returncode == 0
        return self.run("push", "--quiet", "origin", "HEAD:main", folder="copy")


def ways(host: GatewayHost) -> dict[str, tuple[str, list[str]]]:
    """Return the ways to give Git a credential: what comes before the host in the URL, and settings."""
    user, password = host.login
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    helper = f"!f() {{ echo username={user}; echo password={password}; }}; f"
    return {
        "url": (f"{user}:{password}@", []),
        "helper": ("", [f"credential.helper={helper}"]),
        "basic": ("", [f"http.extraHeader=Authorization: Basic {basic}"]),
        "bearer": ("", [f"http.extraHeader=Authorization: Bearer {user}.{password}"]),
    }


@pytest.mark.parametrize("way", ["url", "helper", "basic", "bearer"])
def test_git_clones_and_pushes(gateway: Gateway, git_server: Forge, repository: Bare, tmp_path: Path, way: str) -> None:
    host = GatewayHost(gateway, f"git-{way}", git_server.url)
    login, settings = ways(host)[way]
    client = GitClient(tmp_path, *settings)
    client.clone(f"http://{login}127.0.0.1:{host.port}/team/runbooks.git")
    assert (tmp_path / "copy" / "README.md").read_text() == "mail to ann@example.com"
    pushed = client.push(MOST_OF_A_PUSH)
    assert pushed.returncode == 0, pushed.stderr
    assert client.run("rev-parse", "HEAD", folder="copy").stdout.strip() == repository.head()
    assert {authorization for _, _, authorization in git_server.asked} == {""}
    assert len(host.sessions()) == 1
    recorded = host.recorded()
    assert "/team/runbooks.git/git-receive-pack" in recorded
    assert host.login[1] not in recorded


def test_git_keeps_its_own_login(gateway: Gateway, git_server: Forge, repository: Bare, tmp_path: Path) -> None:
    git_server.users["ada"] = "of-the-server"
    host = GatewayHost(gateway, "git-own-login", git_server.url)
    _, (setting,) = ways(host)["basic"]
    client = GitClient(tmp_path, setting.replace("Authorization", "Postern-Authorization"))
    client.clone(f"http://ada:of-the-server@127.0.0.1:{host.port}/team/runbooks.git")
    assert client.push(1 << 20).returncode == 0
    assert "of-the-server" not in host.recorded()


def test_git_is_told_why_it_cannot_push(gateway: Gateway, git_server: Forge, repository: Bare, tmp_path: Path) -> None:
    before = repository.head()
    host = GatewayHost(gateway, "git-read-only", git_server.url)
    gateway.guardrail("git-no-push", host.connection, deny="git-receive-pack")
    client = GitClient(tmp_path)
    login, _ = ways(host)["url"]
    client.clone(f"http://{login}127.0.0.1:{host.port}/team/runbooks.git")
    pushed = client.push(1 << 20)
    assert pushed.returncode != 0
    assert "403" in pushed.stderr
    assert repository.head() == before

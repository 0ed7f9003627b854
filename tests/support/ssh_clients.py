"""OpenSSH's own clients at a gateway's SSH port, with nothing of this machine's configuration or agent."""

from __future__ import annotations

import base64
import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support.gateway import Gateway
from tests.support.sshds import Sshd, make_key, public

from postern.domain.identity.credential import Issued
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.targets.connection import Connection, ConnectionType, Toggle
from postern.protocols.ssh.listener.ssh_host_key import ensure_host_key, host_key_file

TIMEOUT = 120.0  # seconds: a client that hangs fails its test
UNHURRIED: Mapping[str, Any] = {"handshake_timeout": TIMEOUT, "dial_timeout": TIMEOUT}
"""Settings of a gateway that many clients may come to at once, on a machine that may be slow."""

_ALL_MODES: dict[str, Any] = {
    f"access_{mode}": Toggle.ENABLED for mode in ("mode_connect", "mode_exec", "mode_runbooks", "schema")
}


def server(gateway: Gateway, name: str, target: Sshd, **more: Any) -> Connection:
    """A connection to `target` by its key."""
    values = {"HOST": "127.0.0.1", "PORT": str(target.port), "USER": target.user, "PRIVATE_KEY": target.key}
    fields: dict[str, Any] = dict(
        name=name,
        type=ConnectionType.APPLICATION,
        subtype="ssh",
        agent_id=gateway._agent.id,
        secret={f"envvar:{key}": Secret(_encoded(value)) for key, value in values.items()},
        **_ALL_MODES | more,
    )
    return gateway.call(gateway.services.connections.create(gateway.admin, fields))


@contextmanager
def reaching(target: Sshd, *, gateway_commands: bool = False, **more: Any) -> Iterator[Gateway]:
    """A gateway whose connection web-1 is `target`; `more` are fields of that."""
    running = Gateway(gateway_commands=gateway_commands, **UNHURRIED)
    try:
        running.start()
        server(running, "web-1", target, **more)
        yield running
    finally:
        running.stop()


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@dataclass
class Clients:
    """`folder` is the home of who runs them."""

    gateway: Gateway
    folder: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        key = ensure_host_key(host_key_file(self.gateway.settings)).public
        known = self.folder / "known_hosts"
        known.write_text(f"[localhost]:{self.gateway.settings.ssh_port} {key}\n*.postern {key}\n")
        kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
        self.environment = {**kept, "HOME": str(self.folder), "LANG": "C.UTF-8", "TERM": "xterm"}

    def options(self, **more: object) -> list[str]:
        words = {
            "UserKnownHostsFile": self.folder / "known_hosts",
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "Port": self.gateway.settings.ssh_port,
            "IdentityFile": "none",
            "NumberOfPasswordPrompts": 1,
            "LogLevel": "ERROR",
            **more,
        }
        return ["-F", "none", *(word for name, value in words.items() for word in ("-o", f"{name}={value}"))]

    def words(self, who: Issued | Path, user: str = "", *, program: str = "ssh", **options: object) -> list[str]:
        """The beginning of a command line: by a credential's password, or by the key in a file."""
        if isinstance(who, Path):
            return [program, *self.options(User=user, IdentityFile=who, **{"BatchMode": "yes", **options})]
        return ["sshpass", "-e", program, *self.options(User=who.credential.username, **options)]

    def secrets(self, who: Issued | Path) -> dict[str, str]:
        return self.environment if isinstance(who, Path) else {**self.environment, "SSHPASS": who.password.reveal()}

    def run(
        self,
        who: Issued | Path,
        *arguments: str,
        stdin: bytes = b"",
        host: str = "localhost",
        timeout: float = TIMEOUT,
        **more: Any,
    ) -> subprocess.CompletedProcess[bytes]:
        """`ssh`, or with `host=""` another `program`, whose arguments name it themselves."""
        return subprocess.run(
            [*self.words(who, **more), *([host] if host else []), *arguments],
            env=self.secrets(who),
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def start(self, who: Issued | Path, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        """What it shows and what it says come together, as on a screen."""
        words = [*self.words(who, **more), "localhost", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, env=self.secrets(who), stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)

    def key(self, user: Principal, name: str = "laptop") -> Path:
        """A new one of this user; its file."""
        file = self.folder / f"{name}-{uuid4().hex[:8]}"
        make_key(file)
        self.gateway.call(self.gateway.services.ssh_keys.add(user, file.name, public(file)))
        return file


def shows(client: subprocess.Popen[bytes], what: bytes) -> bytes:
    """All that it showed, up to that."""
    assert client.stdout is not None
    seen, deadline = b"", time.monotonic() + TIMEOUT
    while what not in seen:
        ready, _, _ = select.select([client.stdout], [], [], max(deadline - time.monotonic(), 0))
        assert ready, seen
        data = os.read(client.stdout.fileno(), 65536)
        assert data, seen
        seen += data
    return seen


def types(client: subprocess.Popen[bytes], text: bytes) -> None:
    assert client.stdin is not None
    client.stdin.write(text)
    client.stdin.flush()

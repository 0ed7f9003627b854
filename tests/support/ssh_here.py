"""A second SSH server, of asyncssh, in this process: for what OpenSSH does not do unprivileged, or never does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncssh

PASSWORD = "pa$$ wörd"


class Seen(asyncssh.SSHServer):
    """Takes USER with PASSWORD, and writes down who came with what."""

    def __init__(self, log: list[str], methods: tuple[str, ...], prompt: str, session: Any, forwards: bool) -> None:
        self._log = log
        self._session = session
        self._forwards = forwards
        self._methods = methods
        self._prompt = prompt

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._log.append("connected")

    def begin_auth(self, username: str) -> bool:
        self._log.append(f"user {username}")
        return True

    def session_requested(self) -> Any:
        return False if self._session is None else self._session()

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return self._forwards

    def password_auth_supported(self) -> bool:
        return "password" in self._methods

    def validate_password(self, username: str, password: str) -> bool:
        self._log.append(f"password {password}")
        return password == PASSWORD

    def kbdint_auth_supported(self) -> bool:
        return "keyboard-interactive" in self._methods

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> Any:
        return "", "", "", [(self._prompt, False)]

    def validate_kbdint_response(self, username: str, responses: Any) -> bool:
        self._log.extend(f"answer {response}" for response in responses)
        return list(responses) == [PASSWORD]


@asynccontextmanager
async def serving(
    *,
    log: list[str] | None = None,
    methods: tuple[str, ...] = ("password",),
    prompt: str = "Password: ",
    host_key: asyncssh.SSHKey | None = None,
    program: Any = None,
    session: Any = None,
    forwards: bool = False,
    **options: Any,
) -> AsyncIterator[int]:
    """The port that it listens on. `program` is called with each process that is begun, or `session` makes what
    stands for one."""
    seen: list[str] = [] if log is None else log
    key = host_key or asyncssh.generate_private_key("ssh-ed25519")

    def factory() -> Seen:
        return Seen(seen, methods, prompt, session, forwards)

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=factory,
        server_host_keys=[key],
        process_factory=None if session else program,
        encoding=None,
        line_editor=False,
        **options,
    )
    try:
        yield server.get_port()
    finally:
        server.close()
        await asyncio.wait_for(server.wait_closed(), 60)


async def greets(process: asyncssh.SSHServerProcess[bytes]) -> None:
    process.stdout.write(b"hello\n")
    process.exit(0)

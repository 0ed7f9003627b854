"""Additional packets that SSH libraries send."""

from __future__ import annotations

from typing import Any

import pytest
from asyncssh.connection import SSHConnection
from asyncssh.constants import MSG_IGNORE
from tests.support.ssh_channels import Servers
from tests.support.ssh_gate import PASSWORD, USER, open_site
from tests.support.ssh_here import PASSWORD as SECRET
from tests.support.ssh_here import greets, serving


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> dict[bool, list[int]]:
    """Kinds of packets that the server and the client of this process have heard, by whether it is the client."""
    found: dict[bool, list[int]] = {True: [], False: []}
    log = SSHConnection.log_received_packet

    def logged(self: SSHConnection, kind: int, *more: Any) -> None:
        found[self.is_client()].append(kind)
        log(self, kind, *more)

    monkeypatch.setattr(SSHConnection, "log_received_packet", logged)
    return found


async def test_client_receives_no_ignore_packet_before_each_packet(heard: dict[bool, list[int]]) -> None:
    async with open_site() as site, await site.connect(USER, password=PASSWORD) as conn:
        assert (await conn.run("true")).exit_status == 0
    assert MSG_IGNORE in heard[False]  # asyncssh's own client sends them
    assert MSG_IGNORE not in heard[True]


async def test_target_receives_no_ignore_packet_before_each_packet(heard: dict[bool, list[int]]) -> None:
    servers = Servers()
    async with serving(program=greets) as port:
        secrets = {"HOST": "127.0.0.1", "PORT": str(port), "USER": "ann", "PASS": SECRET}
        _, text = await servers.run(secrets, "greet")
        await servers.close()
    assert text == "hello\n"
    assert MSG_IGNORE in heard[True]
    assert MSG_IGNORE not in heard[False]

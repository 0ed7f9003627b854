"""Channels of SSH through a tunnel: orders over frames, and windows at both ends."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.muxes import Pair, Sink
from tests.support.promises import PATIENT, until
from tests.support.ssh_channels import Reader, order_of, secrets_of
from tests.support.sshds import Sshd, sshd

from postern import descriptors
from postern.agent import secret_files
from postern.agent.secret_files import SecretFiles
from postern.agent.secrets import Resolver
from postern.agent.serve import Orders
from postern.agent.target_dialer import TargetDialer
from postern.descriptors import Descriptors
from postern.domain.secret import Secret
from postern.errors import TooMany
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.terminal import terminal_frames as m
from postern.relay.orders import DIAL, decode_error
from postern.relay.relay_target import ChannelKind, ChannelRequest, Start
from postern.transport.tunnel_messages import Refused

MEGABYTE = os.urandom(1 << 20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("ssh")) as made:
        yield made


def _stored(text: str) -> Secret:
    return Secret(base64.b64encode(text.encode()).decode())


def _left(place: Path) -> list[Path]:
    return list(place.iterdir())


class Far(Sink):
    """The gateway's end of a channel."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = Reader()

    def data_received(self, data: bytes) -> None:
        self.reader.data_received(data)

    async def until(self, size: int) -> None:
        async with asyncio.timeout(PATIENT):
            while self.reader.size < size:
                self.reader.news.clear()
                await self.reader.news.wait()

    async def ended(self) -> m.Exit:
        await asyncio.wait_for(asyncio.shield(self.lost), PATIENT)
        assert self.reader.exit is not None
        return self.reader.exit


class Tunnel:
    def __init__(self) -> None:
        self.orders = Orders(TargetDialer(Resolver(None, SecretFiles({}))))
        self.pair = Pair(16 * 1024, self.orders.take)
        self.login = str(uuid4())

    async def dial(self, server: Sshd, what: str, **secrets: str) -> tuple[Far, Mapping[str, Any]]:
        start = Start(channel=ChannelRequest(ChannelKind.EXEC, what, self.login), host_keys=())
        given = secrets_of(server, **secrets).items()
        stored: dict[str, Any] = {name: _stored(value).reveal() for name, value in given}
        far = Far()
        _, answer = await self.pair.gateway.open(order_of(start, **stored).message(DIAL), far)
        return far, answer


@pytest.fixture
async def tunnel() -> AsyncIterator[Tunnel]:
    made = Tunnel()
    yield made
    made.pair.close()


@pytest.mark.ci
async def test_hundred_mb_pass_both_ways_while_both_ends_stall(tunnel: Tunnel, server: Sshd) -> None:
    """They pass through `cat`, which stalls when this end does; another channel continues."""
    far, answer = await tunnel.dial(server, "cat")
    assert answer["parameters"] == {"host_key": " ".join(server.known_hosts.split()[1:3])}
    far.stream.write(m.START_FRAME)

    async def send() -> None:
        for _ in range(100):
            await until(lambda: not far.paused)
            far.stream.write(m.frames(m.STDIN, MEGABYTE))
            await asyncio.sleep(0)
        far.stream.write(m.STDIN_END_FRAME)

    sending = asyncio.create_task(send())
    for size in (1, 30 << 20):
        await far.until(size)
        far.stream.pause_reading()
        other, _ = await tunnel.dial(server, "echo goes on")
        other.stream.write(m.START_FRAME)
        assert (await other.ended()).code == 0
        assert bytes(other.reader.output[m.STDOUT]) == b"goes on\n"
        far.stream.resume_reading()
    await sending
    assert (await far.ended()).code == 0
    assert far.reader.size == 100 << 20
    assert far.reader.digest.hexdigest() == hashlib.sha256(MEGABYTE * 100).hexdigest()
    assert tunnel.pair.gateway.streams == tunnel.orders.running == 0


async def test_lost_gateway_ends_its_programs(tunnel: Tunnel, server: Sshd) -> None:
    far, _ = await tunnel.dial(server, "echo begun; cat; echo ended")
    far.stream.write(m.START_FRAME)
    await far.until(6)
    assert tunnel.orders.running == 1
    tunnel.pair.close()
    await asyncio.wait_for(tunnel.orders.idle.wait(), PATIENT)


async def test_private_key_secret_of_type_file_is_not_written_to_disk(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_files, "places", lambda _environ: [tmp_path])
    given = secrets_of(server)
    stored = {f"envvar:{name}": _stored(value) for name, value in given.items() if name != "PRIVATE_KEY"}
    stored["filesystem:PRIVATE_KEY"] = _stored(server.key)
    order = replace(order_of(Start(arguments=("true",), host_keys=())), secret=stored)
    target = await TargetDialer(Resolver(None, SecretFiles({}))).dial(order)
    assert not _left(tmp_path)
    target.stream.close()
    target.release()


async def test_rejected_login_is_reported_as_such_through_the_tunnel(tunnel: Tunnel, server: Sshd) -> None:
    with pytest.raises(Refused) as found:
        await tunnel.dial(server, "true", PRIVATE_KEY=server.stranger)
    error = decode_error(found.value)
    assert isinstance(error, TargetRefused)
    assert error.refuses_login
    assert tunnel.orders.running == 0


async def test_agent_near_its_limit_of_open_files_rejects_a_dial(tunnel: Tunnel, server: Sshd) -> None:
    tunnel.orders._descriptors = Descriptors(reserve=descriptors.limit())
    with pytest.raises(Refused) as raised:
        await tunnel.dial(server, "true")
    error = decode_error(raised.value)
    assert isinstance(error, TooMany)
    assert "limit of open files" in error.message

"""Addresses of repositories, and the connections to them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from tests.integrations.git.conftest import LOOPBACK, repository

from postern.domain.runbook import repository_name
from postern.domain.secret import Secret
from postern.errors import Invalid, Unavailable
from postern.integrations.git.fetcher import GitFetcher
from postern.integrations.git.git_places import CheckedRoute, RepositoryPlace, place_of
from postern.integrations.git.messages import RepositoryPolicy

Make = Callable[..., GitFetcher]
OPEN = RepositoryPolicy()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://github.com/a/b.git", RepositoryPlace("https", "github.com", 443, "", "/a/b.git")),
        ("HTTPS://GitHub.com:8443/a/b%20c", RepositoryPlace("https", "github.com", 8443, "", "/a/b%20c")),
        ("git@github.com:a/b.git", RepositoryPlace("ssh", "github.com", 22, "git", "a/b.git")),
        ("ssh://git@github.com:2222/a/b.git", RepositoryPlace("ssh", "github.com", 2222, "git", "/a/b.git")),
        ("ssh://host/~ada/b%20c", RepositoryPlace("ssh", "host", 22, "", "/~ada/b c")),
        ("https://[2606:4700::1]/a/b", RepositoryPlace("https", "2606:4700::1", 443, "", "/a/b")),
    ],
)
def test_repository_address_is_parsed(url: str, place: RepositoryPlace) -> None:
    assert place_of(url, OPEN) == place
    assert place.host in repository_name(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "/etc",
        "git://github.com/a/b",
        "http://github.com/a/b",
        "file:///etc",
        "ftp://github.com/a/b",
        "ext::sh -c touch% /tmp/x",
        "ext::sh",
        "fd::17/x",
        "https::https://github.com/a/b",
        "ssh://-oProxyCommand=touch/x",
        "-oProxyCommand=x:a/b",
        "ssh://git@-oProxyCommand=x/a/b",
        "ssh://-oProxyCommand=x@github.com/a/b",
        "git@github.com:--upload-pack=x",
        "ssh://github.com/-x/b",
        "https://ada:secret@github.com/a/b",
        "https://ada@github.com/a/b",
        "ssh://git:secret@github.com/a/b",
        "https://github.com/a/../../b",
        "https://github.com/a/%2e%2e/b",
        "https://github.com/a/b?x=1",
        "https://github.com/a/b#x",
        "https://github.com/a/b?",
        "https://github.com",
        "https:///a/b",
        "https://github.com:0/a/b",
        "https://github.com:99999/a/b",
        "https://git hub.com/a/b",
        "https://github.com/a\r\nHost: x/b",
        "https://github.com/a/%0d%0ab",
        "https://github.com\\@evil.example/a/b",
        "https://gïthub.com/a/b",
        "https://[::1/a/b",
        "https://a_b!.example/a/b",
        f"https://github.com/{'a' * 3000}",
    ],
)
def test_invalid_repository_address_is_rejected_without_quoting_secrets(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        place_of(url, OPEN)
    assert caught.value.field == "git_url"
    assert "secret" not in caught.value.message


def way(answers: list[list[str]], networks: tuple[str, ...] = ()) -> tuple[CheckedRoute, list[str]]:
    """To a name that is one address after the other, and what was asked for."""
    asked: list[str] = []

    def resolve(host: str, port: int, **_: object) -> list[Any]:
        asked.append(host)
        return [(0, 0, 0, "", (address, port)) for address in answers.pop(0)]

    return CheckedRoute(
        RepositoryPlace("https", "git.example", 443, "", "/a"), RepositoryPolicy(networks=networks), 5.0, resolve
    ), asked


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "fd00:ec2::254",
        "fe80::1%eth0",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "100.64.0.1",
    ],
)
def test_private_address_is_not_connected_to(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("it was connected to"))
    for answers in ([address], ["93.184.216.34", address]):
        with pytest.raises(Unavailable, match="POSTERN_RUNBOOK_NETWORKS"):
            way([answers])[0].connect()


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "100.100.100.200", "::ffff:169.254.169.254", "::ffff:168.63.129.16"),
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42"),
    ],
)
def test_cloud_metadata_address_is_never_connected_to(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("it was connected to"))
    with pytest.raises(Unavailable):
        way([[address]], ("0.0.0.0/0", "::/0"))[0].connect()


def test_connection_uses_the_checked_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is not resolved a second time, when it could have another address."""
    reached: list[Any] = []

    class Connected:
        def settimeout(self, seconds: float) -> None: ...

    def connect(address: object, timeout: float) -> Connected:
        reached.append(address)
        return Connected()

    monkeypatch.setattr(socket, "create_connection", connect)
    made, asked = way([["93.184.216.34"], ["127.0.0.1"]])
    for _ in range(2):
        made.connect()
    assert (reached, asked) == ([("93.184.216.34", 443)] * 2, ["git.example"])


def test_next_address_is_tried_if_one_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[Any] = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        reached.append(address[0])
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(Unavailable, match=r"git\.example cannot be reached: Connection refused"):
        way([["93.184.216.34", "93.184.216.35"]])[0].connect()
    assert reached == ["93.184.216.34", "93.184.216.35"]


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost:{}/a/b",
        "https://127.0.0.1:{}/a/b",
        "https://[::1]:{}/a/b",
        "https://2130706433:{}/a/b",
        "https://0x7f.1:{}/a/b",
        "https://0:{}/a/b",
        "ssh://git@localhost:{}/a/b",
    ],
)
async def test_loopback_is_rejected_in_every_spelling_unless_a_setting_allows_it(fetcher: Make, url: str) -> None:
    reached: list[object] = []

    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    where = repository(
        url.format(server.sockets[0].getsockname()[1]),
        ssh_key=Secret("x"),
        ssh_known_hosts="localhost ssh-ed25519 AAAA",
    )
    async with server:
        with pytest.raises((Unavailable, Invalid)):
            await fetcher().fetch(where)
    assert reached == []


async def test_proxy_variables_of_the_environment_are_ignored(fetcher: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[object] = []

    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(writer)
        writer.close()

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    silent = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    for name in ("https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, address)
    async with proxy, silent:
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match=r"the HTTP request to .* failed"):
            await fetcher(RepositoryPolicy(networks=LOOPBACK)).fetch(repository(f"https://localhost:{port}/a/b"))
    assert reached == []

"""Repositories over SSH, from a real OpenSSH server with git."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.integrations.git.conftest import LOOPBACK, repository
from tests.support.gits import ADA, Bare
from tests.support.promises import within
from tests.support.sshds import PASSPHRASE, Sshd, make_key, public, sshd

from postern.domain.runbook import Repository
from postern.domain.secret import Secret
from postern.errors import Invalid, Unavailable
from postern.integrations.git.fetcher import GitFetcher
from postern.integrations.git.messages import RepositoryLimits, RepositoryPolicy

pytestmark = pytest.mark.ci

Make = Callable[..., GitFetcher]
POLICY = RepositoryPolicy(networks=LOOPBACK)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    folder = tmp_path / "ssh"
    folder.mkdir()
    with sshd(folder) as made:
        yield made


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    made = Bare.made(tmp_path / "it's ours" / "runbooks.git")
    made.commit({"ops/a.runbook.sh": "echo a\n"})
    return made


def of(server: Sshd, bare: Bare, **more: object) -> Repository:
    url = server.url(bare.path).replace(" ", "%20").replace("'", "%27")
    given = {"ssh_user": server.user, "ssh_key": Secret(server.key), "ssh_known_hosts": server.known_hosts, **more}
    return repository(url, **given)


async def test_repository_is_read_with_a_key(server: Sshd, bare: Bare, fetcher: Make) -> None:
    found = await fetcher(POLICY).fetch(of(server, bare))
    assert found.commit == bare.head()
    assert [(one.path, one.text) for one in found.files] == [("ops/a.runbook.sh", "echo a\n")]


async def test_repository_is_read_with_an_encrypted_key(server: Sshd, bare: Bare, fetcher: Make) -> None:
    where = of(server, bare, ssh_key=Secret(server.locked), ssh_keypass=Secret(PASSPHRASE))
    reader = fetcher(POLICY)
    await reader.check(where)
    assert (await reader.fetch(where)).commit == bare.head()


async def test_known_hosts_can_be_base64_encoded(server: Sshd, bare: Bare, fetcher: Make) -> None:
    lines = base64.b64encode(f"# ours\n{server.known_hosts}\n".encode()).decode()
    assert (await fetcher(POLICY).fetch(of(server, bare, ssh_known_hosts=lines))).commit == bare.head()


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"ssh_keypass": Secret("wrong-passphrase")}, "ssh_keypass", "does not decrypt"),
        ({"ssh_keypass": Secret("")}, "ssh_keypass", "is encrypted; set its passphrase"),
        ({"ssh_key": Secret("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")}, "ssh_key", "not a complete private key"),
        ({"ssh_key": Secret("my key")}, "ssh_key", "not a complete private key"),
        ({"ssh_key": Secret("")}, "ssh_key", "needs a private key"),
        ({"ssh_known_hosts": ""}, "ssh_known_hosts", "ssh-keyscan -p"),
        ({"ssh_known_hosts": "github.com ssh-ed25519 AAAA"}, "ssh_known_hosts", "no key of localhost"),
        ({"ssh_known_hosts": "!!!"}, "ssh_known_hosts", "base64"),
        ({"ssh_user": "-oProxyCommand=touch"}, "ssh_user", "not a valid user name"),
        ({"branch": "../../etc"}, "branch", "branch"),
    ],
)
async def test_invalid_ssh_settings_are_rejected_before_connecting(
    server: Sshd, bare: Bare, fetcher: Make, given: dict[str, object], field: str, words: str
) -> None:
    settings = {"ssh_key": Secret(server.locked), "ssh_keypass": Secret(PASSPHRASE), **given}
    where = of(server, bare, **settings)
    with pytest.raises(Invalid, match=words) as caught:
        await fetcher(POLICY).check(where)
    assert caught.value.field == field
    assert "wrong-passphrase" not in caught.value.message
    with pytest.raises(Invalid):
        await fetcher(POLICY).fetch(where)


async def test_key_unknown_to_the_server_is_reported(server: Sshd, bare: Bare, fetcher: Make) -> None:
    with pytest.raises(Unavailable, match=r"rejected the login of .* by this key"):
        await fetcher(POLICY).fetch(of(server, bare, ssh_key=Secret(server.stranger)))


async def test_changed_host_key_is_rejected(server: Sshd, bare: Bare, fetcher: Make, tmp_path: Path) -> None:
    make_key(tmp_path / "another")
    line = f"[localhost]:{server.port} {public(tmp_path / 'another')}"
    with pytest.raises(Unavailable, match="host key that is not in ssh_known_hosts; `ssh-keyscan -p"):
        await fetcher(POLICY).fetch(of(server, bare, ssh_known_hosts=line))


async def test_revoked_host_key_is_rejected(server: Sshd, bare: Bare, fetcher: Make) -> None:
    lines = f"{server.known_hosts}\n@revoked {server.known_hosts}"
    with pytest.raises(Unavailable, match="host key"):
        await fetcher(POLICY).fetch(of(server, bare, ssh_known_hosts=lines))


async def test_missing_repository_is_reported_with_the_servers_message(
    server: Sshd, fetcher: Make, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable, match="does not appear to be a git repository"):
        await fetcher(POLICY).fetch(of(server, Bare(tmp_path / "none.git")))


async def test_empty_repository_is_rejected(server: Sshd, fetcher: Make, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is empty"):
        await fetcher(POLICY).fetch(of(server, Bare.made(tmp_path / "empty.git")))


async def test_requested_branch_is_read(server: Sshd, bare: Bare, fetcher: Make) -> None:
    commit = bare.commit({"b.runbook.sh": "b"}, branch="other")
    assert (await fetcher(POLICY).fetch(of(server, bare, branch="other"))).commit == commit
    with pytest.raises(Invalid, match="no branch"):
        await fetcher(POLICY).fetch(of(server, bare, branch="none"))


async def test_repository_over_the_receive_limit_is_rejected(server: Sshd, bare: Bare, fetcher: Make) -> None:
    bare.commit({f"{number}.bin": Random(number).randbytes(400_000) for number in range(6)})
    small = replace(POLICY, limits=RepositoryLimits(received=1 << 20))
    with pytest.raises(Invalid, match="sent more than 1 MiB"):
        await fetcher(small).fetch(of(server, bare))


async def test_write_over_ssh_creates_a_commit(server: Sshd, bare: Bare, fetcher: Make) -> None:
    before = bare.head()
    done = await fetcher(POLICY).write(of(server, bare), "b.runbook.sh", "echo b\n", "More", ADA, overwrite=False)
    assert done == bare.head()
    assert bare.log("%H") == [done, before]
    assert bare.text("b.runbook.sh") == "echo b"


async def test_silent_server_times_out(server: Sshd, fetcher: Make) -> None:
    silent = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    lines = server.known_hosts.replace(str(server.port), str(port))
    where = repository(f"ssh://localhost:{port}/x", ssh_key=Secret(server.key), ssh_known_hosts=lines)
    async with silent, asyncio.timeout(within(10)):
        with pytest.raises(Unavailable, match=r"took longer than 3 seconds|does not answer"):
            await fetcher(POLICY, seconds=3.0).fetch(where)


async def test_server_that_does_not_speak_ssh_is_reported(server: Sshd, fetcher: Make) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 \x1b[31mBad\r\n\r\n")
        writer.close()

    other = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    lines = server.known_hosts.replace(str(server.port), str(port))
    where = repository(f"ssh://localhost:{port}/x", ssh_key=Secret(server.key), ssh_known_hosts=lines)
    async with other:
        with pytest.raises(Unavailable, match=r"the SSH connection to .* failed") as caught:
            await fetcher(POLICY).fetch(where)
    assert caught.value.message.isprintable()

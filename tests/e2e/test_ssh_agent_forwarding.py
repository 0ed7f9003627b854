"""Agent forwarding (`ssh -A`) of OpenSSH's client to programs at OpenSSH's own server, through a whole worker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.gateway import Gateway
from tests.support.promises import wait_until
from tests.support.ssh_clients import Clients, reaching, server, shows, types
from tests.support.sshds import Sshd, ssh_agent, sshd

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Toggle

SHOW = 'echo "[$SSH_AUTH_SOCK]"; ssh-add -l'
KINDS = ("listen", "accept")
NO_AGENT = b"[]\nCould not open a connection to your authentication agent.\n"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd"), {"MaxSessions": "1"}) as running:
        yield running


@pytest.fixture(scope="module")
def beyond(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sshd, Path]]:
    """Another server, and the key by which it lets the client in."""
    folder = tmp_path_factory.mktemp("beyond")
    with sshd(folder) as running:
        yield running, folder / "key"


@pytest.fixture(scope="module")
def lent(beyond: tuple[Sshd, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of the client's agent, which holds that key."""
    with ssh_agent(tmp_path_factory.mktemp("agent") / "socket", beyond[1]) as socket:
        yield socket


@pytest.fixture(scope="module")
def fingerprint(beyond: tuple[Sshd, Path]) -> bytes:
    return subprocess.run(["ssh-keygen", "-lf", beyond[1]], check=True, capture_output=True).stdout.split()[1]


@pytest.fixture(scope="module")
def gateway(target: Sshd) -> Iterator[Gateway]:
    with reaching(target, gateway_commands=True) as running:
        yield running


@pytest.fixture
def wide(gateway: Gateway, target: Sshd) -> Iterator[tuple[str, Issued]]:
    """A connection to which agents may be lent."""
    name = f"wide-{uuid4().hex[:8]}"
    server(gateway, name, target, access_forward_agent=Toggle.ENABLED)
    yield name, gateway.credential(name)
    gateway.all_closed(connection=name)


def lending(socket: Path) -> dict[str, Any]:
    """What the client is told; without an agent that it finds it asks for nothing."""
    return {"ForwardAgent": "yes", "IdentityAgent": socket}


@contextmanager
def master(clients: Clients, issued: Issued, lent: Path) -> Iterator[Path]:
    """The socket of a connection that several clients share."""
    path = clients.folder / f"master-{uuid4().hex[:8]}"
    running = clients.start(issued, "-N", ControlMaster="yes", ControlPath=path, **lending(lent))
    try:
        wait_until(path.exists)
        yield path
    finally:
        running.terminate()
        running.wait(60)


def test_agent_is_not_forwarded_unless_enabled(gateway: Gateway, clients: Clients, lent: Path) -> None:
    done = clients.run(gateway.credential("web-1"), f"({SHOW}) 2>&1", **lending(lent))
    assert done.stdout == NO_AGENT
    gateway.all_closed(connection="web-1")
    assert [one.metadata["channel"] for one in gateway.sessions(connection="web-1")] == ["exec"]


def test_agent_forwarding_is_denied_by_a_guardrail_and_on_masked_connections(
    gateway: Gateway, clients: Clients, target: Sshd, lent: Path
) -> None:
    """Rules on output cannot read what is sent to an agent."""
    guarded = server(gateway, "guarded", target, access_forward_agent=Toggle.ENABLED)
    gateway.guardrail("no-agent", guarded, deny="^lend the client's ssh-agent$")
    masks: dict[str, Any] = {"redact_enabled": True, "redact_types": ("EMAIL_ADDRESS",)}
    server(gateway, "masked", target, access_forward_agent=Toggle.ENABLED, **masks)
    for name in ("guarded", "masked"):
        done = clients.run(gateway.credential(name), f"({SHOW}) 2>&1", **lending(lent))
        assert done.stdout == NO_AGENT, name


def test_forwarded_agent_lists_its_keys_and_logs_in_from_the_target(
    gateway: Gateway,
    clients: Clients,
    wide: tuple[str, Issued],
    lent: Path,
    beyond: tuple[Sshd, Path],
    fingerprint: bytes,
) -> None:
    name, issued = wide
    done = clients.run(issued, SHOW, **lending(lent))
    assert (done.returncode, done.stderr) == (0, b"")
    assert fingerprint in done.stdout
    assert str(lent).encode() not in done.stdout
    on = "ssh -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentityFile=none -o BatchMode=yes"
    there = f"-q -p {beyond[0].port} {beyond[0].user}@127.0.0.1 echo there"
    assert clients.run(issued, f"{on} {there}", **lending(lent)).stdout == b"there\n"
    assert clients.run(issued, f"{on} {there}").returncode == 255
    gateway.all_closed(connection=name)
    rows = gateway.sessions(connection=name)
    judged = {kind: [gateway.operations(one.id) for one in rows if one.metadata["channel"] == kind] for kind in KINDS}
    assert judged["listen"] == [["lend the client's ssh-agent"]] * 2
    assert judged["accept"] == [["ask the client's ssh-agent"]] * 2


def test_only_programs_that_requested_the_agent_can_use_it(
    gateway: Gateway, clients: Clients, wide: tuple[str, Issued], lent: Path, fingerprint: bytes
) -> None:
    """The server accepts one session per connection, so these programs are spread over several."""
    name, issued = wide
    with master(clients, issued, lent) as path:
        first = clients.start(issued, "echo on; read line; ssh-add -l", ControlPath=path, **lending(lent))
        shows(first, b"on\n")
        assert clients.run(issued, "-a", f"({SHOW}) 2>&1", ControlPath=path).stdout == NO_AGENT
        assert fingerprint in clients.run(issued, SHOW, ControlPath=path, **lending(lent)).stdout
        types(first, b"\n")
        shows(first, fingerprint)
        assert first.wait(60) == 0
        assert len([one for one in gateway.sessions(connection=name) if one.metadata["channel"] == "listen"]) == 1


def test_agent_is_forwarded_through_the_gateway_as_a_jump_host(
    gateway: Gateway, clients: Clients, wide: tuple[str, Issued], lent: Path, fingerprint: bytes
) -> None:
    key, host = clients.key(gateway.admin), wide[0]
    jump = " ".join([*clients.words(key, gateway.admin.email), "-W", "%h:%p", "localhost"])
    how = {"ProxyCommand": jump, "HostKeyAlias": f"{host}.postern", **lending(lent)}
    done = clients.run(key, SHOW, host=host, user="any", **how)
    assert fingerprint in done.stdout


@pytest.mark.parametrize("how", ["killed", "switched off", "revoked"])
def test_forwarded_agent_ends_with_its_session_switch_or_credential(
    gateway: Gateway, clients: Clients, wide: tuple[str, Issued], lent: Path, how: str
) -> None:
    name, issued = wide
    client = clients.start(issued, "while read line; do ssh-add -l; echo code $?.; done", **lending(lent))
    types(client, b"\n")
    shows(client, b"code 0.")
    (listener,) = [one for one in gateway.sessions(connection=name) if one.metadata["channel"] == "listen"]
    if how == "killed":
        gateway.call(gateway.services.sessions.kill(gateway.admin, listener.id))
    elif how == "switched off":
        changed = {"access_forward_agent": Toggle.DISABLED}
        gateway.call(gateway.services.connections.update(gateway.admin, name, changed))
    else:
        gateway.call(gateway.services.credentials.revoke(gateway.admin, name, str(issued.credential.id)))
    gateway.finished(listener.id)
    if how == "revoked":
        assert client.wait(60) != 0
        return
    types(client, b"\n")
    assert b"code 0." not in shows(client, b"code ")
    client.terminate()
    client.wait(60)

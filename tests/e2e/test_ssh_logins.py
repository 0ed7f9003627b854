"""OpenSSH's own client, logged in by a certificate or by a user at a browser."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.test_ssh import reason
from tests.e2e.test_waiting_clients import person
from tests.support.gateway import Gateway
from tests.support.promises import IN_TIME, PATIENT, wait_until, within
from tests.support.ssh_ca import Authority
from tests.support.ssh_clients import Clients, server, shows, types
from tests.support.sshds import Sshd, sshd
from tests.support.world import CLIENT

from postern.domain.identity.login import ClientKind, Login, LoginMethod
from postern.domain.identity.principal import Account, Principal
from postern.domain.targets.connection import Toggle
from postern.errors import Denied

LOGIN = 15.0  # seconds that it may take
BROWSER = {"BatchMode": "no", "LogLevel": "INFO"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(target: Sshd) -> Iterator[Gateway]:
    running = Gateway(handshake_timeout=LOGIN, dial_timeout=PATIENT)
    try:
        running.start()
        switches = {"access_forward_local": Toggle.ENABLED, "access_forward_remote": Toggle.ENABLED}
        server(running, "web-1", target, **switches)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def ann(gateway: Gateway) -> Principal:
    return person(gateway, "ann@example.com", "dev")


# By a certificate


@contextmanager
def trusted(gateway: Gateway, folder: Path) -> Iterator[Authority]:
    authority = Authority(folder / "authority")
    gateway.call(
        gateway.services.ssh_authorities.create(gateway.admin, {"name": "people", "public_key": authority.line})
    )
    try:
        yield authority
    finally:
        gateway.call(gateway.services.ssh_authorities.remove(gateway.admin, "people"))


@pytest.fixture
def people(gateway: Gateway, tmp_path: Path) -> Iterator[Authority]:
    with trusted(gateway, tmp_path) as authority:
        yield authority


def signed(authority: Authority, *options: str, kind: str = "ed25519") -> Path:
    """A key that nobody has added, with its certificate beside it."""
    authority.sign("-n", "ann@example.com", "-V", "-1m:+1h", *options, kind=kind)
    return authority.folder / "user"


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_certificate_admits_only_the_user_it_names(
    gateway: Gateway, clients: Clients, ann: Principal, people: Authority, kind: str
) -> None:
    key = signed(people, kind=kind)
    done = clients.run(key, "echo certified", user="ann#web-1")
    assert (done.stdout, done.stderr) == (b"certified\n", b"")
    assert gateway.newest_finished("web-1").user == ann.email
    assert b"Permission denied" in clients.run(key, "true", user="admin#web-1").stderr
    bare = people.folder / "bare"
    bare.write_bytes(key.read_bytes())
    bare.chmod(0o600)
    assert b"Permission denied" in clients.run(bare, "true", user="ann#web-1").stderr


def test_certificate_works_with_proxy_jump(clients: Clients, ann: Principal, people: Authority) -> None:
    key = signed(people)
    jump = " ".join([*clients.words(key, "ann"), "-W", "%h:%p", "localhost"])
    done = clients.run(
        people.folder / "none", "echo in", host="web-1", user="any", ProxyCommand=jump, HostKeyAlias="web-1.postern"
    )
    assert (done.stdout, done.returncode) == (b"in\n", 0)


def test_removed_certificate_authority_ends_the_sessions_it_admitted(
    gateway: Gateway, clients: Clients, ann: Principal, tmp_path: Path
) -> None:
    with trusted(gateway, tmp_path) as authority:
        key = signed(authority)
        client = clients.start(key, "echo be''gun; sleep 600", user="ann#web-1")
        shows(client, b"begun")
        session = gateway.newest("web-1")
    assert client.wait(within(5)) == 255
    assert client.stdout is not None
    assert b"is no longer trusted" in client.stdout.read()
    assert reason(gateway.finished(session.id)) == "revoked"
    assert b"Permission denied" in clients.run(key, "true", user="ann#web-1").stderr


def test_session_ends_when_its_certificate_expires(
    gateway: Gateway, clients: Clients, ann: Principal, people: Authority, tmp_path: Path
) -> None:
    path = tmp_path / "master"
    for seconds in IN_TIME:
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        key = signed(people, "-V", f"-1m:{end:%Y%m%d%H%M%S}Z")
        client = clients.start(key, "echo be''gun; sleep 600", user="ann#web-1", ControlMaster="yes", ControlPath=path)
        with suppress(AssertionError):  # it was over before the client was in
            shows(client, b"begun")
            break
    session = gateway.newest("web-1")
    assert b"expired; log in again" in shows(client, b"again")
    assert reason(gateway.finished(session.id)) == "expired"
    later = clients.run(key, "echo later", user="ann#web-1", ControlPath=path)
    assert b"later\n" not in later.stdout
    assert later.returncode != 0
    client.kill()
    client.wait(60)


def test_certificate_without_an_extension_denies_terminal_or_forwarding(
    clients: Clients, ann: Principal, people: Authority, target: Sshd
) -> None:
    key = signed(people, "-O", "clear", "-O", "permit-pty")
    client = clients.start(key, "-tt", user="ann#web-1")
    types(client, b"tty; exit\n")
    assert b"/dev/pts/" in shows(client, b"/dev/pts/")
    assert client.wait(60) == 0
    forward = ("-W", f"127.0.0.1:{target.port}")
    assert b"does not permit" in clients.run(key, *forward, user="ann#web-1", LogLevel="INFO").stderr
    listen: dict[str, Any] = {"user": "ann#web-1", "ExitOnForwardFailure": "yes"}
    assert clients.run(key, "-R", "0:localhost:1", "true", **listen).returncode == 255
    key = signed(people, "-O", "no-pty")
    assert clients.run(key, "-R", "0:localhost:1", "true", **listen).returncode == 0
    assert b"PTY allocation request failed" in clients.run(key, "-tt", user="ann#web-1", LogLevel="INFO").stderr
    assert clients.run(key, *forward, user="ann#web-1").stdout.startswith(b"SSH-2.0-")


def test_source_address_of_a_certificate_is_enforced(clients: Clients, ann: Principal, people: Authority) -> None:
    near = signed(people, "-O", "source-address=127.0.0.0/8,::1/128")
    assert clients.run(near, "echo near", user="ann#web-1").stdout == b"near\n"
    far = signed(people, "-O", "source-address=198.51.100.0/24")
    assert b"Permission denied" in clients.run(far, "true", user="ann#web-1").stderr


# By a browser


def invited(client: subprocess.Popen[bytes]) -> tuple[str, str]:
    """The code in the address, and the number."""
    shown = shows(client, b"Do not share it").decode()
    found = re.search(r"(http\S+/ssh-login)\?user_code=(\S+).*the number (\d\d) there\.", shown, re.DOTALL)
    assert found is not None, shown
    return found[2], found[3]


def at_browser(gateway: Gateway, principal: Principal) -> tuple[Account, Login]:
    account = gateway.call(gateway.services.users.own(principal))
    return account, gateway.call(gateway.services.logins.open(account, LoginMethod.LOCAL, CLIENT)).login


def decide(gateway: Gateway, principal: Principal, code: str, number: str = "", *, allow: bool = True) -> None:
    account, login = at_browser(gateway, principal)
    gateway.call(gateway.services.ssh_logins.decide(account, login, code, allow=allow, number=number))


def logins(gateway: Gateway, principal: Principal) -> list[Login]:
    live = gateway.call(gateway.services.logins.live(principal))
    return [one for one in live if one.client is ClientKind.SSH]


@pytest.fixture
def nothing(tmp_path: Path) -> Path:
    """No key."""
    return tmp_path / "none"


def waits(clients: Clients, key: Path, *words: str, user: str = "ann#web-1") -> subprocess.Popen[bytes]:
    return clients.start(key, *words, user=user, **BROWSER)


def test_browser_login_admits_a_waiting_client(
    gateway: Gateway, clients: Clients, ann: Principal, nothing: Path
) -> None:
    client = waits(clients, nothing, "echo let in; sleep 600")
    code, number = invited(client)
    asked = gateway.call(gateway.services.ssh_logins.look(ann, code))
    assert (asked.wanted.user, asked.wanted.connection) == ("ann", "web-1")
    assert "OpenSSH" in asked.wanted.client
    assert asked.address in ("127.0.0.1", "::1")
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(LOGIN + 1)
    decide(gateway, ann, code, number)
    shows(client, b"let in\n")
    assert gateway.newest("web-1").user == ann.email
    (login,) = logins(gateway, ann)
    gateway.call(gateway.services.logins.end(ann, login.id))
    assert client.wait(within(5)) == 255
    assert client.stdout is not None
    assert b"the login of this SSH client has ended" in client.stdout.read()


def test_browser_login_ends_with_its_ssh_connection(
    gateway: Gateway, clients: Clients, ann: Principal, nothing: Path
) -> None:
    client = waits(clients, nothing, "echo done")
    decide(gateway, ann, *invited(client))
    shows(client, b"done\n")
    assert client.wait(60) == 0
    wait_until(lambda: not logins(gateway, ann))


def test_proxy_jump_needs_one_browser_login(gateway: Gateway, clients: Clients, ann: Principal, nothing: Path) -> None:
    jump = " ".join([*clients.words(nothing, "ann@example.com", **BROWSER), "-W", "%h:%p", "localhost"])
    behind = clients.words(nothing, "any", ProxyCommand=jump, HostKeyAlias="web-1.postern")
    words = [*behind, "web-1", "echo through"]
    client = subprocess.Popen(words, env=clients.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    decide(gateway, ann, *invited(client))
    shows(client, b"through\n")
    assert client.wait(60) == 0


def test_client_denied_in_the_browser_gets_a_message(
    gateway: Gateway, clients: Clients, ann: Principal, nothing: Path
) -> None:
    client = waits(clients, nothing, "true")
    code, _ = invited(client)
    decide(gateway, ann, code, allow=False)
    assert b"denied in the browser" in shows(client, b"browser")
    assert client.wait(60) == 255
    client = waits(clients, nothing, "true")
    code, number = invited(client)
    with pytest.raises(Denied):
        decide(gateway, ann, code, str((int(number) + 1) % 100))
    assert b"denied" in shows(client, b"browser")
    assert client.wait(60) == 255


def test_disconnected_client_cannot_be_admitted_in_the_browser(
    gateway: Gateway, clients: Clients, ann: Principal, nothing: Path
) -> None:
    client = waits(clients, nothing, "true")
    code, _ = invited(client)
    client.kill()
    client.wait(60)

    def is_gone() -> bool:
        try:
            gateway.call(gateway.services.ssh_logins.look(ann, code))
        except Exception:
            return True
        return False

    wait_until(is_gone, within(3))
    assert not logins(gateway, ann)


def test_unknown_user_name_is_offered_a_browser_login_as_well(clients: Clients, ann: Principal, nothing: Path) -> None:
    client = waits(clients, nothing, "true", user="nobody-at-all#web-1")
    invited(client)
    client.kill()
    client.wait(60)


def test_batch_mode_clients_are_not_delayed_by_the_browser_login(
    gateway: Gateway, clients: Clients, ann: Principal, nothing: Path
) -> None:
    done = clients.run(nothing, "true", user="ann#web-1")  # BatchMode
    assert b"Permission denied (publickey,keyboard-interactive)" in done.stderr
    issued = gateway.credential("web-1")
    assert clients.run(issued, "echo by password").stdout == b"by password\n"
    key = clients.key(ann)
    both = clients.run(key, "echo by key", user="ann#web-1", LogLevel="INFO")
    assert (both.stdout, both.stderr) == (b"by key\n", b"")


def test_client_without_a_terminal_waits_for_the_browser_login(
    gateway: Gateway, clients: Clients, ann: Principal, nothing: Path
) -> None:
    """There is no question to answer in the terminal."""
    words = [*clients.words(nothing, "ann#web-1", **BROWSER), "localhost", "echo quietly"]
    client = subprocess.Popen(
        words,
        env=clients.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    decide(gateway, ann, *invited(client))
    shows(client, b"quietly\n")
    assert client.wait(60) == 0

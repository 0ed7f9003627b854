"""SSH logins of an agent: secrets, host keys, and shared connections."""

from __future__ import annotations

import asyncio
import pwd
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncssh
import pytest
from tests.support.promises import PATIENT, until, wait_until
from tests.support.ssh_channels import Servers, order_of, secrets_of
from tests.support.ssh_here import PASSWORD, greets, serving
from tests.support.sshds import PASSPHRASE, Sshd, make_key, public, sshd

from postern.agent.agent_policy import LocalPolicy
from postern.errors import Denied, PosternError, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.ssh.target import ssh_targets as logins
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_target import ChannelKind, Start


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ssh")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Sshd]:
    """It also takes an RSA key and one of ECDSA, and shows a certificate of the authority `ca`."""
    make_key(folder / "ca")
    for kind in ("rsa", "ecdsa"):
        make_key(folder / kind, kind=kind)
    with sshd(folder, {"HostKey": folder / "host", "HostCertificate": folder / "host-cert.pub"}) as made:
        sign = f"ssh-keygen -q -s {folder}/ca -I host -h -n localhost {folder}/host.pub"
        subprocess.run(sign.split(), check=True)
        with (folder / "authorized").open("a") as authorized:
            authorized.writelines(f"{public(folder / kind)}\n" for kind in ("rsa", "ecdsa"))
        made.process.send_signal(1)  # reads its configuration anew
        scan = ["ssh-keyscan", "-c", "-p", str(made.port), "127.0.0.1"]
        wait_until(lambda: b"-cert-v01@" in subprocess.run(scan, capture_output=True, check=False).stdout)
        yield made


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    made = Servers()
    yield made
    await made.close()


def key_of(server: Sshd) -> str:
    return " ".join(server.known_hosts.split()[1:3])


def here(port: int, **more: str) -> dict[str, str]:
    return {"HOST": "127.0.0.1", "PORT": str(port), "USER": "root", "PASS": PASSWORD, **more}


async def refused(servers: Servers, secrets: dict[str, str], **how: object) -> PosternError:
    with pytest.raises(PosternError) as found:
        await servers.dial(secrets, "true", **how)  # type: ignore[arg-type]
    for name in ("PASS", "PRIVATE_KEY", "PRIVATE_KEY_PASS"):
        assert not secrets.get(name) or secrets[name] not in found.value.message
    return found.value


# With what


@pytest.mark.parametrize("name", ["key", "rsa", "ecdsa"])
@pytest.mark.parametrize("secret", ["PRIVATE_KEY", "AUTHORIZED_SERVER_KEYS"])
async def test_agent_logs_in_with_a_private_key(
    servers: Servers, server: Sshd, folder: Path, name: str, secret: str
) -> None:
    secrets = secrets_of(server, **{"PRIVATE_KEY": "", secret: (folder / name).read_text().strip()})
    assert await servers.run(secrets, "echo in") == (m.Exit(0, ""), "in\n")


async def test_agent_logs_in_with_an_encrypted_private_key(servers: Servers, server: Sshd) -> None:
    secrets = secrets_of(server, PRIVATE_KEY=server.locked, PRIVATE_KEY_PASS=PASSPHRASE)
    assert (await servers.run(secrets, "echo in"))[1] == "in\n"


@pytest.mark.parametrize(
    ("passphrase", "why"), [("", "needs PRIVATE_KEY_PASS"), ("wrong", "cannot be opened with PRIVATE_KEY_PASS")]
)
async def test_private_key_with_a_missing_or_wrong_passphrase_is_an_error(
    servers: Servers, server: Sshd, passphrase: str, why: str
) -> None:
    error = await refused(servers, secrets_of(server, PRIVATE_KEY=server.locked, PRIVATE_KEY_PASS=passphrase))
    assert error.message == f"connection 'web-1': its secret PRIVATE_KEY {why}"


@pytest.mark.parametrize("text", ["no key at all", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END"])
async def test_invalid_private_key_is_an_error(servers: Servers, server: Sshd, text: str) -> None:
    error = await refused(servers, secrets_of(server, PRIVATE_KEY=text))
    assert error.message == "connection 'web-1': its secret PRIVATE_KEY is not a private key that can be read"


@pytest.mark.parametrize("methods", [("password",), ("keyboard-interactive",)])
async def test_agent_logs_in_with_a_password(servers: Servers, methods: tuple[str, ...]) -> None:
    log: list[str] = []
    async with serving(log=log, methods=methods, program=greets) as port:
        assert (await servers.run(here(port), "x"))[1] == "hello\n"
        await servers.close()
    assert log[:2] == ["connected", "user root"]
    assert log[2:] == [f"{'password' if methods == ('password',) else 'answer'} {PASSWORD}"]


async def test_password_is_not_sent_to_another_prompt(servers: Servers) -> None:
    log: list[str] = []
    async with serving(log=log, methods=("keyboard-interactive",), prompt="One-time code: ", program=greets) as port:
        error = await refused(servers, here(port))
    assert isinstance(error, TargetRefused)
    assert not any(PASSWORD in line for line in log)


async def test_wrong_password_is_tried_once_and_reported(servers: Servers) -> None:
    log: list[str] = []
    async with serving(log=log, methods=("password", "keyboard-interactive")) as port:
        error = await refused(servers, here(port, PASS="wrong one"))
    assert isinstance(error, TargetRefused)
    assert error.refuses_login
    assert error.message == f"the target at 127.0.0.1:{port} rejected the login of connection 'web-1'"
    assert "PASS" in error.hint
    assert [line for line in log if "wrong one" in line] == log[2:]
    assert len(log) == 3


async def test_unknown_key_is_a_rejected_login(servers: Servers, server: Sshd) -> None:
    error = await refused(servers, secrets_of(server, PRIVATE_KEY=server.stranger))
    assert isinstance(error, TargetRefused)
    assert error.refuses_login


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"PRIVATE_KEY": ""}, "has no credentials"),
        ({"HOST": ""}, "has no secret 'envvar:HOST'"),
        ({"USER": ""}, "has no secret 'envvar:USER'"),
        ({"PORT": "ssh"}, "PORT is not a port number"),
        ({"PORT": "70000"}, "PORT is not a port number"),
        ({"USER": "a\u0007b"}, "its login cannot be encoded"),
    ],
)
async def test_missing_or_invalid_login_secrets_are_an_error(
    servers: Servers, server: Sshd, more: dict[str, str], why: str
) -> None:
    assert why in (await refused(servers, secrets_of(server, **more))).message


# With a key that an ssh-agent holds


@pytest.fixture
def ssh_agent(folder: Path, tmp_path: Path) -> Iterator[str]:
    """Holds the keys `other`, which the server does not know, and `key`."""
    socket = str(tmp_path / "agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    environment = {"SSH_AUTH_SOCK": socket, "PATH": "/usr/bin:/bin"}
    try:
        wait_until(Path(socket).exists)
        for name in ("other", "key"):
            subprocess.run(["ssh-add", "-q", folder / name], env=environment, check=True, stderr=subprocess.DEVNULL)
        yield socket
    finally:
        process.terminate()
        process.wait()


async def test_agent_logs_in_with_a_key_of_an_ssh_agent(server: Sshd, ssh_agent: str, folder: Path) -> None:
    servers = Servers(LocalPolicy(ssh_agents=(ssh_agent,)))
    secrets = secrets_of(server, PRIVATE_KEY="", SSH_AUTH_SOCK=ssh_agent)
    assert (await servers.run(secrets, "echo in"))[1] == "in\n"
    one = {**secrets, "PUBLIC_KEY": public(folder / "key")}
    assert (await servers.run(one, "echo in", login="another"))[1] == "in\n"
    error = await refused(servers, {**secrets, "PUBLIC_KEY": public(folder / "other")})
    assert isinstance(error, TargetRefused)
    assert (
        "does not have the key" in (await refused(servers, {**secrets, "PUBLIC_KEY": public(folder / "rsa")})).message
    )
    assert "is not a public key" in (await refused(servers, {**secrets, "PUBLIC_KEY": "nonsense"})).message
    await servers.close()


@pytest.mark.parametrize("allowed", [None, (), ("/run/another",)])
async def test_ssh_agent_that_the_policy_does_not_list_is_denied(
    server: Sshd, ssh_agent: str, allowed: tuple[str, ...] | None
) -> None:
    servers = Servers(LocalPolicy(ssh_agents=allowed))
    with pytest.raises(Denied, match="the agent's operator"):
        await servers.dial(secrets_of(server, SSH_AUTH_SOCK=ssh_agent), "true")


async def test_unreachable_ssh_agent_is_an_error(server: Sshd, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    servers = Servers(LocalPolicy(ssh_agents=(nowhere,)))
    error = await refused(servers, secrets_of(server, PRIVATE_KEY="", SSH_AUTH_SOCK=nowhere))
    assert error.message.endswith("SSH_AUTH_SOCK cannot be reached: No such file or directory")


# To whom


async def test_first_login_reports_the_servers_host_key(servers: Servers, server: Sshd) -> None:
    running = await servers.dial(secrets_of(server), "true", host_keys=())
    assert running.target.parameters == {"host_key": key_of(server)}


async def test_login_with_the_pinned_host_key_succeeds(servers: Servers, server: Sshd, folder: Path) -> None:
    keys = (public(folder / "rsa"), key_of(server))
    running = await servers.dial(secrets_of(server), "true", host_keys=keys)
    assert running.target.parameters == {}


async def test_server_with_several_host_keys_presents_the_known_one(servers: Servers, tmp_path: Path) -> None:
    make_key(tmp_path / "second", kind="ecdsa")
    with sshd(tmp_path, {"HOSTKEY": tmp_path / "second"}) as server:
        for name in ("host", "second"):
            known = public(tmp_path / name)
            await servers.dial(secrets_of(server), "true", host_keys=(known,), login=name)
            await servers.dial(secrets_of(server, HOST_KEYS=known), "true", login=name)
        error = await refused(servers, secrets_of(server), host_keys=(public(tmp_path / "key"),), login="third")
        assert asyncssh.read_public_key(tmp_path / "host.pub").get_fingerprint() in error.message


async def test_server_with_a_changed_host_key_receives_no_secret(servers: Servers, folder: Path) -> None:
    log: list[str] = []
    for host_key in (asyncssh.generate_private_key(kind) for kind in ("ssh-ed25519", "ecdsa-sha2-nistp256")):
        async with serving(log=log, host_key=host_key) as port:
            error = await refused(servers, here(port), host_keys=(public(folder / "key"),))
            assert host_key.get_fingerprint() in error.message
        assert asyncssh.read_public_key(folder / "key.pub").get_fingerprint() in error.message
        assert "postern connections host-keys web-1 --forget" in error.message
    assert log == ["connected", "connected"]


async def test_login_without_pinning_needs_configured_host_keys(servers: Servers, server: Sshd) -> None:
    error = await refused(servers, secrets_of(server), host_keys=None)
    assert "must set the secret HOST_KEYS" in error.message


async def test_invalid_pinned_host_key_is_an_error(servers: Servers, server: Sshd) -> None:
    error = await refused(servers, secrets_of(server), host_keys=("ssh-ed25519 AAAA",))
    assert error.message == "connection 'web-1': its pinned host key is not valid"


def configured(server: Sshd, folder: Path, text: str) -> str:
    places = {"HOST": f"[localhost]:{server.port}", "KEY": key_of(server)}
    names = {name.upper(): " ".join(public(folder / name).split()[:2]) for name in ("ca", "rsa", "ecdsa")}
    for name, value in {**places, **names}.items():
        text = text.replace(f"<{name}>", value)
    return text


@pytest.mark.parametrize(
    "text",
    [
        "<KEY>",
        "<KEY> a comment",
        "# ours\n\n<RSA>\n<KEY>\n",
        "<HOST> <KEY>",
        "localhost <KEY>",
        "other,<HOST> <KEY>",
        "@cert-authority * <CA>",
        "@cert-authority <CA>",
        "@cert-authority local* <CA> comment",
        "@revoked * <RSA>\n<KEY>",
    ],
)
async def test_login_with_a_configured_host_key_succeeds(
    servers: Servers, server: Sshd, folder: Path, text: str
) -> None:
    """Configured keys take precedence over pinned ones."""
    secrets = secrets_of(server, HOST_KEYS=configured(server, folder, text))
    running = await servers.dial(secrets, "true", host_keys=(public(folder / "rsa"),))
    assert running.target.parameters == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<RSA>", "presented the host key"),
        ("<HOST> <RSA>", "put it into HOST_KEYS"),
        ("@cert-authority * <RSA>", "presented the host key"),
        ("@revoked * <KEY>\n* <KEY>", "is revoked"),
        ("elsewhere <KEY>", "has no key for localhost"),
        ("@cert-authority elsewhere <CA>", "has no key for localhost"),
        ("@revoked * <RSA>", "has no key for localhost"),
        ("<KEY>\nssh-ed25519 AAAA", "line 2 of its secret HOST_KEYS"),
        ("<KEY>\nssh-ed25519", "line 2 of its secret HOST_KEYS"),
        ("@authority * <KEY>", "line 1 of its secret HOST_KEYS"),
        ("nonsense", "line 1 of its secret HOST_KEYS"),
        ("@", "line 1 of its secret HOST_KEYS"),
        ("@revoked", "line 1 of its secret HOST_KEYS"),
        ("|1|x|y <KEY>", "cannot be read"),
    ],
)
async def test_login_with_a_wrong_configured_host_key_fails(
    servers: Servers, server: Sshd, folder: Path, text: str, why: str
) -> None:
    """Configured keys take precedence over pinned ones."""
    secrets = secrets_of(server, HOST_KEYS=configured(server, folder, text))
    error = await refused(servers, secrets, host_keys=(key_of(server),))
    assert not isinstance(error, TargetRefused)
    assert why in error.message


async def test_host_certificate_for_another_host_is_rejected(servers: Servers, server: Sshd, folder: Path) -> None:
    secrets = secrets_of(server, HOST="127.0.0.1", HOST_KEYS=configured(server, folder, "@cert-authority <CA>"))
    assert "rincipal" in (await refused(servers, secrets)).message


# Who is not there


async def test_unreachable_ssh_server_is_an_error(servers: Servers) -> None:
    error = await refused(servers, {"HOST": "127.0.0.1", "PORT": "1", "USER": "a", "PASS": PASSWORD})
    assert error.message.startswith("the target at 127.0.0.1:1 cannot be reached: ")


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"", "Connection lost"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4, "Connection lost"),
        (b"SSH-1.5-old\r\n", "Unsupported SSH version"),
        (b"SSH-2.0-x\r\n\xff\xff\xff\xff" + b"x" * 100, "Max packet size exceeded"),
        (b"x" * 100_000, "line too long"),
    ],
)
async def test_server_that_does_not_speak_ssh_is_an_error(servers: Servers, says: bytes, why: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        await reader.readline()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    error = await refused(servers, here(listening.sockets[0].getsockname()[1]))
    assert "the SSH login to the target" in error.message
    assert why in error.message
    listening.close()


async def test_login_to_a_silent_server_times_out_and_disconnects(servers: Servers) -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    with pytest.raises(TimeoutError):
        await servers.dial(here(listening.sockets[0].getsockname()[1]), "true", timeout=1)
    await asyncio.wait_for(gone.wait(), PATIENT)
    assert not servers.targets._logins._held
    listening.close()


@pytest.mark.parametrize(
    "old",
    [
        {"kex_algs": ["diffie-hellman-group14-sha1"]},
        {"encryption_algs": ["aes128-cbc"]},
        {"encryption_algs": ["chacha20-poly1305@openssh.com"]},
        {"encryption_algs": ["aes128-ctr"], "mac_algs": ["hmac-sha1"]},
    ],
)
async def test_obsolete_algorithms_are_rejected(servers: Servers, old: dict[str, Any]) -> None:
    log: list[str] = []
    async with serving(log=log, **old) as port:
        assert "No matching" in (await refused(servers, here(port))).message
    assert log == ["connected"]


# Who shares it


async def test_channels_with_the_same_login_share_a_connection(servers: Servers) -> None:
    log: list[str] = []
    async with serving(log=log, program=greets) as port:
        await asyncio.gather(*(servers.run(here(port), "x") for _ in range(5)))
        assert (await servers.run(here(port), "x"))[1] == "hello\n"
        assert log.count("connected") == 1
        await servers.run(here(port), "x", login=str(uuid4()))
        assert log.count("connected") == 2
        await servers.run(here(port), "x", user="eve")  # who knows its name
        assert log.count("connected") == 3
        await refused(servers, here(port, PASS="wrong one"))
        assert log.count("connected") == 4
        await servers.close()


async def test_idle_connection_stays_open_for_a_while(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "LINGER", 0.05)
    async with serving(program=greets) as port:
        one = await servers.dial(here(port), "x")
        two = await servers.dial(here(port), "x")
        (shared,) = servers.targets._logins._held.values()
        login = shared.task.result()
        one.transport.close()
        one.target.release()
        await asyncio.sleep(0.2)
        assert not login.is_over
        two.send(m.START_FRAME)
        assert (await two.ended()).code == 0
        two.target.release()
        await until(lambda: login.is_over)
        assert not servers.targets._logins._held


async def test_failed_shared_login_is_reported_to_all_and_not_cached(servers: Servers) -> None:
    log: list[str] = []
    async with serving(log=log, program=greets) as port:
        secrets = here(port, PASS="wrong one")
        found = await asyncio.gather(*(servers.dial(secrets, "x") for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in found] == [TargetRefused] * 3
        assert log.count("connected") == 1
        assert not servers.targets._logins._held
        await refused(servers, secrets)
        assert log.count("connected") == 2


async def test_cancelled_dial_does_not_cancel_the_shared_login(servers: Servers) -> None:
    log: list[str] = []
    async with serving(log=log, program=greets) as port:
        first = asyncio.create_task(servers.dial(here(port), "x"))
        second = asyncio.create_task(servers.dial(here(port), "x"))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).target.parameters["host_key"]
        assert log.count("connected") == 1
        await servers.close()


async def test_shared_connection_is_checked_against_the_current_pinned_key(
    servers: Servers, server: Sshd, folder: Path
) -> None:
    await servers.dial(secrets_of(server), "true", host_keys=())
    running = await servers.dial(secrets_of(server), "true", host_keys=(key_of(server),))
    assert running.target.parameters == {}
    error = await refused(servers, secrets_of(server), host_keys=(public(folder / "rsa"),))
    assert "presented the host key" in error.message


async def test_number_of_open_logins_is_limited(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "MOST_LOGINS", 2)
    async with serving(program=greets) as port:
        kept = await servers.dial(here(port), "x", login="one")
        idle = await servers.dial(here(port), "x", login="two")
        idle.transport.close()
        idle.target.release()
        await servers.dial(here(port), "x", login="three")
        assert len(servers.targets._logins._held) == 2
        assert "its limit" in (await refused(servers, here(port), login="four")).message
        kept.send(m.START_FRAME)
        assert (await kept.ended()).code == 0
        await servers.close()


# What is asked for


@pytest.mark.parametrize("what", ["", "nowhere", "host:", ":22", "host:0", "host:65536", "a\nb:22"])
async def test_forwarding_to_an_invalid_address_is_unavailable(servers: Servers, what: str) -> None:
    with pytest.raises(Unavailable, match=r"not host:port|is empty"):
        await servers.dial(here(1), what, kind=ChannelKind.FORWARD)


@pytest.mark.parametrize("kind", [ChannelKind.EXEC, ChannelKind.SUBSYSTEM])
async def test_empty_channel_request_is_unavailable(servers: Servers, kind: ChannelKind) -> None:
    with pytest.raises(Unavailable, match="the channel request is empty"):
        await servers.dial(here(1), "", kind=kind)


async def test_order_without_a_channel_runs_a_shell_or_its_arguments(servers: Servers, server: Sshd) -> None:
    shell = await servers.carry_out(order_of(Start(host_keys=())), secrets_of(server))
    shell.send(m.START_FRAME, m.frame(m.STDIN, b"echo a script; exit 4\n"), m.STDIN_END_FRAME)
    assert await shell.ended() == m.Exit(4, "")
    assert shell.text() == "a script\n"
    arguments = await servers.carry_out(
        order_of(Start(arguments=("echo", "a  b", "$HOME"), host_keys=())), secrets_of(server)
    )
    arguments.send(m.START_FRAME)
    assert (await arguments.ended()).code == 0
    assert arguments.text() == "a  b $HOME\n"


async def test_agent_policy_denies_an_ssh_target(server: Sshd) -> None:
    with pytest.raises(Denied):
        await Servers(LocalPolicy(targets=("db:5432",))).dial(secrets_of(server), "true")


@pytest.mark.ci
async def test_agent_whose_user_has_no_name_logs_in(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs with an arbitrary user id."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "")

    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    async with serving(program=greets) as port:
        assert (await servers.run(here(port), "x"))[1] == "hello\n"
        await servers.close()

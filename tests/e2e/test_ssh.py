"""OpenSSH's own client through a whole worker to OpenSSH's own server."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.e2e.test_commands import command
from tests.e2e.test_waiting_clients import decide, person, waiting
from tests.support.gateway import Gateway
from tests.support.promises import wait_until, within
from tests.support.ssh_clients import UNHURRIED, Clients, server, shows, types
from tests.support.sshds import Sshd, ssh_agent, sshd

from postern.domain.identity.credential import Issued
from postern.domain.lists import Page
from postern.domain.reviews.review import Choice
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session
from postern.domain.targets.connection import Toggle
from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import Malformed
from postern.services.server.server_configs import ListenerFields, ServerFields

SSHD = {"MaxStartups": "300", "MaxSessions": "300", "Subsystem": "sftp internal-sftp"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd"), SSHD) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(target: Sshd) -> Iterator[Gateway]:
    running = Gateway(gateway_commands=True, **UNHURRIED)
    try:
        running.start()
        server(running, "web-1", target)
        server(running, "masked", target, redact_enabled=True, redact_types=("EMAIL_ADDRESS",))
        guarded = server(running, "guarded", target)
        running.guardrail("no-rm", guarded, deny=r"rm\s+-rf")
        command(running, "shell", "bash", "--norc")
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def issued(gateway: Gateway) -> Issued:
    return gateway.credential("web-1")


def reason(session: Session) -> object:
    return session.metadata["end_reason"]


def test_command_runs_and_returns_its_output_and_exit_code(gateway: Gateway, clients: Clients, issued: Issued) -> None:
    done = clients.run(issued, "echo out; echo err >&2; cat; exit 7", stdin=b"in\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\nin\n", b"err\n")
    session = gateway.newest_finished("web-1")
    assert (session.exit_code, session.metadata["channel"]) == (7, "exec")
    assert "OpenSSH" in str(session.metadata["ssh_client"])
    assert gateway.operations(session.id)[0] == "echo out; echo err >&2; cat; exit 7"
    assert "out\n" in gateway.text(session.id)


def test_command_ended_by_a_signal_is_recorded_with_it(gateway: Gateway, clients: Clients, issued: Issued) -> None:
    assert clients.run(issued, "kill -TERM $$").returncode == 255  # as ssh does with any exit signal
    assert gateway.newest_finished("web-1").exit_code == 128 + signal.SIGTERM


def test_wrong_password_and_unknown_user_name_get_the_same_error(clients: Clients, issued: Issued) -> None:
    wrong = replace(issued, password=Secret("wrong"))
    unknown = replace(issued, credential=replace(issued.credential, username="nobody-web_1-zzzzzz"))
    told = [clients.run(one, "true") for one in (wrong, unknown)]
    assert [one.returncode for one in told] == [255, 255]
    assert told[0].stderr.replace(issued.credential.username.encode(), b"nobody-web_1-zzzzzz") == told[1].stderr


def test_terminal_session_is_recorded(gateway: Gateway, clients: Clients, issued: Issued) -> None:
    client = clients.start(issued, "-tt")
    types(client, b"stty size; echo $TERM; tty\n")
    seen = shows(client, b"/dev/pts/")
    assert b"xterm" in seen
    types(client, b"exit 3\n")
    assert client.wait(60) == 3
    session = gateway.newest_finished("web-1")
    assert (session.metadata["terminal"], session.metadata["channel"]) == ("yes", "shell")
    assert "stty size; echo $TERM; tty" in gateway.operations(session.id)
    assert "/dev/pts/" in gateway.text(session.id)


def test_input_and_output_pass_unchanged(clients: Clients, issued: Issued) -> None:
    data = bytes(range(256)) * 8_192 + b"no end of line"
    done = clients.run(issued, "cat", stdin=data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == data


def test_output_continues_after_the_end_of_input(clients: Clients, issued: Issued) -> None:
    done = clients.run(issued, "cat >/dev/null; sleep 0.2; echo later", stdin=b"x" * 100_000)
    assert done.stdout == b"later\n"


def test_only_locale_variables_of_the_environment_are_passed_on(clients: Clients, issued: Issued) -> None:
    clients.environment |= {"LC_SHOWN": "yes", "HIDDEN": "no"}
    done = clients.run(issued, "env", SendEnv="LC_SHOWN HIDDEN")
    assert b"HIDDEN" not in done.stdout  # and what the server takes of the other is its own affair
    assert done.returncode == 0


def test_value_split_over_two_reads_is_masked(gateway: Gateway, clients: Clients) -> None:
    issued = gateway.credential("masked")
    done = clients.run(issued, "printf 'to ann@exam'; sleep 0.3; printf 'ple.com\\n'")
    assert b"ann@" not in done.stdout
    assert done.stdout.startswith(b"to ")
    assert "ann@example" not in gateway.text(gateway.newest_finished("masked").id)


def test_denied_command_never_runs(gateway: Gateway, clients: Clients, tmp_path: Path) -> None:
    issued = gateway.credential("guarded")
    done = clients.run(issued, f"touch {tmp_path}/ran; rm -rf {tmp_path}/ran")
    assert done.returncode == 1
    assert b"postern: " in done.stderr
    assert not list(tmp_path.iterdir())
    assert clients.run(issued, "echo fine").stdout == b"fine\n"


def test_denied_typed_line_is_not_run(gateway: Gateway, clients: Clients, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    client = clients.start(gateway.credential("guarded"), "-tt")
    types(client, b"echo re''ady\r")
    shows(client, b"ready")  # a shell that still starts would end with the line that is refused
    types(client, f"rm -rf {tmp_path}/kept\r".encode())
    types(client, b"echo a''live\r")
    if b"postern: " not in shows(client, b"alive"):  # the one is on standard error, the other is not
        shows(client, b"postern: ")
    types(client, b"exit\r")
    assert client.wait(60) == 0
    assert (tmp_path / "kept").exists()


def test_attack_denied_line_is_not_run_by_the_next_enter(gateway: Gateway, clients: Clients, tmp_path: Path) -> None:
    client = clients.start(gateway.credential("guarded"), "-tt")
    types(client, f"cd {tmp_path}; PS1='ne''xt '\r".encode())
    shows(client, b"next ")
    for number in range(10):
        (tmp_path / f"x{number}").touch()
        types(client, f" rm -rf x{number}".encode())  # a blank, of which the loss would change nothing
        shows(client, f"x{number}".encode())
        types(client, b"\r\r")
        shows(client, b"next ")
        types(client, f"echo a''live{number}\r".encode())
        shows(client, f"alive{number}".encode())
    types(client, b"exit\r")
    assert client.wait(60) == 0
    assert len(list(tmp_path.iterdir())) == 10


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.2])
def test_attack_part_of_a_denied_line_kept_by_the_shell_is_not_run_later(
    gateway: Gateway, clients: Clients, tmp_path: Path, pause: float
) -> None:
    """A busy shell has read a part of the line before Ctrl-C, and bash shows that part at its next prompt."""
    client = clients.start(gateway.credential("guarded"), "-tt")
    types(client, f"cd {tmp_path}; PS1='ne''xt '\r".encode())
    shows(client, b"next ")
    for number in range(10):
        (tmp_path / f"x{number}").touch()
        types(client, f"echo b''usy{number}\r rm -rf x{number}\r".encode())
        time.sleep(pause)
        types(client, f"\recho a''live{number}\r".encode())
        assert b"not found" not in shows(client, f"alive{number}".encode())
    types(client, b"exit\r")
    assert client.wait(60) == 0
    assert len(list(tmp_path.iterdir())) == 10


def test_killed_session_ends_at_once_with_the_reason(gateway: Gateway, clients: Clients, issued: Issued) -> None:
    client = clients.start(issued, "echo be''gun; sleep 600")
    shows(client, b"begun")
    session = gateway.newest("web-1")
    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
    assert client.wait(within(5)) == 255
    assert client.stdout is not None
    assert b"this session was killed" in client.stdout.read()
    assert reason(gateway.finished(session.id)) == "killed"


def test_revoked_credential_ends_its_sessions_and_is_rejected_at_login(gateway: Gateway, clients: Clients) -> None:
    issued = gateway.credential("web-1")
    client = clients.start(issued, "echo be''gun; sleep 600")
    shows(client, b"begun")
    gateway.call(gateway.services.credentials.revoke(gateway.admin, "web-1", str(issued.credential.id)))
    assert client.wait(within(5)) == 255
    done = clients.run(issued, "true")
    assert done.returncode == 255
    assert b"revoked" in done.stderr


def test_each_channel_of_a_connection_is_a_session(gateway: Gateway, clients: Clients, issued: Issued) -> None:
    path = clients.folder / "master"
    master = clients.start(issued, "echo be''gun; sleep 600", ControlMaster="yes", ControlPath=path)
    shows(master, b"begun")
    before = {session.id for session in gateway.sessions(connection="web-1")}
    with ThreadPoolExecutor(4) as pool:
        words = ["one", "two", "three", "four"]
        done = list(pool.map(lambda word: clients.run(issued, f"echo {word}", ControlPath=path), words))
    assert [one.stdout for one in done] == [f"{word}\n".encode() for word in words]
    made = [session for session in gateway.sessions(connection="web-1") if session.id not in before]
    assert len(made) == 4
    master.terminate()
    master.wait(60)


def test_fifty_concurrent_sessions_get_their_own_output(gateway: Gateway, clients: Clients, issued: Issued) -> None:
    with ThreadPoolExecutor(50) as pool:
        done = list(pool.map(lambda number: clients.run(issued, f"echo {number}; cat", stdin=b"x" * 10_000), range(50)))
    assert [one.stdout for one in done] == [f"{number}\n".encode() + b"x" * 10_000 for number in range(50)]
    gateway.all_closed(connection="web-1")


def test_stalled_session_does_not_delay_other_sessions(clients: Clients, issued: Issued) -> None:
    path = clients.folder / "stalled"
    stalled = clients.start(issued, "echo be''gun; cat /dev/zero", ControlMaster="yes", ControlPath=path)
    shows(stalled, b"begun")
    assert clients.run(issued, "echo other").stdout == b"other\n"
    assert clients.run(issued, "echo beside", ControlPath=path).stdout == b"beside\n"
    stalled.kill()
    stalled.wait(60)


@pytest.mark.parametrize("legacy", [False, True], ids=["sftp", "scp"])
def test_files_are_copied_unchanged(
    gateway: Gateway, clients: Clients, issued: Issued, tmp_path: Path, legacy: bool
) -> None:
    data = os.urandom(5_000_000)
    (tmp_path / "up").write_bytes(data)
    options = ["-O"] if legacy else ["-s"]
    there = f"localhost:{tmp_path}/there"
    for source, goal in ((f"{tmp_path}/up", there), (there, f"{tmp_path}/down")):
        done = clients.run(issued, *options, source, goal, host="", program="scp")
        assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "there").read_bytes() == (tmp_path / "down").read_bytes() == data
    session = gateway.newest_finished("web-1")
    assert gateway.operations(session.id)[0].startswith("scp " if legacy else "sftp")


def test_sftp_and_rsync_copy_files_unchanged(clients: Clients, issued: Issued, tmp_path: Path) -> None:
    data = os.urandom(2_000_000)
    (tmp_path / "up").write_bytes(data)
    done = clients.run(issued, "localhost", host="", program="sftp", stdin=f"put {tmp_path}/up {tmp_path}/a\n".encode())
    assert done.returncode == 0, done.stderr
    words = clients.words(issued)
    rsync = ["rsync", "-e", " ".join(words), f"{tmp_path}/up", f"localhost:{tmp_path}/b"]
    copied = subprocess.run(rsync, env=clients.secrets(issued), capture_output=True, timeout=120, check=False)
    assert (copied.returncode, copied.stderr) == (0, b"")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == data


def test_file_transfer_is_denied_on_a_masked_connection(gateway: Gateway, clients: Clients, tmp_path: Path) -> None:
    issued = gateway.credential("masked")
    (tmp_path / "secret").write_text("ann@example.com\n")
    done = clients.run(issued, "-s", f"localhost:{tmp_path}/secret", f"{tmp_path}/got", host="", program="scp")
    assert done.returncode != 0
    assert b"cannot be masked" in done.stderr
    assert not (tmp_path / "got").exists()


def test_file_transfer_or_forwarding_that_needs_a_review_waits_for_it(
    gateway: Gateway, clients: Clients, target: Sshd, tmp_path: Path
) -> None:
    name, word = "asked-about", "four_eyes"
    asking = server(gateway, name, target, access_forward_local=Toggle.ENABLED)
    rule = Rule(RuleType.PATTERN_MATCH, (), f"{word}|forward to", "four eyes", action=Action.REVIEW)
    fields = {"name": name, "input": (rule,), "connection_ids": (str(asking.id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    colleague, issued = person(gateway, f"{name}@example.com", "admin"), gateway.credential(name)
    (tmp_path / word).write_text("it is here")
    copy = ["-s", f"localhost:{tmp_path}/{word}", f"{tmp_path}/got"]
    with ThreadPoolExecutor() as pool:
        copied = pool.submit(clients.run, issued, *copy, host="", program="scp")
        review = waiting(gateway, gateway.admin)
        assert not (tmp_path / "got").exists()
        decide(gateway, colleague, review, Choice.APPROVED)
        assert copied.result().returncode == 0
        assert (tmp_path / "got").read_text() == "it is here"
        reached = pool.submit(clients.run, issued, "-W", f"127.0.0.1:{target.port}")
        review = waiting(gateway, gateway.admin)
        decide(gateway, colleague, review, Choice.APPROVED)
        assert reached.result().stdout.startswith(b"SSH-2.0")


@pytest.mark.parametrize("program", ["scp -tf", "scp -{t,f}", "rsync --server {--sender,-v} ."])
def test_program_disguised_as_a_file_transfer_is_masked(
    clients: Clients, gateway: Gateway, tmp_path: Path, program: str
) -> None:
    issued = gateway.credential("masked")
    (tmp_path / "secret").write_text("ann@example.com\n")
    done = clients.run(issued, f"{program} {tmp_path}/secret", stdin=b"\0" * 3)
    assert b"ann@example.com" not in done.stdout + done.stderr


def test_file_transfer_and_forwarding_have_their_own_switches(
    gateway: Gateway, clients: Clients, target: Sshd, tmp_path: Path
) -> None:
    server(gateway, "narrow", target, access_file_transfer=Toggle.DISABLED)
    issued = gateway.credential("narrow")
    (tmp_path / "file").touch()
    for options in (("-s",), ("-O",)):
        done = clients.run(issued, *options, f"{tmp_path}/file", f"localhost:{tmp_path}/to", host="", program="scp")
        assert done.returncode != 0
        assert b"file transfer" in done.stderr
    assert not (tmp_path / "to").exists()
    (tmp_path / "tool").symlink_to("/usr/bin/scp")
    for wrapped in ("env scp -f", "sh -c 'exec scp -f \"$0\"'", "S=sc; ${S}p -f", f"{tmp_path}/tool -f"):
        done = clients.run(issued, f"{wrapped} {tmp_path}/file", stdin=b"\0" * 3)
        assert b"file transfer" in done.stderr, wrapped
        assert done.returncode != 0
    assert clients.run(issued, f"cat {tmp_path}/file; echo done").stdout == b"done\n"
    assert b"forwarding" in clients.run(issued, "-W", f"127.0.0.1:{target.port}").stderr
    server(gateway, "wide", target, access_forward_local=Toggle.ENABLED)
    done = clients.run(gateway.credential("wide"), "-W", f"127.0.0.1:{target.port}")
    assert done.stdout.startswith(b"SSH-2.0-")
    session = gateway.newest_finished("wide")
    assert session.metadata["channel"] == "forward"
    assert gateway.operations(session.id) == [f"forward to 127.0.0.1:{target.port}"]


def test_remote_forwarding_and_agent_forwarding_are_off_by_default(
    clients: Clients, issued: Issued, tmp_path: Path
) -> None:
    done = clients.run(issued, "-R", "0:localhost:1", "true", ExitOnForwardFailure="yes", LogLevel="INFO")
    assert done.returncode == 255
    assert b"remote port forwarding failed" in done.stderr
    with ssh_agent(tmp_path / "agent") as socket:
        done = clients.run(issued, "echo $SSH_AUTH_SOCK", ForwardAgent="yes", IdentityAgent=socket)
    assert done.stdout == b"\n"


def test_command_connection_is_reached_over_ssh(gateway: Gateway, clients: Clients) -> None:
    key, user = clients.key(gateway.admin), f"{gateway.admin.email}#shell"
    client = clients.start(key, "-tt", user=user)
    types(client, b"tty; echo $((40+2))\r")
    assert b"/dev/pts/" in shows(client, b"42")
    types(client, b"exit 4\r")
    assert client.wait(60) == 4
    done = clients.run(key, "--", "-c 'echo \"$1\"' bash 'two words'", user=user)
    assert (done.returncode, done.stdout) == (0, b"two words\n")
    assert b"neither files" in clients.run(key, "localhost", user=user, host="", program="sftp").stderr


def test_target_with_a_changed_host_key_is_rejected(gateway: Gateway, clients: Clients, tmp_path: Path) -> None:
    with sshd(tmp_path) as first:
        server(gateway, "moved", first)
        issued = gateway.credential("moved")
        assert clients.run(issued, "echo first").stdout == b"first\n"
    (tmp_path / "again").mkdir()
    with sshd(tmp_path / "again", {"Port": first.port, "AuthorizedKeysFile": tmp_path / "authorized"}):
        done = clients.run(issued, "echo second")
        assert (done.returncode, done.stdout) == (255, b"")
        assert b"was pinned at the first connection" in done.stderr
        assert b"postern connections host-keys moved --forget" in done.stderr


def test_connection_test_logs_in_to_the_target(gateway: Gateway, target: Sshd) -> None:
    def tested(name: str) -> object:
        asked = gateway.services.target_tasks.ask(gateway.admin, name, TargetTaskKind.TEST, {}, source="127.0.0.1")
        return gateway.call(asked).result

    assert tested("web-1") == {"success": True}
    server(gateway, "no-login", replace(target, user="nobody"))
    with pytest.raises(Malformed, match=r"rejected the login .* \(28000\)\. An administrator must check"):
        tested("no-login")


def test_login_rejected_by_the_target_tells_the_user_what_to_do(
    gateway: Gateway, clients: Clients, target: Sshd
) -> None:
    server(gateway, "not-let-in", replace(target, user="nobody"))
    done = clients.run(gateway.credential("not-let-in"), "true")
    assert done.returncode == 255
    assert b"the target did not accept the gateway's own login. An administrator must check" in done.stderr


def test_user_logs_in_by_key_and_names_the_connection(gateway: Gateway, clients: Clients) -> None:
    key = clients.key(gateway.admin)
    done = clients.run(key, "echo by key", user=f"{gateway.admin.email}#web-1")
    assert (done.stdout, done.stderr) == (b"by key\n", b"")
    nowhere = clients.run(key, "true", user=gateway.admin.email)
    assert nowhere.returncode == 255
    assert b"no connection was named" in nowhere.stderr
    missing = clients.run(key, "true", user=f"{gateway.admin.email}#missing")
    assert b"there is no connection 'missing'" in missing.stderr
    stranger = clients.folder / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger)], check=True)
    assert b"Permission denied" in clients.run(stranger, "true", user=f"{gateway.admin.email}#web-1").stderr
    assert b"Permission denied" in clients.run(key, "true", user="somebody-else#web-1").stderr


def test_removed_key_ends_the_sessions_it_opened(gateway: Gateway, clients: Clients) -> None:
    key = clients.key(gateway.admin)
    user = f"{gateway.admin.email}#web-1"
    client = clients.start(key, "echo be''gun; sleep 600", user=user)
    shows(client, b"begun")
    own = gateway.call(gateway.services.ssh_keys.list_page(gateway.admin, Page())).items
    (found,) = [one for one in own if one.name == key.name]
    gateway.call(gateway.services.ssh_keys.remove(gateway.admin, str(found.id)))
    assert client.wait(within(5)) == 255
    assert clients.run(key, "true", user=user).returncode == 255


def test_proxy_jump_reaches_the_target(gateway: Gateway, clients: Clients) -> None:
    key = clients.key(gateway.admin)
    jump = " ".join([*clients.words(key, gateway.admin.email), "-W", "%h:%p", "localhost"])
    alias = "web-1.postern"
    for _ in range(2):
        done = clients.run(key, "echo through", host="web-1", user="anybody", ProxyCommand=jump, HostKeyAlias=alias)

        assert (done.stdout, done.stderr) == (b"through\n", b"")
    session = gateway.newest_finished("web-1")
    assert session.user == gateway.admin.email


def test_ssh_listener_is_disabled_and_enabled(gateway: Gateway, clients: Clients, issued: Issued) -> None:
    configs = gateway.services.server_configs
    gateway.call(configs.put(gateway.admin, ServerFields({"ssh": ListenerFields(False)})))
    wait_until(lambda: b"refused" in clients.run(issued, "true").stderr)
    gateway.call(configs.put(gateway.admin, ServerFields({"ssh": ListenerFields(True)})))
    wait_until(lambda: clients.run(issued, "true").returncode == 0)


def test_waiting_client_sees_where_its_review_is_and_then_runs(
    gateway: Gateway, clients: Clients, target: Sshd
) -> None:
    dba = person(gateway, "dba@example.com", "dba")
    server(gateway, "reviewed", target, reviewers=("dba",))
    issued = gateway.credential("reviewed")
    client = clients.start(issued, "echo ra''n; sleep 0.2; echo on")
    told = shows(client, b"postern reviews approve")
    assert b"1 member of the group 'dba' must approve" in told
    review = waiting(gateway, gateway.admin)
    decide(gateway, dba, review, Choice.APPROVED)
    assert client.wait(60) == 0
    session = gateway.newest_finished("reviewed")
    assert session.id == review.session_id
    assert clients.run(issued, "echo again").stdout == b"again\n"

"""Programs that use SSH, through a whole worker: Ansible, git, rsync, sftp, scp, and editors' long-lived shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.echoing import echoing, through_socks, through_tcp
from tests.support.gateway import Gateway
from tests.support.postgres import free_port
from tests.support.promises import wait_until
from tests.support.ssh_clients import TIMEOUT, Clients, reaching, shows, types
from tests.support.sshds import Sshd, sshd

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Toggle

SSHD = {"MaxStartups": "300", "MaxSessions": "300", "Subsystem": "sftp internal-sftp"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd"), SSHD) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(target: Sshd) -> Iterator[Gateway]:
    with reaching(target, access_forward_local=Toggle.ENABLED) as running:
        yield running


@pytest.fixture(scope="module")
def issued(gateway: Gateway) -> Issued:
    return gateway.credential("web-1")


@pytest.fixture(scope="module")
def key(gateway: Gateway, clients: Clients) -> Path:
    return clients.key(gateway.admin)


# Ansible


class Ansible:
    """`ansible` with one host, `web`, whose variables say who goes there and where it is: `gateway`, or `web-1` behind
    it. What it keeps is in `folder`."""

    def __init__(self, clients: Clients, folder: Path, key: Path, variables: Mapping[str, object]) -> None:
        self._folder = folder
        (folder / "ssh_config").write_text(
            f"Host gateway\n HostName localhost\n Port {clients.gateway.settings.ssh_port}\n"
            f" User {clients.gateway.admin.email}\n IdentityFile {key}\n"
            "Host web-1\n ProxyJump gateway\n HostKeyAlias web-1.postern\n User anybody\n"
            f"Host *\n UserKnownHostsFile {clients.folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n"
        )
        known = {
            "ansible_host": "gateway",
            "ansible_python_interpreter": sys.executable,
            "ansible_remote_tmp": folder / "remote",
            "ansible_ssh_common_args": f"-F {folder}/ssh_config",
            **variables,
        }
        words = " ".join(f'{name}="{value}"' for name, value in known.items())
        (folder / "hosts").write_text(f"web {words}\n")
        (folder / "ansible.cfg").touch()
        self._environment = {
            **clients.environment,
            "HOME": str(folder),
            "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        }

    def run(self, module: str, words: str = "", **settings: str) -> str:
        """What it printed."""
        program = Path(sys.executable).with_name("ansible")
        done = subprocess.run(
            [program, "web", "-i", self._folder / "hosts", "-m", module, *(["-a", words] if words else [])],
            env={**self._environment, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def masters(self) -> list[Path]:
        """The sockets of the connections that it keeps."""
        return list((self._folder / ".ansible" / "cp").glob("*"))

    def close(self) -> None:
        for path in self.masters:
            subprocess.run(["ssh", "-o", f"ControlPath={path}", "-O", "exit", "web"], capture_output=True, check=True)


@contextmanager
def ansible(clients: Clients, key: Path, **variables: object) -> Iterator[Ansible]:
    folder = Path(clients.folder, f"a{free_port()}")  # short: sockets are in it
    folder.mkdir()
    running = Ansible(clients, folder, key, variables)
    try:
        yield running
    finally:
        running.close()


def works(running: Ansible, folder: Path, **settings: str) -> None:
    assert '"ping": "pong"' in running.run("ping", **settings)
    assert "two words" in running.run("command", "echo 'two words'", **settings)
    assert len(running.masters) == 1  # all of it over one connection, which it keeps
    data = os.urandom(300_000)
    (folder / "source").write_bytes(data)
    assert '"changed": true' in running.run("copy", f"src={folder}/source dest={folder}/copied mode=0640", **settings)
    assert (folder / "copied").read_bytes() == data
    assert (folder / "copied").stat().st_mode & 0o777 == 0o640
    running.run("fetch", f"src={folder}/copied dest={folder}/fetched flat=yes", **settings)
    assert (folder / "fetched").read_bytes() == data


@pytest.mark.parametrize("pipelining", ["yes", pytest.param("no", marks=pytest.mark.slow)])
def test_ansible_works_with_a_credential(
    clients: Clients, issued: Issued, key: Path, tmp_path: Path, pipelining: str
) -> None:
    who = {"ansible_user": issued.credential.username, "ansible_password": issued.password.reveal()}
    with ansible(clients, key, **who) as running:
        works(running, tmp_path, ANSIBLE_PIPELINING=pipelining)


@pytest.mark.parametrize("method", ["sftp", *(pytest.param(one, marks=pytest.mark.slow) for one in ("scp", "piped"))])
def test_ansible_works_with_a_key_and_every_transfer_method(
    gateway: Gateway, clients: Clients, key: Path, tmp_path: Path, method: str
) -> None:
    with ansible(clients, key, ansible_user=f"{gateway.admin.email}#web-1") as running:
        works(running, tmp_path, ANSIBLE_SSH_TRANSFER_METHOD=method)


def test_ansible_works_with_proxy_jump(gateway: Gateway, clients: Clients, key: Path, tmp_path: Path) -> None:
    with ansible(clients, key, ansible_host="web-1") as running:
        works(running, tmp_path)
    assert gateway.newest("web-1").user == gateway.admin.email


# Editors


@pytest.mark.parametrize("keeps", [False, True], ids=["alone", "with-a-master"])
def test_long_lived_editor_shell_works_with_its_forwarded_ports(
    gateway: Gateway, clients: Clients, issued: Issued, keeps: bool
) -> None:
    """It is a shell without a terminal that runs scripts as long as the editor runs."""
    port = free_port()
    path = clients.folder / f"editor-{port}"
    master: dict[str, object] = {"ControlMaster": "yes", "ControlPath": path} if keeps else {}
    beside_it: dict[str, Any] = {"ControlPath": path} if keeps else {}
    client = clients.start(issued, "bash", RequestTTY="no", DynamicForward=f"127.0.0.1:{port}", **master)
    types(client, b"uname -s; echo $$ rea''dy\n")
    assert b"Linux" in shows(client, b"ready")
    data = os.urandom(300_000)
    with echoing() as there, ThreadPoolExecutor(6) as pool:
        carried = [pool.submit(through_socks, port, there, data + bytes([number])) for number in range(6)]
        beside = clients.run(issued, "echo beside; cat", stdin=b"in", **beside_it)
        types(
            client, b"for n in 1 2 3; do echo line $n; done; cat <<'END'\n" + b"x" * 100_000 + b"\nEND\necho do''ne\n"
        )
        shown = shows(client, b"done")
        assert [one.result(TIMEOUT) for one in carried] == [data + bytes([number]) for number in range(6)]
    assert beside.stdout == b"beside\nin"
    assert shown.startswith(b"line 1\nline 2\nline 3\n" + b"x" * 100_000)
    types(client, b"exit 5\n")
    assert client.wait(TIMEOUT) == 5
    gateway.all_closed(connection="web-1")


def test_forwarding_to_a_closed_port_does_not_affect_other_forwardings(clients: Clients, issued: Issued) -> None:
    port = free_port()
    client = clients.start(issued, "bash", RequestTTY="no", DynamicForward=f"127.0.0.1:{port}")
    types(client, b"echo rea''dy\n")
    shows(client, b"ready")
    assert through_socks(port, free_port(), b"data") == b""
    with echoing() as there:
        assert through_socks(port, there, b"data") == b"data"
    types(client, b"exit\n")
    assert client.wait(TIMEOUT) == 0


def test_local_forwarding_reaches_a_port_of_the_target_and_is_recorded(
    gateway: Gateway, clients: Clients, key: Path
) -> None:
    user = f"{gateway.admin.email}#web-1"
    port, data = free_port(), os.urandom(3_000_000)
    with echoing() as there:
        client = clients.start(key, "echo rea''dy; cat", user=user, LocalForward=f"127.0.0.1:{port} 127.0.0.1:{there}")
        shows(client, b"ready")
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda _: through_tcp(port, data), range(4))) == [data] * 4
        assert client.stdin is not None
        client.stdin.close()
        assert client.wait(TIMEOUT) == 0
    session = next(one for one in gateway.sessions(connection="web-1") if one.metadata["channel"] == "forward")
    assert gateway.operations(session.id) == [f"forward to 127.0.0.1:{there}"]


# Trees of files


def tree(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Mode and content, or where a link leads, of all in it."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content: bytes | str = b""
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (mode, content)
    return found


def plant(folder: Path, *, link: bool = True) -> Path:
    """A tree as people have them."""
    (folder / "deep" / "deeper" / "ünïcode with spaces").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "nothing").touch()
    (folder / "deep" / "random").write_bytes(os.urandom(1_500_000))
    (folder / "deep" / "deeper" / "ünïcode with spaces" / "a file").write_text("text\n" * 1000)
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    for number in range(60):
        (folder / "deep" / f"many-{number}").write_text(str(number))
    if link:
        (folder / "link").symlink_to("deep/random")
    return folder


def test_rsync_mirrors_a_tree_in_both_directions_with_deletes(clients: Clients, issued: Issued, tmp_path: Path) -> None:
    def rsync(source: str, goal: str) -> str:
        words = ["rsync", "-a", "--delete", "--itemize-changes", "-e", " ".join(clients.words(issued)), source, goal]
        done = subprocess.run(words, env=clients.secrets(issued), capture_output=True, timeout=TIMEOUT, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    here, there, back = plant(tmp_path / "here"), tmp_path / "there", tmp_path / "back"
    rsync(f"{here}/", f"localhost:{there}/")
    rsync(f"localhost:{there}/", f"{back}/")
    assert tree(back) == tree(there) == tree(here)
    shutil.rmtree(here / "deep" / "deeper")
    with (here / "deep" / "random").open("r+b") as file:  # only what is another one goes over
        file.seek(700_000)
        file.write(b"changed")
    os.utime(here / "deep" / "random", (1, 1))  # rsync looks at the size and the second alone
    assert "*deleting" in rsync(f"{here}/", f"localhost:{there}/")
    assert "*deleting" in rsync(f"localhost:{there}/", f"{back}/")
    assert tree(back) == tree(there) == tree(here)
    assert rsync(f"{here}/", f"localhost:{there}/") == ""


@pytest.mark.parametrize("legacy", [False, True], ids=["sftp", "scp"])
def test_scp_copies_a_tree_in_both_directions(clients: Clients, issued: Issued, tmp_path: Path, legacy: bool) -> None:
    options = ["-rp", "-O"] if legacy else ["-rp", "-s"]
    here = plant(tmp_path / "here", link=False)
    for source, goal in (
        (f"{here}", f"localhost:{tmp_path}/there"),
        (f"localhost:{tmp_path}/there", f"{tmp_path}/back"),
    ):
        done = clients.run(issued, *options, source, goal, host="", program="scp")
        assert (done.returncode, done.stderr) == (0, b"")
    assert tree(tmp_path / "back") == tree(tmp_path / "there") == tree(here)


def test_sftp_runs_a_batch_file(gateway: Gateway, clients: Clients, key: Path, tmp_path: Path) -> None:
    here, there = plant(tmp_path / "here", link=False), tmp_path / "there"
    batch = tmp_path / "batch"
    batch.write_text(
        f"mkdir {there}\ncd {there}\nlcd {here}\nput -R deep\nput run\nchmod 700 run\nrename run ran\nln -s ran link\n"
        f"get -R deep {tmp_path}/back\nls -l\nput nothing\nreput run nothing\nrm nothing\n-rm missing\n"
        f"mkdir gone\nrmdir gone\ndf\npwd\n"
    )
    user = f"{gateway.admin.email}#web-1"
    done = clients.run(key, "-b", str(batch), "localhost", host="", program="sftp", user=user)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "back") == tree(there / "deep")
    assert {name: one[1] for name, one in tree(there / "deep").items()} == {
        name: one[1] for name, one in tree(here / "deep").items()
    }
    assert os.readlink(there / "link").endswith("ran")
    assert (there / "ran").stat().st_mode & 0o777 == 0o700
    assert sorted(os.listdir(there)) == ["deep", "link", "ran"]
    batch.write_text("rm missing\nput nothing\n")  # ends at the first one that fails
    assert clients.run(key, "-b", str(batch), "localhost", host="", program="sftp", user=user).returncode == 1


def test_git_clones_fetches_and_pushes_over_ssh(clients: Clients, issued: Issued, tmp_path: Path) -> None:
    ssh = " ".join(clients.words(issued))
    environment = {**clients.secrets(issued), "GIT_SSH_COMMAND": ssh, "GIT_CONFIG_NOSYSTEM": "1"}
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        environment |= {f"{name}_NAME": "Ann", f"{name}_EMAIL": "ann@example.com"}

    def git(*words: str, folder: Path = tmp_path) -> str:
        command = ["git", "-c", "init.defaultBranch=main", *words]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    bare, url = tmp_path / "bare.git", f"ssh://localhost{tmp_path}/bare.git"
    git("init", "-q", "--bare", str(bare))
    git("clone", "-q", url, "one")
    one = tmp_path / "one"
    plant(one / "tree")
    git("add", "-A", folder=one)
    git("commit", "-qm", "first", folder=one)
    git("push", "-q", "origin", "main", folder=one)
    git("clone", "-q", url, "two")
    two = tmp_path / "two"
    assert tree(two / "tree" / "deep") == tree(one / "tree" / "deep")
    (one / "more").write_bytes(os.urandom(200_000))
    git("add", "-A", folder=one)
    git("commit", "-qm", "second", folder=one)
    git("push", "-q", "origin", "main", folder=one)
    git("pull", "-q", folder=two)
    assert git("rev-parse", "HEAD", folder=two) == git("rev-parse", "HEAD", folder=one)
    git("fsck", "--strict", folder=two)
    assert git("ls-remote", url, "refs/heads/main").startswith(git("rev-parse", "HEAD", folder=one))


def test_killed_editor_client_leaves_no_open_session(gateway: Gateway, clients: Clients, issued: Issued) -> None:
    """The client is killed without a message while ports are forwarded."""
    port = free_port()
    client = clients.start(issued, "bash", RequestTTY="no", DynamicForward=f"127.0.0.1:{port}")
    types(client, b"echo rea''dy\n")
    shows(client, b"ready")
    with echoing() as there:
        assert through_socks(port, there, b"data") == b"data"
        client.kill()
        client.wait(TIMEOUT)
        wait_until(lambda: not gateway.sessions(status="open", connection="web-1"))

"""`postern ssh-keys`, `connections host-keys`, and what SSH clients may ask for on a connection."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.public_keys import ed25519_line, private_key
from tests.support.served import ANN, Served

from postern.domain.targets.agent import AgentMode
from postern.domain.targets.connection import ConnectionType
from postern.services.identity.logins.ssh_logins import SshClaim

pytestmark = pytest.mark.ci


@pytest.fixture
def home(gate: Served, tmp_path: Path) -> Path:
    """Where `~/.ssh` is."""
    folder = tmp_path / "home" / ".ssh"
    folder.mkdir(parents=True)
    gate.environment["HOME"] = str(folder.parent)
    return folder


def test_the_only_key_of_a_home_is_added_and_removed_by_name(gate: Served, home: Path) -> None:
    gate.log_in(ANN)
    assert "ssh-keygen -t ed25519" in gate.cli("ssh-keys", "create").stderr
    (home / "id_ed25519.pub").write_text(ed25519_line() + " ann@laptop\n")
    done = gate.ok("ssh-keys", "create")
    assert done.stdout.startswith("Added ann@laptop (SHA256:")
    (listed,) = gate.json("ssh-keys", "list")["data"]
    assert listed["name"] == "ann@laptop"
    assert listed["fingerprint"] in gate.ok("ssh-keys", "list").stdout
    gate.ok("ssh-keys", "delete", "ann@laptop")
    assert gate.json("ssh-keys", "list")["data"] == []
    assert gate.cli("ssh-keys", "delete", "ann@laptop").exit_code == 5


def test_several_keys_need_a_file_and_a_name_is_made_where_there_is_no_comment(gate: Served, home: Path) -> None:
    gate.log_in(ANN)
    for name in ("id_ed25519.pub", "id_rsa.pub"):
        (home / name).write_text(ed25519_line())
    refused = gate.cli("ssh-keys", "create")
    assert (refused.exit_code, "id_rsa.pub" in refused.stderr) == (2, True)
    assert gate.json("ssh-keys", "create", str(home / "id_rsa.pub"))["name"] == "id_rsa"
    assert gate.json("ssh-keys", "create", "-", stdin=ed25519_line())["name"] == "stdin"
    made = gate.json("ssh-keys", "create", str(home / "id_ed25519.pub"), "--name", "laptop")
    assert gate.json("ssh-keys", "delete", made["fingerprint"]) == {"deleted": made["fingerprint"]}
    gate.log_in()
    (first, second) = gate.json("ssh-keys", "list", "--user", ANN)["data"]
    gate.ok("ssh-keys", "delete", first["name"], "--user", ANN)
    gate.ok("ssh-keys", "delete", second["id"])
    assert gate.json("ssh-keys", "list", "--user", ANN)["data"] == []


def test_a_private_key_is_not_even_sent(gate: Served, home: Path) -> None:
    (home / "id_ed25519").write_text(private_key())
    refused = gate.cli("ssh-keys", "create", str(home / "id_ed25519"))  # nobody is logged in
    assert refused.exit_code == 1
    assert "this is a private key" in refused.stderr
    missing = gate.cli("ssh-keys", "create", str(home / "nothing.pub"))
    assert (missing.exit_code, "cannot be read" in missing.stderr) == (2, True)


def test_an_authority_is_trusted_and_no_longer(gate: Served, home: Path) -> None:
    gate.log_in()
    (home / "ca.pub").write_text(ed25519_line() + " users\n")
    made = gate.json("admin", "ssh-authorities", "add", "people", str(home / "ca.pub"))
    assert made["name"] == "people"
    assert made["fingerprint"] in gate.ok("admin", "ssh-authorities", "list").stdout
    gate.ok("admin", "ssh-authorities", "remove", "people", "--yes")
    assert gate.json("admin", "ssh-authorities", "list")["data"] == []
    (home / "ca").write_text(private_key())
    refused = gate.cli("admin", "ssh-authorities", "add", "people", str(home / "ca"))
    assert "this is a private key" in refused.stderr


def test_a_host_key_is_shown_and_forgotten(gate: Served) -> None:
    gate.log_in()
    gate.run(gate.world.add_connection("web-1", type=ConnectionType.APPLICATION, subtype="ssh"))
    assert "No host key is pinned: no SSH session" in gate.ok("connections", "host-keys", "web-1").stderr
    web = gate.run(gate.services.connections.get(gate.root, "web-1"))
    gate.run(gate.services.host_keys.pin(web, ed25519_line(), uuid4()))
    (shown,) = gate.json("connections", "host-keys", "web-1")
    assert shown["fingerprint"] in gate.ok("connections", "host-keys", "web-1").stdout
    assert gate.cli("connections", "host-keys", "web-1", "--forget", stdin="n\n").exit_code == 1
    done = gate.json("connections", "host-keys", "web-1", "--forget", "--yes")
    assert done == {"forgotten": [shown["fingerprint"]]}
    assert gate.json("connections", "host-keys", "web-1") == []


def test_what_ssh_clients_may_ask_for_is_switched(gate: Served) -> None:
    gate.log_in()
    gate.run(gate.world.add_agent("edge", AgentMode.STANDARD))
    create = ("connections", "create", "web-1", "--subtype", "ssh", "--agent", "edge")
    made = gate.json(
        *create, "--env", "HOST=web-1.example", "--env", "USER=ops", "--forward-local", "--no-file-transfer"
    )
    assert (made["type"], made["subtype"]) == ("application", "ssh")
    names = ("access_forward_local", "access_forward_remote", "access_forward_agent", "access_file_transfer")
    assert [made[name] for name in names] == ["enabled", "disabled", "disabled", "disabled"]
    changed = gate.json("connections", "update", "web-1", "--no-forward-local", "--forward-agent", "--file-transfer")
    assert [changed[name] for name in names] == ["disabled", "disabled", "enabled", "enabled"]
    assert gate.cli("connections", "update", "web-1").exit_code == 2


def test_a_waiting_ssh_client_is_let_in_or_refused(gate: Served) -> None:
    gate.log_in(ANN)
    wanted = SshClaim("ann", "web-1", "SSH-2.0-OpenSSH_9.2")
    waiting = gate.run(gate.services.ssh_logins.begin("198.51.100.9", wanted))
    done = gate.ok("ssh-login", "approve", waiting.code, stdin=f"{waiting.number}\n")
    assert "198.51.100.9" in done.stderr
    assert "Approved: ann on web-1." in done.stdout
    assert gate.run(gate.services.ssh_logins.wait(waiting)).principal.email == ANN
    wrong = gate.run(gate.services.ssh_logins.begin("198.51.100.9", wanted))
    assert gate.cli("ssh-login", "approve", wrong.code, "--number", "x").exit_code == 4
    other = gate.run(gate.services.ssh_logins.begin("198.51.100.9", wanted))
    gate.ok("ssh-login", "refuse", other.code)
    assert gate.cli("ssh-login", "refuse", other.code).exit_code == 5

"""`postern admin` against the real API over HTTP."""

from __future__ import annotations

import json
import select
import signal
from pathlib import Path

import pytest
from tests.support.served import PASSWORD, ROOT, SSH_HOST_KEY, Served

from postern.domain.identity.ssh_key import public_key
from postern.domain.secret import Secret
from postern.domain.targets.agent import AgentKey

pytestmark = pytest.mark.ci


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    return gate


@pytest.mark.parametrize(("group", "name"), [("users", "eve@example.com"), ("service-accounts", "reports")])
def test_account_is_deactivated_and_activated_again(root: Served, group: str, name: str) -> None:
    root.ok("admin", group, "create", name)
    assert root.cli("admin", group, "deactivate", name, stdin="n\n").exit_code == 1
    root.ok("admin", group, "deactivate", name, "--yes")
    assert root.json("admin", group, "show", name)["status"] == "inactive"
    root.ok("admin", group, "activate", name)
    assert root.json("admin", group, "show", name)["status"] == "active"


def test_users_are_filtered(root: Served) -> None:
    root.ok("admin", "users", "deactivate", "ann@example.com", "--yes")
    found = root.json("admin", "users", "list", "--status", "inactive")["data"]
    assert [one["email"] for one in found] == ["ann@example.com"]
    assert "No user matches." in root.ok("admin", "users", "list", "--search", "nobody").stderr


@pytest.mark.parametrize(
    ("options", "role", "groups"),
    [
        (("--role", "admin"), "admin", ["admin"]),
        (("--role", "auditor", "--group", "dba"), "auditor", ["dba", "watchers"]),
        ((), "standard", []),
    ],
)
def test_user_is_created_with_a_role(root: Served, options: tuple[str, ...], role: str, groups: list[str]) -> None:
    root.ok("admin", "orgs", "update", "--auditor-group", "watchers")
    made = root.json("admin", "users", "create", "eve@example.com", *options)
    assert sorted(made["groups"]) == groups
    assert root.json("admin", "users", "show", "eve@example.com")["role"] == role


def test_unknown_role_is_refused(root: Served) -> None:
    refused = root.cli("admin", "users", "create", "eve@example.com", "--role", "king")
    assert (refused.exit_code, "'king' is not one of 'admin', 'auditor'" in refused.stderr) == (2, True)


def test_a_setup_link_lets_somebody_in(root: Served) -> None:
    root.ok("admin", "users", "create", "eve@example.com")
    link = root.json("admin", "users", "setup-link", "eve@example.com")
    here = f"{root.url}/setup#token={link['token']}"
    shown = root.ok("setup", here, "--password-stdin", "--profile", "eve", stdin="a password of her own\n")
    assert "eve@example.com" in shown.stdout
    assert root.json("whoami", "--profile", "eve")["email"] == "eve@example.com"


def test_who_is_given_a_password_is_not_sent_to_set_one(root: Served) -> None:
    made = root.ok("admin", "users", "create", "eve@example.com")
    assert (
        made.stdout == "Created eve@example.com. Set a password with: postern admin users setup-link eve@example.com\n"
    )
    line = ("admin", "users", "create", "finn@example.com", "--password-stdin")
    assert root.ok(*line, stdin="a password of his own\n").stdout == "Created finn@example.com.\n"


def test_lists_are_tables_with_pages(root: Served) -> None:
    table = root.ok("admin", "users", "list", "--limit", "2")
    assert [line.split("\t")[0] for line in table.stdout.splitlines()] == ["admin@localhost", "ann@example.com"]
    assert "3 in total" in table.stderr
    second = root.json("admin", "users", "list", "--limit", "2", "--offset", "2")
    assert (len(second["data"]), second["has_next_page"]) == (1, False)


def test_all_pages_are_fetched(root: Served) -> None:
    for number in range(120):
        root.run(root.services.groups.create(root.root, {"name": f"group-{number:03}"}))
    found = root.json("admin", "groups", "list", "--all")
    names = [one["name"] for one in found["data"]]
    assert len(names) == found["total"] == len(set(names))
    assert {f"group-{number:03}" for number in range(120)} <= set(names)


def test_api_keys_are_shown_once_and_revoked(root: Served) -> None:
    made = root.ok(
        "admin", "api-keys", "create", "probe", "--group", "auditor", "--network", "127.0.0.0/8", "--days", "1"
    )
    key = made.stdout.strip()
    assert root.ok("whoami", POSTERN_TOKEN=key).stdout.count("probe") >= 1
    for text in (root.ok("admin", "api-keys", "list").output, root.ok("admin", "api-keys", "show", "probe").output):
        assert key not in text
        assert "probe" in text
    root.ok("admin", "api-keys", "update", "probe", "--allow-any-network", "--name", "probe-2")
    assert root.ok("admin", "api-keys", "revoke", "probe-2", "--yes").output == "Revoked probe-2.\n"
    assert root.cli("whoami", POSTERN_TOKEN=key).exit_code == 3
    root.ok("admin", "api-keys", "reactivate", "probe-2")
    root.ok("whoami", POSTERN_TOKEN=key)


def test_revoked_key_leaves_no_credential_unmentioned(root: Served) -> None:
    root.run(root.world.add_connection("orders"))
    for name in ("ci", "cd"):
        key = root.ok("admin", "api-keys", "create", name, "--group", "admin").stdout.strip()
        root.ok("admin", "machines", "create", f"by-{name}", "--connection", "orders", POSTERN_TOKEN=key)
    told = root.ok("admin", "api-keys", "revoke", "ci", "--yes").output
    assert "postern admin machines rotate by-ci orders" in told
    assert root.json("admin", "api-keys", "revoke", "cd", "--yes", "--with-credentials")["credentials"] == []
    machines = {one["name"]: one["connection_names"] for one in root.json("admin", "machines", "list")["data"]}
    assert (machines["by-ci"], machines["by-cd"]) == (["orders"], [])


def test_agents_show_their_key_once(root: Served) -> None:
    made = root.ok("admin", "agents", "create", "edge", "--mode", "embedded")
    key = AgentKey.read(Secret(made.stdout.strip()))
    assert (key.name, key.mode, key.port) == ("edge", "embedded", 7444)
    agent = root.run(root.services.agents.enrol(key.secret, name="edge", address="::1"))
    root.run(root.services.agents.store_facts(agent, {"hostname": "db-7.internal", "version": "0.3"}))
    for text in (root.ok("admin", "agents", "list").stdout, root.ok("admin", "agents", "show", "edge").stdout):
        assert "db-7.internal" in text
        assert key.secret.reveal() not in text
    root.run(root.services.agents.beat_for([agent.id]))
    found = root.json("admin", "agents", "list", "--status", "connected", "--search", "EDG")["data"]
    assert [(one["name"], one["status"]) for one in found] == [("edge", "CONNECTED")]
    assert root.json("admin", "agents", "list", "--status", "disconnected")["data"] == []
    assert root.cli("admin", "agents", "renew-key", "edge", stdin="n\n").exit_code == 1
    renewed = AgentKey.read(Secret(root.ok("admin", "agents", "renew-key", "edge", "--yes").stdout.strip()))
    assert root.run(root.services.agents.enrol(renewed.secret, name="edge", address="::1")).id == agent.id
    assert "accepts no new sessions" in root.ok("admin", "agents", "drain", "edge", "--yes").stdout
    root.run(root.world.add_connection("orders", agent))
    refused = root.cli("admin", "agents", "delete", "edge", "--yes")
    assert refused.exit_code != 0
    assert "orders" in refused.output
    root.ok("connections", "delete", "orders", "--yes")
    root.ok("admin", "agents", "delete", "edge", "--yes")
    assert root.cli("admin", "agents", "show", "edge").exit_code == 5


def test_machines_show_their_passwords_once(root: Served) -> None:
    root.run(root.world.add_connection("orders"))
    made = root.ok("admin", "machines", "create", "billing", "--connection", "orders", "--attribute", "team=payments")
    password = next(line.split()[1] for line in made.stdout.splitlines() if line.startswith("password"))
    listed = root.ok("admin", "machines", "credentials", "billing").output
    assert "orders" in listed
    assert password not in listed
    rotated = root.json("admin", "machines", "rotate", "billing", "orders", "--overlap", "60")
    assert rotated["password"] not in ("", password)
    assert "team=payments" in root.ok("admin", "machines", "list").stdout
    root.ok("admin", "machines", "update", "billing", "--no-connections")
    assert root.json("admin", "machines", "show", "billing")["connection_names"] == []
    root.ok("admin", "machines", "delete", "billing", "--yes")


def test_logins_are_listed_and_ended(root: Served) -> None:
    root.log_in("ann@example.com", "--profile", "ann")
    mine = root.json("admin", "logins", "list")["data"]
    assert [one["current"] for one in mine] == [True]
    hers = root.json("admin", "logins", "list", "--user", "ann@example.com")["data"]
    for one in hers:
        root.ok("admin", "logins", "end", one["id"])
    assert root.cli("whoami", "--profile", "ann").exit_code == 3
    root.log_in("ann@example.com", "--profile", "ann")
    assert root.json("admin", "logins", "end-all", "ann@example.com") == {"user": "ann@example.com", "ended": 1}
    assert root.cli("whoami", "--profile", "ann").exit_code == 3


def test_organisations(root: Served) -> None:
    made = root.json("admin", "orgs", "create", "acme", "boss@acme.example")
    assert made["setup_url"].endswith(made["setup_token"])
    link = root.ok("admin", "orgs", "create", "emca", "boss@emca.example").stdout.strip()
    who = root.json("setup", link, "--password-stdin", stdin="another long password\n")
    assert who["email"] == "boss@emca.example"
    root.log_in()
    assert {"acme"} < {one["name"] for one in root.json("admin", "orgs", "list")["data"]}
    root.ok("admin", "orgs", "update", "--auditor-group", "compliance")
    assert root.json("admin", "orgs", "show")["auditor_role_name"] == "compliance"
    assert root.cli("admin", "orgs", "delete", "acme", stdin="emca\n").exit_code != 0
    assert root.cli("admin", "orgs", "delete", "nobody", "--confirm", "nobody").exit_code == 5
    assert root.cli("admin", "orgs", "delete", "default", "--confirm", "default").exit_code != 0
    assert root.json("admin", "orgs", "delete", "acme", "--confirm", "acme")["deleting_at"]
    assert "Access to emca has ended" in root.cli("admin", "orgs", "delete", "emca", stdin="emca\n").output


def test_settings_of_login_keep_what_is_left_out(root: Served) -> None:
    root.ok("admin", "auth", "set-local", "--provider-name", "Ours", "--yes")
    root.ok("admin", "auth", "set-local", "--auditor-group", "compliance", "--yes")
    found = root.json("admin", "auth", "show")
    assert (found["provider_name"], found["auditor_role_name"]) == ("Ours", "compliance")
    assert "compliance" in root.ok("admin", "auth", "show").stdout


def test_server_and_features(root: Served) -> None:
    assert root.json("admin", "server", "config")["api_url"] == root.url
    root.ok("admin", "server", "set-addresses", "--public-host", "gateway.example.com")
    shown = root.ok("admin", "server", "config").stdout
    assert "gateway.example.com" in shown
    assert public_key(SSH_HOST_KEY).fingerprint in shown
    assert root.cli("admin", "server", "set-listener").exit_code == 2
    name = root.json("admin", "features", "list")["data"][0]["name"]
    root.ok("admin", "features", "disable", name)
    assert not next(one for one in root.json("admin", "features", "list")["data"] if one["name"] == name)["enabled"]
    root.ok("admin", "features", "enable", name)


def test_token_keys_are_rotated_and_revoked(root: Served) -> None:
    root.ok("admin", "server", "rotate-token-keys")
    root.ok("whoami")
    root.ok("admin", "server", "rotate-token-keys", "--revoke", "--yes")
    assert root.cli("whoami").exit_code == 3


def test_the_audit_log_has_filters(root: Served) -> None:
    root.ok("admin", "groups", "create", "writers")
    found = root.json("admin", "audit", "list", "--user", ROOT, "--type", "users/groups")["data"]
    entry = root.json("admin", "audit", "show", found[0]["id"])
    assert entry["actor_email"] == ROOT
    assert PASSWORD not in root.ok("admin", "audit", "list", "--all").output


def test_audit_list_goes_on_by_cursor_and_all_reads_every_page(root: Served) -> None:
    async def add(count: int) -> None:
        for number in range(count):
            await root.services.audit.on_host("postern test", action="test", resource_type="test", resource=str(number))

    root.run(add(205))
    every = root.json("admin", "audit", "list", "--type", "test", "--all")
    assert sorted(int(one["resource"]) for one in every["data"]) == list(range(205))
    assert (every["total"], every["has_next_page"]) == (205, False)
    first = root.cli("admin", "audit", "list", "--type", "test", "--limit", "2")
    cursor = root.json("admin", "audit", "list", "--type", "test", "--limit", "2")["next_cursor"]
    assert f"205 in total; continue with --cursor {cursor}, or print all with --all" in first.stderr
    second = root.json("admin", "audit", "list", "--type", "test", "--limit", "2", "--cursor", cursor)
    assert second["data"] == every["data"][2:4]
    assert root.cli("admin", "audit", "list", "--follow", "--cursor", cursor).exit_code == 2


def test_the_audit_log_is_followed(root: Served) -> None:
    with root.started("admin", "audit", "list", "--follow", "--json") as following:
        assert following.stdout is not None
        for number in range(200):  # until it looks
            root.ok("admin", "groups", "create", f"followed-{number}")
            if select.select([following.stdout], [], [], 0.5)[0]:
                break
        entry = json.loads(following.stdout.readline())
        assert (entry["resource_type"], entry["actor_email"]) == ("users/groups", ROOT)
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 1


def test_others_may_not(gate: Served) -> None:
    gate.log_in("ann@example.com")
    assert gate.cli("admin", "api-keys", "list").exit_code == 4
    assert gate.cli("admin", "audit", "list").exit_code == 4
    assert gate.cli("admin", "users", "delete", ROOT, "--yes").exit_code in (4, 5)


def test_metadata_come_from_a_file(root: Served, tmp_path: Path) -> None:
    file = tmp_path / "metadata.xml"
    file.write_text("<nonsense/>")
    failed = root.cli("admin", "auth", "set-saml", "--metadata-file", str(file), "--yes")
    assert failed.exit_code == 1
    assert root.json("admin", "auth", "show")["auth_method"] == "local"

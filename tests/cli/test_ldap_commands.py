"""`postern admin auth set-ldap`, and the login that it leads to, against a real slapd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.served import Served
from tests.support.slapds import BASE, NEEDED, READER, READER_PASSWORD, Directory, running_slapd

from postern.integrations.identity.ldap_client import LdapClient

pytestmark = NEEDED


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with running_slapd(tmp_path_factory.mktemp("slapd")) as running:
        yield running


@pytest.fixture
def settings(gate: Served, directory: Directory, tmp_path: Path) -> tuple[str, ...]:
    """The options of `set-ldap` for this directory."""
    gate.log_in()
    gate.services.auth_settings._provider = LdapClient()
    ca = tmp_path / "ca.pem"
    ca.write_text(directory.ca)
    return (
        *(f"ldaps://localhost:{directory.tls_port}", "--base-dn", BASE, "--bind-dn", READER, "--bind-password-stdin"),
        *("--group-base-dn", f"ou=groups,{BASE}", "--group-filter", "(member={dn})", "--ldap-ca", str(ca)),
        *("--provider-name", "Example", "--force", "--yes"),
    )


def test_users_log_in_by_their_directory(gate: Served, settings: tuple[str, ...]) -> None:
    done = gate.ok("admin", "auth", "set-ldap", *settings, stdin=READER_PASSWORD + "\n")
    assert "ldap has bind password" in done.stdout
    assert READER_PASSWORD not in done.output
    shown = gate.json("admin", "auth", "show")
    assert (shown["auth_method"], shown["ldap_config"]["user_filter"]) == ("ldap", "(uid={user})")
    gate.ok("admin", "auth", "set-ldap", "--user-filter", "(|(uid={user})(mail={user}))", "--force", "--yes")
    assert gate.json("admin", "auth", "show")["ldap_config"]["base_dn"] == BASE
    asked = gate.ok("login", gate.url, "--profile", "bob", stdin="bob\nof bob\n")
    assert "User name" in asked.output
    assert "of bob" not in asked.output
    who = gate.json("whoami", "--profile", "bob")
    assert (who["email"], who["groups"], who["login_method"]) == ("bob@example.com", [], "ldap")


def test_wrong_password_of_the_search_account_changes_nothing(gate: Served, settings: tuple[str, ...]) -> None:
    failed = gate.cli("admin", "auth", "set-ldap", *settings, stdin="wrong\n")
    assert failed.exit_code == 1
    assert "rejects this account" in failed.output
    assert gate.json("admin", "auth", "show")["auth_method"] == "local"


def test_active_directory_has_its_attributes(gate: Served, settings: tuple[str, ...]) -> None:
    gate.ok("admin", "auth", "set-ldap", "--active-directory", *settings, stdin=READER_PASSWORD + "\n")
    config = gate.json("admin", "auth", "show")["ldap_config"]
    assert (config["id_attribute"], config["login_attribute"]) == ("objectGUID", "sAMAccountName")
    gate.ok("login", gate.url, "--email", "carol", "--password-stdin", "--profile", "carol", stdin="of carol\n")

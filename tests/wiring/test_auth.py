"""The way in: what the environment says of it, and the machine's own command that brings local login back."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner

from postern import settings as settings_module
from postern.cli.main import cli
from postern.domain.identity.auth_config import AuthConfig, OidcConfig, SamlConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.lists import Page
from postern.domain.rules.network_rule import NetworkRule
from postern.domain.secret import Secret
from postern.errors import Denied, Misconfigured, NotFound
from postern.settings import Settings, load
from postern.store.ports.server_ports import AuditFilter
from postern.store.signals import LocalSignals, SignalHub
from postern.wiring import paths
from postern.wiring.app import open_app
from postern.wiring.auth_settings_wiring import default_auth
from postern.wiring.host import auth_reset, setup_link
from postern.wiring.processes import prepare

OIDC = {
    "POSTERN_AUTH_METHOD": "oidc",
    "POSTERN_OIDC_ISSUER": "https://login.example",
    "POSTERN_OIDC_CLIENT_ID": "postern",
    "POSTERN_OIDC_CLIENT_SECRET": "hunter2",
    "POSTERN_OIDC_SCOPES": "openid email, groups",
    "POSTERN_OIDC_AUDIENCE": "api",
    "POSTERN_AUTH_PROVIDER_NAME": "Ours",
}


def test_a_provider_from_the_environment() -> None:
    assert default_auth(load({})) == AuthConfig()
    scopes = ("openid", "email", "groups")
    oidc = OidcConfig("https://login.example", "postern", Secret("hunter2"), scopes, "api", "groups")
    assert default_auth(load(OIDC)) == AuthConfig(LoginMethod.OIDC, oidc, provider_name="Ours")
    saml = load({"POSTERN_AUTH_METHOD": "saml", "POSTERN_SAML_METADATA_URL": "https://login.example/metadata"})
    assert default_auth(saml).saml == SamlConfig("https://login.example/metadata")


def test_ldap_comes_from_the_environment(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN CERTIFICATE-----\n")
    given = {
        "POSTERN_AUTH_METHOD": "ldap",
        "POSTERN_LDAP_URLS": "ldaps://dc1.example ldaps://dc2.example",
        "POSTERN_LDAP_BASE_DN": "dc=example",
        "POSTERN_LDAP_BIND_DN": "cn=postern,dc=example",
        "POSTERN_LDAP_BIND_PASSWORD": "hunter2",
        "POSTERN_LDAP_CA": str(ca),
        "POSTERN_LDAP_ACTIVE_DIRECTORY": "true",
    }
    config = default_auth(load(given)).ldap
    assert config is not None
    assert config.urls == ("ldaps://dc1.example", "ldaps://dc2.example")
    assert (config.id_attribute, config.ca, config.bind_password.reveal()) == ("objectGUID", ca.read_text(), "hunter2")
    for name, says in (("BASE_DN", "is required"), ("BIND_PASSWORD", "give it"), ("CA", "cannot be read")):
        with pytest.raises(Misconfigured, match=f"POSTERN_LDAP_{name}: .*{says}"):
            default_auth(load({**given, f"POSTERN_LDAP_{name}": "/nowhere" if name == "CA" else ""}))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"POSTERN_AUTH_METHOD": "magic"}, "POSTERN_AUTH_METHOD: 'magic'"),
        ({"POSTERN_AUTH_METHOD": "saml"}, "POSTERN_SAML_METADATA_URL: is required"),
        ({"POSTERN_OIDC_ISSUER": ""}, "POSTERN_OIDC_ISSUER: is required"),
        ({"POSTERN_OIDC_CLIENT_ID": ""}, "POSTERN_OIDC_CLIENT_ID: is required"),
        ({"POSTERN_OIDC_ISSUER": "http://login.example"}, "POSTERN_OIDC_ISSUER: must begin with https"),
        ({"POSTERN_OIDC_ISSUER": "https://169.254.169.254"}, "POSTERN_OIDC_ISSUER: .*metadata"),
        ({"POSTERN_OIDC_SCOPES": "email"}, "POSTERN_OIDC_SCOPES: must have openid"),
        ({"POSTERN_SAML_METADATA_URL": "x"}, "POSTERN_SAML_METADATA_URL: is not a URL"),
    ],
)
def test_what_is_wrong_is_named_at_the_start(changed: dict[str, str], says: str) -> None:
    with pytest.raises(Misconfigured, match=says):
        default_auth(load(OIDC | changed))


def test_secrets_of_the_environment_show_nowhere_but_there() -> None:
    loaded = load(OIDC)
    assert "hunter2" not in repr(loaded)
    assert loaded.environment()["POSTERN_OIDC_CLIENT_SECRET"] == "hunter2"  # children need it
    assert load(loaded.environment()) == loaded
    assert settings_module.secret_names() >= {"oidc_client_secret"}
    for command in ("up", "gateway"):
        said = CliRunner().invoke(cli, [command, "--help"]).output
        assert "--oidc-client-id" in said
        assert "--oidc-client-secret" not in said  # everybody sees the arguments of a process


@pytest.fixture
async def locked_out(tmp_path: Path) -> Settings:
    """A gateway whose default organisation logs in at a provider."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    settings = Settings(home=home, demo=False)
    await prepare._prepare(settings)
    async with open_app(settings, LocalSignals()) as app:
        org_id = (await app.stores.organisations.default()).id
        oidc = OidcConfig("https://login.example", "postern", Secret("hunter2"))
        await app.services.auth_configs.put(org_id, AuthConfig(LoginMethod.OIDC, oidc))
        groups: frozenset[str]
        for name, groups in (("office", frozenset()), ("of dba", frozenset({"dba"}))):
            rule = NetworkRule(
                uuid4(), org_id, name, allowed_networks=("192.0.2.0/24",), groups=groups, created_at=datetime.now(UTC)
            )
            await app.stores.network_rules.add(rule)
    return settings


async def test_back_to_local_login_on_the_machine_itself(locked_out: Settings) -> None:
    hub = SignalHub(paths.signals_socket(locked_out))
    await hub.start()
    try:
        done = await auth_reset._reset(locked_out)
    finally:
        await hub.stop()
    assert (done.was, done.admin_with_password) == (LoginMethod.OIDC, True)
    assert set(done.disabled_network_rules) == {"office", "of dba"}
    async with open_app(locked_out, LocalSignals()) as app:
        org_id = (await app.stores.organisations.default()).id
        config = await app.services.auth_configs.of(org_id)
        assert config.method is LoginMethod.LOCAL
        assert not any(rule.enabled for rule in await app.stores.network_rules.all(org_id))
        entries = (await app.stores.audit.find(org_id, AuditFilter(method="COMMAND"), Page())).items
        assert [entry.resource for entry in entries if entry.resource_type == "network-rules"] == ["office", "of dba"]
        (entry,) = [entry for entry in entries if entry.resource_type == "serverconfig/auth"]
        assert entry.action == "reset"
        assert entry.before is not None
        assert entry.before["auth_method"] == "oidc"
        assert "hunter2" not in str(entry)


async def test_the_command_needs_a_gateway(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no gateway has been started"):
        await auth_reset._reset(Settings(home=tmp_path))
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240


async def test_the_command_is_for_the_gateways_own_user(locked_out: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(Denied, match="as the user that runs the gateway"):
        await auth_reset._reset(locked_out)


def test_the_command_asks_first(tmp_path: Path) -> None:
    asked = CliRunner().invoke(cli, ["auth", "reset", "--home", str(tmp_path)], input="n\n")
    assert asked.exit_code == 1
    assert "Continue?" in asked.output
    failed = CliRunner().invoke(cli, ["auth", "reset", "--home", str(tmp_path), "--yes", "--json"])
    assert failed.exit_code == 5
    assert "no gateway has been started" in failed.output


@pytest.mark.ci
def test_the_command_says_what_was(locked_out: Settings) -> None:
    """In an event loop of its own, as a command has it."""
    done = CliRunner().invoke(cli, ["auth", "reset", "--home", str(locked_out.home), "--yes", "--json"])
    assert json.loads(done.stdout) == {
        "was": "oidc",
        "auth_method": "local",
        "admin_with_password": True,
        "disabled_network_rules": ["of dba", "office"],
    }


async def test_a_set_up_link_made_on_the_machine_is_in_the_audit_log(locked_out: Settings) -> None:
    link = await setup_link._make(locked_out, "admin@localhost", None)
    async with open_app(locked_out, LocalSignals()) as app:
        org_id = (await app.stores.organisations.default()).id
        (entry,) = (await app.stores.audit.find(org_id, AuditFilter(method="COMMAND"), Page())).items
    assert (entry.path, entry.resource) == ("postern setup-link", "admin@localhost")
    assert entry.actor_subject.startswith("host:")
    assert link.token.reveal() not in str(entry)

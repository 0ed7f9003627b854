"""A start's preparation over a real store; the demo target is only named here, not run."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.world import CLIENT, logged_in

from postern.demo import demo_target as demo
from postern.demo.demo_target import DemoTarget
from postern.domain.identity.principal import Account, Principal, PrincipalStatus
from postern.domain.rules.masking import Strictness
from postern.domain.secret import Secret
from postern.errors import Misconfigured, Unauthenticated, Unavailable
from postern.protocols.postgres.postgres_client import user_of
from postern.settings import Settings
from postern.store.signals import LocalSignals
from postern.wiring import app as app_module
from postern.wiring import demo_shop, paths, tls
from postern.wiring.app import App, open_app
from postern.wiring.processes import prepare
from postern.wiring.processes.prepare import DEMO_CREDENTIAL_LIFE

pytestmark = pytest.mark.ci


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    demo.save(home, DemoTarget("127.0.0.1", 1111, Secret("shop-password"), Secret("super-password")))
    return Settings(home=home, api_port=2222, postgres_port=3333)


def told(settings: Settings) -> dict[str, str]:
    kept: dict[str, str] = json.loads(paths.first_run_file(settings).read_text())
    return kept


async def who(app: App, token: Secret) -> Principal:
    return (await app.services.authentication.caller(token, address="::1")).principal


async def target_of(app: App) -> dict[str, str]:
    org_id = (await app.stores.organisations.default()).id
    connection = await app.stores.connections.get(org_id, demo_shop.NAME)
    assert connection is not None
    return {
        key.removeprefix("envvar:"): base64.b64decode(value.reveal()).decode()
        for key, value in connection.secret.items()
    }


async def test_the_first_start_makes_everything(settings: Settings) -> None:
    prepared = await prepare._prepare(settings)
    first = told(settings)
    assert list(first) == ["api_url", "admin_email", "admin_password", "setup_url", "psql"]
    assert first["api_url"] == prepared.api_url == "http://localhost:2222"
    assert paths.first_run_file(settings).stat().st_mode & 0o777 == 0o600
    assert f"@localhost:3333/shop?sslmode=verify-full&sslrootcert={settings.home}/tls/ca.crt" in first["psql"]
    async with open_app(settings, LocalSignals()) as app:
        password = Secret(first["admin_password"])
        opened = await logged_in(app.services, first["admin_email"], password)
        admin = await who(app, opened.token)
        assert admin.is_admin
        assert prepared.token is not None
        assert await who(app, prepared.token) == admin
        found = await app.services.connections.get(admin, demo_shop.NAME)
        assert found.redact_enabled
        assert found.redact_types == ()  # the default ones
        policy = await app.services.access.policy_for(found)
        assert [rule.name for rule in policy.guardrails] == [demo_shop.GUARDRAIL]
        [rule] = policy.masking
        assert (rule.name, rule.columns, rule.strictness) == (demo_shop.MASKING, demo_shop.COLUMNS, Strictness.STRICT)
        username = first["psql"].split("//")[1].split(":")[0]
        grant = await app.services.access.find_grant(username)
        assert grant is not None
        assert grant.principal == admin
        assert (await target_of(app))["PASS"] == "shop-password"


async def test_the_first_start_s_link_sets_a_password_once(settings: Settings) -> None:
    await prepare._prepare(replace(settings, demo=False))
    link = told(settings)["setup_url"]
    assert link.startswith("http://localhost:2222/setup#token=")
    await prepare._prepare(replace(settings, demo=False))  # another start makes no other
    assert told(settings)["setup_url"] == link
    token, own = Secret(link.partition("#token=")[2]), Secret("a password of my own")
    async with open_app(settings, LocalSignals()) as app:
        await app.services.local_login.set_up(token, own, None, CLIENT)
        await logged_in(app.services, "admin@localhost", own)
        with pytest.raises(Unauthenticated):
            await logged_in(app.services, "admin@localhost", Secret(told(settings)["admin_password"]))
        with pytest.raises(Unauthenticated, match="already used"):
            await app.services.local_login.set_up(token, own, None, CLIENT)


async def test_a_second_start_changes_no_secret(settings: Settings) -> None:
    await prepare._prepare(settings)
    before = told(settings)
    await prepare._prepare(settings)
    assert told(settings) == before


async def test_moved_ports_are_followed_everywhere(settings: Settings) -> None:
    await prepare._prepare(settings)
    before = told(settings)
    demo.save(settings.home, DemoTarget("127.0.0.1", 4444, Secret("shop-password"), Secret("super-password")))
    prepared = await prepare._prepare(replace(settings, api_port=5555, postgres_port=6666))
    after = told(settings)
    assert after["api_url"] == "http://localhost:5555"
    assert after["psql"] == before["psql"].replace("@localhost:3333/", "@localhost:6666/")
    assert after["admin_password"] == before["admin_password"]
    assert prepared.own_urls == {"http://localhost:2222", "http://localhost:5555"}
    async with open_app(settings, LocalSignals()) as app:
        assert (await target_of(app))["PORT"] == "4444"


async def test_a_gateway_gets_no_demo_until_it_is_asked_for(settings: Settings) -> None:
    await prepare._prepare(replace(settings, demo=False))
    assert told(settings)["psql"] == ""
    password = told(settings)["admin_password"]
    await prepare._prepare(settings)
    assert told(settings)["psql"].startswith('psql "postgresql://')
    assert told(settings)["admin_password"] == password


async def test_a_demo_connection_that_was_removed_stays_so(settings: Settings) -> None:
    await prepare._prepare(settings)
    async with open_app(settings, LocalSignals()) as app:
        await app.services.connections.remove(await prepare._setter(app), demo_shop.NAME)
    await prepare._prepare(settings)
    async with open_app(settings, LocalSignals()) as app:
        org_id = (await app.stores.organisations.default()).id
        assert await app.stores.connections.get(org_id, demo_shop.NAME) is None


async def test_an_inactive_first_admin_is_given_no_token(settings: Settings) -> None:
    await prepare._prepare(settings)
    async with open_app(settings, LocalSignals()) as app:
        org_id = (await app.stores.organisations.default()).id
        account = await app.stores.principals.by_email(org_id, "admin@localhost")
        assert account is not None
        other = replace(account.principal, id=uuid4(), subject="other", email="other@localhost")
        await app.stores.principals.add(Account(other), app.services.now())  # the last one could not be deactivated
        inactive = replace(account.principal, status=PrincipalStatus.INACTIVE)
        await app.stores.principals.update(replace(account, principal=inactive), app.services.now())
    assert (await prepare._prepare(settings)).token is None


async def test_a_damaged_file_says_what_to_do(settings: Settings) -> None:
    paths.first_run_file(settings).write_text("{")
    with pytest.raises(Unavailable, match="remove it"):
        await prepare._prepare(settings)


async def test_a_certificate_of_your_own_is_checked_first(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="must be set together"):
        await prepare._prepare(replace(settings, tls_cert="x.crt"))
    with pytest.raises(Misconfigured, match="cannot be used"):
        await prepare._prepare(replace(settings, tls_cert="/x.crt", tls_key="/x.key"))
    own = tls.material(settings)
    yours = tls.material(replace(settings, tls_cert=str(own.certificate), tls_key=str(own.key)))
    assert (yours.certificate, yours.key) == (own.certificate, own.key)


async def test_clients_are_told_which_ca_to_trust(settings: Settings) -> None:
    own = tls.material(settings)
    public = replace(settings, tls_cert=str(own.certificate), tls_key=str(own.key))
    assert tls.authority(settings) == own.authority
    assert tls.authority(public) is None
    assert tls.authority(replace(public, tls_ca="/ca.pem")) == Path("/ca.pem")
    assert (await prepare._prepare(public)).authority == ""
    assert told(settings)["psql"].endswith('?sslmode=verify-full&sslrootcert=system"')


async def test_an_expired_line_is_made_anew_and_a_revoked_one_is_not(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepare._prepare(settings)
    before = told(settings)["psql"]
    later = datetime.now(UTC) + DEMO_CREDENTIAL_LIFE + timedelta(hours=1)
    with monkeypatch.context() as patched:
        patched.setattr(app_module, "now", lambda: later)
        await prepare._prepare(settings)
    after = told(settings)["psql"]
    assert user_of(after) != user_of(before)
    async with open_app(settings, LocalSignals()) as app:
        grant = await app.services.access.find_grant(user_of(after))
        assert grant is not None
        await app.services.credentials.revoke(await prepare._setter(app), demo_shop.NAME, grant.credential_id)
    await prepare._prepare(settings)
    assert told(settings)["psql"] == after

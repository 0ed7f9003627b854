"""Login by an LDAP directory through the API, against a real slapd."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pyotp
import pytest
from fastapi import FastAPI
from tests.api.conftest import message
from tests.support.application import application
from tests.support.oidc_site import API, INFO
from tests.support.slapds import BASE, NEEDED, PASSWORD, Directory, running_slapd
from tests.support.world import World

from postern.domain.identity.auth_config import AuthConfig, LdapConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Account, GroupSource, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.errors import Denied
from postern.integrations.identity.ldap_client import LdapClient
from postern.services.bundle import Services
from postern.services.server.audit import AuditFilter
from postern.store.database import Database
from postern.store.ports.common_ports import Topic

pytestmark = NEEDED
DN = f"uid=ann,ou=people,{BASE}"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with running_slapd(tmp_path_factory.mktemp("slapd")) as running:
        yield running


@dataclass
class Office:
    """An organisation whose users are in the directory."""

    world: World
    services: Services
    app: FastAPI
    directory: Directory

    async def configure(self, method: LoginMethod = LoginMethod.LDAP, *, factor: bool = False, **changes: Any) -> None:
        config = self.directory.config(**changes)
        auth = AuthConfig(method, ldap=config, require_second_factor=factor)
        await self.services.auth_configs.put(self.world.org_id, auth)

    def client(self, token: str | None = None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=f"{API}/api", headers=headers)

    async def attempt(self, user: str = "ann", password: str = PASSWORD) -> httpx.Response:
        return await self.client().post("/localauth/login", json={"email": user, "password": password})

    async def log_in(self, user: str = "ann", password: str = PASSWORD) -> httpx.AsyncClient:
        answer = await self.attempt(user, password)
        assert answer.status_code == 200, answer.text
        return self.client(answer.headers["Token"])

    async def account(self, email: str = "ann@example.com") -> Account:
        account = await self.world.stores.principals.by_email(self.world.org_id, email)
        assert account is not None
        return account


@pytest.fixture
async def office(database: Database, directory: Directory) -> Office:
    world = await World.make(database)
    world.clock.now = datetime.now(UTC)
    world.ldap = LdapClient()
    await world.add_user("root", "admin")
    services = world.services()
    made = Office(world, services, application(services, INFO), directory)
    await made.configure()
    return made


async def test_first_login_creates_the_account_with_its_groups(office: Office) -> None:
    ann = await office.log_in()
    who = (await ann.get("/userinfo")).json()
    assert (who["email"], who["name"], who["groups"]) == ("ann@example.com", "Ann Doe", ["a + b", "dba"])
    assert who["login_method"] == "ldap"
    account = await office.account()
    assert (account.principal.issuer, account.password_hash) == (f"ldap:{BASE}", None)
    await office.log_in()
    assert await office.world.stores.principals.count(office.world.org_id) == 2


async def test_wrong_names_and_passwords_are_answered_alike_and_throttled(office: Office) -> None:
    answers = {message(await office.attempt(*pair), 401) for pair in (("ann", "wrong"), ("eve", "wrong"), ("*", "x"))}
    assert answers == {"user name or password is wrong"}
    message(await office.attempt("ann", ""), 401)
    for _ in range(8):
        await office.attempt("ann", "wrong")
    message(await office.attempt(), 429)


async def test_local_passwords_do_not_bypass_the_directory(office: Office) -> None:
    await office.world.add_user("local", password_hash=await office.services.accounts._passwords.hash(Secret("x" * 20)))
    message(await office.attempt("local@example.com", "x" * 20), 401)


async def test_group_of_administrators_gives_the_role(office: Office) -> None:
    await office.configure(group_base_dn="")
    ann = await office.log_in()
    assert (await ann.get("/userinfo")).json()["is_admin"] is True


async def test_user_without_an_address_is_told_so(office: Office) -> None:
    assert "e-mail" in message(await office.attempt("nomail", "of nomail"), 403)


async def test_invited_account_is_bound_at_the_first_login(office: Office) -> None:
    root = (await office.account("root@example.com")).principal
    await office.services.users.create(root, {"email": "bob@example.com", "name": "Bob", "groups": ["dba"]})
    bob = await office.log_in("bob", "of bob")
    assert (await bob.get("/userinfo")).json()["groups"] == []
    assert (await office.account("bob@example.com")).principal.issuer == f"ldap:{BASE}"


async def test_inactive_account_is_denied(office: Office) -> None:
    await office.log_in()
    root = (await office.account("root@example.com")).principal
    await office.services.users.update(root, "ann@example.com", {"status": PrincipalStatus.INACTIVE})
    assert "inactive" in message(await office.attempt(), 403)


async def test_required_second_factor_is_enrolled_with_the_directorys_password(office: Office) -> None:
    await office.configure(factor=True)
    ann = await office.log_in()
    assert "second factor" in message(await ann.get("/connections"), 403)
    office.world.clock.forward(hours=1)  # the login is no proof any more
    for password, status in (("wrong", 403), (PASSWORD, 201)):
        body = {"kind": "totp", "name": "phone", "current_password": password}
        answer = await ann.post("/users/self/second-factors", json=body)
        assert answer.status_code == status, answer.text
    factor = answer.json()
    code = pyotp.TOTP(factor["secret"]).at(office.world.clock())
    confirmed = await ann.post(f"/users/self/second-factors/{factor['id']}/confirm", json={"code": code})
    assert confirmed.status_code == 200, confirmed.text
    assert (await ann.get("/connections")).status_code == 200
    office.world.clock.forward(minutes=1)
    step = (await office.attempt()).json()
    code = pyotp.TOTP(factor["secret"]).at(office.world.clock())
    body = {"ticket": step["ticket"], "kind": "totp", "code": code}
    done = await office.client().post("/localauth/second-factor", json=body)
    assert done.status_code == 200, done.text
    assert (await office.client(done.headers["Token"]).get("/userinfo")).json()["login_method"] == "ldap"


async def test_groups_are_read_again_every_quarter_of_an_hour(office: Office) -> None:
    ann = await office.log_in()
    group = f"cn=dba,ou=groups,{BASE}"
    carol = f"cn=Carol,ou=people,{BASE}"
    office.directory.set_attribute(group, "member", carol)
    try:
        assert (await ann.get("/userinfo")).json()["groups"] == ["a + b", "dba"]
        office.world.clock.forward(minutes=16)
        assert (await ann.get("/userinfo")).json()["groups"] == ["a + b"]
        principal = (await office.account()).principal
        assert await office.world.stores.principals.groups_by(principal.id, GroupSource.PROVIDER) == {"a + b"}
    finally:
        office.directory.set_attribute(group, "member", DN, carol)


async def test_background_check_ends_the_logins_of_users_that_are_gone(office: Office) -> None:
    dn = f"uid=temp,ou=people,{BASE}"
    values = {"uid": "temp", "cn": "Temp", "sn": "T", "mail": "temp@example.com", "userPassword": "of temp"}
    with office.directory.admin() as admin:
        admin.add(dn, "inetOrgPerson", values)
    first, second = await office.log_in("temp", "of temp"), await office.log_in("temp", "of temp")
    ann = await office.log_in()
    with office.directory.admin() as admin:
        admin.delete(dn)
    assert await office.services.logins.check_due(LoginMethod.LDAP) == 0
    office.world.clock.forward(minutes=16)
    office.world.signals.heard.clear()
    assert await office.services.logins.check_due(LoginMethod.LDAP) >= 2
    principal = (await office.account("temp@example.com")).principal
    assert {"principal_id": str(principal.id)} in office.world.signals.of(Topic.PRINCIPAL_CHANGED)
    for client in (first, second):
        message(await client.get("/userinfo"), 401)
    assert (await ann.get("/userinfo")).status_code == 200
    message(await office.attempt("temp", "of temp"), 401)


async def test_device_login_is_checked_as_the_login_that_approved_it(office: Office) -> None:
    ann = await office.log_in()
    device = (await office.client().post("/login/device", json={})).json()
    body = {"code": device["user_code"], "answer": "allow"}
    assert (await ann.post("/devicelogins/confirm", json=body)).status_code == 200
    office.world.clock.forward(seconds=6)
    polled = await office.client().post("/login/device/token", json={"device_code": device["device_code"]})
    principal = (await office.account()).principal
    logins = await office.world.stores.logins.live(principal.id, office.world.clock())
    assert polled.status_code == 200
    assert len(logins) == 2
    assert all(login.provided is not None and login.provided.refresh is not None for login in logins)


async def test_local_account_of_the_servers_machine_keeps_its_password(office: Office) -> None:
    root = (await office.account("root@example.com")).principal
    await office.services.accounts.set_password(root, Secret("a long enough password"), "password")
    with pytest.raises(Denied, match="is wrong"):
        await office.services.accounts.require_password(root, Secret("wrong"), "::1")
    await office.services.accounts.require_password(root, Secret("a long enough password"), "::1")


async def test_disabled_user_is_logged_out_at_the_next_check(office: Office) -> None:
    config = office.directory.like_active_directory()
    await office.services.auth_configs.put(office.world.org_id, AuthConfig(LoginMethod.LDAP, ldap=config))
    carol = await office.log_in("carol", "of carol")
    dn = f"cn=Carol,ou=people,{BASE}"
    office.directory.set_attribute(dn, "userAccountControl", "514")
    try:
        office.world.clock.forward(minutes=16)
        assert "disabled" in message(await carol.get("/userinfo"), 401)
    finally:
        office.directory.set_attribute(dn, "userAccountControl", "512")


async def test_logins_are_not_accepted_while_the_directory_does_not_answer(office: Office) -> None:
    ann = await office.log_in()
    await office.configure(urls=("ldaps://localhost:1",))
    assert (await ann.get("/userinfo")).status_code == 200
    office.world.clock.forward(minutes=16)
    message(await ann.get("/userinfo"), 503)
    for _ in range(12):  # which counts as no failed attempt
        message(await office.attempt(), 503)
    form = {"email": "ann", "password": PASSWORD, "back": "/"}
    page = await office.client().post("/web/login", data=form, headers={"Origin": API})
    assert page.status_code == 503
    assert "the LDAP directory does not answer" in page.text
    assert "localhost:1" not in page.text
    assert await office.services.logins.check_due(LoginMethod.LDAP) == 1
    await office.configure()
    assert (await office.attempt()).status_code == 200
    assert (await ann.get("/userinfo")).status_code == 200


async def test_login_without_an_account_that_searches_ends_after_an_hour(office: Office) -> None:
    await office.configure(bind_dn="", bind_template=f"uid={{user}},ou=people,{BASE}", group_filter="(cn={user})")
    ann = await office.log_in()
    office.world.clock.forward(minutes=59)
    assert (await ann.get("/userinfo")).status_code == 200
    office.world.clock.forward(minutes=2)
    message(await ann.get("/userinfo"), 401)


async def test_logins_end_with_a_change_of_the_method(office: Office) -> None:
    ann = await office.log_in()
    await office.configure(LoginMethod.LOCAL)
    message(await ann.post("/login/refresh"), 401)
    office.world.clock.forward(minutes=16)
    message(await ann.get("/userinfo"), 401)


async def test_passwords_are_changed_in_the_directory(office: Office) -> None:
    ann = await office.log_in()
    body = {"current_password": PASSWORD, "new_password": "another long password"}
    assert "change them there" in message(await ann.put("/users/self/password", json=body), 403)
    root = (await office.account("root@example.com")).principal
    link = await office.services.setup_links.issue(root, "ann@example.com")
    set_up = {"token": link.token.reveal(), "password": "another long password"}
    message(await office.client().post("/localauth/setup", json=set_up), 403)


async def test_step_up_asks_the_directory(office: Office) -> None:
    ann = await office.log_in()
    message(await ann.post("/login/step-up", json={"password": "wrong"}), 403)
    assert (await ann.post("/login/step-up", json={"password": PASSWORD})).status_code == 200


async def test_clients_are_told_to_ask_for_a_user_name(office: Office) -> None:
    info = (await office.client().get("/publicserverinfo")).json()
    assert info["auth_method"] == "ldap"
    assert info["methods"] == [{"kind": "ldap", "name": "LDAP", "url": "/api/localauth/login"}]
    page = await office.client().get("/web/login")
    assert "User name" in page.text
    assert 'type="text"' in page.text
    await office.configure(LoginMethod.LOCAL)
    assert 'type="email"' in (await office.client().get("/web/login")).text


async def test_audit_log_names_who_tried(office: Office) -> None:
    await office.attempt("ann", "wrong")
    await office.log_in()
    root = (await office.account("root@example.com")).principal
    entries = (await office.services.audit.find(root, AuditFilter(), Page())).items
    logins = sorted((entry.outcome, entry.actor_email) for entry in entries if entry.action == "login")
    assert logins == [("failure", "ann"), ("success", "ann@example.com")]
    assert PASSWORD not in str(entries)


def test_password_of_the_search_account_is_not_shown() -> None:
    assert "hunter2" not in repr(LdapConfig(("ldaps://x",), "dc=x", "cn=y", Secret("hunter2")))

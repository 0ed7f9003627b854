"""Local login over HTTP: second factors, set-up links, and the door that is shut where people log in elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import httpx
import pyotp
import pytest
from tests.api.conftest import PASSWORD, Api, message
from tests.api.test_cookies import OWN, browser, csrf
from tests.support.authenticator import Browser
from tests.support.promises import until
from tests.support.world import API_URL

from postern.api.client_address import Network
from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import PrincipalStatus
from postern.domain.lists import Page
from postern.services.identity.logins.passwords import Passwords
from postern.settings import load
from postern.store.ports.server_ports import AuditFilter

NEW = "another long password"


def code_of(api: Api, secret: str, steps: int = 0) -> str:
    return pyotp.TOTP(secret).at(api.world.clock.now + timedelta(seconds=30 * steps))


async def login(api: Api, name: str = "ann", password: str = PASSWORD, query: str = "", **how: Any) -> httpx.Response:
    body = {"email": f"{name}@example.com", "password": password}
    return await api.nobody.post(f"/localauth/login{query}", json=body, **how)


async def enrol_app(api: Api, client: httpx.AsyncClient, **proof: str) -> tuple[str, list[str]]:
    """The key, and the recovery codes."""
    body = {"kind": "totp", "name": "phone"} | (proof or {"current_password": PASSWORD})
    made = await client.post("/users/self/second-factors", json=body)
    assert made.status_code == 201, made.text
    shown = made.json()
    assert shown["uri"].startswith("otpauth://totp/Postern:")
    assert shown["qr"]["path"].startswith("M4 4h7v1h-7z")
    confirm = f"/users/self/second-factors/{shown['id']}/confirm"
    answer = await client.post(confirm, json={"code": code_of(api, shown["secret"])})
    assert answer.status_code == 200, answer.text
    api.world.clock.forward(seconds=60)
    return shown["secret"], answer.json()["recovery_codes"]


async def require_factor(api: Api, method: LoginMethod = LoginMethod.LOCAL, *, required: bool = True) -> None:
    config = AuthConfig(method=method, require_second_factor=required)
    await api.services.auth_configs.put(api.world.org_id, config)


async def actions(api: Api) -> list[tuple[str, str, str, int]]:
    found = await api.services.audit.find(api.users["admin"], AuditFilter(), Page(100))
    return [(one.actor_email, one.action, one.resource_type, one.status) for one in reversed(list(found.items))]


async def test_nobody_registers(api: Api) -> None:
    body = {"email": "eve@example.com", "password": PASSWORD, "name": "Eve"}
    message(await api.nobody.post("/localauth/register", json=body), 403)
    message(await login(api, "eve"), 401)


async def test_a_login_in_two_steps(api: Api) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    secret, codes = await enrol_app(api, api.as_ann)
    assert len(codes) == 10
    first = await login(api)
    assert first.status_code == 200
    assert "token" not in first.headers
    shown = first.json()
    assert shown["status"] == "second_factor_required"
    assert [(one["kind"], one["name"]) for one in shown["factors"]] == [("totp", "phone")]
    body = {"ticket": shown["ticket"], "kind": "totp"}
    wrongs: list[dict[str, Any]] = [{"code": "000000"}, {}, {"assertion": {}}]
    wrongs.append({"kind": "webauthn", "assertion": {"id": "x"}})
    for wrong in wrongs:
        message(await api.nobody.post("/localauth/second-factor", json=body | wrong), 401)
    message(await api.nobody.get("/userinfo", headers={"Authorization": f"Bearer {shown['ticket']}"}), 401)
    done = await api.nobody.post("/localauth/second-factor", json=body | {"code": code_of(api, secret)})
    assert done.json() == {"status": "ok"}
    bearer = {"Authorization": f"Bearer {done.headers['token']}"}
    assert (await api.nobody.get("/userinfo", headers=bearer)).json()["email"] == "ann@example.com"
    seen = [one for one in await actions(api) if one[1] == "second-factor"]
    assert seen == [("ann@example.com", "second-factor", "localauth", status) for status in (401, 401, 401, 401, 200)]


async def test_a_browser_logs_in_with_an_authenticator(api: Api) -> None:
    page, stick = await browser(api), Browser(API_URL)
    body = {"kind": "webauthn", "name": "stick", "current_password": PASSWORD}
    made = (await page.post("/users/self/second-factors", json=body, headers=await csrf(page))).json()
    confirm = f"/users/self/second-factors/{made['id']}/confirm"
    credential = stick.create(made["webauthn"])
    answer = await page.post(confirm, json={"credential": credential}, headers=await csrf(page))
    assert len(answer.json()["recovery_codes"]) == 10
    step = (await login(api)).json()
    assertion = stick.get(step["webauthn"])
    given = {"ticket": step["ticket"], "kind": "webauthn", "assertion": assertion}
    done = await api.nobody.post("/localauth/second-factor?session=cookie", json=given, headers=OWN)
    assert done.json()["csrf_token"]
    assert "token" not in done.headers
    assert "httponly" in done.headers["set-cookie"].lower()
    shown = (await page.get("/users/self/second-factors")).json()
    assert [(one["kind"], one["name"]) for one in shown["data"]] == [("webauthn", "stick")]
    assert shown["recovery_codes_left"] == 10


async def test_a_factor_is_removed_with_a_proof(api: Api) -> None:
    """Case 63."""
    await enrol_app(api, api.as_ann)
    shown = (await api.as_ann.get("/users/self/second-factors")).json()["data"]
    path = f"/users/self/second-factors/{shown[0]['id']}"
    for body in ({}, {"current_password": "wrong"}):
        message(await api.as_ann.request("DELETE", path, json=body), 403)
        message(await api.as_ann.post("/users/self/second-factors/recovery-codes", json=body), 403)
        message(await api.as_ann.post("/users/self/second-factors", json=body | {"kind": "totp", "name": "x"}), 403)
    message(await api.as_bob.request("DELETE", path, json={"current_password": PASSWORD}), 404)
    proof = {"current_password": PASSWORD}
    renewed = await api.as_ann.post("/users/self/second-factors/recovery-codes", json=proof)
    assert len(renewed.json()["recovery_codes"]) == 10
    assert (await api.as_ann.request("DELETE", path, json=proof)).status_code == 204
    assert (await login(api)).json() == {"status": "ok"}


async def test_an_administrator_resets_factors(api: Api) -> None:
    await enrol_app(api, api.as_ann)
    for client in (api.as_bob, api.as_auditor, api.as_ann):
        message(await client.delete("/users/ann@example.com/second-factors"), 403)
    assert (await api.as_admin.delete("/users/ann@example.com/second-factors")).status_code == 204
    message(await api.as_admin.delete("/users/x@example.com/second-factors"), 404)
    message(await api.as_ann.get("/userinfo"), 401)
    assert (await login(api)).json() == {"status": "ok"}


async def test_who_must_enrol_can_do_nothing_else(api: Api) -> None:
    await require_factor(api)
    for method, path in (("GET", "/userinfo"), ("GET", "/connections"), ("GET", "/logins"), ("POST", "/login/refresh")):
        assert "requires a second factor" in message(await api.as_ann.request(method, path), 403)
    message(await api.as_admin.post("/users/bob@example.com/setup-link"), 403)
    message(await api.as_ann.put("/users/self/password", json={"current_password": PASSWORD, "new_password": NEW}), 403)
    assert (await api.as_ann.get("/login/session")).json()["must_enrol_second_factor"] is True
    assert (await api.as_bob.post("/logout")).status_code == 204
    await enrol_app(api, api.as_ann)
    assert (await api.as_ann.get("/userinfo")).status_code == 200
    assert (await api.as_ann.get("/login/session")).json()["must_enrol_second_factor"] is False


async def test_a_set_up_link_lets_an_invited_user_in_once(api: Api) -> None:
    fields = {"email": "new@example.com", "name": "new", "status": PrincipalStatus.INVITED}
    await api.services.users.create(api.users["admin"], fields)
    for client in (api.as_bob, api.as_auditor):
        message(await client.post("/users/new@example.com/setup-link"), 403)
    message(await api.as_admin.post("/users/nobody@example.com/setup-link"), 404)
    older = (await api.as_admin.post("/users/new@example.com/setup-link")).json()
    made = await api.as_admin.post("/users/new@example.com/setup-link")
    assert made.status_code == 201
    link = made.json()
    assert link["url"] == f"{API_URL}/setup#token={link['token']}"
    message(await api.nobody.post("/localauth/setup", json={"token": older["token"], "password": NEW}), 401)
    for weak in ("short", "aaaaaaaaaaaaaaaa", "new@example.com", "NEW@example.com "):
        message(await api.nobody.post("/localauth/setup", json={"token": link["token"], "password": weak}), 422)
    body = {"token": link["token"], "password": NEW, "name": "Newcomer"}
    done = await api.nobody.post("/localauth/setup", json=body)
    assert done.json() == {"status": "ok"}
    shown = await api.nobody.get("/userinfo", headers={"Authorization": f"Bearer {done.headers['token']}"})
    assert (shown.json()["name"], shown.json()["status"]) == ("Newcomer", "active")
    message(await api.nobody.post("/localauth/setup", json=body), 401)
    assert (await login(api, "new", NEW)).status_code == 200


async def test_a_set_up_link_ends_the_logins_and_does_not_go_around_the_second_factor(api: Api) -> None:
    secret, _ = await enrol_app(api, api.as_ann)
    token = (await api.as_admin.post("/users/ann@example.com/setup-link")).json()["token"]
    done = await api.nobody.post("/localauth/setup", json={"token": token, "password": NEW})
    assert "token" not in done.headers
    assert done.json()["status"] == "second_factor_required"
    message(await api.as_ann.get("/userinfo"), 401)
    given = {"ticket": done.json()["ticket"], "kind": "totp", "code": code_of(api, secret)}
    assert (await api.nobody.post("/localauth/second-factor", json=given)).json() == {"status": "ok"}


async def test_a_set_up_link_is_good_for_a_day_once_however_many_come_at_the_same_time(api: Api) -> None:
    token = (await api.as_admin.post("/users/ann@example.com/setup-link")).json()["token"]
    tries = [
        api.nobody.post("/localauth/setup", json={"token": token, "password": f"{NEW} {number}"}) for number in range(4)
    ]
    statuses = sorted(answer.status_code for answer in await asyncio.gather(*tries))
    assert statuses == [200, 401, 401, 401]
    late = (await api.as_admin.post("/users/bob@example.com/setup-link")).json()["token"]
    api.world.clock.forward(hours=24)
    message(await api.nobody.post("/localauth/setup", json={"token": late, "password": NEW}), 401)


async def test_an_inactive_user_gets_no_link_and_uses_none(api: Api) -> None:
    token = (await api.as_admin.post("/users/ann@example.com/setup-link")).json()["token"]
    fields = {"status": PrincipalStatus.INACTIVE}
    await api.services.users.update(api.users["admin"], "ann@example.com", fields)
    message(await api.nobody.post("/localauth/setup", json={"token": token, "password": NEW}), 403)
    message(await api.as_admin.post("/users/ann@example.com/setup-link"), 422)


async def test_made_up_tokens_and_tickets_are_nobody(api: Api) -> None:
    """Case 58: guessed reset codes."""
    for token in ("", "x", "ä", "a" * 10_000):
        message(await api.nobody.post("/localauth/setup", json={"token": token, "password": NEW}), 401)
        body = {"ticket": token, "kind": "totp", "code": "000000"}
        message(await api.nobody.post("/localauth/second-factor", json=body), 401)


async def test_a_password_does_not_go_around_the_identity_provider(api: Api) -> None:
    """Case 60: a local password of before bypasses enforced single sign-on."""
    token = (await api.as_admin.post("/users/bob@example.com/setup-link")).json()["token"]
    secret, _ = await enrol_app(api, api.as_ann)
    ticket = (await login(api)).json()["ticket"]
    await require_factor(api, LoginMethod.OIDC, required=False)
    assert "identity provider" in message(await login(api), 403)
    assert "identity provider" in message(await login(api, password="wrong"), 403)
    message(await api.nobody.post("/localauth/setup", json={"token": token, "password": NEW}), 403)
    given = {"ticket": ticket, "kind": "totp", "code": code_of(api, secret)}
    message(await api.nobody.post("/localauth/second-factor", json=given), 403)
    change = {"current_password": PASSWORD, "new_password": NEW}
    message(await api.as_bob.put("/users/self/password", json=change), 403)
    message(await api.as_bob.post("/login/refresh"), 401)


async def test_a_link_made_on_the_machine_works_when_the_provider_does_not(api: Api) -> None:
    await require_factor(api, LoginMethod.OIDC, required=False)
    account = await api.services.users.own(api.users["admin"])
    link = await api.services.setup_links.issue_for(account, from_host=True)
    done = await api.nobody.post("/localauth/setup", json={"token": link.token.reveal(), "password": NEW})
    assert done.json() == {"status": "ok"}
    assert link.token.reveal() not in repr(link)


async def test_unknown_inactive_and_wrong_are_the_same_after_the_same_work(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.services.users.update(api.users["admin"], "bob@example.com", {"status": PrincipalStatus.INACTIVE})
    checked: list[str] = []
    verify = Passwords._verify

    async def counting(self: Passwords, password: Any, stored: str) -> bool:
        checked.append(stored)
        return await verify(self, password, stored)

    monkeypatch.setattr(Passwords, "_verify", counting)
    answers = [await login(api, "nobody"), await login(api, "bob"), await login(api, password="wrong")]
    elsewhere = {"email": "ann@example.com", "password": PASSWORD, "organization": "nowhere"}
    answers.append(await api.nobody.post("/localauth/login", json=elsewhere))
    assert len({message(answer, 401) for answer in answers}) == 1
    assert len(checked) == 4
    assert len({stored.rpartition("$")[0].rpartition("$")[0] for stored in checked}) == 1  # the same parameters


async def test_a_flood_of_passwords_is_answered_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Password checks are no lever for denial of service: the line is bounded, and whoever is turned away is not
    counted as having guessed."""
    gate = asyncio.Event()

    async def to_thread(function: Any, *arguments: Any) -> Any:
        await gate.wait()
        return function(*arguments)

    monkeypatch.setattr("postern.services.identity.logins.passwords.asyncio.to_thread", to_thread)
    waiting = [asyncio.create_task(login(api, f"user{number}")) for number in range(32)]
    passwords = api.services.accounts._passwords
    await until(lambda: passwords._waiting >= len(waiting))
    for _ in range(20):  # more than an account is allowed to fail
        async with asyncio.timeout(60):
            assert "being checked right now" in message(await login(api), 429)
    gate.set()
    assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {401}
    assert (await login(api)).status_code == 200


async def test_the_same_password_is_not_hashed_without_end(api: Api) -> None:
    message(await login(api, password="x" * 100_000), 401)
    body = {"current_password": PASSWORD, "new_password": "x" * 100_000}
    message(await api.as_ann.put("/users/self/password", json=body), 422)


@pytest.mark.parametrize(
    ("trusted", "statuses"), [((), {429}), (load({}, home="/x", trusted_proxies="::1").proxies, {401})]
)
async def test_a_forged_x_forwarded_for_does_not_beat_the_throttle(
    api: Api, trusted: Sequence[Network], statuses: set[int]
) -> None:
    """Case 58: CVE-2023-46123. Only a proxy of the settings is believed, and only about the last step."""
    api.app.state.trusted_proxies = trusted
    transport = httpx.ASGITransport(api.app, client=("::1", 1))
    peer = httpx.AsyncClient(transport=transport, base_url="http://localhost/api")
    body = {"email": "ann@example.com", "password": "wrong"}
    answers = []
    for number in range(11):
        headers = {"X-Forwarded-For": f"198.51.100.{number}", "X-Real-IP": f"198.51.100.{number}"}
        answers.append((await peer.post("/localauth/login", json=body, headers=headers)).status_code)
    assert set(answers[:10]) == {401}
    assert {answers[10]} == statuses
    for number in range(10):  # behind the proxy, what the client itself wrote is not believed either
        headers = {"X-Forwarded-For": f"203.0.113.{number}, 192.0.2.9"}
        answers.append((await peer.post("/localauth/login", json=body, headers=headers)).status_code)
    forged = {"X-Forwarded-For": "203.0.113.99, 192.0.2.9"}
    assert (await peer.post("/localauth/login", json=body, headers=forged)).status_code == 429


async def test_one_ipv6_network_is_one_address(api: Api) -> None:
    body = {"email": "ann@example.com", "password": "wrong"}
    statuses = []
    for number in range(11):
        transport = httpx.ASGITransport(api.app, client=(f"2001:db8::{number:x}", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api") as peer:
            statuses.append((await peer.post("/localauth/login", json=body)).status_code)
    assert statuses == [401] * 10 + [429]


async def test_secrets_of_a_login_are_not_in_the_audit_log(api: Api) -> None:
    secret, codes = await enrol_app(api, api.as_ann)
    token = (await api.as_admin.post("/users/bob@example.com/setup-link")).json()["token"]
    await api.nobody.post("/localauth/setup", json={"token": token, "password": NEW})
    ticket = (await login(api)).json()["ticket"]
    code = code_of(api, secret)
    await api.nobody.post("/localauth/second-factor", json={"ticket": ticket, "kind": "totp", "code": code})
    found = await api.services.audit.find(api.users["admin"], AuditFilter(), Page(100))
    shown = str([(one.body, one.before, one.after) for one in found.items])
    assert "second-factors" in str([one.resource_type for one in found.items])
    for hidden in (secret, token, ticket, code, NEW, PASSWORD, *codes):
        assert hidden not in shown

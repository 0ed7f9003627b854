"""A command line without browser: its codes, the page, and who else would like to use them."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import pytest
from tests.api.conftest import PASSWORD, Api, message
from tests.support.world import API_URL

from postern.domain.lists import Page
from postern.services.identity.logins.device_login import LIFE
from postern.store.ports.server_ports import AuditFilter

OWN = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}  # what browsers send for a form of a page without referrer


async def browser(api: Api, name: str = "ann") -> httpx.AsyncClient:
    headers = {"Origin": API_URL, "Sec-Fetch-Site": "same-origin"}
    transport = httpx.ASGITransport(api.app, client=("192.0.2.7", 1))
    page = httpx.AsyncClient(transport=transport, base_url="http://localhost/api", headers=headers)
    body = {"email": f"{name}@example.com", "password": PASSWORD}
    assert (await page.post("/localauth/login?session=cookie", json=body)).status_code == 200
    page.headers = httpx.Headers()
    return page


async def begin(api: Api, agent: str = "postern/1.0") -> dict[str, str]:
    answer = await api.nobody.post("/login/device", json={}, headers={"User-Agent": agent})
    assert answer.status_code == 201, answer.text
    begun: dict[str, str] = answer.json()
    return begun


async def poll(api: Api, begun: dict[str, str]) -> httpx.Response:
    api.world.clock.forward(seconds=5)
    return await api.nobody.post("/login/device/token", json={"device_code": begun["device_code"]})


async def shown(page: httpx.AsyncClient, code: str) -> str:
    answer = await page.get("/login/device", params={"user_code": code})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    return answer.text


def field(html: str, name: str) -> str:
    found = re.search(f'name="{name}" value="([^"]*)"', html)
    assert found is not None, html
    return found[1]


async def confirm(page: httpx.AsyncClient, html: str, answer: str = "allow") -> httpx.Response:
    form = {"user_code": field(html, "user_code"), "csrf_token": field(html, "csrf_token"), "answer": answer}
    return await page.post("/login/device/confirm", data=form, headers=OWN)


async def test_a_device_is_logged_in_by_who_confirms_its_code(api: Api) -> None:
    begun = await begin(api)
    assert re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", begun["user_code"])
    assert begun["verification_url"] == f"{API_URL}/device"
    assert begun["verification_url_complete"].endswith(f"?user_code={begun['user_code']}")
    waiting = await poll(api, begun)
    assert (waiting.status_code, waiting.json()) == (202, {"status": "authorization_pending"})
    page = await browser(api)
    html = await shown(page, begun["user_code"].lower().replace("-", " "))
    assert "postern/1.0" in html
    assert "127.0.0.1" in html  # who asks from where
    assert "ann@example.com" in html
    assert (await confirm(page, html)).status_code == 200
    done = await poll(api, begun)
    assert (done.status_code, done.json()) == (200, {"status": "ok"})
    headers = {"Authorization": f"Bearer {done.headers['token']}"}
    assert (await api.nobody.get("/userinfo", headers=headers)).json()["email"] == "ann@example.com"
    message(await poll(api, begun), 401)  # the token is given once


async def test_refused_is_refused(api: Api) -> None:
    begun, page = await begin(api), await browser(api)
    html = await shown(page, begun["user_code"])
    assert "Rejected" in (await confirm(page, html, "deny")).text
    assert message(await poll(api, begun), 403).startswith("access_denied")
    message(await confirm(page, html), 404)


async def test_a_code_is_confirmed_once(api: Api) -> None:
    begun, page, other = await begin(api), await browser(api), await browser(api, "bob")
    html, theirs = await shown(page, begun["user_code"]), await shown(other, begun["user_code"])
    assert (await confirm(page, html)).status_code == 200
    message(await confirm(other, theirs), 404)
    done = await poll(api, begun)
    headers = {"Authorization": f"Bearer {done.headers['token']}"}
    assert (await api.nobody.get("/userinfo", headers=headers)).json()["email"] == "ann@example.com"


async def test_slow_down(api: Api) -> None:
    begun = await begin(api)
    assert (await poll(api, begun)).status_code == 202
    answer = await api.nobody.post("/login/device/token", json={"device_code": begun["device_code"]})
    assert message(answer, 429).startswith("slow_down")


async def test_codes_expire(api: Api) -> None:
    begun, page = await begin(api), await browser(api)
    html = await shown(page, begun["user_code"])
    api.world.clock.forward(seconds=LIFE.total_seconds() + 1)
    message(await poll(api, begun), 401)
    message(await confirm(page, html), 404)


async def test_guessing_codes_ends_after_a_few_tries(api: Api) -> None:
    """Case 58: unlimited tries."""
    page = await browser(api)
    codes = ["BBBB-BBB" + letter for letter in "BCDFGHJKLM"]
    for code in codes:
        assert "this code is unknown" in await shown(page, code)
    begun = await begin(api)
    assert "too many" in await shown(page, begun["user_code"])
    other = await browser(api, "bob")
    assert begun["user_code"] in await shown(other, begun["user_code"])


async def test_the_devices_code_is_no_users_code_and_the_other_way_round(api: Api) -> None:
    begun, page = await begin(api), await browser(api)
    assert "this code is unknown" in await shown(page, begun["device_code"][:64])
    for guess in (begun["user_code"], f"user code {begun['user_code'].replace('-', '')}", "", "\N{SNOWMAN}"):
        answer = await api.nobody.post("/login/device/token", json={"device_code": guess})
        assert answer.status_code in (401, 429), guess
        assert "token" not in answer.headers


async def test_a_stranger_cannot_fill_the_store_with_codes(api: Api) -> None:
    statuses = [(await api.nobody.post("/login/device", json={})).status_code for _ in range(31)]
    assert statuses == [201] * 30 + [429]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_forged_confirmation_of_another_site_is_refused(api: Api, headers: dict[str, str]) -> None:
    """Case 65: the victim's browser confirms the attacker's code."""
    begun, page = await begin(api), await browser(api)
    html = await shown(page, begun["user_code"])
    form = {"user_code": begun["user_code"], "csrf_token": field(html, "csrf_token"), "answer": "allow"}
    message(await page.post("/login/device/confirm", data=form, headers=headers), 403)
    assert (await poll(api, begun)).status_code == 202


async def test_forged_confirmation_needs_the_token_of_this_login(api: Api) -> None:
    """Case 65."""
    begun, page, attacker = await begin(api), await browser(api), await browser(api, "bob")
    own = field(await shown(attacker, begun["user_code"]), "csrf_token")
    for token in ("", "x", own, "\N{SNOWMAN}"):
        form = {"user_code": begun["user_code"], "csrf_token": token, "answer": "allow"}
        answer = await page.post("/login/device/confirm", data=form, headers=OWN)
        message(answer, 403)
    assert (await poll(api, begun)).status_code == 202


async def test_confirming_needs_the_browsers_session(api: Api) -> None:
    form = {"user_code": "BBBB-BBBB", "csrf_token": "x", "answer": "allow"}
    for client in (api.nobody, api.as_ann):  # a bearer token is no browser
        message(await client.post("/login/device/confirm", data=form, headers=OWN), 401)


@pytest.mark.parametrize("content", [b"", b"answer=maybe", b"\xff", b"a=b&" * 2_000, b"&".join([b"a=b"] * 50)])
async def test_forms_that_cannot_be_read(api: Api, content: bytes) -> None:
    page = await browser(api)
    headers = OWN | {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await page.post("/login/device/confirm", content=content, headers=headers)
    assert answer.status_code in (400, 403)


async def test_texts_of_a_stranger_are_escaped(api: Api) -> None:
    """Case 64: what the device says of itself is shown to somebody who is logged in."""
    begun, page = await begin(api, "<script>alert(1)</script>\"'&"), await browser(api)
    html = await shown(page, begun["user_code"])
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;" in html
    assert "<script" not in await shown(page, "<script>alert(1)</script>")
    answer = await page.get("/login/device")
    policies = answer.headers.get_list("content-security-policy")
    assert all("default-src 'none'" in policy for policy in policies)
    assert any("form-action 'self'" in policy for policy in policies)
    assert answer.headers["x-frame-options"] == "DENY"


async def test_without_session_the_page_says_how_to_get_one(api: Api) -> None:
    answer = await api.nobody.get("/login/device", params={"user_code": "<script>"})
    assert answer.status_code == 303
    assert "/api/web/login?back=" in answer.headers["location"]
    assert answer.text == ""


async def test_an_answer_is_in_the_audit_log_without_codes(api: Api) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    begun, page = await begin(api), await browser(api)
    await confirm(page, await shown(page, begun["user_code"]))
    await poll(api, begun)
    found = list((await api.services.audit.find(api.users["admin"], AuditFilter(), Page(2))).items)
    assert [(one.actor_email, one.path, one.status) for one in found] == [
        ("ann@example.com", "/api/login/device/token", 200),
        ("ann@example.com", "/api/login/device/confirm", 200),
    ]
    assert begun["device_code"] not in str(found)
    assert begun["user_code"] not in str(found)
    assert found[1].after is not None
    assert found[1].after["allowed"] is True


async def test_programs_of_people_confirm_a_device_and_api_keys_do_not(api: Api) -> None:
    begun = await begin(api, "postern/1.0 <b>")
    shown = (await api.as_ann.get("/devicelogins", params={"code": begun["user_code"].lower()})).json()
    assert (shown["code"], shown["client"]) == (begun["user_code"], "postern/1.0 <b>")
    key = (await api.as_admin.post("/api-keys", json={"name": "ann"})).json()["key"]
    body = {"code": begun["user_code"], "answer": "allow"}
    by_key = await api.nobody.post("/devicelogins/confirm", json=body, headers={"Api-Key": key})
    assert "only logged-in users" in message(by_key, 403)
    done = await api.as_ann.post("/devicelogins/confirm", json=body)
    assert (done.status_code, done.json()) == (200, shown)
    assert (await poll(api, begun)).json() == {"status": "ok"}
    message(await api.as_ann.post("/devicelogins/confirm", json=body), 404)
    logged = (await api.as_admin.get("/audit/logs?limit=100")).json()["data"]
    confirmed = [entry for entry in logged if entry["resource_type"] == "devicelogins" and entry["http_status"] == 200]
    assert [(entry["action"], entry["body"]["code"]) for entry in confirmed] == [("confirm", "[REDACTED]")]


async def test_device_that_a_program_rejects_gets_no_token(api: Api) -> None:
    begun = await begin(api)
    assert (
        await api.as_ann.post("/devicelogins/confirm", json={"code": begun["user_code"], "answer": "deny"})
    ).is_success
    message(await poll(api, begun), 403)

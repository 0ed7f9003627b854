"""The page where an SSH client is let in, and the same for the command line."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest
from tests.api.conftest import Api, message
from tests.api.test_device_login import OWN, browser, field

from postern.errors import Denied
from postern.services.identity.logins.ssh_logins import SshClaim, WaitingSshLogin


async def begin(api: Api, user: str = "ann", connection: str = "web-1") -> WaitingSshLogin:
    return await api.services.ssh_logins.begin("198.51.100.9", SshClaim(user, connection, "SSH-2.0-OpenSSH_9.2"))


async def opened(page: httpx.AsyncClient, waiting: WaitingSshLogin) -> str:
    answer = await page.get("/login/ssh", params={"user_code": waiting.code})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    return answer.text


async def answer(page: httpx.AsyncClient, html: str, number: str, given: str = "allow") -> httpx.Response:
    form = {name: field(html, name) for name in ("user_code", "csrf_token")}
    return await page.post("/login/ssh/confirm", data={**form, "number": number, "answer": given}, headers=OWN)


async def test_a_client_is_let_in_on_the_page_by_its_number(api: Api) -> None:
    waiting = await begin(api, connection="<b>web</b>")
    page = await browser(api)
    html = await opened(page, waiting)
    for told in ("ann@example.com", "198.51.100.9", "192.0.2.7", "SSH-2.0-OpenSSH_9.2", "&lt;b&gt;web&lt;/b&gt;"):
        assert told in html
    assert "<b>" not in html
    assert not re.search(rf">\s*{waiting.number}\s*<|\"{waiting.number}\"", html)  # it is in the terminal alone
    done = await answer(page, html, f" {waiting.number} ")
    assert done.status_code == 200, done.text
    found = await asyncio.wait_for(api.services.ssh_logins.wait(waiting), 30)
    assert found.principal.email == "ann@example.com"
    (entry,) = [one for one in await entries(api) if one["resource_type"] == "ssh"]
    assert (entry["action"], entry["outcome"]) == ("confirm", "success")
    wanted = {"user": "ann", "connection": "<b>web</b>", "address": "198.51.100.9", "allowed": True}
    assert entry["after"] == wanted


async def test_a_jump_host_names_no_connection(api: Api) -> None:
    html = await opened(await browser(api), await begin(api, connection=""))
    assert "<strong>any: the client names it later" in html


async def test_a_wrong_number_is_refused_on_the_page(api: Api) -> None:
    waiting = await begin(api)
    page = await browser(api)
    html = await opened(page, waiting)
    wrong = "x" + waiting.number
    assert "not the number" in message(await answer(page, html, wrong), 403)
    message(await answer(page, html, waiting.number), 404)
    with pytest.raises(Denied):
        await api.services.ssh_logins.wait(waiting)
    said = {one["http_status"]: one for one in await entries(api) if one["resource_type"] == "ssh"}
    assert sorted(said) == [403, 404]
    assert said[403]["after"]["allowed"] is False


async def test_a_form_of_another_page_lets_nobody_in(api: Api) -> None:
    waiting = await begin(api)
    page = await browser(api)
    html = await opened(page, waiting)
    form = {name: field(html, name) for name in ("user_code", "csrf_token")} | {"number": waiting.number}
    for headers, changes in (
        ({"Origin": "https://evil.example"}, {}),
        ({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, {}),
        (OWN, {"csrf_token": "x"}),
    ):
        data = {**form, "answer": "allow", **changes}
        message(await page.post("/login/ssh/confirm", data=data, headers=headers), 403)
    message(await page.post("/login/ssh/confirm", data={**form, "answer": "maybe"}, headers=OWN), 400)
    assert (await answer(page, html, waiting.number)).status_code == 200


async def test_who_is_not_logged_in_is_led_there_and_an_unknown_code_is_told(api: Api) -> None:
    waiting = await begin(api)
    led = await api.nobody.get("/login/ssh", params={"user_code": waiting.code})
    assert (led.status_code, "/api/web/login?back=" in led.headers["location"]) == (303, True)
    page = await browser(api)
    assert "Code in the address" in (await page.get("/login/ssh")).text
    shown = await page.get("/login/ssh", params={"user_code": "<script>"})
    assert "this code is unknown" in shown.text
    assert "<script>" not in shown.text


async def test_programs_of_people_do_the_same_and_api_keys_do_not(api: Api) -> None:
    waiting = await begin(api)
    shown = (await api.as_ann.get("/sshlogins", params={"code": waiting.code})).json()
    assert (shown["user"], shown["connection"], shown["address"]) == ("ann", "web-1", "198.51.100.9")
    key = (await api.as_admin.post("/api-keys", json={"name": "ann"})).json()["key"]
    body = {"code": waiting.code, "number": waiting.number, "answer": "allow"}
    by_key = await api.nobody.post("/sshlogins/confirm", json=body, headers={"Api-Key": key})
    assert "only logged-in users" in message(by_key, 403)
    done = await api.as_ann.post("/sshlogins/confirm", json=body)
    assert done.json() == shown
    assert (await api.services.ssh_logins.wait(waiting)).principal.email == "ann@example.com"
    message(await api.as_ann.post("/sshlogins/confirm", json=body), 404)
    logged = [one for one in await entries(api) if one["resource_type"] == "sshlogins" and one["http_status"] == 200]
    assert [(one["action"], one["body"]["code"]) for one in logged] == [("confirm", "[REDACTED]")]


async def test_its_login_is_seen_and_ended_like_any_other(api: Api) -> None:
    waiting = await begin(api)
    body = {"code": waiting.code, "number": waiting.number, "answer": "allow"}
    assert (await api.as_ann.post("/sshlogins/confirm", json=body)).status_code == 200
    found = await api.services.ssh_logins.wait(waiting)
    logins = (await api.as_ann.get("/logins")).json()["data"]
    (shown,) = [one for one in logins if one["client"] == "ssh"]
    assert (shown["id"], shown["source"]) == (str(found.login.id), "198.51.100.9")


async def entries(api: Api) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = (await api.as_admin.get("/audit/logs?limit=100")).json()["data"]
    return data

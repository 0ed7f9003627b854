"""The browser's session: its cookie, and what other sites try with it."""

from __future__ import annotations

from dataclasses import replace
from http.cookies import SimpleCookie

import httpx
import pytest
from fastapi import Response
from tests.api.conftest import PASSWORD, Api, message
from tests.support.world import API_URL, CLIENT

from postern.api.browser.cookies import PLAIN_NAME, SECURE_NAME, clear_login_cookie, set_login_cookie
from postern.api.info import NativePort, ServerAddresses
from postern.domain.identity.login import LoginMethod
from postern.domain.secret import Secret
from postern.services.server.server_configs import ServerFields

OWN = {"Origin": API_URL, "Sec-Fetch-Site": "same-origin"}
NATIVE = {"postgres": NativePort(True, "localhost", 7432)}
TOLD = ServerAddresses(API_URL, NATIVE, "wss://localhost:7443", "grpcs://localhost:7444", None, False)
CHANGE = {"current_password": PASSWORD, "new_password": "another long password"}


async def browser(api: Api, name: str = "ann") -> httpx.AsyncClient:
    """Logged in by cookie, on our own page."""
    transport = httpx.ASGITransport(api.app)
    page = httpx.AsyncClient(transport=transport, base_url="http://localhost/api", headers=OWN)
    body = {"email": f"{name}@example.com", "password": PASSWORD}
    answer = await page.post("/localauth/login?session=cookie", json=body)
    assert answer.status_code == 200, answer.text
    assert "token" not in answer.headers
    return page


async def csrf(page: httpx.AsyncClient) -> dict[str, str]:
    return {"X-CSRF-Token": (await page.get("/login/session")).json()["csrf_token"]}


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(api: Api) -> None:
    """Case 63: session cookie without Secure, HttpOnly, SameSite."""
    opened = await api.services.logins.open(await api.services.users.own(api.users["ann"]), LoginMethod.LOCAL, CLIENT)
    for url, name, secure in (("https://pg.example:7480", SECURE_NAME, True), (API_URL, PLAIN_NAME, False)):
        info = replace(TOLD, api_url=url)
        given, cleared = Response(), Response()
        set_login_cookie(given, opened, info)
        clear_login_cookie(cleared, info)
        for response, value in ((given, opened.token.reveal()), (cleared, "")):
            cookie = SimpleCookie(response.headers["set-cookie"])[name]
            assert cookie.value == value
            assert cookie["httponly"] is True
            assert cookie["samesite"] == "lax"
            assert cookie["path"] == "/"
            assert cookie["domain"] == ""
            assert bool(cookie["secure"]) is secure
            assert (int(cookie["max-age"]) > 0) is bool(value)


async def test_a_page_reads_and_writes_by_its_cookie(api: Api) -> None:
    page = await browser(api)
    session = (await page.get("/login/session")).json()
    assert session["email"] == "ann@example.com"
    assert session["csrf_token"]
    answer = await page.put("/users/self/password", json=CHANGE, headers=await csrf(page))
    assert answer.status_code == 200, answer.text


async def test_a_bearer_token_needs_no_csrf_token_and_gets_none(api: Api) -> None:
    assert (await api.as_ann.get("/login/session")).json()["csrf_token"] is None
    assert (await api.as_ann.put("/users/self/password", json=CHANGE)).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:9999"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:7480.evil.example"},
        {"Origin": "https://localhost:7480"},
        {"Origin": "null"},
        {"Origin": "http://localhost:x"},
        {"Sec-Fetch-Site": "none"},
        {},
    ],
)
async def test_cross_site_write_is_refused_even_with_the_csrf_token(api: Api, origin: dict[str, str]) -> None:
    """Case 65: cross-site request forgery."""
    page = await browser(api)
    known = await csrf(page)
    page.headers = httpx.Headers()
    answer = await page.put("/users/self/password", json=CHANGE, headers=origin | known)
    assert message(answer, 403)
    for name in ("OPTIONS", "HEAD"):
        assert (await page.request(name, "/users/self/password", json=CHANGE)).status_code == 405
    assert (await page.get("/userinfo", headers=origin)).status_code == 200  # reads answer nothing to another site


async def test_cross_site_form_post_is_refused(api: Api) -> None:
    """Case 65: what a form of another site can send: its own media types, and no header of its choice."""
    page = await browser(api, "bob")
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"):
        headers = foreign | {"Content-Type": kind}
        answer = await page.put("/users/self/password", content=b'{"new_password":"x"}', headers=headers)
        assert answer.status_code == 403, kind


async def test_missing_foreign_and_stale_csrf_tokens_are_refused(api: Api) -> None:
    page, other = await browser(api), await browser(api, "bob")
    same_person = await browser(api)
    for headers in ({}, {"X-CSRF-Token": ""}, {b"X-CSRF-Token": b"\xc3"}, await csrf(other), await csrf(same_person)):
        answer = await page.put("/users/self/password", json=CHANGE, headers=headers)
        assert "X-CSRF-Token" in message(answer, 403)
    assert (await other.put("/users/self/password", json=CHANGE, headers=await csrf(other))).status_code == 200


async def test_cookie_and_bearer_together_are_refused(api: Api) -> None:
    page = await browser(api)
    for header in (api.as_bob.headers["authorization"], "Basic eDp5", ""):
        answer = await page.get("/userinfo", headers={"Authorization": header})
        assert "send only one" in message(answer, 400)


async def test_on_https_only_the_cookie_with_the_host_prefix_counts(api: Api) -> None:
    """A sibling domain can set a cookie of any name but one that begins with `__Host-`."""
    page = await browser(api)
    token = page.cookies[PLAIN_NAME]
    wanted = ServerFields(api_url="https://localhost:7480")
    await api.services.server_configs.put(api.users["admin"], wanted)
    message(await page.get("/userinfo"), 401)
    tossed = await api.nobody.get("/userinfo", headers={"Cookie": f"{SECURE_NAME}={token}"})
    assert tossed.status_code == 200


async def test_an_ended_or_made_up_cookie_is_nobody(api: Api) -> None:
    page = await browser(api)
    await api.services.logins.end_all(api.users["ann"].id)
    message(await page.get("/userinfo"), 401)
    message(await api.nobody.get("/userinfo", headers={"Cookie": f"{PLAIN_NAME}=x.y.z"}), 401)


async def test_another_site_cannot_log_somebody_in(api: Api) -> None:
    """Login CSRF: the victim would work in the attacker's account."""
    body = {"email": "bob@example.com", "password": PASSWORD}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {}):
        answer = await api.nobody.post("/localauth/login?session=cookie", json=body, headers=headers)
        message(answer, 403)
        assert "set-cookie" not in answer.headers


async def test_the_csrf_token_tells_nothing_of_the_token(api: Api) -> None:
    page = await browser(api)
    shown = (await csrf(page))["X-CSRF-Token"]
    assert shown not in page.cookies[PLAIN_NAME]
    with pytest.raises(Exception, match="not valid"):
        await api.services.authentication.caller(Secret(shown), address="::1")

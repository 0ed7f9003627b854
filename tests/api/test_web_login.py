"""Local login in a browser: every link that people are given leads to a page that works, without scripts."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.api.conftest import PASSWORD, Api, message
from tests.api.test_local_auth import code_of, enrol_app
from tests.support.world import API_URL

OWN = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}  # what browsers send for a form of a page without referrer
NEW = "another long password"


def browser(api: Api) -> httpx.AsyncClient:
    """Nobody is logged in; cookies are kept."""
    transport = httpx.ASGITransport(api.app, client=("192.0.2.7", 1))
    return httpx.AsyncClient(transport=transport, base_url=API_URL)


def fields(html: str) -> dict[str, str]:
    """The hidden fields of the page's form, and where the form goes as `action`."""
    found = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', html))
    action = re.search(r'<form method="post" action="([^"]*)"', html)
    assert action is not None, html
    return {name: unescape(value) for name, value in {**found, "action": action[1]}.items()}


async def submit(page: httpx.AsyncClient, html: str, **values: str) -> httpx.Response:
    form = {**fields(html), **values}
    return await page.post(form.pop("action"), data=form, headers=OWN)


@pytest.mark.parametrize(
    "path", ["/api/reviews/page/7a4c3d0e-0000-4000-8000-000000000000", "/api/login/device?user_code=ABC"]
)
async def test_page_for_people_leads_to_login_and_back(api: Api, path: str) -> None:
    page = browser(api)
    led = await page.get(path)
    assert led.status_code == 303
    assert led.headers["location"].startswith(f"{API_URL}/api/web/login?")
    form = await page.get(led.headers["location"])
    assert form.status_code == 200
    assert "<script" not in form.text
    back = await submit(page, form.text, email="ann@example.com", password=PASSWORD)
    assert (back.status_code, back.headers["location"]) == (303, API_URL + path)
    shown = await page.get(path)
    assert shown.status_code == (404 if "reviews" in path else 200)
    assert "You are logged in with this browser as ann@example.com" in (await page.get("/")).text


async def test_front_page_says_how_to_log_in(api: Api) -> None:
    shown = await browser(api).get("/")
    assert shown.status_code == 200
    assert '<a href="/api/web/login">' in shown.text
    assert f"postern login {API_URL}" in shown.text


async def test_wrong_password_is_told_on_the_page_and_audited(api: Api) -> None:
    page = browser(api)
    html = (await page.get("/api/web/login", params={"back": "/api/login/device"})).text
    refused = await submit(page, html, email="ann@example.com", password="wrong")
    assert refused.status_code == 401
    assert 'role="alert"' in refused.text
    assert "wrong" not in fields(refused.text).values()
    assert fields(refused.text)["back"] == "/api/login/device"
    assert "set-cookie" not in refused.headers
    logged = (await api.as_admin.get("/audit/logs")).json()["data"]
    entry = next(one for one in logged if one["http_path"] == "/api/web/login")
    assert (entry["action"], entry["outcome"], entry["actor_email"]) == ("login", "failure", "ann@example.com")
    assert "wrong" not in str(entry)


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
async def test_attack_login_leads_to_no_other_site(api: Api, back: str) -> None:
    page = browser(api)
    message(await page.get("/api/web/login", params={"back": back}), 422)
    form = {"email": "ann@example.com", "password": PASSWORD, "back": back}
    message(await page.post("/api/web/login", data=form, headers=OWN), 422)


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "https://evil.example"}, {"Origin": "null", "Sec-Fetch-Site": "cross-site"}]
)
@pytest.mark.parametrize("path", ["login", "second-factor", "setup"])
async def test_attack_form_of_another_site_is_refused(api: Api, path: str, headers: dict[str, str]) -> None:
    form = {"email": "ann@example.com", "password": PASSWORD, "token": "x", "ticket": "x", "code": "123456"}
    message(await browser(api).post(f"/api/web/{path}", data=form, headers=headers), 403)


async def test_second_factor_is_asked_on_a_page_of_its_own(api: Api) -> None:
    secret, codes = await enrol_app(api, api.as_ann)
    page = browser(api)
    html = (await page.get("/api/web/login", params={"back": "/api/login/device"})).text
    second = await submit(page, html, email="ann@example.com", password=PASSWORD)
    assert second.status_code == 200
    assert "set-cookie" not in second.headers
    wrong = await submit(page, second.text, code="000000")
    assert (wrong.status_code, 'role="alert"' in wrong.text) == (401, True)
    right = await submit(page, wrong.text, code=code_of(api, secret))
    assert (right.status_code, right.headers["location"]) == (303, f"{API_URL}/api/login/device")
    assert (await page.get("/api/login/device")).status_code == 200
    other = browser(api)
    second = await submit(other, html, email="ann@example.com", password=PASSWORD)
    assert (await submit(other, second.text, code=codes[0])).status_code == 303


async def test_setup_link_leads_to_a_page_that_sets_the_password(api: Api) -> None:
    link = (await api.as_admin.post("/users/bob@example.com/setup-link")).json()["url"]
    parts = urlsplit(link)
    page = browser(api)
    shown = await page.get(parts.path)
    assert shown.status_code == 200
    (script,) = re.findall("<script>(.*)</script>", shown.text)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = shown.headers.get_list("content-security-policy")
    assert f"script-src 'sha256-{allowed}'" in policy
    assert "default-src 'none'" in policy
    token = parse_qs(parts.fragment)["token"][0]
    differs = await submit(page, shown.text, token=token, password=NEW, again="x")
    assert (differs.status_code, "differ" in differs.text) == (422, True)
    done = await submit(page, differs.text, token=token, password=NEW, again=NEW)
    assert (done.status_code, done.headers["location"]) == (303, f"{API_URL}/")
    assert "as bob@example.com" in (await page.get("/")).text
    again = await submit(page, shown.text, token=token, password=NEW, again=NEW)
    assert (again.status_code, 'role="alert"' in again.text) == (401, True)
    body = {"email": "bob@example.com", "password": NEW}
    assert (await api.nobody.post("/localauth/login", json=body)).status_code == 200


async def test_attack_what_is_shown_again_is_escaped(api: Api) -> None:
    hostile = '"><script>alert(1)</script>'
    page = browser(api)
    shown = (await page.get("/setup")).text
    told = await submit(page, shown, token=hostile, password=NEW, again=NEW)
    assert "<script>alert" not in told.text
    login = await page.get("/api/web/login", params={"organization": hostile})
    assert "<script" not in login.text

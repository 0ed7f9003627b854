"""The device login where people log in at an OpenID provider."""

from __future__ import annotations

import re

import httpx
from tests.api.test_device_login import OWN, field
from tests.support.oidc_site import API, Site


async def follow(page: httpx.AsyncClient, link: str) -> httpx.Response:
    """Open a link of a gateway without the web application, which redirects to the plain page."""
    plain = await page.get(link)
    assert (plain.status_code, plain.headers["location"].partition("?")[0]) == (303, f"{API}/api/login/device")
    return await page.get(plain.headers["location"])


async def test_the_page_leads_to_the_provider_and_back(site: Site) -> None:
    begun = (await site.client().post("/login/device", json={})).json()
    page = site.client()
    away = await follow(page, begun["verification_url_complete"])
    assert away.status_code == 303
    back = await page.get(await site.at_provider(away.headers["location"]))
    assert back.headers["location"] == f"{API}/api/login/device?user_code={begun['user_code']}"
    html = (await page.get(back.headers["location"])).text
    assert re.search("as <strong>ann@example.com</strong>", html)
    form = {"user_code": begun["user_code"], "csrf_token": field(html, "csrf_token"), "answer": "allow"}
    assert (await page.post("/login/device/confirm", data=form, headers=OWN)).status_code == 200
    done = await site.client().post("/login/device/token", json={"device_code": begun["device_code"]})
    device = site.client(done.headers["token"])
    assert (await device.get("/userinfo")).json()["email"] == "ann@example.com"


async def test_the_devices_login_ends_when_nobody_vouches_any_more(site: Site) -> None:
    """It has no refresh token of its own: it lasts 12 hours at most."""
    begun = (await site.client().post("/login/device", json={})).json()
    page, _ = await site.browser()
    html = (await follow(page, begun["verification_url_complete"])).text
    form = {"user_code": begun["user_code"], "csrf_token": field(html, "csrf_token"), "answer": "allow"}
    await page.post("/login/device/confirm", data=form, headers=OWN)
    done = await site.client().post("/login/device/token", json={"device_code": begun["device_code"]})
    device = site.client(done.headers["token"])
    site.world.clock.forward(hours=11)
    assert (await device.get("/userinfo")).status_code == 200
    site.world.clock.forward(hours=2)
    assert (await device.get("/userinfo")).status_code == 401


async def test_a_stranger_cannot_send_the_page_elsewhere(site: Site) -> None:
    """Case 64: the code in the page's address becomes a part of the way back."""
    page = site.client()
    away = await page.get(
        "/login/device", params={"user_code": "&redirect=//evil.example/#", "organization": "default"}
    )
    back = await page.get(await site.at_provider(away.headers["location"]))
    assert back.headers["location"].startswith(f"{API}/api/login/device?user_code=%26redirect%3D%2F%2Fevil")

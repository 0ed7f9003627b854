"""Logins of browsers at applications over the API: who gets a code, and what is written down."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from tests.api.conftest import Api, message
from tests.api.test_cookies import browser, csrf

from postern.domain.secret import Secret
from postern.domain.targets.connection import Toggle
from postern.services.identity.app_logins import challenge_of

NONCE = Secret("n" * 43)
BODY = {"host": "grafana", "challenge": challenge_of(NONCE)}


@pytest.fixture(autouse=True)
async def grafana(api: Api) -> None:
    """Connections of PostgreSQL stand for applications: what they are does not matter here."""
    api.services.app_logins._subtypes = frozenset({"postgres"})
    await api.world.add_connection("Grafana")


async def test_page_of_a_browser_gets_a_code_and_the_browser_a_credential(api: Api) -> None:
    page = await browser(api)
    shown = (await page.get("/applogins?host=grafana")).json()
    url = "http://grafana.localhost:7432"
    assert shown == {"host": "grafana", "connection_name": "Grafana", "url": url, "was_opened": False}
    assert message(await page.post("/applogins", json=BODY), 403)  # no CSRF token: another site's page has none
    answer = await page.post("/applogins", json=BODY, headers=await csrf(page))
    assert answer.status_code == 201, answer.text
    code = parse_qs(urlsplit(answer.json()["url"]).query)["code"][0]
    principal, issued = await api.services.app_logins.exchange(Secret(code), NONCE, "grafana")
    assert principal.email == "ann@example.com"
    assert (await page.get("/applogins?host=grafana")).json()["was_opened"]
    (listed,) = (await page.get("/credentials")).json()["data"]
    assert (listed["id"], listed["in_browser"]) == (str(issued.credential.id), True)
    assert (await page.get("/connections/Grafana")).json()["url"] == url
    entries = (await api.as_admin.get("/audit/logs")).json()["data"]
    done = [one for one in entries if one["resource_type"] == "applogins"]
    assert [(one["action"], one["outcome"], one["actor_email"]) for one in done] == [
        ("create", "success", "ann@example.com"),
        ("create", "failure", ""),
    ][: len(done)]
    assert code not in str(entries)
    assert issued.password.reveal() not in str(entries)


async def test_logging_out_ends_the_credential(api: Api) -> None:
    page = await browser(api)
    answer = await page.post("/applogins", json=BODY, headers=await csrf(page))
    code = parse_qs(urlsplit(answer.json()["url"]).query)["code"][0]
    _, issued = await api.services.app_logins.exchange(Secret(code), NONCE, "grafana")
    assert (await page.post("/logout", headers=await csrf(page))).status_code < 300
    grant = await api.services.access.find_grant(issued.credential.username)
    assert grant is not None
    assert grant.revoked_at is not None


async def test_wrong_requests(api: Api) -> None:
    assert "no application at the host nothing.localhost" in message(
        await api.as_ann.get("/applogins?host=nothing"), 404
    )
    assert "challenge" in message(await api.as_ann.post("/applogins", json={**BODY, "challenge": "x"}), 422)
    await api.world.add_connection("grafana")
    assert "'Grafana' and 'grafana'" in message(await api.as_ann.post("/applogins", json=BODY), 409)


async def test_step_up_is_required_where_the_connection_says_so(api: Api) -> None:
    found = await api.world.stores.connections.get(api.world.org_id, "Grafana")
    assert found is not None
    await api.world.overwrite(found, access_fresh_factor=Toggle.ENABLED)
    api.world.clock.forward(minutes=11)
    answer = await api.as_ann.post("/applogins", json=BODY)
    assert (answer.status_code, answer.headers["Postern-Error"]) == (403, "step-up-required")


async def test_key_opens_no_application(api: Api) -> None:
    key = (await api.as_admin.post("/api-keys", json={"name": "ci"})).json()["key"]
    answer = await api.nobody.post("/applogins", json=BODY, headers={"Authorization": f"Bearer {key}"})
    assert "only logged-in users" in message(answer, 403)

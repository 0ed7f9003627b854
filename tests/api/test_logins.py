"""Logins over HTTP: seen, refreshed, ended; and the keys that sign tokens."""

from __future__ import annotations

from uuid import uuid4

import pytest
from tests.api.conftest import Api, message
from tests.api.test_cookies import browser, csrf

from postern.api.browser.cookies import PLAIN_NAME
from postern.services.identity.logins.logins import LOGIN_LIFE


async def test_one_sees_and_ends_one_s_own_logins(api: Api) -> None:
    page = await browser(api)
    shown = (await api.as_ann.get("/logins")).json()
    assert shown["total"] == 2
    assert {(one["client"], one["current"]) for one in shown["data"]} == {("web", False), ("api", True)}
    assert (await api.as_ann.get("/logins?limit=1&offset=1")).json()["has_next_page"] is False
    web = next(one["id"] for one in shown["data"] if one["client"] == "web")
    for stranger in (api.as_bob, api.as_auditor):
        message(await stranger.delete(f"/logins/{web}"), 404)
    message(await api.as_ann.delete(f"/logins/{uuid4()}"), 404)
    for _ in range(2):
        assert (await api.as_ann.delete(f"/logins/{web}")).status_code == 204
    message(await page.get("/userinfo"), 401)
    assert (await api.as_ann.get("/logins")).json()["total"] == 1


async def test_admins_see_and_end_the_logins_of_others(api: Api) -> None:
    for reader in (api.as_admin, api.as_auditor):
        shown = (await reader.get("/users/ann@example.com/logins")).json()
        assert shown["total"] == 1
    message(await api.as_bob.get("/users/ann@example.com/logins"), 403)
    message(await api.as_admin.get("/users/nobody@example.com/logins"), 404)
    assert (await api.as_admin.delete(f"/logins/{shown['data'][0]['id']}")).status_code == 204
    message(await api.as_ann.get("/userinfo"), 401)


async def test_a_stolen_session_is_out_when_all_of_one_s_own_are_ended(api: Api) -> None:
    page = await browser(api)
    message(await page.delete("/logins"), 403)  # another site's page has no CSRF token
    assert (await api.as_ann.delete("/logins?keep_current=true")).json() == {"ended": 1}
    message(await page.get("/userinfo"), 401)
    assert (await api.as_ann.delete("/logins")).json() == {"ended": 1}
    message(await api.as_ann.get("/userinfo"), 401)
    assert (await api.as_bob.get("/userinfo")).status_code == 200


async def test_a_browser_that_ends_all_its_logins_forgets_its_cookie(api: Api) -> None:
    page = await browser(api)
    assert (await page.delete("/logins", headers=await csrf(page))).json() == {"ended": 2}
    assert PLAIN_NAME not in page.cookies


async def test_admins_end_all_logins_of_others_and_the_audit_log_says_so(api: Api) -> None:
    for other in (api.as_bob, api.as_auditor):
        message(await other.delete("/users/ann@example.com/logins"), 403)
    message(await api.as_admin.delete("/users/nobody@example.com/logins"), 404)
    assert (await api.as_admin.delete("/users/ann@example.com/logins")).json() == {"ended": 1}
    message(await api.as_ann.get("/userinfo"), 401)
    entry = (await api.as_admin.get("/audit/logs?outcome=success&resource_type=users/logins")).json()["data"][0]
    assert (entry["action"], entry["resource_type"], entry["resource"]) == ("delete", "users/logins", "ann@example.com")
    assert (entry["before"]["live"], entry["after"]["live"]) == (1, 0)


async def test_logging_out_ends_the_login_everywhere(api: Api) -> None:
    page = await browser(api)
    kept = page.cookies[PLAIN_NAME]
    message(await page.post("/logout"), 403)  # another site's page has no CSRF token
    answer = await page.post("/logout", headers=await csrf(page))
    assert answer.headers["Clear-Site-Data"] == '"cache", "storage"'
    assert answer.status_code == 204
    assert PLAIN_NAME not in page.cookies
    message(await api.nobody.get("/userinfo", headers={"Authorization": f"Bearer {kept}"}), 401)
    assert (await api.as_ann.post("/logout")).status_code == 204
    message(await api.as_ann.get("/userinfo"), 401)


async def test_a_token_is_refreshed_as_it_came(api: Api) -> None:
    answer = await api.as_ann.post("/login/refresh")
    assert answer.json()["csrf_token"] is None
    api.as_ann.headers["Authorization"] = f"Bearer {answer.headers['token']}"
    assert (await api.as_ann.get("/userinfo")).status_code == 200
    page = await browser(api)
    before, old = page.cookies[PLAIN_NAME], await csrf(page)
    api.world.clock.forward(hours=1)
    answer = await page.post("/login/refresh", headers=old)
    assert "token" not in answer.headers
    assert page.cookies[PLAIN_NAME] != before
    message(await page.post("/logout", headers=old), 403)
    assert (await page.post("/logout", headers={"X-CSRF-Token": answer.json()["csrf_token"]})).status_code == 204


async def test_a_refreshed_token_ends_with_the_login(api: Api) -> None:
    for _ in range(15):
        api.world.clock.forward(hours=11)
        answer = await api.as_ann.post("/login/refresh")
        assert answer.status_code == 200
        api.as_ann.headers["Authorization"] = f"Bearer {answer.headers['token']}"
    assert answer.json()["expires_at"] == answer.json()["ends_at"]
    api.world.clock.forward(seconds=LOGIN_LIFE.total_seconds() - 15 * 11 * 3600)
    message(await api.as_ann.post("/login/refresh"), 401)


@pytest.mark.parametrize("revoke", [False, True])
async def test_the_keys_of_tokens_are_rotated(api: Api, revoke: bool) -> None:
    body = {"revoke": revoke}
    for client in (api.as_ann, api.as_auditor):
        message(await client.post("/serverconfig/token-keys/rotate", json=body), 403)
    assert (await api.as_admin.post("/serverconfig/token-keys/rotate", json=body)).status_code == 200
    assert (await api.as_ann.get("/userinfo")).status_code == (401 if revoke else 200)

"""Step-up over the API: bodies, statuses, the audit log, and the session that shows it."""

from __future__ import annotations

from datetime import datetime

import pyotp
from tests.api.conftest import PASSWORD, Api, message
from tests.api.test_cookies import browser, csrf


async def test_password_confirms_the_login_of_this_session_and_is_audited_without_it(api: Api) -> None:
    page = await browser(api)
    before = (await page.get("/login/session")).json()["fresh_until"]
    api.world.clock.forward(seconds=60)
    assert message(await page.post("/login/step-up", json={"password": PASSWORD}), 403)  # no CSRF token
    answer = await page.post("/login/step-up", json={"password": PASSWORD}, headers=await csrf(page))
    assert answer.status_code == 200, answer.text
    fresh_until = answer.json()["fresh_until"]
    assert (await page.get("/login/session")).json()["fresh_until"] == fresh_until
    assert (datetime.fromisoformat(fresh_until) - datetime.fromisoformat(before)).total_seconds() == 60
    entries = (await api.as_admin.get("/audit/logs")).json()["data"]
    (entry,) = [one for one in entries if one["action"] == "step-up" and one["outcome"]]
    assert (entry["resource_type"], entry["actor_email"]) == ("logins", "ann@example.com")
    assert PASSWORD not in str(entries)


async def test_wrong_proof_is_403_and_the_login_stays(api: Api) -> None:
    assert "is wrong" in message(await api.as_ann.post("/login/step-up", json={"password": "a wrong password"}), 403)
    assert "password: is required" in message(await api.as_ann.post("/login/step-up", json={}), 422)
    assert "unknown field" in message(await api.as_ann.post("/login/step-up", json={"proof": "x"}), 400)
    assert (await api.as_ann.get("/userinfo")).status_code == 200


async def test_factor_is_named_and_asked_for(api: Api) -> None:
    nothing = (await api.as_ann.post("/login/step-up/challenge")).json()
    assert nothing == {"factors": [], "ticket": None, "webauthn": None}
    enrol = {"kind": "totp", "name": "phone", "current_password": PASSWORD}
    factor = (await api.as_ann.post("/users/self/second-factors", json=enrol)).json()
    code = pyotp.TOTP(factor["secret"])
    confirm = {"code": code.at(api.world.clock.now)}
    await api.as_ann.post(f"/users/self/second-factors/{factor['id']}/confirm", json=confirm)
    api.world.clock.forward(seconds=60)
    challenge = await api.as_ann.post("/login/step-up/challenge")
    assert challenge.status_code == 201
    assert [one["kind"] for one in challenge.json()["factors"]] == ["totp"]
    assert "has a second factor" in message(await api.as_ann.post("/login/step-up", json={"password": PASSWORD}), 422)
    proof = {"kind": "totp", "code": code.at(api.world.clock.now)}
    assert (await api.as_ann.post("/login/step-up", json=proof)).status_code == 200
    assert "not accepted" in message(await api.as_ann.post("/login/step-up", json=proof), 403)


async def test_key_has_nothing_to_confirm(api: Api) -> None:
    key = (await api.as_admin.post("/api-keys", json={"name": "ci"})).json()["key"]
    headers = {"Authorization": f"Bearer {key}"}
    answer = await api.nobody.post("/login/step-up", json={"password": PASSWORD}, headers=headers)
    assert "only a user's login" in message(answer, 403)

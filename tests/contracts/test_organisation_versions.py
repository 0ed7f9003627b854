"""The settings of an organisation have a version, as resources have: an older one is not written. On both engines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.conftest import Api, make_api, message

from postern.store.database import Database

OWN = "/orgs/self"


@pytest.fixture
async def api(database: Database) -> Api:
    return await make_api(database)


async def test_change_of_an_older_version_is_refused(api: Api) -> None:
    first = (await api.as_admin.get(OWN)).headers["ETag"]
    roles = {"auth_method": "local", "auditor_role_name": "watchers"}
    assert (await api.as_admin.put("/serverconfig/auth", json=roles)).status_code == 200
    body = {"access_help": "ask"}
    assert "read it again" in message(await api.as_admin.put(OWN, json=body, headers={"If-Match": first}), 412)
    read = await api.as_admin.get(OWN)
    assert (read.json()["access_help"], read.json()["auditor_role_name"]) == ("", "watchers")
    changed = await api.as_admin.put(OWN, json=body, headers={"If-Match": read.headers["ETag"]})
    assert (changed.status_code, changed.headers["ETag"] != read.headers["ETag"]) == (200, True)
    assert (await api.as_admin.get(OWN)).headers["ETag"] == changed.headers["ETag"]


async def test_of_two_simultaneous_changes_one_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    organisations, both = api.services.organisations, asyncio.Barrier(2)
    own = organisations.own

    async def meet(principal: Any) -> Any:
        found = await own(principal)
        await both.wait()
        return found

    monkeypatch.setattr(organisations, "own", meet)
    bodies: list[dict[str, str]] = [{"access_help": "ask"}, {"auditor_role_name": "watchers"}]
    answers = await asyncio.gather(*(api.as_admin.put(OWN, json=body) for body in bodies))
    winner, loser = sorted(answers, key=lambda answer: answer.status_code)
    assert "changed by another request" in message(loser, 409)
    monkeypatch.undo()
    assert (await api.as_admin.get(OWN)).json() == winner.json()

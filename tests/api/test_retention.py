"""How long what is kept, holds and purges by the API; and who tries to destroy evidence with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text
from tests.api.conftest import Api, make_api, message
from tests.support.recorded import Records
from tests.support.recordings import KEYS, new_session
from tests.support.retention import Keeping
from tests.support.spooled import library
from tests.support.world import CLIENT, MACHINE

from postern.archive.folder import FolderBlobs
from postern.domain.identity.login import LoginMethod
from postern.domain.lists import Page
from postern.domain.sessions.retention import Retention
from postern.domain.sessions.session import EndReason
from postern.recording.recording_copies import StoredCopies
from postern.store.database import Database
from postern.store.ports.target_ports import SessionEnd


@dataclass
class LoggedIn(Keeping):
    """Everybody logs in again when days have gone by."""

    api: Api | None = None

    async def days(self, count: float) -> None:
        await super().days(count)
        await self.log_in()

    async def log_in(self) -> None:
        if self.api is None:
            return
        for name in ("admin", "auditor", "ann"):
            account = await self.api.services.users.own(self.api.users[name])
            opened = await self.api.services.logins.open(account, LoginMethod.LOCAL, CLIENT)
            client: httpx.AsyncClient = getattr(self.api, f"as_{name}")
            client.headers["Authorization"] = f"Bearer {opened.token.reveal()}"


@pytest.fixture
async def kept(sqlite_database: Database, tmp_path: Path) -> tuple[Api, Keeping]:
    folder = tmp_path / "recordings"
    folder.mkdir()
    api = await make_api(sqlite_database, machine=replace(MACHINE, copies=StoredCopies(FolderBlobs(folder), KEYS)))
    api.world.clock.tick = timedelta(milliseconds=1)
    connection = await api.world.add_connection()
    records = Records(api.world, folder, api.users["admin"], connection)
    owned = Records(api.world, folder, api.users["ann"], connection)
    keeping = await LoggedIn.make(records, tmp_path)
    keeping.api, keeping.records = api, owned
    await keeping.log_in()
    return api, keeping


async def test_a_retention_is_set_shown_and_takes_effect_after_a_day_when_it_is_shorter(
    kept: tuple[Api, Keeping],
) -> None:
    api, keeping = kept
    first = (await api.as_auditor.get("/retention")).json()
    assert (first["is_own"], first["in_force"]) == (False, {"recording_days": None, "session_days": None})
    made = (await api.as_admin.put("/retention", json={"recording_days": 30, "session_days": 90})).json()
    assert (made["recording_days"], made["session_days"]) == (30, 90)
    assert made["in_force"] == {"recording_days": None, "session_days": None}
    assert made["effective_at"] is not None
    await keeping.days(1)
    shown = (await api.as_auditor.get("/retention")).json()
    assert (shown["in_force"], shown["effective_at"]) == ({"recording_days": 30, "session_days": 90}, None)
    longer = (await api.as_admin.put("/retention", json={"recording_days": 60, "session_days": 90})).json()
    assert (longer["in_force"]["recording_days"], longer["effective_at"]) == (60, None)
    [entry, *_] = (await api.as_admin.get("/audit/logs")).json()["data"]
    assert (entry["before"]["recording_days"], entry["after"]["recording_days"]) == (30, 60)


@pytest.mark.parametrize(
    ("recordings", "sessions", "said"),
    [(0, 10, "recording_days"), (-1, None, "recording_days"), (1, 0, "session_days"), (10, 9, "session_days"),
     (None, 9, "for ever"), (36_501, None, "recording_days")],
)  # fmt: skip
async def test_a_retention_that_cannot_be_is_refused(
    kept: tuple[Api, Keeping], recordings: int | None, sessions: int | None, said: str
) -> None:
    api, _ = kept
    body = {"recording_days": recordings, "session_days": sessions}
    assert said in message(await api.as_admin.put("/retention", json=body), 422)
    assert said in message(await api.as_admin.put("/retention/connections/shop", json=body), 422)


async def test_half_a_retention_is_no_retention(kept: tuple[Api, Keeping]) -> None:
    api, _ = kept
    assert "session_days" in message(await api.as_admin.put("/retention", json={"recording_days": 3}), 400)


async def test_a_retention_of_a_connection_leaves_the_connection_as_it_is(kept: tuple[Api, Keeping]) -> None:
    api, keeping = kept
    before = (await api.as_admin.get("/connections/shop")).json()
    body = {"recording_days": 30, "session_days": None}
    made = (await api.as_admin.put("/retention/connections/shop", json=body)).json()
    assert (made["connection"], made["is_own"], made["recording_days"]) == ("shop", True, 30)
    assert (await api.as_admin.get("/connections/shop")).json() == before
    assert [one["connection"] for one in (await api.as_auditor.get("/retention/connections")).json()["data"]] == [
        "shop"
    ]
    await keeping.days(2)
    back = (await api.as_admin.delete("/retention/connections/shop")).json()
    assert (back["is_own"], back["in_force"]["recording_days"]) == (False, None)
    assert (await api.as_auditor.get("/retention/connections")).json()["data"] == []
    assert "no connection" in message(await api.as_admin.put("/retention/connections/nothing", json=body), 404)


async def test_a_user_who_sets_a_retention_of_a_day_to_destroy_evidence_changes_nothing(
    kept: tuple[Api, Keeping],
) -> None:
    api, keeping = kept
    [key] = await keeping.sessions(1)
    await keeping.days(30)
    body = {"recording_days": 1, "session_days": 1}
    for path in ("/retention", "/retention/connections/shop"):
        assert "administrators" in message(await api.as_ann.put(path, json=body), 403)
        assert "administrators" in message(await api.as_auditor.put(path, json=body), 403)
    assert "administrators" in message(await api.as_ann.delete("/retention/connections/shop"), 403)
    wanted = {"what": "session", "reason": "it bothers me"}
    assert "administrators" in message(await api.as_ann.post(f"/sessions/{key}/purge", json=wanted), 403)
    assert "administrators" in message(await api.as_auditor.post(f"/sessions/{key}/purge", json=wanted), 403)
    assert await keeping.round() == 0
    assert (await api.as_ann.get(f"/sessions/{key}")).status_code == 200
    refused = [one for one in (await api.as_admin.get("/audit/logs")).json()["data"] if one["outcome"] == "failure"]
    assert len(refused) == 7


async def test_a_retention_that_is_shortened_and_set_back_within_a_day_purges_nothing(
    kept: tuple[Api, Keeping],
) -> None:
    api, keeping = kept
    long, short = {"recording_days": 365, "session_days": 365}, {"recording_days": 1, "session_days": 1}
    await api.as_admin.put("/retention", json=long)
    [key] = await keeping.sessions(1)
    await keeping.days(30)
    await api.as_admin.put("/retention", json=short)
    await keeping.days(0.5)
    assert await keeping.round() == 0
    again = (await api.as_admin.put("/retention", json={"recording_days": 2, "session_days": 2})).json()
    assert again["in_force"] == long  # the day begins anew
    await keeping.days(0.5)
    assert await keeping.round() == 0
    back = (await api.as_admin.put("/retention", json=long)).json()
    assert (back["in_force"], back["effective_at"]) == (long, None)
    await keeping.days(2)
    assert await keeping.round() == 0
    assert (await api.as_ann.get(f"/sessions/{key}")).status_code == 200


async def test_an_administrator_of_another_organisation_reaches_nothing(kept: tuple[Api, Keeping]) -> None:
    api, keeping = kept
    [key] = await keeping.sessions(1)
    made = await api.as_admin.post("/orgs", json={"name": "elsewhere", "admin_email": "chief@example.org"})
    assert made.status_code == 201
    organisation = await api.world.stores.organisations.by_name("elsewhere")
    assert organisation is not None
    account = await api.world.stores.principals.by_email(organisation.id, "chief@example.org")
    assert account is not None
    chief = replace(account.principal, groups=frozenset({"admin"}))
    await api.services.retention.set_organisation(chief, Retention(1, 1))
    await keeping.days(30)
    await keeping.round()
    assert (await api.as_ann.get(f"/sessions/{key}")).status_code == 200
    assert (await api.services.retention.organisation(api.users["admin"])).in_force.session_days is None
    assert (await api.services.holds.find(chief, Page())).total == 0


async def test_a_preview_says_what_would_be_purged(kept: tuple[Api, Keeping]) -> None:
    api, keeping = kept
    old = await keeping.sessions(3)
    await api.as_admin.post(f"/sessions/{old[0]}/holds", json={"name": "case A", "reason": "court order"})
    await keeping.days(20)
    await keeping.sessions(2)
    found = (await api.as_auditor.get("/retention/preview?recording_days=10&session_days=10")).json()
    assert (found["recordings"], found["sessions"], found["held"]) == (2, 2, 1)
    files = [path for key in old[1:] for path in keeping.records.folder.glob(f"{key}.*")]
    assert found["stored_size"] == sum(path.stat().st_size for path in files)
    found = (await api.as_auditor.get("/retention/preview?recording_days=10")).json()
    assert (found["recordings"], found["sessions"]) == (2, 0)
    found = (await api.as_auditor.get("/retention/preview?recording_days=30&connection=shop")).json()
    assert (found["recordings"], found["oldest"]) == (0, None)
    assert (await api.as_auditor.get("/retention/preview")).json()["recordings"] == 0
    await api.as_admin.put("/retention/connections/shop", json={"recording_days": 30, "session_days": 30})
    found = (await api.as_auditor.get("/retention/preview?recording_days=10&session_days=10")).json()
    assert found["recordings"] == 0  # it has its own


async def test_holds_are_set_listed_and_released_by_name(kept: tuple[Api, Keeping]) -> None:
    api, keeping = kept
    held, free = await keeping.sessions(2)
    path = f"/sessions/{held}/holds"
    for name in ("case A", "case B"):
        made = await api.as_admin.post(path, json={"name": name, "reason": "court order"})
        assert made.status_code == 201, made.text
    assert "already" in message(await api.as_admin.post(path, json={"name": "case A", "reason": "again"}), 409)
    assert [one["name"] for one in (await api.as_auditor.get(path)).json()["data"]] == ["case A", "case B"]
    assert (await api.as_auditor.get("/holds")).json()["total"] == 2
    assert (await api.as_auditor.get(f"/sessions/{held}")).json()["held"] is True
    assert (await api.as_auditor.get(f"/sessions/{free}")).json()["held"] is False
    assert [one["id"] for one in (await api.as_auditor.get("/sessions?held=true")).json()["data"]] == [str(held)]
    assert [one["id"] for one in (await api.as_auditor.get("/sessions?held=false")).json()["data"]] == [str(free)]
    wanted = {"what": "session", "reason": "asked to"}
    assert "'case A', 'case B'" in message(await api.as_admin.post(f"/sessions/{held}/purge", json=wanted), 409)
    assert (await api.as_admin.delete(f"{path}/case A")).status_code == 204
    assert "no legal hold" in message(await api.as_admin.delete(f"{path}/case A"), 404)
    [entry, *_] = [one for one in (await api.as_admin.get("/audit/logs")).json()["data"] if one["outcome"] == "success"]
    assert (entry["resource"], entry["before"]["name"], entry["before"]["reason"]) == (
        str(held), "case A", "court order"
    )  # fmt: skip
    for name, reason in (("", "x"), ("a/b", "x"), ("x", " "), ("a\nb", "x"), ("x" * 129, "x")):
        assert (await api.as_admin.post(path, json={"name": name, "reason": reason})).status_code == 422


async def test_who_had_a_session_is_not_warned_by_a_hold(kept: tuple[Api, Keeping]) -> None:
    api, keeping = kept
    [key] = await keeping.sessions(1)
    await api.as_admin.post(f"/sessions/{key}/holds", json={"name": "case A", "reason": "we suspect ann"})
    assert (await api.as_ann.get(f"/sessions/{key}")).json()["held"] is None
    [listed] = (await api.as_ann.get("/sessions")).json()["data"]
    assert listed["held"] is None
    assert "held" in message(await api.as_ann.get("/sessions?held=true"), 403)
    for path in (f"/sessions/{key}/holds", "/holds"):
        assert "administrators" in message(await api.as_ann.get(path), 403)


async def test_a_running_session_is_not_purged(kept: tuple[Api, Keeping]) -> None:
    api, keeping = kept
    key = await keeping.records.open()
    wanted = {"what": "session", "reason": "asked to"}
    assert "has not ended" in message(await api.as_admin.post(f"/sessions/{key}/purge", json=wanted), 409)
    await keeping.records.store(key, 1)
    await keeping.records.end(key)
    assert "not closed in the ledger" in message(await api.as_admin.post(f"/sessions/{key}/purge", json=wanted), 409)
    await keeping.settle()
    assert (await api.as_admin.post(f"/sessions/{key}/purge", json=wanted)).status_code == 202
    assert "a purge is in progress" in message(await api.as_admin.post(f"/sessions/{key}/purge", json=wanted), 409)
    hold = {"name": "case A", "reason": "too late"}
    assert "too late" in message(await api.as_admin.post(f"/sessions/{key}/holds", json=hold), 409)
    await keeping.round()
    assert (await api.as_admin.get(f"/sessions/{key}")).status_code == 404


async def test_a_purge_by_hand_is_in_the_audit_log_with_its_reason(kept: tuple[Api, Keeping]) -> None:
    api, keeping = kept
    [key] = await keeping.sessions(1)
    wanted = {"what": "recording", "reason": "a password was typed"}
    made = (await api.as_admin.post(f"/sessions/{key}/purge", json=wanted)).json()
    [entry, *_] = (await api.as_admin.get("/audit/logs")).json()["data"]
    assert (entry["action"], entry["resource"]) == ("purge", str(key))
    assert entry["after"] == {"session": str(key), **wanted, "entry": made["entry"]}
    assert (await api.as_auditor.get("/retention/purges")).json()["total"] == 1
    await keeping.round()
    assert (await api.as_auditor.get("/retention/purges")).json()["total"] == 0
    assert "has no recording" in message(await api.as_admin.post(f"/sessions/{key}/purge", json=wanted), 409)
    report = await keeping.verified()
    assert report.is_good, report.findings


async def test_reports_that_would_lose_what_was_purged_are_not_rebuilt(kept: tuple[Api, Keeping]) -> None:
    api, keeping = kept
    keys = await keeping.sessions(2)
    for key, what in zip(keys, ("recording", "session"), strict=True):
        assert (await api.as_admin.post("/reports/rebuild")).status_code == 202
        await keeping.settle()
        wanted = {"what": what, "reason": "asked to"}
        assert (await api.as_admin.post(f"/sessions/{key}/purge", json=wanted)).status_code == 202
        await keeping.round()
    assert "would remove them from the reports" in message(await api.as_admin.post("/reports/rebuild"), 409)


async def test_a_purged_recording_is_gone_and_its_session_says_so(tmp_path: Path, sqlite_database: Database) -> None:
    """With a real library, and by each way that leads to a recording."""
    api = await make_api(sqlite_database, recordings=library(tmp_path))
    made = await new_session(api.world, tmp_path)
    made.seal(1, last=True)
    ended = SessionEnd(api.world.clock(), EndReason.CLIENT_CLOSED, event_size=100)
    assert await api.world.stores.sessions.end(made.id, ended)
    paths = ["?event_stream=utf8", "?event_stream=raw-queries", "?extension=csv", "/timeline", "/export", "/stream"]
    for path in paths:
        assert (await api.as_admin.get(f"/sessions/{made.id}{path}")).status_code == 200, path
    link = (await api.as_admin.post(f"/sessions/{made.id}/download")).json()["download_url"].partition("/api")[2]
    assert (await api.nobody.get(link)).status_code == 200
    async with api.world.database.statement() as connection:
        await connection.execute(text("update sessions set recording_purged_at = '2026-01-03 00:00:00'"))
    shown = (await api.as_admin.get(f"/sessions/{made.id}")).json()
    assert shown["recording_purged_at"] == "2026-01-03T00:00:00Z"
    for path in paths:
        assert "was purged on 2026-01-03" in message(await api.as_admin.get(f"/sessions/{made.id}{path}"), 410), path
    assert "purged" in message(await api.as_admin.post(f"/sessions/{made.id}/download"), 410)
    assert "purged" in message(await api.nobody.get(link), 410)

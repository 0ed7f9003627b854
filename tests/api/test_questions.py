"""Statements that wait for a decision, over HTTP."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

from tests.api.conftest import Api, message

from postern.domain.question import Question
from postern.domain.session import Verb


async def asked(api: Api, number: int) -> Question:
    """By ann, in a session that runs."""
    ann, services, at = api.users["ann"], api.world.services(), api.world.clock()
    permit = await services.access.admit_principal(ann, "shop", verb=Verb.CONNECT, source="")
    session = await services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    of = (session.id, "shop", ann.subject, ann.email, "care / 1", "held", f"drop table t{number}", (), at)
    question = Question(UUID(int=number), ann.org_id, *of, at + timedelta(minutes=10))
    await api.world.stores.questions.add(question)
    return question


async def test_questions_are_listed_in_pages_shown_and_decided_once(api: Api) -> None:
    await api.make_connection("shop")
    for number in (1, 2, 3):
        await asked(api, number)
    page = (await api.as_admin.get("/questions", params={"limit": 2})).json()
    assert [one["statement"] for one in page["data"]] == ["drop table t1", "drop table t2"]
    assert (page["total"], page["has_next_page"]) == (3, True)
    assert (await api.as_bob.get("/questions")).json()["data"] == []
    path = f"/questions/{UUID(int=1)}"
    assert (await api.as_ann.get(path)).json()["decision"] is None
    message(await api.as_bob.get(path), 404)
    message(await api.as_admin.get("/questions/nonsense"), 404)
    message(await api.as_ann.post(f"{path}/decision", json={"approve": True}), 403)
    message(await api.as_admin.post(f"{path}/decision", json={"approve": "yes"}), 400)
    done = await api.as_admin.post(f"{path}/decision", json={"approve": False, "comment": "use the job"})
    assert (done.status_code, done.json()["decision"], done.json()["comment"]) == (200, "rejected", "use the job")
    said = message(await api.as_admin.post(f"{path}/decision", json={"approve": True}), 409)
    assert "it is rejected by" in said
    assert (await api.as_ann.get(path)).json()["decision"] == "rejected"
    assert (await api.as_admin.get("/questions")).json()["total"] == 2


async def test_a_decision_is_in_the_audit_log(api: Api) -> None:
    await api.make_connection("shop")
    await asked(api, 1)
    await api.as_admin.post(f"/questions/{UUID(int=1)}/decision", json={"approve": True})
    (entry,) = [
        one for one in (await api.as_admin.get("/audit/logs")).json()["data"] if one["http_path"].endswith("/decision")
    ]
    full = (await api.as_admin.get(f"/audit/logs/{entry['id']}")).json()
    assert full["after"]["decision"] == "approved"
    assert full["after"]["asker"] == api.users["ann"].email
    assert full["outcome"] == "success"

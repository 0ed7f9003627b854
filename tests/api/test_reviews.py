"""Reviews over HTTP, and scripts that wait for one (spec 2.2, 3; control-plane facts 1.7, 2.2, 2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from tests.api.conftest import PASSWORD, Api, message
from tests.support.reviews import asked
from tests.support.world import START, logged_in

from postern.domain.reviews.review import ApprovalRequirement, ReviewKind
from postern.domain.reviews.review_rule import AccessType, ReviewRule
from postern.domain.secret import Secret
from postern.domain.sessions.session import EndReason, SessionStatus

SCRIPT = "update orders set state = 'sent' where id = 7"


async def submitted(api: Api, client: httpx.AsyncClient | None = None, **more: Any) -> dict[str, Any]:
    """What a script on `guarded` is answered with, asked by bob unless told."""
    body = {"connection": "guarded", "script": SCRIPT, "reason": "ticket 4711"} | more
    answer = await (client or api.as_bob).post("/sessions", json=body)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def person(api: Api, name: str, *groups: str) -> httpx.AsyncClient:
    """A client of somebody more."""
    fields = {"email": f"{name}@example.com", "name": name, "groups": groups, "password": Secret(PASSWORD)}
    api.users[name] = (await api.services.users.create(api.users["admin"], fields)).principal
    return await again(api, name)


async def again(api: Api, name: str) -> httpx.AsyncClient:
    """A client with a token of now."""
    token = (await logged_in(api.services, api.users[name].email, Secret(PASSWORD))).token
    transport = httpx.ASGITransport(api.app)
    headers = {"Authorization": f"Bearer {token.reveal()}"}
    return httpx.AsyncClient(transport=transport, base_url="http://localhost/api", headers=headers)


async def decide(client: httpx.AsyncClient, key: str, status: str = "APPROVED", **more: Any) -> httpx.Response:
    return await client.put(f"/reviews/{key}", json={"status": status, **more})


@pytest.fixture
async def guarded(api: Api) -> Api:
    """Whose connection `guarded` is reviewed by the group `dba`, ann's, and where no worker runs scripts."""
    await api.make_connection("guarded", reviewers=["dba"], force_approve_groups=["oncall"])
    api.wait_for_no_run()
    return api


async def test_a_script_that_waits_is_a_202_with_its_review(guarded: Api) -> None:
    answer = await submitted(guarded)
    review = answer["review"]
    assert answer == {
        "session_id": review["session"],
        "output": "",
        "stdout": None,
        "stderr": None,
        "output_streams": None,
        "output_status": "waiting",
        "exit_code": None,
        "error": None,
        "truncated": False,
        "masked": None,
        "execution_time": 0,
        "has_review": True,
        "review": review,
    }
    bob = guarded.users["bob"]
    group = review["review_groups_data"][0]["id"]
    demand = {
        "rule": "",
        "groups": ["dba"],
        "min_approvals": 1,
        "all_groups_must_approve": True,
        "force_approval_groups": ["oncall"],
        "approvals": 0,
        "is_met": False,
    }
    assert review == {
        "id": review["id"],
        "url": f"{(await guarded.as_bob.get('/serverinfo')).json()['api_url']}/reviews/{review['id']}",
        "session": answer["session_id"],
        "type": "onetime",
        "status": "PENDING",
        "outcome": None,
        "connection": "guarded",
        "owner": {"id": str(bob.id), "name": "bob", "email": bob.email, "chat_id": ""},
        "client_address": "127.0.0.1",
        "credential": None,
        "in_advance": False,
        "reason": "ticket 4711",
        "created_at": "2026-01-02T03:04:05Z",
        "expires_at": "2026-01-03T03:04:05Z",
        "decided_at": None,
        "access_duration": 0,
        "revoke_at": "",
        "time_window": None,
        "review_groups_data": [
            {
                "id": group,
                "group": "dba",
                "status": "PENDING",
                "forced_review": False,
                "review_date": None,
                "reviewed_by": None,
            }
        ],
        "demands": [demand],
        "voices": [],
        "rejection_reason": "",
        "withdrawal_reason": "",
        "self_approved": False,
        "forced": False,
        "script": None,
        "input": None,
        "allowed_decisions": ["reject"],
        "estimate": None,
    }
    again = await guarded.as_bob.get(f"/sessions/{answer['session_id']}/exec")
    assert (again.status_code, again.json()) == (202, answer)
    session = (await guarded.as_bob.get(f"/sessions/{answer['session_id']}")).json()
    assert (session["status"], session["review"]) == ("open", review)


RECORDING = ("?expand=event_stream", "?event_stream=utf8", "?extension=txt", "/timeline", "/export", "/results")


async def test_reviewers_read_the_session_they_decide_but_not_its_recording(guarded: Api) -> None:
    reviewer = guarded.as_ann
    other = await person(guarded, "dora", "sales")
    session_id = (await submitted(guarded))["session_id"]
    for status in ("open", "ready"):
        session = await reviewer.get(f"/sessions/{session_id}")
        assert session.status_code == 200, session.text
        assert (session.json()["status"], session.json()["script"]) == (status, {"data": SCRIPT})
        for path in RECORDING:
            message(await reviewer.get(f"/sessions/{session_id}{path}"), 404)
        message(await other.get(f"/sessions/{session_id}"), 404)
        if status == "open":
            assert (await decide(reviewer, session_id)).status_code == 200
    unreviewed = await guarded.make_connection("open")
    body = {"connection": unreviewed["name"], "script": "select 1"}
    plain = (await guarded.as_bob.post("/sessions", json=body)).json()
    message(await reviewer.get(f"/sessions/{plain['session_id']}"), 404)


async def test_who_decides_sees_the_script_and_approves_and_who_asked_runs_it(guarded: Api) -> None:
    answer = await submitted(guarded)
    key, session_id = answer["review"]["id"], answer["session_id"]
    for asked_by in (key, session_id):
        shown = (await guarded.as_ann.get(f"/reviews/{asked_by}")).json()
        assert (shown["id"], shown["script"], shown["reason"]) == (key, SCRIPT, "ticket 4711")
    early = message(await guarded.as_bob.post(f"/sessions/{session_id}/exec"), 409)
    assert "its review is PENDING" in early
    guarded.world.clock.forward(seconds=5)
    approved = (await decide(guarded.as_ann, session_id, "approved", comment="go on")).json()
    ann = guarded.users["ann"]
    by = {"id": str(ann.id), "name": "ann", "email": ann.email, "chat_id": ""}
    assert (approved["status"], approved["script"], approved["decided_at"]) == (
        "APPROVED",
        SCRIPT,
        "2026-01-02T03:04:10Z",
    )
    (entry,), (voice,) = approved["review_groups_data"], approved["voices"]
    assert (entry["status"], entry["reviewed_by"], entry["review_date"]) == ("APPROVED", by, "2026-01-02T03:04:10Z")
    assert (voice["status"], voice["groups"], voice["comment"]) == ("APPROVED", ["dba"], "go on")
    waits = (await guarded.as_bob.get(f"/sessions/{session_id}/exec")).json()
    assert (waits["output_status"], waits["has_review"], waits["review"]["status"]) == ("waiting", True, "APPROVED")
    message(await guarded.as_ann.post(f"/sessions/{session_id}/exec"), 404)
    assert "only the owner of a review" in message(await guarded.as_admin.post(f"/sessions/{session_id}/exec"), 403)
    runs = await guarded.as_bob.post(f"/sessions/{session_id}/exec")
    assert (runs.status_code, runs.json()["output_status"], runs.json()["has_review"]) == (202, "running", False)
    assert runs.json()["review"]["status"] == "PROCESSING"
    assert "cannot be run" in message(await guarded.as_bob.post(f"/sessions/{session_id}/exec"), 409)


async def test_a_script_that_ran_has_its_review_with_its_output(guarded: Api) -> None:
    answer = await submitted(guarded)
    session_id = answer["session_id"]
    await decide(guarded.as_ann, session_id)
    await guarded.as_bob.post(f"/sessions/{session_id}/exec")
    services = guarded.services
    claimed = await services.sessions.claim(UUID(session_id), "w1")
    assert claimed is not None
    assert claimed[0].script == SCRIPT
    guarded.world.recordings.stored[UUID(session_id)] = [(1.0, "o", b"UPDATE 1\n")]
    await services.sessions.close(UUID(session_id), reason=EndReason.COMPLETED, exit_code=0, metrics={}, event_size=9)
    done = await guarded.as_bob.get(f"/sessions/{session_id}/exec")
    found = done.json()
    assert (done.status_code, found["output"], found["output_status"]) == (200, "UPDATE 1\n", "success")
    assert (found["has_review"], found["review"]["status"]) == (False, "EXECUTED")


@pytest.mark.parametrize(
    ("status", "word", "reason"),
    [("REJECTED", "rejected", "use the job"), ("rejected", "rejected", ""), ("Rejected", "rejected", "no")],
)
async def test_a_rejection_ends_the_session(guarded: Api, status: str, word: str, reason: str) -> None:
    answer = await submitted(guarded)
    path = f"/sessions/{answer['session_id']}"
    done = await guarded.as_ann.put(f"{path}/review", json={"status": status, "rejection_reason": reason})
    assert (done.status_code, done.json()["status"], done.json()["rejection_reason"]) == (200, "REJECTED", reason)
    session = (await guarded.as_bob.get(path)).json()
    assert (session["status"], session["metadata"]["end_reason"]) == ("done", word)
    over = await guarded.as_bob.get(f"{path}/exec")
    assert (over.status_code, over.json()["output_status"]) == (200, "failed")
    assert (over.json()["has_review"], over.json()["review"]["status"]) == (False, "REJECTED")
    assert "REJECTED" in message(await decide(guarded.as_ann, answer["review"]["id"]), 409)


async def test_withdrawing_and_killing_what_waits(guarded: Api) -> None:
    first, second = await submitted(guarded), await submitted(guarded)
    key = first["review"]["id"]
    message(await guarded.as_ann.post(f"/reviews/{key}/withdraw"), 403)
    done = await guarded.as_bob.post(f"/reviews/{key}/withdraw")
    assert (done.status_code, done.json()["status"]) == (200, "WITHDRAWN")
    message(await guarded.as_bob.post(f"/reviews/{key}/withdraw"), 409)
    assert (await guarded.as_bob.post(f"/sessions/{second['session_id']}/kill")).status_code == 204
    shown = (await guarded.as_bob.get(f"/reviews/{second['session_id']}")).json()
    assert shown["status"] == "WITHDRAWN"
    for one in (first, second):
        session = (await guarded.as_bob.get(f"/sessions/{one['session_id']}")).json()
        assert (session["status"], session["metadata"]["end_reason"]) == ("done", "withdrawn")


async def test_revoking_what_was_approved(guarded: Api) -> None:
    answer = await submitted(guarded)
    key = answer["review"]["id"]
    assert "APPROVED" in message(await decide(guarded.as_ann, key, "PENDING"), 422)
    message(await decide(guarded.as_ann, key, "REVOKED"), 409)
    await decide(guarded.as_ann, key)
    assert "revoke it" in message(await decide(guarded.as_ann, key, "REJECTED"), 409)
    done = (await decide(guarded.as_admin, key, "REVOKED", comment="incident is over")).json()
    assert (done["status"], done["rejection_reason"]) == ("REVOKED", "incident is over")
    assert [(one["group"], one["status"]) for one in done["review_groups_data"]] == [
        ("dba", "APPROVED"),
        ("", "REVOKED"),
    ]
    session = (await guarded.as_bob.get(f"/sessions/{answer['session_id']}")).json()
    assert (session["status"], session["metadata"]["end_reason"]) == ("done", "revoked")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, "status"),
        ({"status": 7}, 400, "status"),
        ({"status": "APPROVED", "because": "x"}, 400, "because"),
        ({"status": "EXECUTED"}, 422, "status: must be APPROVED, REJECTED or REVOKED"),
        ({"status": ""}, 422, "status: "),
        ({"status": "REJECTED", "comment": "a", "rejection_reason": "b"}, 422, "rejection_reason: "),
        ({"status": "REJECTED", "comment": "x" * 1_001}, 422, "comment: "),
        ({"status": "REJECTED", "comment": "a\x1b[2J"}, 422, "comment: "),
        ({"status": "REJECTED", "force_review": True}, 422, "force_review"),
        ({"status": "APPROVED", "time_window": {"type": "time_range"}}, 400, "configuration"),
    ],
)
async def test_what_is_no_decision_is_refused(guarded: Api, body: Mapping[str, Any], status: int, said: str) -> None:
    answer = await submitted(guarded)
    refused = await guarded.as_ann.put(f"/reviews/{answer['review']['id']}", json=body)
    assert said in message(refused, status)
    assert (await guarded.as_ann.get(f"/reviews/{answer['review']['id']}")).json()["status"] == "PENDING"


@pytest.mark.parametrize(
    ("kind", "configuration", "said"),
    [
        ("weekly", {"start_time": "22:00", "end_time": "06:00"}, "time_window.type"),
        ("time_range", {"start_time": "22:00"}, "end_time"),
        ("time_range", {"start_time": "24:00", "end_time": "06:00"}, "start_time"),
        ("time_range", {"start_time": "9:00", "end_time": "06:00"}, "start_time"),
        ("time_range", {"start_time": "22:00", "end_time": "06:00", "time_zone": "Moon/Crater"}, "time_zone"),
        ("time_range", {"start_time": "22:00", "end_time": "06:00", "days": "all"}, "days"),
    ],
)
async def test_a_time_window_that_is_none_is_refused(
    guarded: Api, kind: str, configuration: dict[str, str], said: str
) -> None:
    answer = await submitted(guarded)
    window = {"type": kind, "configuration": configuration}
    assert said in message(await decide(guarded.as_ann, answer["review"]["id"], time_window=window), 422)


async def test_a_time_window_is_kept_and_holds(guarded: Api) -> None:
    """It is 04:04 in Vienna."""
    answer = await submitted(guarded)
    configuration = {"start_time": "04:30", "end_time": "04:00", "time_zone": "Europe/Vienna"}
    window = {"type": "time_range", "configuration": configuration}
    done = (await decide(guarded.as_ann, answer["review"]["id"], time_window=window)).json()
    assert (done["status"], done["time_window"]) == ("APPROVED", window)
    said = message(await guarded.as_bob.post(f"/sessions/{answer['session_id']}/exec"), 403)
    assert "04:30 to 04:00 Europe/Vienna" in said
    assert "2026-01-02 03:30:00 UTC" in said
    guarded.world.clock.forward(minutes=26)
    assert (await guarded.as_bob.post(f"/sessions/{answer['session_id']}/exec")).status_code == 202


async def test_nobody_approves_their_own_and_with_self_review_it_is_marked(guarded: Api) -> None:
    answer = await submitted(guarded, guarded.as_ann)
    key = answer["review"]["id"]
    assert "your own request" in message(await decide(guarded.as_ann, key), 403)
    message(await decide(guarded.as_admin, key), 403)
    switched = await guarded.as_admin.put("/feature-flags/self-review", json={"enabled": True})
    assert switched.status_code == 200
    done = (await decide(guarded.as_ann, key)).json()
    assert (done["status"], done["self_approved"]) == ("APPROVED", True)
    assert done["voices"][0]["self_approved"] is True


async def test_one_person_counts_once_and_a_force_is_marked(guarded: Api) -> None:
    rule = ReviewRule(
        uuid4(),
        guarded.world.org_id,
        "two of us",
        AccessType.COMMAND,
        ("dba", "security"),
        connection_tags={"env": "prod"},
        force_groups=("oncall",),
        min_approvals=2,
        created_at=START,
        updated_at=START,
    )
    await guarded.world.stores.review_rules.add(rule)
    await guarded.as_admin.patch("/connections/guarded", json={"connection_tags": {"env": "prod"}})
    eve = await person(guarded, "eve", "dba", "oncall")
    first = await submitted(guarded)
    half = (await decide(guarded.as_ann, first["review"]["id"])).json()
    assert half["status"] == "PENDING"
    assert [(one["rule"], one["approvals"], one["is_met"]) for one in half["demands"]] == [
        ("", 1, True),
        ("two of us", 1, False),
    ]
    assert "already" in message(await decide(guarded.as_ann, first["review"]["id"]), 409)
    message(await decide(guarded.as_ann, first["review"]["id"], force_review=True), 403)
    whole = (await decide(eve, first["review"]["id"])).json()
    assert (whole["status"], whole["forced"]) == ("APPROVED", False)
    second = await submitted(guarded)
    forced = (await decide(eve, second["review"]["id"], force_review=True)).json()
    assert (forced["status"], forced["forced"], forced["review_groups_data"][0]["forced_review"]) == (
        "APPROVED",
        True,
        True,
    )


async def test_reviews_are_listed_in_pages_and_filtered(guarded: Api) -> None:
    first = await submitted(guarded)
    guarded.world.clock.forward(seconds=1)
    second = await submitted(guarded, guarded.as_ann)
    guarded.world.clock.forward(seconds=1)
    third = await submitted(guarded)
    await decide(guarded.as_ann, third["review"]["id"], "REJECTED")

    async def found(client: httpx.AsyncClient, **query: Any) -> list[str]:
        page = (await client.get("/reviews", params=query)).json()
        return [one["session"] for one in page["data"]]

    one, two, three = (answer["session_id"] for answer in (first, second, third))
    assert await found(guarded.as_admin) == [two, one, three]  # what waits comes first
    assert await found(guarded.as_auditor) == [two, one, three]
    assert await found(guarded.as_bob) == [one, three]
    assert await found(guarded.as_ann) == [two, one, three]
    assert await found(guarded.as_ann, owner="self") == [two]
    assert await found(guarded.as_ann, owner=str(guarded.users["bob"].id)) == [one, three]
    assert await found(guarded.as_ann, waiting_for_me="true") == [one]  # two is her own
    assert await found(guarded.as_bob, waiting_for_me="true") == []
    assert await found(guarded.as_admin, status="rejected") == [three]
    assert await found(guarded.as_admin, type="ONETIME", connection="guarded", status="pending") == [two, one]
    assert await found(guarded.as_admin, type="jit") == []
    assert await found(guarded.as_admin, connection="guard%") == []
    assert await found(guarded.as_admin, session=two) == [two]
    page = (await guarded.as_admin.get("/reviews", params={"limit": 2})).json()
    assert (len(page["data"]), page["total"], page["has_next_page"]) == (2, 3, True)
    assert all(one["script"] is None for one in page["data"])
    for field, value in (("status", "DONE"), ("type", "x"), ("owner", "me"), ("session", "x")):
        assert message(await guarded.as_admin.get("/reviews", params={field: value}), 422).startswith(field)
    both = {"waiting_for_me": "true", "status": "EXECUTED"}
    assert message(await guarded.as_admin.get("/reviews", params=both), 422).startswith("waiting_for_me")


async def test_sessions_have_their_reviews_in_lists_and_are_found_by_them(guarded: Api) -> None:
    await guarded.make_connection("open")
    plain = (await guarded.as_bob.post("/sessions", json={"connection": "open", "script": "select 1"})).json()
    first, second = await submitted(guarded), await submitted(guarded)
    await decide(guarded.as_ann, second["session_id"], "REJECTED")

    async def found(status: str | None = None) -> dict[str, str | None]:
        page = (await guarded.as_bob.get("/sessions", params={"review.status": status} if status else {})).json()
        return {one["id"]: one["review"] and one["review"]["status"] for one in page["data"]}

    assert await found() == {
        plain["session_id"]: None,
        first["session_id"]: "PENDING",
        second["session_id"]: "REJECTED",
    }
    assert await found("pending") == {first["session_id"]: "PENDING"}
    assert await found("EXECUTED") == {}
    answer = await guarded.as_bob.get("/sessions", params={"review.status": "none"})
    assert message(answer, 422).startswith("review.status")


@pytest.mark.parametrize("key", ["nonsense", str(UUID(int=7)), "' or 1=1 --"])
async def test_what_is_not_there_is_404(guarded: Api, key: str) -> None:
    plain = (await guarded.as_admin.get("/sessions")).status_code
    assert plain == 200
    for answer in (
        await guarded.as_admin.get(f"/reviews/{key}"),
        await decide(guarded.as_admin, key, "REJECTED"),
        await guarded.as_admin.post(f"/reviews/{key}/withdraw"),
        await guarded.as_admin.put(f"/sessions/{key}/review", json={"status": "REJECTED"}),
        await guarded.as_admin.post(f"/sessions/{key}/exec"),
    ):
        assert "there is no" in message(answer, 404)


async def test_attack_a_review_of_others_is_hidden(guarded: Api) -> None:
    cid = await person(guarded, "cid", "sales")
    answer = await submitted(guarded, guarded.as_ann)
    for key in (answer["review"]["id"], answer["session_id"]):
        for refused in (
            await cid.get(f"/reviews/{key}"),
            await decide(cid, key),
            await cid.post(f"/reviews/{key}/withdraw"),
        ):
            message(refused, 404)
    assert (await cid.get("/reviews")).json()["total"] == 0


async def test_attack_switching_reviews_off_lets_nobody_in(guarded: Api) -> None:
    answer = await submitted(guarded)
    await guarded.as_admin.put("/feature-flags/reviews", json={"enabled": False})
    body = {"connection": "guarded", "script": SCRIPT}
    for client in (guarded.as_bob, guarded.as_admin):
        assert "switched off" in message(await client.post("/sessions", json=body), 403)
    message(await decide(guarded.as_ann, answer["review"]["id"]), 403)
    assert (await decide(guarded.as_ann, answer["review"]["id"], "REJECTED")).status_code == 200


async def test_how_many_rows_a_statement_touches_is_not_told_to_whose_it_is(guarded: Api) -> None:
    world, demands = guarded.world, (ApprovalRequirement("care", ("dba", "admin")),)
    estimate = {"rows": 40, "more": False, "said": ["about 40 rows of orders"]}
    for name, others in (("bob", ("ann", "admin", "auditor")), ("ann", ("admin", "auditor")), ("admin", ("ann",))):
        fields: dict[str, Any] = {"demands": demands, "input": "delete from orders", "created_at": START}
        review = await asked(world, guarded.users[name], kind=ReviewKind.STATEMENT, **fields)
        assert await world.stores.reviews.store_estimate(review.id, estimate)
        clients = {"bob": guarded.as_bob, "ann": guarded.as_ann, "admin": guarded.as_admin}
        clients["auditor"] = guarded.as_auditor
        path = f"/reviews/{review.id}"
        own = (await clients[name].get(path)).json()
        assert (own["estimate"], own["input"]) == (None, "delete from orders")
        for other in others:
            assert (await clients[other].get(path)).json()["estimate"] == estimate


async def test_a_decision_is_in_the_audit_log(guarded: Api) -> None:
    answer = await submitted(guarded)
    await decide(guarded.as_ann, answer["session_id"], comment="go on")
    await guarded.as_bob.post(f"/sessions/{answer['session_id']}/exec")
    entries = (await guarded.as_admin.get("/audit/logs")).json()["data"]
    told = {(one["action"], one["resource_type"]): one for one in entries}
    assert {("update", "reviews"), ("exec", "sessions"), ("create", "sessions")} <= set(told)
    full = (await guarded.as_admin.get(f"/audit/logs/{told['update', 'reviews']['id']}")).json()
    assert (full["before"]["status"], full["after"]["status"]) == ("PENDING", "APPROVED")
    assert full["after"]["voices"][0]["by"] == guarded.users["ann"].email


async def test_the_deadline_is_told_and_ends_the_session(guarded: Api) -> None:
    answer = await submitted(guarded)
    guarded.world.clock.forward(hours=25)
    ann, bob = await again(guarded, "ann"), await again(guarded, "bob")
    assert "it has expired" in message(await decide(ann, answer["review"]["id"]), 409)
    await guarded.services.reviews.settle()
    session = (await bob.get(f"/sessions/{answer['session_id']}")).json()
    assert (session["status"], session["review"]["status"]) == (SessionStatus.DONE, "EXPIRED")
    assert session["metadata"]["end_reason"] == "expired"


async def test_attack_credentials_of_others_cannot_be_told_from_unknown_ones(guarded: Api) -> None:
    path = "/connections/guarded/credentials"
    theirs, own = [(await client.post(path)).json()["id"] for client in (guarded.as_ann, guarded.as_bob)]
    body = {"connection": "guarded", "access_duration": 600}
    for credential_id in (theirs, str(uuid4())):
        refused = await guarded.as_bob.post("/reviews", json=body | {"credential_id": credential_id})
        assert message(refused, 404) == f"connection 'guarded' has no credential {credential_id} of yours"
    assert message(await guarded.as_bob.post("/reviews", json=body | {"credential_id": "' or 1=1"}), 400)
    assert (await guarded.as_admin.get("/reviews")).json()["total"] == 0
    for _ in range(2):
        answer = await guarded.as_bob.post("/reviews", json=body | {"credential_id": own})
        assert answer.json()["required"] is True
    assert (await guarded.as_admin.get("/reviews")).json()["total"] == 1
    await guarded.as_bob.post(f"/credentials/{own}/revoke")
    assert "was revoked" in message(await guarded.as_bob.post("/reviews", json=body | {"credential_id": own}), 403)


async def test_review_of_a_credential_names_it_and_is_withdrawn_when_it_is_revoked(guarded: Api) -> None:
    credential = (await guarded.as_bob.post("/connections/guarded/credentials")).json()
    body = {"connection": "guarded", "credential_id": credential["id"]}
    review = (await guarded.as_bob.post("/reviews", json=body)).json()["review"]
    shown = (await guarded.as_ann.get(f"/reviews/{review['id']}")).json()
    assert shown["credential"] == {"id": credential["id"], "username": credential["username"]}
    assert (shown["client_address"], shown["in_advance"]) == ("127.0.0.1", True)
    waiting = {"waiting_for_me": "true"}
    assert (await guarded.as_ann.get("/reviews", params=waiting)).json()["total"] == 1
    await guarded.as_bob.post(f"/credentials/{credential['id']}/revoke")
    shown = (await guarded.as_ann.get(f"/reviews/{review['id']}")).json()
    assert (shown["status"], shown["outcome"]) == ("WITHDRAWN", "withdrawn")
    assert shown["withdrawal_reason"] == f"credential '{credential['username']}' was revoked"
    assert shown["allowed_decisions"] == []
    assert (await guarded.as_ann.get("/reviews", params=waiting)).json()["total"] == 0
    refused = message(await guarded.as_ann.put(f"/reviews/{review['id']}", json={"status": "APPROVED"}), 409)
    assert refused == "this review cannot be approved any more: it is WITHDRAWN"

"""What Slack sends, over HTTP: signed, in its own form, and answered as it expects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.api.conftest import INFO, Api, message
from tests.services.chat.conftest import sending_of
from tests.support.chats import (
    APP,
    BOT_TOKEN,
    CHANNEL,
    SIGNING_SECRET,
    TEAM,
    SlackServer,
    commanded,
    pressed,
    signed,
    slack_server,
    submitted,
)
from tests.support.receivers import LOOPBACK, issued

from postern.api.application import serve
from postern.integrations.chat.slack import LINK, REASON, Slack
from postern.integrations.chat.slack_window import SlackWindow
from postern.integrations.sinks.receivers import Receivers

ANN = "U0ANN"


@dataclass
class Office:
    """Bob asks on `guarded`, Ann reviews. `sink` is the id of the channel's."""

    api: Api
    slack: SlackServer
    sink: str

    def headers(self, body: bytes) -> dict[str, str]:
        return signed(body, self.api.world.clock().timestamp())

    async def send(self, body: bytes, headers: dict[str, str] | None = None, sink: str = "") -> httpx.Response:
        """As Slack does it, unless `headers` say otherwise: with no token of ours."""
        given = self.headers(body) if headers is None else headers
        return await self.api.nobody.post(f"/chat/slack/{sink or self.sink}", content=body, headers=given)

    async def asked(self) -> dict[str, Any]:
        """A review, once the channel was told of it."""
        answer = await self.api.as_bob.post("/sessions", json={"connection": "guarded", "script": "select 1"})
        assert answer.status_code == 202, answer.text
        sending, senders = sending_of(self.api.world, self.api.services)
        await self.api.services.postprocessing.once()
        await sending.once()
        await sending.wait_until_idle()
        await senders.close()
        found: dict[str, Any] = answer.json()["review"]
        return found

    async def state(self, review: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = (await self.api.as_ann.get(f"/reviews/{review['id']}")).json()
        return found

    async def link(self) -> None:
        code = (await self.api.as_ann.post("/chat/link")).json()["code"]
        assert (await self.send(commanded(f"link {code}", ANN))).status_code == 200


@pytest.fixture
async def office(api: Api) -> AsyncIterator[Office]:
    receivers = Receivers(LOOPBACK)
    api.world.chats = SlackWindow(Slack(receivers))
    api.services = api.world.services()
    serve(api.app, api.services, INFO, exec_wait=0.01, stream_life=5.0)
    await api.make_connection("guarded", reviewers=["dba"])
    async with slack_server() as slack:
        made = await api.as_admin.post(
            "/sinks",
            json={
                "name": "reviews",
                "kind": "slack",
                "address": slack.url,
                "authority": issued().authority,
                "options": {"channel": CHANNEL, "app_id": APP, "team_id": TEAM},
                "keys": {"bot_token": BOT_TOKEN, "signing_secret": SIGNING_SECRET},
            },
        )
        assert made.status_code == 201, made.text
        api.world.clock.forward(seconds=1)
        yield Office(api, slack, made.json()["id"])
        await receivers.close()


async def test_somebody_says_who_they_are_and_decides(office: Office) -> None:
    review = await office.asked()
    assert len(office.slack.messages) == 1
    made = await office.api.as_ann.post("/chat/link")
    assert made.status_code == 201
    code = made.json()["code"]
    linked = await office.send(commanded(f"link {code}", ANN))
    assert linked.status_code == 200
    assert "ann@example.com" in linked.json()["text"]
    (account,) = (await office.api.as_ann.get("/chat/accounts")).json()["data"]
    assert (account["chat_id"], account["email"]) == (ANN, "ann@example.com")
    opened = await office.send(pressed(review["id"], user=ANN))
    assert (opened.status_code, opened.content) == (200, b"")
    form = office.slack.views[-1]["private_metadata"]
    done = await office.send(submitted(REASON, form, "looks right", ANN))
    assert (done.status_code, done.json()) == (200, {"response_action": "clear"})
    found = await office.state(review)
    assert found["status"] == "APPROVED"
    (voice,) = [one for one in found["review_groups_data"] if one["reviewed_by"]]
    assert (voice["reviewed_by"]["email"], voice["reviewed_by"]["chat_id"]) == ("ann@example.com", ANN)
    again = await office.send(submitted(REASON, form, "looks right", ANN))
    assert "errors" in again.json()
    entries = (await office.api.as_admin.get("/audit/logs")).json()["data"]
    own = [one for one in entries if one["http_path"] == f"/api/chat/slack/{office.sink}"]
    assert {one["actor_email"] for one in own} >= {"ann@example.com"}
    full = [(await office.api.as_admin.get(f"/audit/logs/{one['id']}")).json() for one in own]
    assert not any(secret in json.dumps(full) for secret in (code, form))


async def test_attack_what_is_not_signed_for_this_sink_is_refused_alike(office: Office) -> None:
    review = await office.asked()
    await office.link()
    body = pressed(review["id"], user=ANN)
    good = office.headers(body)
    now = office.api.world.clock().timestamp()
    said = {
        message(await office.send(given, headers, sink), 401)
        for given, headers, sink in (
            (body, {}, ""),
            (body, {"Authorization": "Bearer x"}, ""),
            (body, good | {"X-Slack-Signature": "v0=" + "0" * 64}, ""),
            (body, good | {"X-Slack-Request-Timestamp": str(int(now) + 1)}, ""),
            (body + b"&x=1", good, ""),
            (body, signed(body, now - 301), ""),
            (body, signed(body, now, "0" * 32), ""),
            (body, good, str(uuid4())),
            (body, good, "reviews"),
            (pressed(review["id"], user=ANN, api_app_id="A0OTHER"), None, ""),
            (b"", {}, ""),
        )
    }
    assert len(said) == 1
    assert office.slack.views == []
    assert (await office.send(body, good)).status_code == 200
    assert len(office.slack.views) == 1


@pytest.mark.parametrize("body", [b"payload=%7B", b"payload=[]", b"payload=%FF", pressed("no-review")])
async def test_what_is_signed_and_cannot_be_read_is_malformed(office: Office, body: bytes) -> None:
    assert message(await office.send(body), 400)
    assert office.slack.calls == []


async def test_buttons_of_others_and_other_events_are_left_alone(office: Office) -> None:
    for body in (pressed(uuid4(), "other_button"), pressed(uuid4(), type="view_closed")):
        answer = await office.send(body)
        assert (answer.status_code, answer.content) == (200, b"")
    assert office.slack.calls == []


async def test_attack_more_than_slack_sends_is_not_read(office: Office) -> None:
    for size, status in ((256 * 1024 + 1, 400), (5 * 1024 * 1024, 413)):
        body = b"payload=" + b"x" * (size - 8)
        assert message(await office.send(body), status)


async def test_attack_no_secret_of_a_sink_is_told_again(office: Office) -> None:
    """In no answer, no entry of the audit log, and no event of one."""
    api, secret = office.api, "hunter2hunter2"
    url = f"https://teams.example.com/hook?sig={secret}"
    siem = {"kind": "webhook", "address": "https://siem.example.com/", "events": ["audit.entry"]}
    bodies = [
        {"name": "siem", **siem, "headers": {"X-Scope": secret, "Authorization": secret}},
        {"name": "teams", "kind": "teams", "keys": {"url": url}},
        {"name": "wrong", "kind": "teams", "keys": {"url": url, "more": secret}},
    ]
    answers = [await api.as_admin.post("/sinks", json=body) for body in bodies]
    assert [one.status_code for one in answers] == [201, 201, 422]
    changes = {"headers": {"X-Scope": secret}, "address": "https://other.example.com/"}
    answers += [await api.as_admin.patch("/sinks/siem", json=changes), await api.as_admin.get("/sinks")]
    made = answers[-2].json()["secret"]
    assert made.startswith("whsec_")
    await api.services.postprocessing.once()
    answers.append(await api.as_admin.get("/sinks/siem/deliveries"))
    assert answers[-1].json()["total"] > 0
    for one in (await api.as_admin.get("/audit/logs")).json()["data"]:
        answers.append(await api.as_admin.get(f"/audit/logs/{one['id']}"))
    assert [one.status_code for one in answers if secret in one.text] == []
    assert sum(made in one.text for one in answers) == 1  # when it was made


async def test_a_code_in_a_form_is_told_to_be_wrong(office: Office) -> None:
    answer = await office.send(submitted(LINK, "", "made up", ANN))
    assert answer.status_code == 200
    assert LINK in answer.json()["errors"]
    assert (await office.api.as_ann.get("/chat/accounts")).json()["total"] == 0

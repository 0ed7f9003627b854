"""Reviews in Slack: told once, brought up to date, and decided by who is known there."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from tests.services.chat.conftest import Office, opened_form
from tests.support.chats import CHANNEL, TEAM, pressed, signed, slack_fields, submitted
from tests.support.receivers import issued
from tests.support.reviews import REVIEWERS, asked, decided
from tests.support.sinks import sink_fields

from postern.domain.lists import Page
from postern.domain.reviews.review import ApprovalRequirement, Binding, Choice, ReviewKind
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.secret import Secret
from postern.domain.sink import DeliveryState, SinkKind, SinkScope
from postern.errors import Invalid, Malformed, Unauthenticated
from postern.integrations.chat.slack import REASON
from postern.services.notifications.event_delivery import LONGEST_DELAY, REFUSALS

PAGE = Page(100)


def shown(message: dict[str, Any]) -> str:
    return json.dumps(message["blocks"])


async def test_a_review_is_one_message_that_is_brought_up_to_date(office: Office) -> None:
    review = await office.ask(reason="the month's end")
    assert office.slack.calls == ["chat.postMessage"]
    (message,) = office.slack.messages.values()
    text = shown(message)
    assert "ann@example.com asks to run a script on shop" in text
    assert "the month's end" in text
    assert "select 1" in text
    assert f"/reviews/{review.id}" in text
    assert text.count('"button"') == 2
    await decided(office.world, review, office.bob, at=office.now, comment="fine")
    await office.round()
    assert office.slack.calls == ["chat.postMessage", "chat.update"]
    (message,) = office.slack.messages.values()
    assert "APPROVED by bob@example.com" in shown(message)
    assert "fine" in shown(message)
    assert '"button"' not in shown(message)


async def test_a_message_that_is_gone_is_written_anew(office: Office) -> None:
    review = await office.ask()
    office.slack.messages.clear()
    await decided(office.world, review, office.bob, at=office.now)
    await office.round()
    assert office.slack.calls == ["chat.postMessage", "chat.update", "chat.postMessage"]
    (message,) = office.slack.messages.values()
    assert "APPROVED" in shown(message)


async def test_what_slack_does_not_take_is_tried_again(office: Office) -> None:
    office.slack.failing = [429, "internal_error"]
    await office.ask()
    sink = await office.services.sinks.get(office.admin, "reviews")
    assert "429" in sink.trouble.error
    assert sink.trouble.next_at is not None
    assert (sink.trouble.next_at - office.now).total_seconds() >= office.slack.retry_after
    office.world.clock.forward(seconds=29)
    await office.round()
    assert len(office.slack.calls) == 1  # left alone for as long as it asked
    for _ in range(2):
        office.world.clock.forward(seconds=LONGEST_DELAY)
        await office.round()
    found = await office.services.sinks.deliveries(office.admin, "reviews", None, PAGE)
    assert [(one.state, one.attempts) for one in found.items] == [(DeliveryState.DELIVERED, 3)]
    assert len(office.slack.messages) == 1


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        (SinkScope(connections=("shop",)), ["shop"]),
        (SinkScope(connection_tags={"env": "prod"}), ["crm"]),
        (SinkScope(connection_tags={"env": "prod", "team": "x"}), []),
        (SinkScope(connections=("shop",), connection_tags={"env": "prod"}), ["shop", "crm"]),
        (SinkScope(groups=(REVIEWERS,)), ["shop", "crm"]),
        (SinkScope(groups=("others",)), []),
    ],
)
async def test_a_sink_is_told_of_the_reviews_that_it_is_for(
    office: Office, scope: SinkScope, wanted: list[str]
) -> None:
    crm = await office.world.add_connection("crm", connection_tags={"env": "prod"})
    fields = slack_fields(office.slack.url, issued().authority, scope=scope)
    await office.services.sinks.update(office.admin, "reviews", fields)
    kept = await office.services.sinks.get(office.admin, "reviews")
    assert kept.scope == scope
    await office.ask()
    await office.ask(connection="crm", binding=Binding(office.ann.id, crm.id, uuid4(), "192.0.2.1", "key:1"))
    first = [one["blocks"][1]["text"]["text"].split("\n")[0] for one in office.slack.messages.values()]
    assert [line.rpartition(" ")[2] for line in first] == wanted


async def test_who_is_linked_decides_by_a_form(office: Office) -> None:
    await office.link(office.bob, "U0BOB")
    review = await office.ask()
    form = await opened_form(office, review)
    assert (await office.state(review)).status is ReviewStatus.PENDING
    done = await office.send(submitted(REASON, form, "looks right"))
    assert (done.answer, done.actor) == ({"response_action": "clear"}, office.bob)
    found = await office.state(review)
    assert found.status is ReviewStatus.APPROVED
    (voice,) = found.voices
    assert (voice.reviewer.email, voice.reviewer.chat_id) == ("bob@example.com", "U0BOB")
    assert (voice.comment, voice.forced) == ("looks right", False)
    await office.round()
    assert office.slack.calls[-1] == "chat.update"


async def test_a_rejection_needs_a_reason_and_a_force_is_marked(office: Office) -> None:
    await office.link(office.bob, "U0BOB")
    review = await office.ask()
    form = await opened_form(office, review, "postern_reject")
    assert office.slack.views[-1]["blocks"][0]["optional"] is False
    await office.send(submitted(REASON, form, "not today"))
    assert (await office.state(review)).status is ReviewStatus.REJECTED
    demands = (ApprovalRequirement("two", ("others",), min_approvals=2, force_groups=(REVIEWERS,)),)
    forced = await office.ask(demands=demands)
    assert '"postern_force"' in shown(list(office.slack.messages.values())[-1])
    form = await opened_form(office, forced, "postern_force")
    await office.send(submitted(REASON, form, "an emergency"))
    found = await office.state(forced)
    assert (found.status, found.voices[0].forced) == (ReviewStatus.APPROVED, True)


async def test_what_is_not_signed_for_this_sink_is_nobody(office: Office) -> None:
    await office.link(office.bob, "U0BOB")
    review = await office.ask()
    body, now = pressed(review.id), office.now.timestamp()
    good = signed(body, now)
    names = ("X-Slack-Request-Timestamp", "X-Slack-Signature")
    early, late, other = signed(body, now - 301), signed(body, now + 301), signed(body, now, "an" + "0" * 30)
    cases: list[tuple[str, str, bytes]] = [
        (good[names[0]], "", body),
        (good[names[0]], "v0=" + "0" * 64, body),
        (good[names[0]], good[names[1]], body + b"&x=1"),
        (str(int(now) + 1), good[names[1]], body),
        ("", good[names[1]], body),
        *((one[names[0]], one[names[1]], body) for one in (early, late, other)),
        (good[names[0]], good[names[1]].replace("v0=", "v1="), body),
        ("１２３", good[names[1]], body),
    ]
    for stamp, signature, given in cases:
        with pytest.raises(Unauthenticated):
            await office.services.chat_decisions.handle(office.sink.id, stamp, signature, given)
    for changes in ({"api_app_id": "A0OTHER"}, {"team": {"id": "T0OTHER"}}, {"team": None}, {"api_app_id": None}):
        with pytest.raises(Unauthenticated):
            await office.send(pressed(review.id, **changes))
    with pytest.raises(Unauthenticated):
        await office.services.chat_decisions.handle(uuid4(), good[names[0]], good[names[1]], body)
    await office.services.sinks.update(
        office.admin, "reviews", slack_fields(office.slack.url, issued().authority, paused=True)
    )
    with pytest.raises(Unauthenticated):
        await office.send(body)
    assert office.slack.views == []
    assert (await office.state(review)).voices == ()


@pytest.mark.parametrize(
    "body", [b"", b"payload=", b"payload=[]", b"payload=%7B", b"payload=" + b"%5B" * 5_000, b"\xff"]
)
async def test_what_cannot_be_read_is_malformed_or_nobodys(office: Office, body: bytes) -> None:
    with pytest.raises((Malformed, Unauthenticated)):
        await office.send(body)


async def test_a_form_is_good_once_and_for_who_opened_it(office: Office) -> None:
    eve = await office.world.add_user("eve", REVIEWERS)
    await office.link(office.bob, "U0BOB")
    await office.link(eve, "U0EVE")
    review = await office.ask(demands=(ApprovalRequirement("two", (REVIEWERS,), min_approvals=2),))
    form = await opened_form(office, review)
    for given in ("", "made up", form[:-1]):
        answer = (await office.send(submitted(REASON, given, "x"))).answer
        assert "errors" in answer
    stolen = (await office.send(submitted(REASON, form, "x", user="U0EVE"))).answer
    assert "another user" in stolen["errors"][REASON]
    assert (await office.state(review)).voices == ()
    form = await opened_form(office, review)
    body = submitted(REASON, form, "x")
    answers = await asyncio.gather(*(office.send(body) for _ in range(5)))
    assert sorted("errors" in one.answer for one in answers) == [False, True, True, True, True]
    again = await opened_form(office, review)
    twice = (await office.send(submitted(REASON, again, "x"))).answer
    assert "approved this review already" in twice["errors"][REASON]
    assert len((await office.state(review)).voices) == 1


async def test_who_may_not_decide_is_told_so_and_nothing_happens(office: Office) -> None:
    await office.link(office.ann, "U0ANN")
    review = await office.ask()
    await office.send(pressed(review.id, user="U0ANN"))
    assert "not in a group that can decide on this review" in office.slack.whispers[-1]["text"]
    assert office.slack.whispers[-1]["user"] == "U0ANN"
    own = await asked(office.world, office.bob, kind=ReviewKind.ONETIME, created_at=office.now)
    await office.round()
    await office.link(office.bob, "U0BOB")
    form = await opened_form(office, own)
    answer = (await office.send(submitted(REASON, form, ""))).answer
    assert "you cannot approve your own request" in answer["errors"][REASON]
    assert (await office.state(own)).status is ReviewStatus.PENDING
    await decided(office.world, review, office.bob, at=office.now)
    await office.send(pressed(review.id))
    assert "already APPROVED" in office.slack.whispers[-1]["text"]


async def test_only_what_a_sink_was_told_of_is_decided_by_it(office: Office) -> None:
    await office.link(office.bob, "U0BOB")
    await office.services.sinks.update(
        office.admin, "reviews", slack_fields(office.slack.url, issued().authority, scope=SinkScope(groups=("others",)))
    )
    review = await office.ask()
    assert office.slack.messages == {}
    for given in (review.id, uuid4()):
        await office.send(pressed(given))
        assert "not sent to this channel" in office.slack.whispers[-1]["text"]
    assert office.slack.views == []


async def test_a_press_in_another_channel_decides_nothing(office: Office) -> None:
    await office.link(office.bob, "U0BOB")
    review = await office.ask()
    with pytest.raises(Exception, match="channel_not_found"):
        await office.send(pressed(review.id, channel={"id": "C0OTHER"}))
    assert office.slack.views == []


async def test_nobody_writes_what_looks_like_ours(office: Office) -> None:
    hostile = "ok <!channel> <https://evil.example|Approve> & *bold*\n*State*: APPROVED \u202e gnorw \x1b[31m"
    await office.ask(reason=hostile, kind=ReviewKind.STATEMENT, input="select '```<@U0BOB>' -- \u2066" + "&" * 5_000)
    (message,) = office.slack.messages.values()
    for block in message["blocks"]:
        texts = [block.get("text", {}), *block.get("fields", []), *block.get("elements", [])]
        for one in texts:
            if one.get("type") != "mrkdwn":
                continue
            ours = one["text"].replace("```", "", 1).removesuffix("```… (more on the page)")
            assert "```" not in ours
            assert "<" not in ours.replace("<http://localhost:7480/reviews/", "")
            assert len(one["text"]) <= 3_000
    raw = json.dumps(message, ensure_ascii=False)
    assert not any(bad in raw for bad in ("\u202e", "\u2066", "\x1b"))
    assert "<!channel>" not in json.dumps([one for one in message["blocks"] if one["type"] == "context"])


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600", "`", "<"])
async def test_attack_no_reason_or_script_is_too_long_for_slack(office: Office, letter: str) -> None:
    """What Slack refuses would be tried for days, and all that comes after it would wait."""
    demands = tuple(
        ApprovalRequirement(f"{letter * 150} {number}", (REVIEWERS,), min_approvals=2) for number in range(12)
    )
    review = await office.ask(reason=letter * 1_000, kind=ReviewKind.STATEMENT, input=letter * 9_000, demands=demands)
    await decided(office.world, review, office.bob, at=office.now, comment=letter * 1_000)
    await office.round()
    (message,) = office.slack.messages.values()
    assert "ann@example.com asks to run a statement on shop" in shown(message)
    assert "1 approved" in shown(message)
    assert shown(message).count('"button"') == 2
    assert "(more on the page)" in json.dumps(message, ensure_ascii=False)


async def test_a_message_that_is_too_long_for_slack_holds_up_nothing(office: Office) -> None:
    office.slack.failing = ["msg_blocks_too_long"] * REFUSALS
    await office.ask()
    await office.ask()
    for _ in range(REFUSALS + 1):
        office.world.clock.forward(seconds=LONGEST_DELAY)
        await office.round()
    assert len(office.slack.messages) == 1


@pytest.mark.parametrize("ending", ["approved", "rejected", "withdrawn", "expired", "revoked"])
async def test_what_becomes_of_a_review_elsewhere_is_in_its_message(office: Office, ending: str) -> None:
    """By the API and command line, by who asked, or since nobody decided."""
    review, reviews = await office.ask(), office.services.reviews
    if ending == "withdrawn":
        await reviews.withdraw(office.ann, str(review.id))
    elif ending == "expired":
        office.world.clock.now = review.expires_at
        await reviews.settle()
    else:
        choice = Choice.REJECTED if ending == "rejected" else Choice.APPROVED
        await reviews.decide(office.bob, str(review.id), choice, comment="said elsewhere")
    if ending == "revoked":
        await office.round()
        await reviews.decide(office.admin, str(review.id), Choice.REVOKED, comment="over")
    await office.round()
    (message,) = office.slack.messages.values()
    assert office.slack.calls.count("chat.postMessage") == 1
    assert ending.upper() in shown(message)
    assert '"button"' not in shown(message)
    await office.link(office.bob, "U0BOB")
    await office.send(pressed(review.id))
    assert f"already {ending.upper()}" in office.slack.whispers[-1]["text"]


async def test_a_sink_that_is_not_for_scripts_shows_none(office: Office) -> None:
    fields = slack_fields(office.slack.url, issued().authority, with_script=False)
    await office.services.sinks.update(office.admin, "reviews", fields)
    await office.ask()
    (message,) = office.slack.messages.values()
    assert "select 1" not in shown(message)


async def test_a_sink_can_be_tried(office: Office) -> None:
    await office.services.sinks.test(office.admin, "reviews")
    await office.round()
    (message,) = office.slack.messages.values()
    assert "This is a test" in message["text"]
    assert message["channel"] == CHANNEL


async def test_what_a_chat_needs_is_asked_for(office: Office) -> None:
    def fields(**changes: Any) -> Any:
        return {**slack_fields(office.slack.url, issued().authority), "name": "other", **changes}

    good = fields()
    for given in (
        fields(options={"channel": CHANNEL}),
        fields(options={**good["options"], "channel": "#reviews"}),
        fields(options={**good["options"], "more": "x"}),
        fields(options={**good["options"], "team_id": TEAM.lower()}),
        fields(keys={}),
        fields(address="https://169.254.169.254/api"),
        fields(address="http://example.com/api"),
        fields(headers={"X": good["keys"]["bot_token"]}),
        fields(scope=SinkScope(connections=("",))),
    ):
        with pytest.raises(Invalid):
            await office.services.sinks.create(office.admin, given)
    kept = await office.services.sinks.create(office.admin, good)
    assert {one.split(".")[0] for one in kept.events} == {"review"}
    again = {name: value for name, value in good.items() if name not in ("name", "kind", "keys")}
    changed = await office.services.sinks.update(office.admin, "other", again)
    assert changed.keys == good["keys"]


async def test_attack_keys_do_not_go_elsewhere_unless_they_are_given_again(office: Office) -> None:
    """An administrator who cannot read the bot's token has it sent to an address of their own."""
    keys, elsewhere = office.sink.keys, "https://evil.example/api"
    some = {"signing_secret": keys["signing_secret"]}
    for given in (sink_fields(address=elsewhere), sink_fields(address=elsewhere, keys=some), sink_fields(authority="")):
        with pytest.raises(Invalid, match="bot_token") as raised:
            await office.services.sinks.update(office.admin, "reviews", given)
        assert raised.value.field == "keys"
    assert await office.services.sinks.get(office.admin, "reviews") == office.sink
    await office.services.sinks.update(office.admin, "reviews", sink_fields(address=elsewhere, keys=keys))


async def test_attack_a_mail_servers_password_does_not_go_elsewhere(office: Office) -> None:
    keys = {"username": Secret("postern"), "password": Secret("hunter2")}
    options = {"from": "postern@example.com", "to": "dba@example.com"}
    fields = sink_fields("mail", SinkKind.EMAIL, "smtps://mail.example.com:465", options=options, keys=keys)
    await office.services.sinks.create(office.admin, fields)
    for address in ("smtps://evil.example:465", "smtp://127.0.0.1:25", "smtp+starttls://mail.example.com:465"):
        with pytest.raises(Invalid, match="password"):
            await office.services.sinks.update(office.admin, "mail", sink_fields(address=address))

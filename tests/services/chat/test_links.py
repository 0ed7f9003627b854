"""Whose accounts of Slack are: people show it themselves, and decide as long as they are here."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest
from tests.services.chat.conftest import Office, opened_form
from tests.support.chats import commanded, pressed, signed, slack_fields, submitted
from tests.support.receivers import issued

from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Account, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.secret import Secret
from postern.errors import NotFound, Unauthenticated
from postern.integrations.chat.slack import LINK, REASON

PAGE = Page(100)


async def test_somebody_unknown_is_asked_who_they_are(office: Office) -> None:
    review = await office.ask()
    await office.send(pressed(review.id))
    assert office.slack.views[-1]["callback_id"] == LINK
    code = (await office.services.chat_links.code(office.bob)).reveal()
    wrong = (await office.send(submitted(LINK, "", "made up"))).answer
    assert "expired" in wrong["errors"][LINK]
    done = await office.send(submitted(LINK, "", f" {code} "))
    assert done.answer == {"response_action": "clear"}
    assert done.actor == office.bob
    assert "errors" in (await office.send(submitted(LINK, "", code, user="U0EVE"))).answer  # it was good once
    form = await opened_form(office, review)
    await office.send(submitted(REASON, form, ""))
    assert (await office.state(review)).status is ReviewStatus.APPROVED


async def test_a_code_is_typed_as_a_command_too(office: Office) -> None:
    first = (await office.services.chat_links.code(office.bob)).reveal()
    code = (await office.services.chat_links.code(office.bob)).reveal()
    refused = (await office.send(commanded(f"link {first}"))).answer  # another one was made since
    assert "expired" in refused["text"]
    answer = (await office.send(commanded(f"link {code}"))).answer
    assert answer == {
        "response_type": "ephemeral",
        "text": "Your account here is now linked to bob@example.com. Press the button again to decide.",
    }
    found = await office.services.chat_links.find(office.bob, PAGE)
    assert [(one.chat_id, one.email) for one in found.items] == [("U0BOB", "bob@example.com")]
    await office.services.chat_links.remove(office.bob, found.items[0].id)
    assert (await office.services.chat_links.find(office.bob, PAGE)).total == 0


async def test_a_code_is_too_old_after_ten_minutes(office: Office) -> None:
    code = (await office.services.chat_links.code(office.bob)).reveal()
    office.world.clock.forward(seconds=601)
    assert "expired" in (await office.send(commanded(code))).answer["text"]


async def test_a_link_holds_for_nobody_who_signs_by_another_secret(office: Office) -> None:
    """An administrator who makes a sink with a secret of their own choice speaks for nobody."""
    await office.link(office.bob, "U0BOB")
    secret = "0123456789abcdef0123456789abcdef"
    keys = {"bot_token": Secret("xoxb-1234567890-abcdefghij"), "signing_secret": Secret(secret)}
    fields = slack_fields(office.slack.url, issued().authority, keys=keys)
    other = await office.services.sinks.create(office.admin, {**fields, "name": "mine"})
    office.world.clock.forward(seconds=1)
    review = await office.ask()
    body = pressed(review.id)
    forged = signed(body, office.now.timestamp(), secret)
    await office.send(body, other, **forged)
    assert office.slack.views[-1]["callback_id"] == LINK  # not known there
    assert (await office.state(review)).voices == ()


async def test_attack_a_link_holds_for_nobody_who_has_forms_sent_elsewhere(office: Office) -> None:
    """Whoever set the sink up knows what Slack signs by: of another sink with the same secret they get the forms."""
    await office.link(office.bob, "U0BOB")
    fields = slack_fields(office.slack.url + "/", issued().authority)
    other = await office.services.sinks.create(office.admin, {**fields, "name": "mine"})
    office.world.clock.forward(seconds=1)
    review = await office.ask()
    await office.send(pressed(review.id), other)
    assert office.slack.views[-1]["callback_id"] == LINK  # not known there


async def test_attack_who_is_inactive_or_of_another_organisation_decides_nothing(office: Office) -> None:
    await office.link(office.bob, "U0BOB")
    review = await office.ask()
    form = await opened_form(office, review)
    await office.services.users.update(office.admin, office.bob.email, {"status": PrincipalStatus.INACTIVE})
    assert "errors" in (await office.send(submitted(REASON, form, ""))).answer
    await office.send(pressed(review.id))
    assert office.slack.views[-1]["callback_id"] == LINK
    acme = Organisation(uuid4(), "acme", office.now)
    await office.world.stores.organisations.add(acme)
    namesake = replace(office.bob, id=uuid4(), org_id=acme.id)
    await office.world.stores.principals.add(Account(namesake, None), office.now)
    code = (await office.services.chat_links.code(namesake)).reveal()
    assert "expired" in (await office.send(commanded(code))).answer["text"]
    assert (await office.state(review)).voices == ()


async def test_who_left_decides_no_more(office: Office) -> None:
    await office.link(office.bob, "U0BOB")
    review = await office.ask()
    form = await opened_form(office, review)
    await office.services.users.remove(office.admin, office.bob.email)
    answer = (await office.send(submitted(REASON, form, ""))).answer
    assert "errors" in answer
    assert (await office.state(review)).voices == ()


async def test_attack_nobody_says_whose_an_account_is_but_its_owner(office: Office) -> None:
    """An administrator who links an account of their own to a reviewer would decide as that reviewer."""
    links = office.services.chat_links
    review = await office.ask()
    code = (await links.code(office.admin)).reveal()
    assert (await office.send(commanded(code, "U0ADMIN"))).actor == office.admin  # only ever as themselves
    await office.send(pressed(review.id, user="U0ADMIN"))
    assert "not in a group that can decide on this review" in office.slack.whispers[-1]["text"]


async def test_accounts_are_their_owners_and_administrators_business(office: Office) -> None:
    links = office.services.chat_links
    await office.link(office.bob, "U0BOB")
    (link,) = (await links.find(office.admin, PAGE)).items
    assert (link.chat_id, link.email) == ("U0BOB", "bob@example.com")
    assert (await links.find(office.ann, PAGE)).total == 0
    with pytest.raises(NotFound):
        await links.remove(office.ann, link.id)
    await links.remove(office.admin, link.id)
    assert await links.find_principal(office.sink, "U0BOB") is None


@pytest.mark.parametrize("home", ["T0OTHER", "E0OTHER"])
async def test_attack_a_guest_of_another_workspace_is_nobody(office: Office, home: str) -> None:
    """Of a channel that workspaces share. Identifiers of members are of their workspace."""
    await office.link(office.bob, "U0BOB")
    review = await office.ask()
    guest = {"id": "U0BOB", "username": "bob", "team_id": home}
    form = await opened_form(office, review)
    for body in (pressed(review.id, user=guest), submitted(REASON, form, "x", user=guest)):
        with pytest.raises(Unauthenticated):
            await office.send(body)
    assert (await office.state(review)).voices == ()


async def test_a_member_of_the_whole_organisation_is_known(office: Office) -> None:
    await office.link(office.bob, "U0BOB")
    review = await office.ask()
    member = {"id": "U0BOB", "team_id": "E0OURS"}
    await office.send(pressed(review.id, user=member, enterprise={"id": "E0OURS", "name": "ours"}))
    assert office.slack.views[-1]["callback_id"] == REASON


ENDINGS = ["approved", "rejected", "withdrawn", "expired", "revoked"]

"""Chat messages and linked accounts in the store, on both engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from tests.support.chats import APP, BOT_TOKEN, CHANNEL, SIGNING_SECRET, TEAM
from tests.support.reviews import asked
from tests.support.world import World

from postern.domain.chat import ChatLink, ChatMessage
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.reviews.review import ReviewKind
from postern.domain.secret import Secret
from postern.domain.sink import Sink, SinkKind, SinkScope

PAGE = Page(100)
REALM = "a" * 64


async def sink_of(world: World, name: str = "reviews") -> Sink:
    """In the store, as `get` of the sinks answers it."""
    made = Sink(
        uuid4(),
        world.org_id,
        name,
        SinkKind.SLACK,
        "https://slack.com/api",
        (),
        options={"channel": CHANNEL, "app_id": APP, "team_id": TEAM},
        keys={"bot_token": Secret(BOT_TOKEN), "signing_secret": Secret(SIGNING_SECRET)},
        scope=SinkScope(connections=("shop",), connection_tags={"env": "prod"}, groups=("dba",)),
        created_at=world.clock(),
        updated_at=world.clock(),
    )
    await world.stores.sinks.add(made)
    return made


def link_of(world: World, whose: Principal, chat_id: str = "U0ANN", **changes: Any) -> ChatLink:
    made = ChatLink(uuid4(), world.org_id, REALM, chat_id, whose.id, whose.email, world.clock())
    return replace(made, **changes)


def message_of(world: World, sink: Sink, review: Any, **changes: Any) -> ChatMessage:
    return replace(ChatMessage(sink.id, review.id, CHANNEL, "1700000000.000001", world.clock()), **changes)


async def test_chat_sink_is_read_with_its_keys(world: World) -> None:
    made = await sink_of(world)
    assert await world.stores.chats.sink(made.id) == made
    assert await world.stores.chats.sink(uuid4()) is None


async def test_newer_chat_message_replaces_the_earlier_one(world: World) -> None:
    chats, sink, other = world.stores.chats, await sink_of(world), await sink_of(world, "other")
    review = await asked(world, kind=ReviewKind.ONETIME)
    assert await chats.message(sink.id, review.id) is None
    first, elsewhere = message_of(world, sink, review), message_of(world, other, review, reference="<1@mail>")
    await chats.keep(first)
    await chats.keep(elsewhere)
    world.clock.forward(seconds=5)
    second = message_of(world, sink, review, channel="C0OTHER", reference="1700000005.000001")
    await chats.keep(second)
    assert second.at != first.at
    assert await chats.message(sink.id, review.id) == second
    assert await chats.message(other.id, review.id) == elsewhere


async def test_chat_message_of_a_deleted_review_or_sink_is_not_stored(world: World) -> None:
    """It is deleted together with its sink."""
    chats, sink = world.stores.chats, await sink_of(world)
    review = await asked(world, kind=ReviewKind.ONETIME)
    for sink_id, review_id in ((uuid4(), review.id), (sink.id, uuid4())):
        await chats.keep(ChatMessage(sink_id, review_id, CHANNEL, "1", world.clock()))
        assert await chats.message(sink_id, review_id) is None
    kept = message_of(world, sink, review)
    await chats.keep(kept)
    assert await chats.message(sink.id, review.id) == kept
    await world.stores.sinks.remove(sink)
    assert await chats.message(sink.id, review.id) is None


async def test_concurrent_chat_messages_of_a_review_leave_one(world: World) -> None:
    chats, sink = world.stores.chats, await sink_of(world)
    review = await asked(world, kind=ReviewKind.ONETIME)
    several = [message_of(world, sink, review, reference=str(number)) for number in range(8)]
    await asyncio.gather(*(chats.keep(one) for one in several))
    assert await chats.message(sink.id, review.id) in several


async def test_linked_account_belongs_to_one_user_in_its_realm_and_organisation(world: World) -> None:
    chats, ann, bob = world.stores.chats, await world.add_user("ann"), await world.add_user("bob")
    anns = link_of(world, ann)
    await chats.add_link(anns)
    assert await chats.link(world.org_id, REALM, "U0ANN") == anns
    for org_id, realm, chat_id in (
        (uuid4(), REALM, "U0ANN"),
        (world.org_id, "b" * 64, "U0ANN"),
        (world.org_id, REALM, "u0ann"),
        (world.org_id, REALM, "U0BOB"),
    ):
        assert await chats.link(org_id, realm, chat_id) is None
    world.clock.forward(seconds=5)
    other_realm, bobs = link_of(world, ann, realm="b" * 64), link_of(world, bob)
    await chats.add_link(other_realm)
    await chats.add_link(bobs)  # the same account is somebody else's from now on
    assert await chats.link(world.org_id, REALM, "U0ANN") == bobs
    assert await chats.link(world.org_id, "b" * 64, "U0ANN") == other_realm
    assert (await chats.links(world.org_id, None, PAGE)).total == 2


async def test_linked_accounts_are_listed_newest_first(world: World) -> None:
    chats, ann, bob = world.stores.chats, await world.add_user("ann"), await world.add_user("bob")
    other = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(other)
    made = []
    for number, whose in enumerate((ann, bob, ann)):
        world.clock.forward(seconds=1)
        made.append(link_of(world, whose, f"U0{number}"))
        await chats.add_link(made[-1])
    everybodys = await chats.links(world.org_id, None, PAGE)
    assert (list(everybodys.items), everybodys.total) == (made[::-1], 3)
    anns = await chats.links(world.org_id, ann.id, PAGE)
    assert (list(anns.items), anns.total) == ([made[2], made[0]], 2)
    second = await chats.links(world.org_id, None, Page(1, 1))
    assert (list(second.items), second.total) == ([made[1]], 3)
    assert (await chats.links(other.id, None, PAGE)).total == 0


async def test_linked_account_is_deleted_with_its_user(world: World) -> None:
    chats, ann, bob = world.stores.chats, await world.add_user("ann"), await world.add_user("bob")
    await world.add_user("root", "admin")
    bobs = link_of(world, bob, "U0BOB")
    for one in (link_of(world, ann), bobs):
        await chats.add_link(one)
    await world.stores.principals.remove(ann.id)
    assert list((await chats.links(world.org_id, None, PAGE)).items) == [bobs]


async def test_concurrent_links_of_an_account_leave_one(world: World) -> None:
    chats = world.stores.chats
    people = [await world.add_user(f"user-{number}") for number in range(8)]
    several = [link_of(world, one) for one in people]
    await asyncio.gather(*(chats.add_link(one) for one in several))
    assert await chats.link(world.org_id, REALM, "U0ANN") in several
    assert (await chats.links(world.org_id, None, PAGE)).total == 1


@pytest.mark.parametrize("remover", ["user", "administrator"])
async def test_linked_account_is_removed_once_and_only_by_its_user_or_an_administrator(
    world: World, remover: str
) -> None:
    chats, ann, bob = world.stores.chats, await world.add_user("ann"), await world.add_user("bob")
    anns = link_of(world, ann)
    await chats.add_link(anns)
    assert await chats.remove_link(world.org_id, anns.id, bob.id) is None
    assert await chats.remove_link(uuid4(), anns.id, None) is None
    assert await chats.remove_link(world.org_id, uuid4(), None) is None
    assert await chats.link(world.org_id, REALM, "U0ANN") == anns
    by = ann.id if remover == "user" else None
    assert await chats.remove_link(world.org_id, anns.id, by) == anns
    assert await chats.remove_link(world.org_id, anns.id, by) is None
    assert await chats.link(world.org_id, REALM, "U0ANN") is None

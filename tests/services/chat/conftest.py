from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.chats import SlackServer, commanded, pressed, signed, slack_fields, slack_server
from tests.support.receivers import LOOPBACK, issued
from tests.support.reviews import REVIEWERS, asked
from tests.support.world import World

from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Review, ReviewKind
from postern.domain.sink import Sink
from postern.integrations.chat.slack import Slack
from postern.integrations.chat.slack_window import SlackWindow
from postern.integrations.sinks.receivers import Receivers
from postern.integrations.sinks.senders import Senders
from postern.services.bundle import Services
from postern.services.chat.chat_decisions import Handled
from postern.services.notifications.event_delivery import EventDelivery
from postern.wiring.chats_wiring import chat_senders


@dataclass
class Office:
    """A reviews' channel of Slack, with who asks (ann), who reviews (bob), and an administrator."""

    world: World
    services: Services
    sending: EventDelivery
    slack: SlackServer
    sink: Sink
    admin: Principal
    ann: Principal
    bob: Principal

    async def ask(self, **fields: Any) -> Review:
        review = await asked(self.world, self.ann, **{"kind": ReviewKind.ONETIME, "created_at": self.now, **fields})
        await self.round()
        return review

    @property
    def now(self) -> Any:
        return self.world.clock()

    async def round(self) -> None:
        await self.services.postprocessing.once()
        await self.sending.once()
        await self.sending.wait_until_idle()

    async def link(self, who: Principal, user: str) -> None:
        code = await self.services.chat_links.code(who)
        assert (await self.send(commanded(code.reveal(), user))).actor == who

    async def send(self, body: bytes, sink: Sink | None = None, **changes: str) -> Handled:
        """As Slack does it."""
        headers = signed(body, self.now.timestamp()) | changes
        self.slack.spent.clear()  # each press has a trigger of its own
        return await self.services.chat_decisions.handle(
            (sink or self.sink).id, headers["X-Slack-Request-Timestamp"], headers["X-Slack-Signature"], body
        )

    async def state(self, review: Review) -> Review:
        found = await self.world.stores.reviews.get(review.id)
        assert found is not None
        return found


async def opened_form(office: Office, review: Any, action: str = "postern_approve", user: str = "U0BOB") -> str:
    """What was put into the form that opened."""
    before = len(office.slack.views)
    await office.send(pressed(review.id, action, user))
    assert len(office.slack.views) == before + 1
    return str(office.slack.views[-1]["private_metadata"])


def sending_of(world: World, services: Services) -> tuple[EventDelivery, Senders]:
    chats = functools.partial(chat_senders, world.stores, services, "gateway.example.com", world.clock)
    senders = Senders("gateway.example.com", LOOPBACK, chats=chats)
    return EventDelivery(world.stores.deliveries, world.stores.leases, senders, world.clock), senders


@pytest.fixture
async def office(world: World) -> AsyncIterator[Office]:
    admin, ann = await world.add_user("admin", "admin"), await world.add_user("ann", "crew")
    bob = await world.add_user("bob", REVIEWERS)
    receivers = Receivers(LOOPBACK)
    world.chats = SlackWindow(Slack(receivers))
    services = world.services()
    await services.features.put(admin, Feature.REVIEWS, enabled=True)
    await world.add_connection("shop")
    async with slack_server() as slack:
        sink = await services.sinks.create(admin, slack_fields(slack.url, issued().authority))
        world.clock.forward(seconds=1)
        sending, senders = sending_of(world, services)
        yield Office(world, services, sending, slack, sink, admin, ann, bob)
        await senders.close()
        await receivers.close()

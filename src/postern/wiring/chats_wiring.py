"""Chats: notifications of reviews, and decisions in chats."""

from __future__ import annotations

from collections.abc import Mapping

from postern.domain.sink import SinkKind
from postern.integrations.chat.apprise import Apprise
from postern.integrations.chat.email import EmailNotifier
from postern.integrations.chat.slack import Slack
from postern.integrations.chat.teams import Teams
from postern.integrations.sinks.receivers import Receivers
from postern.services.bundle import Services
from postern.services.chat.chat_delivery import Chat, ChatSender
from postern.services.notifications.chat_fields import APPRISE_DIRECT, APPRISE_HOSTED
from postern.store.ports.common_ports import Clock
from postern.store.stores import Stores
from postern.wiring.addresses_wiring import review_page


def chat_senders(
    stores: Stores, services: Services, host: str, now: Clock, receivers: Receivers
) -> Mapping[SinkKind, ChatSender]:
    """Return the chats. `host` is the name of this machine in e-mails."""
    chats: dict[SinkKind, Chat] = {
        SinkKind.SLACK: Slack(receivers),
        SinkKind.TEAMS: Teams(receivers),
        SinkKind.EMAIL: EmailNotifier(receivers, host, now),
        SinkKind.APPRISE: Apprise(receivers, APPRISE_HOSTED, APPRISE_DIRECT),
    }

    url = review_page(services.server_configs)
    return {kind: ChatSender(chat, stores.chats, stores.reviews, stores.sessions, url) for kind, chat in chats.items()}

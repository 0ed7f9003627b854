"""The services of chats, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.chat.chat_links import ChatLinks
from postern.services.chat.desk import ChatDesk, ChatWindow
from postern.services.identity.logins.vouchers import Vouchers
from postern.services.reviews.reviews import Reviews
from postern.store.ports.common_ports import Clock
from postern.store.stores import Stores


@dataclass(frozen=True)
class ChatServices:
    chat_desk: ChatDesk
    chat_links: ChatLinks


def build_chats(
    stores: Stores, reviews: Reviews, vouchers: Vouchers, now: Clock, window: ChatWindow | None
) -> ChatServices:
    """Without a window nothing comes in from chats."""
    links = ChatLinks(stores.chats, stores.principals, vouchers, now)
    return ChatServices(ChatDesk(window, stores.chats, links, reviews, vouchers, now), links)

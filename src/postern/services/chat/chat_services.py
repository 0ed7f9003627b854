"""The services of chats, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.chat.chat_decisions import ChatDecisions, ChatFormClient
from postern.services.chat.chat_links import ChatLinks
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.reviews.reviews import Reviews
from postern.store.ports.common_ports import Clock
from postern.store.stores import Stores


@dataclass(frozen=True)
class ChatServices:
    chat_decisions: ChatDecisions
    chat_links: ChatLinks


def build_chats(
    stores: Stores, reviews: Reviews, one_time_tokens: OneTimeTokens, now: Clock, window: ChatFormClient | None
) -> ChatServices:
    """Build the services of chats. Without a client nothing is accepted from chats."""
    links = ChatLinks(stores.chats, stores.principals, one_time_tokens, now)
    return ChatServices(ChatDecisions(window, stores.chats, links, reviews, one_time_tokens, now), links)

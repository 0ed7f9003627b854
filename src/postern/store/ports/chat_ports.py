"""The store of messages in chats, and of linked chat accounts."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from postern.domain.chat import ChatLink, ChatMessage
from postern.domain.lists import Listed, Page
from postern.domain.sink import Sink


class ChatStore(Protocol):
    async def sink(self, sink_id: UUID) -> Sink | None:
        """Return the sink, of any organisation."""

    async def message(self, sink_id: UUID, review_id: UUID) -> ChatMessage | None: ...

    async def keep(self, message: ChatMessage) -> None:
        """Store a message instead of the previous one; nothing where sink or review are gone meanwhile."""

    async def link(self, org_id: UUID, realm: str, chat_id: str) -> ChatLink | None: ...

    async def links(self, org_id: UUID, principal_id: UUID | None, page: Page) -> Listed[ChatLink]:
        """Return links, newest first; with None those of all users."""

    async def add_link(self, link: ChatLink) -> None:
        """Add a link; it replaces that chat account's previous one."""

    async def remove_link(self, org_id: UUID, link_id: UUID, principal_id: UUID | None) -> ChatLink | None:
        """Remove a link and return it; None when there is none, or it is not the given principal's."""

"""The store of what chats were told, and of whose accounts there are."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from postern.domain.chat import ChatLink, ChatMessage
from postern.domain.lists import Listed, Page
from postern.domain.sink import Sink


class ChatStore(Protocol):
    async def sink(self, sink_id: UUID) -> Sink | None:
        """In whichever organisation."""

    async def message(self, sink_id: UUID, review_id: UUID) -> ChatMessage | None: ...

    async def keep(self, message: ChatMessage) -> None:
        """In the place of the one before. Nothing where sink or review are gone meanwhile."""

    async def link(self, org_id: UUID, realm: str, chat_id: str) -> ChatLink | None: ...

    async def links(self, org_id: UUID, principal_id: UUID | None, page: Page) -> Listed[ChatLink]:
        """Newest first; with None everybody's."""

    async def add_link(self, link: ChatLink) -> None:
        """In the place of what that account of the chat was linked to before."""

    async def remove_link(self, org_id: UUID, link_id: UUID, principal_id: UUID | None) -> ChatLink | None:
        """What it was; None when there is none, or, where a principal is given, it is not theirs."""

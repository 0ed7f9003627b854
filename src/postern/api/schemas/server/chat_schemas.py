"""Bodies of accounts of chats."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.chat import ChatLink


class ChatCodeAnswer(Answer):
    code: str = Field(description="Code to enter in the chat, once; never shown again")
    expires_in: int = Field(description="Seconds")


class ChatLinkAnswer(Answer):
    id: UUID
    chat_id: str
    email: str = Field(description="E-mail address of the user who decides with this account")
    created_at: datetime

    @classmethod
    def of(cls, link: ChatLink) -> ChatLinkAnswer:
        names = ("id", "chat_id", "email", "created_at")
        return cls(**{name: getattr(link, name) for name in names})

"""Accounts of chats."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.chat import ChatLink


class ChatCodeAnswer(Answer):
    code: str = Field(description="To be given in the chat, once; never shown again")
    expires_in: int = Field(description="Seconds")


class ChatLinkRequest(Body):
    email: str = Field(description="Of the user")
    sink: str = Field(description="Name or id of a sink of kind slack")
    chat_id: str = Field(description="Who they are there: Slack's member id")


class ChatLinkAnswer(Answer):
    id: UUID
    chat_id: str
    email: str = Field(description="Of the user who decides by this account")
    made_by: str = Field(description="E-mail address of who said so: the user, by a code, or an administrator")
    created_at: datetime

    @classmethod
    def of(cls, link: ChatLink) -> ChatLinkAnswer:
        names = ("id", "chat_id", "email", "made_by", "created_at")
        return cls(**{name: getattr(link, name) for name in names})

"""Logins and the browser's session."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from postern.api.schemas.common import Answer


class SessionAnswer(Answer):
    """What a page must know of the login that its requests come by."""

    email: str
    login_id: str | None = Field(description="None for an API key or a token of the identity provider")
    expires_at: datetime | None = Field(description="When the token must have been refreshed")
    ends_at: datetime | None = Field(description="When this login ends, whatever is refreshed")
    csrf_token: str | None = Field(description="For the header `X-CSRF-Token` of each write; None without cookie")

"""Bodies of logins and the browser's session."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.identity.login import ClientKind, Login, LoginMethod
from postern.services.identity.logins.authentication import Caller


class LoginSessionAnswer(Answer):
    """The login of a page's requests."""

    email: str
    login_id: str | None = Field(description="Null for an API key or a token of the identity provider")
    expires_at: datetime | None = Field(description="Time by which the token must be refreshed")
    ends_at: datetime | None = Field(description="Time at which this login ends, regardless of refreshes")
    fresh_until: datetime | None = Field(
        description="Until then the user counts as having proved recently who they are; `POST /api/login/step-up` "
        "extends it"
    )
    csrf_token: str | None = Field(description="For the header `X-CSRF-Token` of each write; null without a cookie")
    must_enrol_second_factor: bool = Field(description="True: the user must add a second factor before anything else")

    @classmethod
    def of(cls, caller: Caller, csrf_token: str | None, login: Login | None) -> LoginSessionAnswer:
        return cls(
            email=caller.principal.email,
            login_id=str(login.id) if login else None,
            expires_at=login.expires_at if login else None,
            ends_at=login.ends_at if login else None,
            fresh_until=login.fresh_until if login else None,
            csrf_token=csrf_token,
            must_enrol_second_factor=caller.must_enrol,
        )


class EndedAnswer(Answer):
    ended: int = Field(description="Number of logins that were active")


class LoginShown(Answer):
    id: str
    method: LoginMethod
    client: ClientKind
    source: str = Field(description="Address from which it was opened")
    user_agent: str
    created_at: datetime
    expires_at: datetime
    ends_at: datetime
    current: bool = Field(description="Whether this request uses it")

    @classmethod
    def of(cls, login: Login, caller: Caller) -> LoginShown:
        return cls(
            id=str(login.id),
            method=login.method,
            client=login.client,
            source=login.source,
            user_agent=login.user_agent,
            created_at=login.created_at,
            expires_at=login.expires_at,
            ends_at=login.ends_at,
            current=caller.login is not None and caller.login.id == login.id,
        )


class RotateRequest(Body):
    revoke: bool = Field(default=False, description="Whether to invalidate every token that older keys signed")

"""Bodies of logins at an identity provider, and of a command line without a browser."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.services.identity.logins.device_login import DeviceLoginRequest

# The query of every login at a provider.
Redirect = Annotated[
    str | None,
    Query(
        max_length=2_000,
        description="Redirect target after the login: a path or URL of the web app, or http://127.0.0.1:PORT/",
    ),
]
CodeChallenge = Annotated[
    str | None, Query(max_length=128, description="S256 (RFC 7636); required for a redirect to 127.0.0.1")
]
AtOrganization = Annotated[str | None, Query(max_length=255, description="Default: the default organisation")]


class LoginUrlAnswer(Answer):
    login_url: str = Field(description="URL where the browser logs in")


class ExchangeRequest(Body):
    code: str = Field(max_length=512, description="The `code` of the redirect to this machine")
    code_verifier: str = Field(max_length=128, description="The verifier of the `code_challenge` in GET /api/login")


class DeviceRequest(Body):
    organization: str | None = Field(
        None, max_length=255, description="Organisation of the account; default: the default organisation"
    )


class DeviceAnswer(Answer):
    device_code: str = Field(description="For POST /api/login/device/token; keep it secret")
    user_code: str = Field(description="Shown to the user, who enters it at `verification_url`")
    verification_url: str
    verification_url_complete: str = Field(description="The URL with the code in it")
    expires_in: int = Field(description="Seconds for which both codes are valid")
    interval: int = Field(description="Seconds between two requests for the token")


class DeviceTokenRequest(Body):
    device_code: str = Field(max_length=512)


class PendingAnswer(Answer):
    status: str = Field(description="`ok`, or `authorization_pending` until a user confirms the code")


class DeviceLoginAnswer(Answer):
    """A program that waits for an approval."""

    code: str
    address: str = Field(description="Address of the program")
    client: str = Field(description="Its `User-Agent`")
    since: datetime
    your_address: str = Field(description="Address of this request; be careful if it is a different one")

    @classmethod
    def of(cls, login_request: DeviceLoginRequest, your_address: str) -> DeviceLoginAnswer:
        return cls(
            code=login_request.user_code,
            address=login_request.source,
            client=login_request.user_agent,
            since=login_request.since,
            your_address=your_address,
        )


class DeviceLoginDecision(Body):
    code: str = Field(max_length=64)
    answer: Literal["allow", "deny"]

"""Ways in by way of an identity provider, and for a command line without browser."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field

from postern.api.schemas.common import Answer, Body

# The query of every way in by way of a provider.
Redirect = Annotated[
    str | None,
    Query(max_length=2_000, description="Where to end: a path or URL of the web app, or http://127.0.0.1:PORT/"),
]
CodeChallenge = Annotated[
    str | None, Query(max_length=128, description="S256 (RFC 7636); needed for a redirect to 127.0.0.1")
]
AtOrganization = Annotated[str | None, Query(max_length=255, description="The default one when left out")]


class LoginUrlAnswer(Answer):
    login_url: str = Field(description="Where the browser goes to log in")


class ExchangeRequest(Body):
    code: str = Field(max_length=512, description="The `code` that the redirect to this machine had")
    code_verifier: str = Field(max_length=128, description="What `code_challenge` of GET /api/login was made of")


class DeviceRequest(Body):
    organization: str | None = Field(
        None, max_length=255, description="Where the account is; the default when left out"
    )


class DeviceAnswer(Answer):
    device_code: str = Field(description="For POST /api/login/device/token; kept to oneself")
    user_code: str = Field(description="Shown to the person, who types it at `verification_url`")
    verification_url: str
    verification_url_complete: str = Field(description="The same with the code in it")
    expires_in: int = Field(description="Seconds that both codes are good for")
    interval: int = Field(description="Seconds between two questions for the token")


class DeviceTokenRequest(Body):
    device_code: str = Field(max_length=512)


class PendingAnswer(Answer):
    status: str = Field(description="`ok`, or `authorization_pending` while nobody has confirmed the code")

"""Bodies of federation rules, and of the exchange of tokens (RFC 8693)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from postern.api.schemas.common import Answer, NamedResourceAnswer, ResourceBody, refers_to
from postern.domain.identity.federation import DEFAULT_SECONDS, MAX_SECONDS

ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind
BEARER = "Bearer"


class FederationRuleRequest(ResourceBody):
    nullable = frozenset({"jwks"})

    name: str
    service_account: str = Field(
        description="Subject of the service account that programs act as",
        json_schema_extra=refers_to("service-account"),
    )
    issuer_url: str = Field(description="`iss` of the tokens, exactly; its keys are at its OpenID discovery document")
    audience: str = Field(description="`aud` of the tokens, for this gateway alone, such as its address")
    claims: dict[str, list[str]] = Field(
        description="Accepted values of each claim; all claims must match. `*` matches within one part between `/` and "
        "`:`. A claim within an object is written as its path: `kubernetes.io/namespace`"
    )
    algorithms: list[str] | None = Field(None, description="RS256 and ES256 by default")
    jwks: dict[str, Any] | None = Field(
        None, description="The issuer's public keys (RFC 7517), where the gateway cannot reach the issuer"
    )
    login_duration_seconds: int | None = Field(
        None, description=f"How long a login lasts: at most {MAX_SECONDS}, by default {DEFAULT_SECONDS}"
    )
    allow_admin: bool | None = Field(None, description="Whether the service account can be an administrator")
    allow_reuse: bool | None = Field(None, description="Whether one token can log in more than once")
    description: str | None = None


class FederationRuleAnswer(NamedResourceAnswer):
    service_account: str
    issuer_url: str
    audience: str
    claims: dict[str, list[str]]
    algorithms: list[str]
    jwks: dict[str, Any] | None
    login_duration_seconds: int
    allow_admin: bool
    allow_reuse: bool
    description: str
    created_at: datetime | None
    updated_at: datetime | None


class TokenExchangeAnswer(Answer):
    """The answer to a token exchange, as RFC 8693 has it."""

    access_token: str = Field(description="Send it as `Authorization: Bearer …`")
    issued_token_type: str = ACCESS_TOKEN
    token_type: str = BEARER
    expires_in: int = Field(description="Seconds until the login ends; it cannot be extended")

"""Federation rules, and the login of programs by tokens of external issuers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Facts, Use
from postern.api.browser.browser import form_of
from postern.api.crud import ResourceRoutes
from postern.api.responses import open_errors
from postern.api.schemas.identity.federation_schemas import (
    FederationRuleAnswer,
    FederationRuleRequest,
    TokenExchangeAnswer,
)
from postern.domain.secret import Secret
from postern.errors import Malformed
from postern.services.identity.token_exchange import claimed_subject

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_TOKEN_TYPES = frozenset(f"urn:ietf:params:oauth:token-type:{name}" for name in ("jwt", "id_token", "access_token"))
_REQUIRED = ("grant_type", "subject_token", "subject_token_type")
_OPTIONAL = ("organization", "rule")
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {
                    "type": "object",
                    "required": [*_REQUIRED],
                    "properties": {
                        "grant_type": {"type": "string", "enum": [GRANT]},
                        "subject_token": {"type": "string", "description": "The token of the issuer"},
                        "subject_token_type": {"type": "string", "enum": sorted(_TOKEN_TYPES)},
                        "organization": {"type": "string", "description": "Default: the default organisation"},
                        "rule": {"type": "string", "description": "Chooses between several rules that accept it"},
                    },
                }
            }
        },
    }
}

router = APIRouter(tags=["User Management"], route_class=AuditedRoute)
ResourceRoutes(
    path="/federation-rules",
    names=("federation_rule", "federation_rules"),
    service=lambda services: services.federation_rules,
    request=FederationRuleRequest,
    answer=FederationRuleAnswer,
    texts={
        "create": "Only logged-in users can create rules.",
        "update": "The logins that the rule allowed end, with their sessions.",
        "delete": "The logins that it allowed end, with their sessions.",
    },
).add_to(router)


@router.post("/federation/login", openapi_extra=_FORM, responses=open_errors(401, 403, 413, 429))
async def exchange_token(request: Request, services: Use, facts: Facts, response: Response) -> TokenExchangeAnswer:
    """Log a program in by a token of an external issuer, such as a CI system (token exchange, RFC 8693). The login is
    short, and acts as the service account of the federation rule that accepts the token."""
    form = await form_of(request)
    missing = [name for name in _REQUIRED if not form.get(name)]
    if missing:
        raise Malformed(f"{missing[0]}: is required")
    if unknown := sorted(set(form) - {*_REQUIRED, *_OPTIONAL}):
        raise Malformed(f"{unknown[0]}: unknown field; /api/openapi.json describes the fields")
    if form["grant_type"] != GRANT:
        raise Malformed(f"grant_type: must be {GRANT}")
    if form["subject_token_type"] not in _TOKEN_TYPES:
        raise Malformed(f"subject_token_type: must be one of {', '.join(sorted(_TOKEN_TYPES))}")
    token = Secret(form["subject_token"])
    request.state.claimed, request.state.organisation = claimed_subject(token), form.get("organization")
    opened = await services.token_exchange.exchange(
        token, facts, organisation=form.get("organization"), rule=form.get("rule")
    )
    assert opened.account is not None
    request.state.principal = opened.account.principal
    response.headers["Cache-Control"] = "no-store"
    life = opened.login.ends_at - opened.login.created_at
    return TokenExchangeAnswer(access_token=opened.token.reveal(), expires_in=int(life.total_seconds()))

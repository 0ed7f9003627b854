"""Login at an organisation's SAML identity provider: to the provider, back, and on to the client that asked.

Logins must begin at the gateway. An unsolicited response is denied, since nothing ties it to the user whose browser
brings it.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from postern.domain.identity.auth_config import SamlConfig
from postern.domain.identity.login import ClientKind, LoginMethod, Provided, TokenPurpose
from postern.domain.identity.saml import Asserted, SamlLoginRequest, ServiceProvider
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, Malformed, PosternError, Unauthenticated, Unavailable
from postern.services.identity.logins.code_exchange import CodeExchange, LoginRedirect
from postern.services.identity.logins.logins import TOKEN_LIFE, ClientFacts
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.identity.logins.redirect_targets import RedirectTarget, redirect_target_of
from postern.services.identity.logins.saml_port import Saml
from postern.services.identity.logins.sign_in import SignIn
from postern.services.server.auth_configs import AuthConfigs
from postern.store.ports.common_ports import Clock
from postern.store.ports.server_ports import OrganisationStore

log = logging.getLogger(__name__)

REQUEST_LIFE = timedelta(minutes=10)
CALLBACK = "/api/saml/callback"
METADATA = "/api/saml/metadata"
_RELAY_STATE = re.compile(r"[A-Za-z0-9_-]{43}")  # 256 bits; SAML allows 80 bytes (Bindings 3.5.3)


@dataclass(frozen=True, slots=True)
class SamlSignInRequest:
    """What a client asks for: the redirect target, the organisation, and whether the provider must authenticate the
    user again."""

    redirect: str | None = None
    code_challenge: str | None = None
    organization: str | None = None
    force_authn: bool = False


@dataclass(frozen=True, slots=True)
class SamlStarted:
    """A started login. `binding` is for a cookie of the browser that asked; None for a command line, which has its
    verifier."""

    login_url: str
    relay_state: str
    binding: Secret | None


@dataclass(frozen=True, slots=True)
class SamlReturned:
    """The form that the browser brings from the provider, and the cookie that it got before."""

    response: str
    relay_state: str
    binding: Secret | None = None


def service_provider(api_url: str) -> ServiceProvider:
    """Return the gateway as a service provider. Its entity id is the address of its metadata (Metadata 4.1.1)."""
    return ServiceProvider(api_url + METADATA, api_url + CALLBACK)


class SamlLogin:
    """Logs users in. `saml` is missing where this server has no client for providers."""

    def __init__(
        self,
        *,
        saml: Saml | None,
        configs: AuthConfigs,
        organisations: OrganisationStore,
        one_time_tokens: OneTimeTokens,
        sign_in: SignIn,
        code_exchange: CodeExchange,
        now: Clock,
    ) -> None:
        self._saml = saml
        self._configs = configs
        self._organisations = organisations
        self._one_time_tokens = one_time_tokens
        self._sign_in = sign_in
        self._code_exchange = code_exchange
        self._now = now

    def metadata(self, *, api_url: str) -> bytes:
        """Return the metadata for setting up the identity provider. Raises Unavailable."""
        return self._client().metadata(service_provider(api_url))

    async def begin(self, login_request: SamlSignInRequest, *, api_url: str, address: str) -> SamlStarted:
        """Start a login; `address` is the client's. Raises Malformed where users log in otherwise, Invalid, TooMany,
        Unavailable."""
        redirect_target = redirect_target_of(login_request.redirect, login_request.code_challenge, api_url)
        org_id, config = await self._provider(login_request.organization)
        # An id must not begin with a digit, nor be guessed (Core 1.3.4).
        request = SamlLoginRequest(f"_{secrets.token_hex(32)}", secrets.token_urlsafe(32), login_request.force_authn)
        login_url = await self._client().login_url(config, service_provider(api_url), request)
        binding = Secret(secrets.token_urlsafe(32)) if redirect_target.client is ClientKind.WEB else None
        payload = {
            "org_id": str(org_id),
            "request_id": request.id,
            "redirect": redirect_target.url,
            "client": redirect_target.client,
            "code_challenge": redirect_target.code_challenge,
            "binding": binding.reveal() if binding else "",
        }
        await self._one_time_tokens.issue(
            TokenPurpose.SAML_REQUEST, payload, REQUEST_LIFE, secret=Secret(request.relay_state), source=address
        )
        return SamlStarted(login_url, request.relay_state, binding)

    async def finish(self, returned: SamlReturned, client: ClientFacts, *, api_url: str) -> LoginRedirect:
        """Finish a login. Errors in a response to our request go to the redirect target, as `error` and
        `error_description`.

        Raises Denied for any other response.
        """
        request = await self._take_request(returned)
        redirect_target = RedirectTarget(request["redirect"], ClientKind(request["client"]), request["code_challenge"])
        org_id = UUID(request["org_id"])
        try:
            asserted = await self._verify_response(org_id, request["request_id"], returned.response, api_url)
        except Denied:
            raise
        except PosternError as problem:
            return _failure_redirect(redirect_target, problem)
        try:
            await self._use(asserted)
            account = await self._sign_in.account_of(org_id, asserted.identity)
            provided = Provided(self._end_of(asserted))
            return await self._code_exchange.finish_login(redirect_target, account, LoginMethod.SAML, client, provided)
        except PosternError as problem:
            return _failure_redirect(redirect_target, problem)

    async def _take_request(self, returned: SamlReturned) -> Mapping[str, Any]:
        """Return the stored request, once. No part of the response has been read yet."""
        if not _RELAY_STATE.fullmatch(returned.relay_state):
            raise Denied(
                "logins must start at the gateway, not at the identity provider; open the login page of the gateway"
            )
        try:
            request = await self._one_time_tokens.take(TokenPurpose.SAML_REQUEST, Secret(returned.relay_state))
        except Unauthenticated as problem:
            raise Denied(problem.message) from None
        if ClientKind(request["client"]) is ClientKind.WEB and not _same(returned.binding, request["binding"]):
            raise Denied("this login was started in a different browser; start again in this one")
        return request

    async def _verify_response(self, org_id: UUID, request_id: str, response: str, api_url: str) -> Asserted:
        config = await self._config(org_id)
        if config is None:
            raise Unauthenticated("the login settings were changed meanwhile; log in again")
        return await self._client().verify_response(config, service_provider(api_url), request_id, response)

    async def _use(self, asserted: Asserted) -> None:
        """Mark the assertion as used (Profiles 4.1.4.5) until it expires.

        The blank in the mark keeps it from ever being taken as a relay state. Raises Unauthenticated, TooMany.
        """
        mark = Secret(f"assertion {asserted.identity.issuer} {asserted.assertion_id}")
        life = max(asserted.usable_until - self._now(), timedelta(seconds=1))
        try:
            await self._one_time_tokens.issue(TokenPurpose.SAML_REQUEST, {}, life, secret=mark)
        except Conflict:
            raise Unauthenticated("this assertion was already used; log in again") from None

    def _end_of(self, asserted: Asserted) -> datetime:
        """Return when the login ends. It cannot be renewed: that would need the user's browser."""
        latest = self._now() + TOKEN_LIFE
        return min(asserted.session_ends_at, latest) if asserted.session_ends_at else latest

    async def _provider(self, organization: str | None) -> tuple[UUID, SamlConfig]:
        """Return the organisation and its provider. The error is the same for an unknown organisation and another login
        method."""
        organisation = (
            await self._organisations.default()
            if organization is None
            else await self._organisations.by_name(organization)
        )
        config = await self._config(organisation.id) if organisation else None
        if organisation is None or config is None:
            raise Malformed(
                "this organisation does not log in with SAML; `GET /api/publicserverinfo` returns its login method"
            )
        return organisation.id, config

    async def _config(self, org_id: UUID) -> SamlConfig | None:
        config = await self._configs.of(org_id)
        return config.saml if config.method is LoginMethod.SAML else None

    def _client(self) -> Saml:
        if self._saml is None:
            raise Unavailable("this process cannot log users in with SAML; ask the operator of the gateway")
        return self._saml


def _failure_redirect(redirect_target: RedirectTarget, problem: PosternError) -> LoginRedirect:
    log.warning("SAML login failed: error=%s", problem.message)
    if isinstance(problem, Denied):
        code = "access_denied"
    else:
        code = "temporarily_unavailable" if isinstance(problem, Unavailable) else "login_failed"
    return LoginRedirect(redirect_target.with_query(error=code, error_description=problem.message))


def _same(binding: Secret | None, expected: str) -> bool:
    return binding is not None and hmac.compare_digest(binding.reveal().encode(errors="replace"), expected.encode())

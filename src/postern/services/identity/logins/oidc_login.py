"""Login at an organisation's OpenID provider: to the provider, back, and on to the client that asked."""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from postern.domain.identity.auth_config import OidcConfig
from postern.domain.identity.login import ClientKind, LoginMethod, TokenPurpose
from postern.domain.identity.openid import Begun
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, Malformed, PosternError, Unauthenticated, Unavailable
from postern.services.identity.logins.code_exchange import CodeExchange, LoginRedirect
from postern.services.identity.logins.logins import ClientFacts
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.identity.logins.openid_port import OpenId, provider_of
from postern.services.identity.logins.redirect_targets import RedirectTarget, redirect_target_of
from postern.services.identity.logins.sign_in import SignIn
from postern.services.server.auth_configs import AuthConfigs
from postern.store.ports.server_ports import OrganisationStore

log = logging.getLogger(__name__)

STATE_LIFE = timedelta(minutes=10)
CALLBACK = "/api/callback"
_PROMPTS = frozenset({"none", "login", "consent", "select_account", "create"})
_HINT = re.compile(r"[A-Za-z0-9_-]{1,32}")
# What a provider may answer instead of a code (RFC 6749 section 4.1.2.1, OpenID Connect Core section 3.1.2.6). Only
# these words are passed on, never text of the request.
_ERRORS = frozenset(
    {
        *("access_denied", "invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope"),
        *("server_error", "temporarily_unavailable", "interaction_required", "login_required", "consent_required"),
        *("account_selection_required",),
    }
)


@dataclass(frozen=True, slots=True)
class ProviderLoginRequest:
    """What a client asks for: the redirect target, the organisation, and hints for the provider."""

    redirect: str | None = None
    code_challenge: str | None = None
    organization: str | None = None
    prompt: str = ""
    screen_hint: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    """A started login. `binding` is for a cookie of the browser that asked; None for a command line, which has its
    verifier."""

    login_url: str
    state: Secret
    binding: Secret | None


@dataclass(frozen=True, slots=True)
class Returned:
    """What the browser brings back from the provider, and the cookie that it got before."""

    state: Secret
    code: str | None = None
    error: str | None = None
    issuer: str | None = None
    binding: Secret | None = None


class OidcLogin:
    """Logs users in. `openid` is missing where this server has no client for providers."""

    def __init__(
        self,
        openid: OpenId | None,
        configs: AuthConfigs,
        organisations: OrganisationStore,
        one_time_tokens: OneTimeTokens,
        sign_in: SignIn,
        code_exchange: CodeExchange,
    ) -> None:
        self._openid = openid
        self._configs = configs
        self._organisations = organisations
        self._one_time_tokens = one_time_tokens
        self._sign_in = sign_in
        self._code_exchange = code_exchange

    async def begin(self, login_request: ProviderLoginRequest, *, api_url: str, address: str) -> Started:
        """Start a login; `address` is the client's. Raises Malformed where users log in otherwise, Invalid, TooMany,
        Unavailable."""
        redirect_target = redirect_target_of(login_request.redirect, login_request.code_challenge, api_url)
        _check_hints(login_request)
        org_id, config = await self._provider(login_request.organization)
        state = Secret(secrets.token_urlsafe(32))
        begun = await self._client().begin(
            config,
            redirect_uri=api_url + CALLBACK,
            state=state,
            prompt=login_request.prompt,
            screen_hint=login_request.screen_hint,
        )
        binding = Secret(secrets.token_urlsafe(32)) if redirect_target.client is ClientKind.WEB else None
        payload = {
            "org_id": str(org_id),
            "issuer": config.issuer_url,
            "client_id": config.client_id,
            "nonce": begun.nonce,
            "code_verifier": begun.code_verifier,
            "redirect": redirect_target.url,
            "client": redirect_target.client,
            "code_challenge": redirect_target.code_challenge,
            "binding": binding.reveal() if binding else "",
        }
        await self._one_time_tokens.issue(TokenPurpose.OIDC_STATE, payload, STATE_LIFE, secret=state, source=address)
        return Started(begun.url, state, binding)

    async def finish(self, returned: Returned, client: ClientFacts, *, api_url: str) -> LoginRedirect:
        """Finish a login. Later errors go to the redirect target, as `error` and `error_description`.

        Raises Unauthenticated for a state that is not valid in this browser.
        """
        state = await self._one_time_tokens.take(TokenPurpose.OIDC_STATE, returned.state)
        redirect_target = RedirectTarget(state["redirect"], ClientKind(state["client"]), state["code_challenge"])
        if redirect_target.client is ClientKind.WEB and not _same(returned.binding, state["binding"]):
            raise Unauthenticated("this login was started in a different browser; start again in this one")
        try:
            return await self._land(state, redirect_target, returned, client, api_url)
        except PosternError as problem:
            log.warning("OpenID Connect login failed: issuer=%s error=%s", state["issuer"], problem.message)
            return LoginRedirect(redirect_target.with_query(error=_code(problem), error_description=problem.message))

    async def _land(
        self,
        state: Mapping[str, Any],
        redirect_target: RedirectTarget,
        returned: Returned,
        client: ClientFacts,
        api_url: str,
    ) -> LoginRedirect:
        if returned.code is None:
            raise _Refused(returned.error if returned.error in _ERRORS else "server_error")
        org_id = UUID(state["org_id"])
        config = await provider_of(self._configs, org_id)
        if config is None or (config.issuer_url, config.client_id) != (state["issuer"], state["client_id"]):
            raise Unauthenticated("the login settings were changed meanwhile; log in again")
        granted = await self._client().finish(
            config,
            Begun("", state["nonce"], state["code_verifier"]),
            redirect_uri=api_url + CALLBACK,
            code=returned.code,
            issuer=returned.issuer,
        )
        account = await self._sign_in.account_of(org_id, granted.identity)
        return await self._code_exchange.finish_login(
            redirect_target, account, LoginMethod.OIDC, client, granted.provided
        )

    async def _provider(self, organization: str | None) -> tuple[UUID, OidcConfig]:
        """Return the organisation and its provider. The error is the same for an unknown organisation and another login
        method."""
        if organization is None:
            organisation = await self._organisations.default()
        else:
            named = await self._organisations.by_name(organization)
            if named is None:
                raise _another_way()
            organisation = named
        config = await provider_of(self._configs, organisation.id)
        if config is None:
            raise _another_way()
        return organisation.id, config

    def _client(self) -> OpenId:
        if self._openid is None:
            raise Unavailable("this process cannot log users in with OpenID Connect; ask the operator of the gateway")
        return self._openid


class _Refused(Unauthenticated):
    """The provider rejected the login; `word` is its error code."""

    def __init__(self, word: str | None) -> None:
        super().__init__("the identity provider ended the login; try again, or ask an administrator")
        self.word = word or "server_error"


def _code(problem: PosternError) -> str:
    if isinstance(problem, _Refused):
        return problem.word
    if isinstance(problem, Denied):
        return "access_denied"
    return "temporarily_unavailable" if isinstance(problem, Unavailable) else "login_failed"


def _check_hints(login_request: ProviderLoginRequest) -> None:
    if set(login_request.prompt.split()) - _PROMPTS:
        raise Invalid(f"prompt: must be of {', '.join(sorted(_PROMPTS))}", field="prompt")
    if login_request.screen_hint and not _HINT.fullmatch(login_request.screen_hint):
        raise Invalid("screen_hint: must have 1 to 32 letters, digits, - or _", field="screen_hint")


def _same(binding: Secret | None, expected: str) -> bool:
    return binding is not None and hmac.compare_digest(binding.reveal().encode(errors="replace"), expected.encode())


def _another_way() -> Malformed:
    return Malformed(
        "this organisation does not log in with OpenID Connect; `GET /api/publicserverinfo` returns its login method"
    )

"""Authentication of the API: the caller behind a bearer token of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from postern.domain.features import Feature
from postern.domain.identity.api_key import PREFIX, ApiKey
from postern.domain.identity.login import Login
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.errors import Denied, Unauthenticated
from postern.services.identity.logins.logins import Logins, require_active
from postern.services.identity.logins.tokens import ForeignToken
from postern.services.server.server_features import Features

MUST_ENROL = (
    "your organisation requires a second factor: enrol one (postern second-factor add NAME, or "
    "POST /api/users/self/second-factors), then try again"
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller, by a login, an API key, or neither for a token of the identity provider.

    `must_enrol`: the caller has to enrol a second factor before anything else.
    """

    principal: Principal
    login: Login | None = None
    api_key: ApiKey | None = None
    must_enrol: bool = False

    @property
    def means(self) -> str:
        """The auth method and its id, to which a review binds access. Tokens of the identity provider have no id of
        their own."""
        if self.api_key is not None:
            return f"key:{self.api_key.id}"
        return "provider" if self.login is None else f"login:{self.login.id}"


class KeyAuthenticator(Protocol):
    """Authenticates API keys."""

    async def authenticate(self, key: Secret, address: str) -> tuple[ApiKey, Principal]:
        """Return the key and its principal. Raises Unauthenticated."""

    async def standing(self, org_id: UUID, key_id: UUID, address: str) -> Principal:
        """Return the principal that a key acts as, while it can be used from the address. Raises Unauthenticated."""


class TokenAuthenticator(Protocol):
    """Authenticates access tokens of the identity provider."""

    async def authenticate(self, token: Secret) -> Principal:
        """Return the principal of the token. Raises Unauthenticated, Unavailable."""


class FactorAuthenticator(Protocol):
    """Tells which logins have to enrol a second factor first."""

    async def is_missing(self, login: Login) -> bool: ...


class Authentication:
    def __init__(
        self,
        logins: Logins,
        features: Features,
        factors: FactorAuthenticator,
        api_keys: KeyAuthenticator | None = None,
        provider: TokenAuthenticator | None = None,
    ) -> None:
        self._logins = logins
        self._features = features
        self._factors = factors
        self._api_keys = api_keys
        self._provider = provider

    async def caller(self, token: Secret, *, address: str) -> Caller:
        """Return the caller; `address` is the client's.

        Raises Unauthenticated, Unavailable, and Denied for a caller that must enrol a second factor first.
        """
        found_caller = await self.enrolling_caller(token, address=address)
        require_enrolled(found_caller)
        return found_caller

    async def enrolling_caller(self, token: Secret, *, address: str) -> Caller:
        """Return the caller, also one that must enrol a second factor first: for the few calls that serve enrolment.

        Raises Unauthenticated, Unavailable.
        """
        if token.reveal().startswith(PREFIX) and self._api_keys is not None:
            key, principal = await self._api_keys.authenticate(token, address)
            await self._require_keys(principal)
            require_active(principal)
            return Caller(principal, api_key=key)
        try:
            login, account = await self._logins.authenticate(token)
        except ForeignToken:
            if self._provider is None:
                raise
            principal = await self._provider.authenticate(token)
            require_active(principal)
            return Caller(principal)
        return Caller(account.principal, login=login, must_enrol=await self._factors.is_missing(login))

    async def standing(self, caller: Caller, *, address: str) -> Principal:
        """Return the current principal of an earlier caller, while the login or key is still valid.

        A token of the identity provider was checked when it came. Raises Unauthenticated, Unavailable.
        """
        principal = caller.principal
        if caller.api_key is not None and self._api_keys is not None:
            await self._require_keys(principal)
            principal = await self._api_keys.standing(principal.org_id, caller.api_key.id, address)
        elif caller.login is not None:
            principal = (await self._logins.standing(caller.login.id, principal.id)).principal
        require_active(principal)
        return principal

    async def _require_keys(self, principal: Principal) -> None:
        if not await self._features.is_enabled(principal.org_id, Feature.API_KEYS):
            raise Unauthenticated("API keys are switched off in this organisation; ask an administrator")


def require_enrolled(caller: Caller) -> None:
    """Raise Denied for a caller that must enrol a second factor first."""
    if caller.must_enrol:
        raise Denied(MUST_ENROL)

"""Authentication of the API: the caller behind a bearer token of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from postern.domain.features import Feature
from postern.domain.identity.api_key import PREFIX, ApiKey
from postern.domain.identity.federation import FederatedLogin
from postern.domain.identity.login import Login
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, Unauthenticated
from postern.services.identity.logins.logins import Logins, require_active
from postern.services.identity.logins.tokens import ForeignToken
from postern.services.rules.network_control import NetworkControl
from postern.services.server.server_features import Features
from postern.store.ports.identity_ports import PrincipalStore

FEDERATION = "federation"  # the first word of `means` of such a login
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
        if self.login is None:
            return "provider"
        return f"login:{self.login.id}" if self.federation is None else f"{FEDERATION}:{self.login.id}"

    @property
    def federation(self) -> FederatedLogin | None:
        """The token of an external issuer that a program logged in with."""
        return None if self.login is None else self.login.federation

    @property
    def access_until(self) -> datetime | None:
        """When what the caller opens must end; None if only their own rights limit it."""
        return None if self.login is None or self.federation is None else self.login.ends_at

    def session_metadata(self, requested: Mapping[str, str]) -> dict[str, str]:
        """Return the metadata of a session of the caller: what they gave, and which program they are. Raises
        Invalid for names that only the gateway gives."""
        if reserved := sorted(name for name in requested if name.startswith(f"{FEDERATION}_")):
            raise Invalid(f"metadata: {reserved[0]!r} is reserved; use a different name", field="metadata")
        return {**requested, **(self.federation.summary if self.federation else {})}


class CallerIds(NamedTuple):
    """What identifies an earlier caller: the account, and its login or API key; neither for a token of the identity
    provider."""

    org_id: UUID
    user_id: UUID
    login_id: UUID | None = None
    key_id: UUID | None = None

    @classmethod
    def of(cls, caller: Caller) -> CallerIds:
        login, key = caller.login, caller.api_key
        ids = (None if login is None else login.id, None if key is None else key.id)
        return cls(caller.principal.org_id, caller.principal.id, *ids)


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
        *,
        logins: Logins,
        features: Features,
        factors: FactorAuthenticator,
        networks: NetworkControl,
        principals: PrincipalStore,
        api_keys: KeyAuthenticator | None = None,
        provider: TokenAuthenticator | None = None,
    ) -> None:
        self._logins = logins
        self._features = features
        self._factors = factors
        self._networks = networks
        self._principals = principals
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

        Raises Unauthenticated, Unavailable, and Denied from an address that a network rule does not allow.
        """
        found_caller = await self._find_caller(token, address)
        await self._require_network(found_caller.principal, address)
        return found_caller

    async def _find_caller(self, token: Secret, address: str) -> Caller:
        if token.reveal().startswith(PREFIX) and self._api_keys is not None:
            key, principal = await self._api_keys.authenticate(token, address)
            await self._require_keys(principal.org_id)
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
        _require_role(login, account.principal)
        return Caller(account.principal, login=login, must_enrol=await self._factors.is_missing(login))

    async def standing(self, caller: Caller, *, address: str) -> Principal:
        """Return the current principal of an earlier caller. Raises as `find_holder`."""
        return await self.find_holder(CallerIds.of(caller), address=address)

    async def find_holder(self, ids: CallerIds, *, address: str) -> Principal:
        """Return the principal of an earlier caller, while the login or key is still valid.

        A token of the identity provider was checked when it came. Raises Unauthenticated, Denied, Unavailable.
        """
        if ids.key_id is not None and self._api_keys is not None:
            await self._require_keys(ids.org_id)
            principal = await self._api_keys.standing(ids.org_id, ids.key_id, address)
        elif ids.login_id is not None:
            login, account = await self._logins.current(ids.login_id, ids.user_id)
            principal = account.principal
            _require_role(login, principal)
        else:
            found = await self._principals.get(ids.org_id, ids.user_id)
            if found is None:
                raise Unauthenticated("this account was deleted; ask an administrator")
            principal = found.principal
        require_active(principal)
        if (principal.org_id, principal.id) != (ids.org_id, ids.user_id):
            raise Unauthenticated("this login belongs to another account now; log in again")
        await self._require_network(principal, address)
        return principal

    async def _require_network(self, principal: Principal, address: str) -> None:
        reason = await self._networks.find_denial(principal, None, address)
        if reason is not None:
            raise Denied(reason)

    async def _require_keys(self, org_id: UUID) -> None:
        if not await self._features.is_enabled(org_id, Feature.API_KEYS):
            raise Unauthenticated("API keys are switched off in this organisation; ask an administrator")


def _require_role(login: Login, principal: Principal) -> None:
    """Check the role of a program that logged in by a federation rule: its account can have become an administrator
    since. Raises Unauthenticated."""
    if login.federation is not None and principal.is_admin and not login.federation.allow_admin:
        raise Unauthenticated(
            f"the service account is an administrator now, and the federation rule {login.federation.rule!r} does not "
            "allow that; ask an administrator"
        )


def require_enrolled(caller: Caller) -> None:
    """Raise Denied for a caller that must enrol a second factor first."""
    if caller.must_enrol:
        raise Denied(MUST_ENROL)
